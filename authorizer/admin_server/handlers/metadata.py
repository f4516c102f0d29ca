"""Metadata, DescribeTopicPartitions and DescribeCluster: this node, and topics with the sender's operations.

Topics are those of the log's image (KIP-430, KIP-966). They have no partitions: nothing can be produced or
consumed here. This node is the only broker, and the controller (KIP-700, KIP-919). A broker and a controller
have listeners of their own; here one listener answers for both endpoint types, so that ``--bootstrap-server``
and ``--bootstrap-controller`` work.

Source: KafkaApis.handleTopicMetadataRequest, KafkaApis and ControllerApis.handleDescribeCluster, AuthHelper,
DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.handlers.cluster_node import NOT_REQUESTED
from authorizer.api.errors import InvalidRequestError
from records.acl import AclOperation, ResourceType
from records.ids import Uuid
from records.topic_name import is_topic_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values

_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
#: From this version on topics can be named by their id alone.
_WITH_IDS: Final = 12
#: In version 0 no topics means all topics.
_EMPTY_IS_NONE: Final = 1


class MetadataHandler:
    """Answers for one node; ``api``: of this request."""

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.api = Api(key=3, schema="metadata", versions=range(14), answer=self.answer, error=self.error)

    async def answer(self, request: AdminRequest) -> Values:
        body, cluster = request.body, self._cluster
        cluster.require_loaded()
        is_requested = getattr(body, "include_cluster_authorized_operations", False)
        operations = cluster.cluster_operations(request, is_requested=is_requested)
        return {
            "brokers": [cluster.broker(request)],
            "cluster_id": cluster.cluster_id,
            "controller_id": cluster.id,
            "cluster_authorized_operations": operations,
            "topics": self._topics(request),
        }

    def error(self, body: Any, code: ErrorCode, _message: str | None) -> Values:
        # As in Kafka: a response of versions 10 and 11 has no null name.
        topics = [topic_values(code, each.name or "", _topic_id(each)) for each in (body.topics or ())]
        return {"brokers": [], "controller_id": -1, "topics": topics, "error_code": code}

    def _topics(self, request: AdminRequest) -> list[Values]:
        wanted: Sequence[Any] | None = request.body.topics
        known = self._cluster.node.metadata.topics
        if wanted is None or (not wanted and request.header.api_version < _EMPTY_IS_NONE):
            names = list(known.by_name)
            allowed = self._allows(request, names, log_if_denied=False)
            described = [name for name, is_allowed in zip(names, allowed, strict=True) if is_allowed]
            return [
                topic_values(ErrorCode.none, name, known.by_name[name], each)
                for name, each in zip(described, self._operations(request, described), strict=True)
            ]
        named = [(each.name, _topic_id(each)) for each in wanted]
        if (version := request.header.api_version) < _WITH_IDS:
            if any(name is None for name, _ in named):
                raise InvalidRequestError(f"Topic name can not be null for version {version}")
            if any(topic_id is not None for _, topic_id in named):
                raise InvalidRequestError(f"Topic IDs are not supported in requests for version {version}")
        return self._named(request, named)

    def _named(self, request: AdminRequest, wanted: Sequence[tuple[str | None, Uuid | None]]) -> list[Values]:
        known = self._cluster.node.metadata.topics
        resolved = [
            known.by_id.get(topic_id) if name is None and topic_id is not None else name
            for name, topic_id in wanted
        ]
        names = sorted({name for name in resolved if name is not None})
        allowed = dict(zip(names, self._allows(request, names), strict=True))
        described = [name for name in names if allowed[name]]
        operations = dict(zip(described, self._operations(request, described), strict=True))
        found: list[Values] = []
        for (name, topic_id), topic in zip(wanted, resolved, strict=True):
            if topic is None:
                found.append(topic_values(ErrorCode.unknown_topic_id, None, topic_id))
            elif not allowed[topic]:
                # Names are not disclosed; ids are not sensitive.
                found.append(topic_values(ErrorCode.topic_authorization_failed, name, topic_id))
            else:
                known_id = known.by_name.get(topic)
                found.append(topic_values(topic_code(topic, known_id), topic, known_id, operations[topic]))
        return found

    def _allows(
        self, request: AdminRequest, names: Sequence[str], *, log_if_denied: bool = True
    ) -> list[bool]:
        return self._cluster.allows(
            request, AclOperation.DESCRIBE, ResourceType.TOPIC, names, log_if_denied=log_if_denied
        )

    def _operations(self, request: AdminRequest, names: Sequence[str]) -> Sequence[int]:
        """The sender's operations on topics that it may describe, in one call: there may be 10,000."""
        if not getattr(request.body, "include_topic_authorized_operations", False):
            return [NOT_REQUESTED] * len(names)
        return self._cluster.operations_of_each(request, ResourceType.TOPIC, names)


