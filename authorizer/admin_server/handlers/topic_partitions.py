"""DescribeTopicPartitions: topics with the sender's authorized operations, as Java's Admin asks (KIP-966).

As in Metadata, topics have no partitions.
Source: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.handlers.metadata import topic_code, topic_values
from authorizer.api.errors import InvalidRequestError
from records.acl import AclOperation, ResourceType

if TYPE_CHECKING:
    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values


class TopicPartitionsHandler:
    """Answers for one node; ``api``: of this request."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.api = Api(
            key=75,
            schema="describe_topic_partitions",
            versions=range(1),
            answer=self.answer,
            error=self.error,
        )

    async def answer(self, request: AdminRequest) -> Values:
        """The named topics, or all: sorted, from the cursor's topic on; those that are denied come last."""
        body, known = request.body, self._cluster.node.metadata.topics
        is_named, cursor = bool(body.topics), body.cursor
        first = "" if cursor is None else cursor.topic_name
        wanted = [each.name for each in body.topics] if is_named else known.by_name
        names = sorted({name for name in wanted if name >= first})
        if cursor is not None and is_named and first not in names:
            raise InvalidRequestError(
                f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {first}"
            )
        if cursor is not None and cursor.partition_index < 0:
            raise InvalidRequestError(
                f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor.partition_index}"
            )
        allowed = self._cluster.allows(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        described = [name for name, is_allowed in zip(names, allowed, strict=True) if is_allowed]
        operations = self._cluster.operations_of_each(request, ResourceType.TOPIC, described)
        found = [
            topic_values(topic_code(name, topic_id), name, topic_id, each)
            for name, each in zip(described, operations, strict=True)
            for topic_id in (known.by_name.get(name),)
        ]
        denied = [
            topic_values(ErrorCode.topic_authorization_failed, name, is_internal=False)
            for name, is_allowed in zip(names, allowed, strict=True)
            if is_named and not is_allowed
        ]
        return {"topics": found + denied, "next_cursor": None}

    def error(self, body: Any, code: ErrorCode, _message: str | None) -> Values:
        topics = [topic_values(code, each.name, is_internal=False) for each in body.topics]
        return {"topics": topics, "next_cursor": None}
