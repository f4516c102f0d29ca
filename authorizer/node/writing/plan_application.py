"""Decides the records of a plan: one atomic batch on the checked state.

- Every change was made already: success without records.
- The plan removes a larger share of the ACLs than allowed: MassRemovalError.
- The effective permissions differ from those before the plan, or would differ from those after it:
  PlanOutdatedError.
- Else removals, of equal ACLs under all ids, and additions. They are appended only if the log still ends at
  the end of the checked state.
"""

from __future__ import annotations

from collections.abc import Callable

from authorizer.analysis.permissions.effective_permissions import never_cancelled
from authorizer.analysis.plans.plan import AclPlan, PlanResult
from authorizer.analysis.plans.plan_checks import MAX_REMOVED_PERCENT, PlanCounts
from authorizer.engine.acl_validation import HostRules, validate_binding
from authorizer.node.writing.acl_control import Change
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid, content_uuid, uuid_to_string
from records.log.base import LogIdentity
from snapshot.image import AclsImage


def apply_plan(
    plan: AclPlan,
    image: AclsImage,
    identity: LogIdentity,
    random_uuid: Callable[[], Uuid],
    hosts: HostRules | None = None,
    max_removed_percent: int = MAX_REMOVED_PERCENT,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> Change[PlanResult]:
    """Decide the records to append to the log with this identity, whose state is ``image``.

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
