"""What a creation or removal of ACLs writes and answers: decided here, written elsewhere.

Source: AclControlManager (controller) and, before it, AclApis (broker), as in Kafka 4.3.1 and 4.4.0; the
messages are Kafka's. KIP-504, KIP-801. The rules:

- Each binding and each filter has its own result; one that is refused does not stop the others.
- An ACL that exists already, or twice in one request, is a success without a record (H27).
- One operation is one atomic batch of at most 10,000 records; a larger one writes nothing at all (H26).
- Several filters that match one ACL write one removal, and each lists it (KAFKA-13892). Equal content under
  two ids goes with both ids (I8).
- An id is the UUIDv5 of its binding, so that two writers agree; a random one only where that id is in force
  with other content.

Like Kafka's, the checks are thin: any operation on any resource type, any host (H14) but what HostRules say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import (
    ApiError,
    InvalidAclError,
    InvalidOperationError,
    InvalidPrincipalError,
    InvalidRequestError,
    InvalidResourceError,
    PolicyViolationError,
    UnsupportedLevelError,
)
from authorizer.api.ip_network import read_network
from authorizer.api.kafka_version import NETWORKS_LEVEL, NEWEST, VersionInForce
from records.acl import CLUSTER_NAME, WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import (
    AccessControlEntryRecord,
    AclContent,
    AclRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid, binding_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    #: An ACL in force with this content, under any id.
    FindAcl = Callable[[AclContent], AccessControlEntryRecord | None]

    from authorizer.api.kafka_version import KafkaVersion
    from records.acl import AclBinding, AclBindingFilter
    from records.log.base import MetadataLog
    from snapshot.image import AclsImage

#: QuorumController.MAX_RECORDS_PER_USER_OP: what fits into one batch.
RECORDS_PER_OPERATION_MAX: Final = 10_000

#: The most that one text in a record takes (Kafka's generated message code).
STRING_BYTES_MAX: Final = 0x7FFF

_Result_co = TypeVar("_Result_co", covariant=True)


class AclView(Protocol):
    """Which ACLs there will be once everything appended so far is replayed."""

    def get(self, acl_id: Uuid) -> AccessControlEntryRecord | None:
        """The ACL with this id."""

    def find(self, content: AclContent) -> AccessControlEntryRecord | None:
        """An ACL in force with this content, under any id."""


class HostRules(NamedTuple):
    """What a host may be: of the release that is followed, and of the log's metadata.version.

    Attributes:
        networks: whether the release matches networks.
        level: of metadata.version; None in a log that has none, where nothing is held back.
    """

    networks: bool
    level: int | None = None

    @classmethod
    def of(cls, configured: KafkaVersion | None, image: AclsImage) -> Self:
        """Of the log that a state is from; the newest, which refuses most, where the release is not known."""
        metadata = image.metadata
        version = VersionInForce.of(configured, metadata.brokers, metadata.metadata_version).version
        return cls((version or NEWEST).matches_networks, metadata.metadata_version)


@dataclass(frozen=True, slots=True)
class Change(Generic[_Result_co]):
    """What to append, and the answer for each item once that is done.

    Attributes:
        after: where the log is to end before it, if that matters.
    """

    records: tuple[AclRecord, ...]
    results: tuple[_Result_co, ...]
    after: int | None = None

    def write(self, log: MetadataLog) -> int | None:
        """Append it; the end offset, None if there is nothing to append. Raises as ``log.append``."""
        return log.append(self.records, after=self.after) if self.records else None

    def answers(self, find: FindAcl, image: AclsImage) -> tuple[_Result_co, ...]:
        """The results: they are known before anything is replayed."""
        return self.results


def validate_binding(binding: AclBinding, hosts: HostRules | None = None) -> None:
    """Raise for a binding that Kafka refuses, with its message; without ``hosts`` any host will do.

    Raises:
        InvalidRequestError: in KIP-50's kinds.
        UnsupportedLevelError: a network, below the metadata.version that has them.
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
    # What no record can hold never reaches Kafka's checks: its protocol cannot carry it either.
    for field, text, kind in (
        ("resource name", pattern.name, InvalidResourceError),
        ("principal", entry.principal, InvalidPrincipalError),
        ("host", entry.host, InvalidAclError),
    ):
        _require_recordable(field, text, kind)


def _validate_host(host: str, rules: HostRules) -> None:
    """AclControlManager.validateHostPattern, which 4.4 is the first to have."""
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


def plan_creation(
    view: AclView,
    bindings: Sequence[AclBinding],
    random_uuid: Callable[[], Uuid],
    hosts: HostRules | None = None,
) -> Change[AclCreateResult]:
    """Decide a creation; ``hosts`` as `validate_binding`.

    Raises:
        PolicyViolationError: it would write more than RECORDS_PER_OPERATION_MAX records.
    """
    records: dict[Uuid, AccessControlEntryRecord] = {}
    contents: set[AclContent] = set()
    results: list[AclCreateResult] = []
    for binding in bindings:
        try:
            validate_binding(binding, hosts)
        except ApiError as error:
            results.append(AclCreateResult(error))
            continue
        acl_id = binding_uuid(binding)
        record = AccessControlEntryRecord.from_binding(acl_id, binding)
        content = record.content
        if content in contents or view.find(content) is not None:
            results.append(AclCreateResult())
            continue
        if len(records) >= RECORDS_PER_OPERATION_MAX:
            raise PolicyViolationError("Unable to perform excessively large batch operation.")
        while acl_id in records or view.get(acl_id) is not None:
            acl_id = random_uuid()
            record = AccessControlEntryRecord.from_binding(acl_id, binding)
        contents.add(content)
        records[acl_id] = record
        results.append(AclCreateResult(record=record))
    return Change(tuple(records.values()), tuple(results))