def _topic_id(topic: Any) -> Uuid | None:
    """The id that a request names; older versions have none."""
    found = getattr(topic, "topic_id", None)
    return None if found is None else Uuid(found.bytes)


def topic_code(name: str, known_id: Uuid | None) -> ErrorCode:
    """The error of a topic that the sender may describe; ``known_id``: None if it does not exist."""
    if known_id is not None:
        return ErrorCode.none
    is_valid = is_topic_name(name)
    return ErrorCode.unknown_topic_or_partition if is_valid else ErrorCode.invalid_topic_exception


def topic_values(
    code: ErrorCode,
    name: str | None,
    topic_id: Uuid | None = None,
    operations: int = NOT_REQUESTED,
    *,
    is_internal: bool | None = None,
) -> Values:
    """A topic of a response, without partitions; ``is_internal``: None to decide by its name."""
    return {
        "error_code": code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name in _INTERNAL if is_internal is None else is_internal,
        "partitions": [],
        "topic_authorized_operations": operations,
    }


#: A controller's message to every client.
_NOT_LOADED: Final = (
    "There is no finalized MetadataVersion, so direct-to-controller communication is not supported."
)
#: EndpointType.java
_BROKER: Final = 1
_CONTROLLER: Final = 2


class DescribeClusterHandler:
    """Answers for one node; ``api``: of this request.

    The controllers' endpoint type needs Alter on the cluster, as on a controller. Before the load the answer
    is that of a controller that does not know the cluster's release yet, so that no client sees a cluster
    without ACLs.
    """

    def __init__(self, cluster: ClusterNode) -> None:
        self._cluster = cluster
        self.api = Api(
            key=60,
            schema="describe_cluster",
            versions=range(3),
            answer=self.answer,
            error=self.error,
        )

    async def answer(self, request: AdminRequest) -> Values:
        body, cluster = request.body, self._cluster
        if not cluster.is_loaded:
            return self.error(body, ErrorCode.unsupported_version, _NOT_LOADED)
        endpoint_type = getattr(body, "endpoint_type", _BROKER)
        if endpoint_type not in (_BROKER, _CONTROLLER):
            message = f"Unsupported endpoint type {endpoint_type}"
            return self.error(body, ErrorCode.unsupported_endpoint_type, message)
        if endpoint_type == _CONTROLLER:
            cluster.require_on_cluster(request, AclOperation.ALTER)
        is_requested = body.include_cluster_authorized_operations
        operations = cluster.cluster_operations(request, is_requested=is_requested)
        node = cluster.broker(request)
        return {
            "error_message": None,
            "endpoint_type": endpoint_type,
            "cluster_id": cluster.cluster_id or "",
            "controller_id": cluster.id,
            "brokers": [{**node, "broker_id": node["node_id"], "is_fenced": False}],
            "cluster_authorized_operations": operations,
        }

    def error(self, _body: Any, code: ErrorCode, message: str | None) -> Values:
        return {
            "error_code": code,
            "error_message": message,
            "cluster_id": "",
            "controller_id": -1,
            "brokers": [],
            "cluster_authorized_operations": NOT_REQUESTED,
        }


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
