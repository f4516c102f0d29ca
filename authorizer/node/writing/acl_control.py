"""Decides the records and answers of a creation or removal of ACLs, without writing.

Source: AclControlManager (controller) and, before it, AclApis (broker), as in Kafka 4.3.1 and 4.4.0; the
messages are Kafka's. KIP-504, KIP-801. The rules:

- Each binding and each filter has its own result; a refused one does not affect the others.
- An ACL that exists already, or twice in one request, is a success without a record (H27).
- One operation is one atomic batch of at most 10,000 records; a larger one writes nothing at all (H26).
- Several filters that match one ACL write one removal, and each lists it (KAFKA-13892). Equal content under
  two ids is removed with both ids (I8).
- An id is the UUIDv5 of its binding, so that two writers agree; a random one only if that id is in force with
  other content.

As in Kafka there are few checks: any operation on any resource type, any host (H14) that HostRules allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import (
    ApiError,
    InvalidRequestError,
    PolicyViolationError,
)
from authorizer.engine.acl_validation import matching_records, validate_binding, validate_filter
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import (
    AccessControlEntryRecord,
    AclContent,
    AclRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid, binding_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    #: Returns an ACL in force with this content, under any id.
    FindAcl = Callable[[AclContent], AccessControlEntryRecord | None]

    from authorizer.engine.acl_validation import HostRules
    from records.acl import AclBinding, AclBindingFilter
    from records.log.base import MetadataLog
    from snapshot.image import AclsImage

#: QuorumController.MAX_RECORDS_PER_USER_OP: maximum size of a batch.
RECORDS_PER_OPERATION_MAX: Final = 10_000

_Result_co = TypeVar("_Result_co", covariant=True)


class AclView(Protocol):
    """The ACLs in force once everything appended so far is replayed."""

    def get(self, acl_id: Uuid) -> AccessControlEntryRecord | None:
        """Return the ACL with this id."""

    def find(self, content: AclContent) -> AccessControlEntryRecord | None:
        """Return an ACL with this content, under any id."""


@dataclass(frozen=True, slots=True)
class Change(Generic[_Result_co]):
    """Records to append, and the answer for each item afterwards.

    Attributes:
        after: required end of the log before the append, if any.
    """

    records: tuple[AclRecord, ...]
    results: tuple[_Result_co, ...]
    after: int | None = None

    def write(self, log: MetadataLog) -> int | None:
        """Append the records; return the end offset, None without records. Raises as ``log.append``."""
        return log.append(self.records, after=self.after) if self.records else None

    def answers(self, find: FindAcl, image: AclsImage) -> tuple[_Result_co, ...]:
        """Return the results, which do not depend on the replay."""
        return self.results


def plan_creation(
    view: AclView,
    bindings: Sequence[AclBinding],
    random_uuid: Callable[[], Uuid],
    hosts: HostRules | None = None,
) -> Change[AclCreateResult]:
    """Decide a creation; ``hosts`` as `validate_binding`.

    Raises:
        PolicyViolationError: the creation would write more than RECORDS_PER_OPERATION_MAX records.
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
        acls: all ACLs in force once everything appended so far is replayed; read more than once.
        filters: select the ACLs to remove.

    Raises:
        InvalidRequestError: the removal would write more than RECORDS_PER_OPERATION_MAX records.
    """
    removed: dict[Uuid, RemoveAccessControlEntryRecord] = {}
    results: list[AclDeleteResult] = []
    by_content = _acls_by_content(acls, filters)
    for acl_filter in filters:
        try:
            validate_filter(acl_filter)
        except ApiError as error:
            results.append(AclDeleteResult(exception=error))
            continue
        deleted: list[AclBindingDeleteResult] = []
        content = _only_content(acl_filter)
        for record in matching_records(acls, acl_filter) if content is None else by_content[content]:
            # As in Kafka, an ACL that another filter removes already counts, too.
            if len(removed) >= RECORDS_PER_OPERATION_MAX:
                raise InvalidRequestError(
                    f"Cannot remove more than {RECORDS_PER_OPERATION_MAX} acls in a single delete operation."
                )
            deleted.append(AclBindingDeleteResult(record.binding(), record=record))
            removed[record.id] = RemoveAccessControlEntryRecord(record.id)
        results.append(AclDeleteResult(tuple(deleted)))
    return Change(tuple(removed.values()), tuple(results))


def _only_content(acl_filter: AclBindingFilter) -> AclContent | None:
    """Return the only content that a filter with all fields can match; None for other filters."""
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


def _acls_by_content(
    acls: Iterable[AccessControlEntryRecord], filters: Sequence[AclBindingFilter]
) -> dict[AclContent, list[AccessControlEntryRecord]]:
    """Return the ACLs of filters with all fields, by content, in one pass over all ACLs.

    Programs remove thousands of ACLs by such filters; a pass for each of them would take minutes.
    """
    by_content: dict[AclContent, list[AccessControlEntryRecord]] = {
        content: [] for content in map(_only_content, filters) if content is not None
    }
    if by_content:
        names = {content[1] for content in by_content}
        for record in acls:
            if record.resource_name in names and (same := by_content.get(record.content)) is not None:
                same.append(record)
    return by_content