def plan_deletion(
    acls: Iterable[AccessControlEntryRecord], filters: Sequence[AclBindingFilter]
) -> Change[AclDeleteResult]:
    """Decide a removal.

    Args:
        acls: all that will be in force once everything appended so far is replayed; read more than once.
        filters: which of them go.

    Raises:
        InvalidRequestError: it would write more than RECORDS_PER_OPERATION_MAX records.
    """
    removed: dict[Uuid, RemoveAccessControlEntryRecord] = {}
    results: list[AclDeleteResult] = []
    named = _named(acls, filters)
    for acl_filter in filters:
        try:
            validate_filter(acl_filter)
        except ApiError as error:
            results.append(AclDeleteResult(exception=error))
            continue
        deleted: list[AclBindingDeleteResult] = []
        content = _only_content(acl_filter)
        for record in matching_records(acls, acl_filter) if content is None else named[content]:
            # Before it is known whether another filter removes it already: as Kafka counts.
            if len(removed) >= RECORDS_PER_OPERATION_MAX:
                raise InvalidRequestError(
                    f"Cannot remove more than {RECORDS_PER_OPERATION_MAX} acls in a single delete operation."
                )
            deleted.append(AclBindingDeleteResult(record.binding(), record=record))
            removed[record.id] = RemoveAccessControlEntryRecord(record.id)
        results.append(AclDeleteResult(tuple(deleted)))
    return Change(tuple(removed.values()), tuple(results))


def _only_content(acl_filter: AclBindingFilter) -> AclContent | None:
    """The one content that a filter with every field set can match; None for other filters."""
    pattern, entry = acl_filter.pattern_filter, acl_filter.entry_filter
    if (
        pattern.name is None
        or entry.principal is None
        or entry.host is None
        or pattern.resource_type is ResourceType.ANY
        or pattern.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        or entry.operation is AclOperation.ANY
        or entry.permission_type is AclPermissionType.ANY
    ):
        return None
    return (
        int(pattern.resource_type),
        pattern.name,
        int(pattern.pattern_type),
        entry.principal,
        entry.host,
        int(entry.operation),
        int(entry.permission_type),
    )


def _named(
    acls: Iterable[AccessControlEntryRecord], filters: Sequence[AclBindingFilter]
) -> dict[AclContent, list[AccessControlEntryRecord]]:
    """The ACLs that filters name in full, found in one pass.

    Programs remove thousands of ACLs by naming each; a pass for each of them would take minutes.
    """
    named: dict[AclContent, list[AccessControlEntryRecord]] = {
        content: [] for content in map(_only_content, filters) if content is not None
    }
    if named:
        names = {content[1] for content in named}
        for record in acls:
            if record.resource_name in names and (found := named.get(record.content)) is not None:
                found.append(record)
    return named


def matching_records(
    acls: Iterable[AccessControlEntryRecord], acl_filter: AclBindingFilter
) -> Iterator[AccessControlEntryRecord]:
    """The ACLs that a valid filter matches, as AclBindingFilter.matches.

    Compared as records, because making a binding of each of a million of them takes seconds. A pattern type
    without a name is a prefix for MATCH, where Kafka throws: as it decides, and as it is listed (8.4).
    """
    pattern, entry = acl_filter.pattern_filter, acl_filter.entry_filter
    any_type = pattern.resource_type is ResourceType.ANY
    any_pattern = pattern.pattern_type in (PatternType.ANY, PatternType.MATCH)
    any_operation = entry.operation is AclOperation.ANY
    any_permission = entry.permission_type is AclPermissionType.ANY
    name = pattern.name
    may_be_covered = pattern.pattern_type is PatternType.MATCH
    for record in acls:
        if (
            (any_type or record.resource_type == pattern.resource_type)
            and (any_pattern or record.pattern_type == pattern.pattern_type)
            and (
                name is None
                or record.resource_name == name
                or (may_be_covered and _covers(record.pattern_type, record.resource_name, name))
            )
            and (entry.principal is None or record.principal == entry.principal)
            and (entry.host is None or record.host == entry.host)
            and (any_operation or record.operation == entry.operation)
            and (any_permission or record.permission_type == entry.permission_type)
        ):
            yield record


def _covers(pattern_type: int, pattern_name: str, name: str) -> bool:
    """Whether a pattern that is not the name itself covers it."""
    if pattern_type == PatternType.LITERAL:
        return pattern_name == WILDCARD
    return name.startswith(pattern_name)
