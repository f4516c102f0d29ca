"""Answers of Confluent's Kafka REST API v3 (``/kafka/v3/clusters``), with its names and its form of errors.

Source: kafka-rest, api/v3/openapi.yaml and resources/v3/AclsResource.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, quote_plus

import msgspec

from authorizer.api.acl_json import content_texts
from authorizer.api.http.error_code import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.entries import AclContent

#: Codes of kafka-rest; any other error has its HTTP status as its code.
_ERROR_CODES: Final = {
    ErrorCode.UNAUTHENTICATED: 40101,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 40301,
    ErrorCode.NO_PRINCIPAL: 40301,
    ErrorCode.INVALID_REQUEST: 40002,
    ErrorCode.NOT_CONTROLLER: 50003,
    ErrorCode.REQUEST_TIMED_OUT: 50003,
}
_UNKNOWN: Final = "UNKNOWN"
#: What the API has a name for. Its clients fail on any other type, so kafka-rest writes UNKNOWN, too.
_RESOURCE_TYPES: Final = frozenset(["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN"])
_OPERATIONS: Final = frozenset(
    [
        *("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE"),
        *("CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"),
    ]
)
_FIELDS: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


class ConfluentError(msgspec.Struct, frozen=True):
    """An error: a code of Confluent's API, and what failed."""

    error_code: int
    message: str

    @classmethod
    def of(cls, code: ErrorCode, message: str) -> Self:
        """The answer for an error code of aclog."""
        return cls(_ERROR_CODES.get(code, int(code.status)), message)


class ConfluentMetadata(msgspec.Struct, frozen=True):
    """The URL of a resource, or of a list."""

    self: str


class ConfluentRelationship(msgspec.Struct, frozen=True):
    """The URL of related resources. Only that of the ACLs is served here."""

    related: str


class ConfluentCluster(msgspec.Struct, frozen=True, tag_field="kind", tag="KafkaCluster"):
    """A cluster."""

    metadata: ConfluentMetadata
    cluster_id: str
    acls: ConfluentRelationship
    brokers: ConfluentRelationship
    broker_configs: ConfluentRelationship
    consumer_groups: ConfluentRelationship
    topics: ConfluentRelationship
    partition_reassignments: ConfluentRelationship

    @classmethod
    def at(cls, base_url: str, cluster_id: str) -> Self:
        """The cluster below the URL of ``/kafka/v3/clusters``."""
        url = f"{base_url}/{quote(cluster_id, safe='')}"
        paths = (
            *("acls", "brokers", "broker-configs", "consumer-groups", "topics"),
            "topics/-/partitions/-/reassignment",
        )
        related = (ConfluentRelationship(f"{url}/{path}") for path in paths)
        return cls(ConfluentMetadata(url), cluster_id, *related)


class ConfluentClusterList(msgspec.Struct, frozen=True, tag_field="kind", tag="KafkaClusterList"):
    """The cluster of this node."""

    metadata: ConfluentMetadata
    data: list[ConfluentCluster]


class ConfluentAcl(msgspec.Struct, frozen=True, tag_field="kind", tag="KafkaAcl", gc=False):
    """An ACL. A resource type or an operation that Confluent's API does not have is UNKNOWN."""

    metadata: ConfluentMetadata
    cluster_id: str
    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    @classmethod
    def at(cls, acls_url: str, cluster_id: str, content: AclContent) -> Self:
        """The ACL below the URL of its cluster's ACLs."""
        texts = list(content_texts(content))
        texts[0] = texts[0] if texts[0] in _RESOURCE_TYPES else _UNKNOWN
        texts[5] = texts[5] if texts[5] in _OPERATIONS else _UNKNOWN
        url = filter_url(acls_url, dict(zip(_FIELDS, texts, strict=True)))
        return cls(ConfluentMetadata(url), cluster_id, *texts)


class ConfluentAclList(msgspec.Struct, frozen=True, tag_field="kind", tag="KafkaAclList"):
    """ACLs that match a filter."""

    metadata: ConfluentMetadata
    data: list[ConfluentAcl]


class ConfluentDeletedAcls(msgspec.Struct, frozen=True):
    """ACLs that were removed."""

    data: list[ConfluentAcl]


def filter_url(acls_url: str, values: Mapping[str, str]) -> str:
    """The URL of the ACLs with these values of the filter's fields."""
    return f"{acls_url}?{'&'.join([f'{field}={_quoted(values[field])}' for field in _FIELDS])}"


@lru_cache(maxsize=4096)  # most values of a listing repeat
def _quoted(text: str) -> str:
    return quote_plus(text, safe="*")
