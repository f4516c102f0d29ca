"""Decides the records and answers of a creation or removal of ACLs, or of a plan, without writing.

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

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from authorizer.analysis.permissions.effective_permissions import never_cancelled
from authorizer.analysis.plans.plan import AclPlan, PlanResult
from authorizer.analysis.plans.plan_checks import MAX_REMOVED_PERCENT, PlanCounts
from authorizer.api.authorizer_api import AclBindingDeleteResult, AclCreateResult, AclDeleteResult
from authorizer.api.errors import (
    ApiError,
    InvalidRequestError,
    PolicyViolationError,
)
from authorizer.engine.acl_validation import HostRules, matching_records, validate_binding, validate_filter
from records.acl import AclBinding, AclBindingFilter, PatternType
from records.entries import (
    AccessControlEntryRecord,
    AclContent,
    AclRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid, binding_uuid, content_uuid, uuid_to_string
from records.log.base import LogIdentity
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    FindAcl = Callable[[AclContent], AccessControlEntryRecord | None]
    from records.log.base import MetadataLog

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

    ``after``: required end of the log before the append, if any.
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
    """Decide a removal; ``acls`` are all in force once everything appended so far is replayed.

    They are read more than once. InvalidRequestError: it would write more than RECORDS_PER_OPERATION_MAX
    records.
    """
    removed: dict[Uuid, RemoveAccessControlEntryRecord] = {}
    results: list[AclDeleteResult] = []
    for acl_filter, candidates in zip(filters, _candidates(acls, filters), strict=True):
        try:
            validate_filter(acl_filter)
        except ApiError as error:
            results.append(AclDeleteResult(exception=error))
            continue
        deleted: list[AclBindingDeleteResult] = []
        for record in matching_records(candidates, acl_filter):
            # As in Kafka, an ACL that another filter removes already counts, too.
            if len(removed) >= RECORDS_PER_OPERATION_MAX:
                raise InvalidRequestError(
                    f"Cannot remove more than {RECORDS_PER_OPERATION_MAX} acls in a single delete operation."
                )
            deleted.append(AclBindingDeleteResult(record.binding(), record=record))
            removed[record.id] = RemoveAccessControlEntryRecord(record.id)
        results.append(AclDeleteResult(tuple(deleted)))
    return Change(tuple(removed.values()), tuple(results))


def _candidates(
    acls: Iterable[AccessControlEntryRecord], filters: Sequence[AclBindingFilter]
) -> list[Iterable[AccessControlEntryRecord]]:
    """Return the ACLs that each filter may match: those with its name, principal and host, in one pass.

    Programs remove thousands of ACLs by as many filters; a pass for each of them would take minutes.
    """
    candidates: list[Iterable[AccessControlEntryRecord]] = []
    indexes: dict[tuple[str, ...], dict[object, list[AccessControlEntryRecord]]] = {}
    for acl_filter in filters:
        pattern, entry = acl_filter.pattern_filter, acl_filter.entry_filter
        given = {"principal": entry.principal, "host": entry.host}
        if pattern.pattern_type is not PatternType.MATCH:
            given["resource_name"] = pattern.name
        fields = tuple(field for field, text in given.items() if text is not None)
        if not fields:
            candidates.append(acls)
            continue
        # As attrgetter: a text for one field, else a tuple.
        key = given[fields[0]] if len(fields) == 1 else tuple(given[field] for field in fields)
        candidates.append(indexes.setdefault(fields, {}).setdefault(key, []))
    lookups = [(attrgetter(*fields), index) for fields, index in indexes.items()]
    for record in acls if lookups else ():
        for key_of, index in lookups:
            if (same := index.get(key_of(record))) is not None:
                same.append(record)
    return candidates


def apply_plan(
    plan: AclPlan,
    image: AclsImage,
    identity: LogIdentity,
    random_uuid: Callable[[], Uuid],
    hosts: HostRules | None = None,
    max_removed_percent: int = MAX_REMOVED_PERCENT,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> Change[PlanResult]:
    """Decide the records of a plan for the log with this identity, whose state is ``image``.

    If every change was made already, it is a success without records. Else the records are one atomic batch:
    removals, of equal ACLs under all ids, and additions. They are appended only if the log still ends at the
    end of this state.

    MassRemovalError: the plan removes more than that. PlanOutdatedError: it is for another log or other
    effective permissions. InvalidRequestError, UnsupportedLevelError: Kafka refuses an ACL.
    """
    plan.require_log(identity.cluster_id, uuid_to_string(identity.topic_id))
    table = image.merged().columns
    held = plan.affected_rows(table)
    to_remove, to_add = map(set, plan.remaining(held))
    after = image.provenance.end_offset
    if not to_remove and not to_add:
        return Change((), (PlanResult(acl_count=len(table)),), after)
    removed = [acl.record for acl in held if acl.record.content in to_remove]
    plan.require_unchanged_permissions(image, check_cancelled)
    PlanCounts(len(table), len(removed), len(to_add)).require_allowed(max_removed_percent)
    added = []
    for content in plan.added:
        if content in to_add:
            record = AccessControlEntryRecord(content_uuid(content), *content)
            validate_binding(record.binding(), hosts)
            while record.id in image:
                record = AccessControlEntryRecord(random_uuid(), *content)
            added.append(record)
    records: list[AclRecord] = [*added, *(RemoveAccessControlEntryRecord(record.id) for record in removed)]
    result = PlanResult(removed=tuple(removed), added=tuple(added), acl_count=len(table))
    return Change(tuple(records), (result,), after)
