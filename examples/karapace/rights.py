"""What Karapace's resources are in Kafka's terms, and who may do what with them, by a sidecar.

    Subject:orders-value   Read    Read or Write on the topic orders: either needs its schemas
    Subject:orders-key     Write   Write on the topic orders
    Subject:*              Read    no: Karapace then requests each subject separately, so that a DENY counts
    Config:                Read    DescribeConfigs on the cluster
    Config:                Write   AlterConfigs on the cluster

A subject without a topic (TopicNameStrategy) is requested as a topic of its full name. Nothing
here imports Karapace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from authorizer.client import AclOperation, AuthorizationRequest, Client, KafkaPrincipal, ResourceType
from records.acl import CLUSTER_NAME

_SUBJECT: Final = "Subject:"
_CONFIG: Final = "Config:"
_SUFFIXES: Final = ("-key", "-value")
#: Of these any one is enough.
_ON_TOPIC: Final[dict[str, tuple[AclOperation, ...]]] = {
    "Read": (AclOperation.READ, AclOperation.WRITE),
    "Write": (AclOperation.WRITE,),
}
_ON_CLUSTER: Final[dict[str, tuple[AclOperation, ...]]] = {
    "Read": (AclOperation.DESCRIBE_CONFIGS,),
    "Write": (AclOperation.ALTER_CONFIGS,),
}


class Rights:
    """Answers as Karapace asks; for any thread."""

    def __init__(self, client: Client, host: str | None = None) -> None:
        """``host``: from where everyone comes, for Karapace does not say; the sidecar's default if None."""
        self._client = client
        self._host = host

    def may(self, user: str | None, operation: str, resources: Sequence[str]) -> bool:
        """Whether ``User:user`` may do this ("Read", "Write") to one of these.

        Raises:
            SidecarError: as the client.
        """
        if user is None:
            return False
        questions = [
            question for resource in resources for question in self._questions(user, operation, resource)
        ]
        return any(decision.is_allowed for decision in self._client.decide_all(questions))

    def _questions(self, user: str, operation: str, resource: str) -> list[AuthorizationRequest]:
        """In Kafka's terms; any ALLOWED is a yes."""
        if resource == _CONFIG:
            operations, kind, name = _ON_CLUSTER[operation], ResourceType.CLUSTER, CLUSTER_NAME
        elif resource.startswith(_SUBJECT) and resource != f"{_SUBJECT}*":
            subject = resource.removeprefix(_SUBJECT)
            suffix = next((each for each in _SUFFIXES if subject.endswith(each)), "")
            topic = subject.removesuffix(suffix) or subject
            operations, kind, name = _ON_TOPIC[operation], ResourceType.TOPIC, topic
        else:
            return []
        principal = KafkaPrincipal("User", user)
        return [AuthorizationRequest(principal, each, kind, name, self._host) for each in operations]
