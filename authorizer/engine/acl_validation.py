"""Kafka's checks of a binding and of a filter, and the matching of ACLs with a filter.

Source: AclControlManager (controller) and, before it, AclApis (broker), as in Kafka 4.3.1 and 4.4.0; the
messages are Kafka's. As in Kafka, the checks are weak: any operation on any resource type is valid, and any
host that HostRules allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

from authorizer.api.errors import (
    InvalidAclError,
    InvalidOperationError,
    InvalidPrincipalError,
    InvalidRequestError,
    InvalidResourceError,
    UnsupportedLevelError,
)
from authorizer.api.ip_address import read_network
from authorizer.api.kafka_version import NETWORKS_LEVEL, NEWEST, KafkaVersion, VersionInForce
from records.acl import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.acl import AclBinding, AclBindingFilter
    from records.entries import AccessControlEntryRecord
    from snapshot.image import AclsImage

#: Maximum length of a text in a record, in UTF-8 (Kafka's generated message code).
STRING_BYTES_MAX: Final = 0x7FFF


class HostRules(NamedTuple):
    """The valid hosts, by the release and the metadata.version of the log.

    Attributes:
        networks: whether the release matches networks.
        level: the level of metadata.version; None in a log without one, which allows everything.
    """

    networks: bool
    level: int | None = None

    @classmethod
    def of(cls, configured: KafkaVersion | None, image: AclsImage) -> Self:
        """Return the rules for the log of a state; the newest, which are the strictest, if it is unknown."""
        metadata = image.metadata
        version = VersionInForce.of(configured, metadata.brokers, metadata.metadata_version).version
        return cls((version or NEWEST).matches_networks, metadata.metadata_version)


def validate_binding(binding: AclBinding, hosts: HostRules | None = None) -> None:
    """Raise for a binding that Kafka refuses, with its message; without ``hosts`` any host is valid.

    InvalidRequestError has a subclass for each kind of KIP-50. UnsupportedLevelError: a network, below the
    metadata.version that supports networks.
    """
    pattern, entry = binding.pattern, binding.entry
    # AclApis.handleCreateAcls
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise InvalidResourceError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        raise InvalidResourceError("Invalid empty resource name")
    # AclControlManager.validateNewAcl
    if pattern.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise InvalidResourceError(f"Invalid resourceType {pattern.resource_type.name}")
    if pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidResourceError(f"Invalid patternType {pattern.pattern_type.name}")
    if entry.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise InvalidOperationError(f"Invalid operation {entry.operation.name}")
    if entry.permission_type not in (AclPermissionType.DENY, AclPermissionType.ALLOW):
        raise InvalidAclError(f"Invalid permissionType {entry.permission_type.name}")
    if ":" not in entry.principal:
        raise InvalidPrincipalError(
            f"Could not parse principal from `{entry.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    if hosts is not None:
        _validate_host(entry.host, hosts)
    # Kafka's protocol cannot carry such a text either, so that its checks do not have this case.
    for field, text, kind in (
        ("resource name", pattern.name, InvalidResourceError),
        ("principal", entry.principal, InvalidPrincipalError),
        ("host", entry.host, InvalidAclError),
    ):
        _require_recordable(field, text, kind)


def _validate_host(host: str, rules: HostRules) -> None:
    """AclControlManager.validateHostPattern, new in 4.4."""
    if not rules.networks:
        return
    if not host:
        raise InvalidAclError("Host pattern cannot be null or empty")
    if "/" in host:
        if rules.level is not None and rules.level < NETWORKS_LEVEL:
            raise UnsupportedLevelError(
                "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
            )
        try:
            read_network(host)
        except ValueError as error:
            raise InvalidAclError(f"Invalid CIDR notation '{host}': {error}") from error


def _require_recordable(field: str, text: str, kind: type[InvalidRequestError]) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise kind(f"Invalid {field}: it is not Unicode text (half of a surrogate pair)") from error
    if size > STRING_BYTES_MAX:
        raise kind(f"Invalid {field}: it takes {size} bytes, and a record holds {STRING_BYTES_MAX} at most")


def validate_filter(acl_filter: AclBindingFilter) -> None:
    """Raise InvalidRequestError for a filter that holds a code without a name."""
    if acl_filter.pattern_filter.is_unknown:
        raise InvalidRequestError("Unknown patternFilter.")
    if acl_filter.entry_filter.is_unknown:
        raise InvalidRequestError("Unknown entryFilter.")


def matching_records(
    acls: Iterable[AccessControlEntryRecord], acl_filter: AclBindingFilter
) -> Iterator[AccessControlEntryRecord]:
    """Yield the ACLs that a valid filter matches, as AclBindingFilter.matches.

    One condition, in the order of the fields of an ACL, on records: creating a binding of each of a million
    ACLs takes seconds. An unknown pattern type is a prefix for MATCH, as in decisions and lists (8.4); Kafka
    throws.
    """
    pattern, entry = acl_filter.pattern_filter, acl_filter.entry_filter
    any_type = pattern.resource_type is ResourceType.ANY
    any_pattern = pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
    any_operation = entry.operation is AclOperation.ANY
    any_permission = entry.permission_type is AclPermissionType.ANY
    name = pattern.name
    has_wider_patterns = pattern.pattern_type is PatternType.MATCH
    for record in acls:
        if (
            (any_type or record.resource_type == pattern.resource_type)
            and (any_pattern or record.pattern_type == pattern.pattern_type)
            and (
                name is None
                or record.resource_name == name
                or (has_wider_patterns and _covers(record.pattern_type, record.resource_name, name))
            )
            and (entry.principal is None or record.principal == entry.principal)
            and (entry.host is None or record.host == entry.host)
            and (any_operation or record.operation == entry.operation)
            and (any_permission or record.permission_type == entry.permission_type)
        ):
            yield record


def _covers(pattern_type: int, pattern_name: str, name: str) -> bool:
    """Whether a pattern covers a name that is not its own."""
    if pattern_type == PatternType.LITERAL:
        return pattern_name == WILDCARD
    return name.startswith(pattern_name)
