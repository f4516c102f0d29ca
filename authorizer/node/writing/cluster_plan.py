"""Application of a plan by requests to a Kafka cluster, in the order of `cluster_requests`.

Concurrent changes between the check and the last request are noticed only when the ACLs are read again. A
plan that was applied in part continues where it stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.analysis.permissions.effective_permissions import EffectivePermissions, never_cancelled
from authorizer.analysis.plans.plan import AclPlan, PlanResult
from authorizer.analysis.plans.plan_checks import MAX_REMOVED_PERCENT, PlanCounts
from authorizer.api.errors import PlanOutdatedError
from authorizer.node.writing.cluster_change import writer_of
from authorizer.node.writing.cluster_requests import Requests, WriterRequests, carry_out
from records.columns.acl_table import AclTable
from records.entries import AccessControlEntryRecord, AclRecord
from records.ids import content_uuid
from snapshot.image import image_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from authorizer.node.writing.acl_control import FindAcl
    from records.log.base import MetadataLog
    from snapshot.image import AclsImage

#: Note for people, for a plan that is applied to a cluster.
NOT_ATOMIC: Final = (
    "a cluster's ACLs are changed request by request: a plan is not one atomic batch there, and what others "
    "write meanwhile is only noticed at the end"
)
_IN_PART: Final = "a part of the plan may be in force: apply it again, and it goes on"


class ClusterPlan:
    """A plan, checked on the ACLs in force.

    Attributes:
        records: empty, because they are unknown before their replay.
        to_remove, to_add: remaining changes, in order.
    """

    records: Final[tuple[AclRecord, ...]] = ()

    def __init__(
        self,
        plan: AclPlan,
        image: AclsImage,
        max_removed_percent: int = MAX_REMOVED_PERCENT,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> None:
        """Check the plan before anything is written; an error of ``check_cancelled`` ends the check.

        MassRemovalError: it removes a larger share of the ACLs than allowed. PlanOutdatedError: the effective
        permissions have changed since.
        """
        self._plan = plan
        table = image.merged().columns
        self.acl_count = len(table)
        self._held = plan.affected_rows(table)
        self.to_remove, self.to_add = plan.remaining(self._held)
        if not self.to_remove and not self.to_add:
            return
        try:
            plan.require_unchanged_permissions(image, check_cancelled)
        except PlanOutdatedError:
            if len(self.to_remove) + len(self.to_add) == len(plan.remove) + len(plan.add):
                raise
            # A part of the plan was applied: without that part, the permissions must be the original ones.
            plan.require_unchanged_permissions(image_of(plan.reverted(table)), check_cancelled)
        counts = PlanCounts(self.acl_count, len(self._removed()), len(self.to_add))
        counts.require_allowed(max_removed_percent)

    def carry_out(self, requests: Requests) -> None:
        """Send the requests. Raises as cluster_requests.carry_out, with a note on how to continue."""
        carry_out(requests, self.to_add, self.to_remove, in_part=_IN_PART)

    def is_done(self, table: AclTable) -> bool:
        return not any(self._plan.remaining(self._plan.affected_rows(table)))

    def require_done(self, table: AclTable) -> None:
        """Raise PlanOutdatedError unless these ACLs have the plan's effective permissions."""
        if (
            not self.is_done(table)
            or EffectivePermissions.digest_of(table, self._plan.settings).combined.hex()
            != self._plan.permissions_after
        ):
            raise PlanOutdatedError(
                "the plan was carried out, and the ACLs do not mean what it says: others wrote meanwhile"
            )

    def result(self, find: FindAcl) -> PlanResult:
        """Return the changes; ``find`` finds an ACL in force. A missing one gets the id of its content."""
        return PlanResult(
            removed=tuple(self._removed()),
            added=tuple(
                find(content) or AccessControlEntryRecord(content_uuid(content), *content)
                for content in self.to_add
            ),
            acl_count=self.acl_count,
        )

    def _removed(self) -> list[AccessControlEntryRecord]:
        removed = set(self.to_remove)
        return [acl.record for acl in self._held if acl.record.content in removed]

    # --- Pending, for the cluster whose log is followed ----------------------------------------------------

    def write(self, log: MetadataLog) -> int | None:
        """Send the requests; return the end offset of their records, None if no change remains.

        ApiError: Kafka refuses an ACL. LogError as of ClusterWriter.
        """
        if not self.to_remove and not self.to_add:
            return None
        requests = WriterRequests(writer_of(log))
        self.carry_out(requests)
        return requests.end_offset

    def answers(self, find: FindAcl, image: AclsImage) -> list[PlanResult]:
        """Return the result, by the ACLs in force once the records are replayed."""
        try:
            self.require_done(image.merged().columns)
        except PlanOutdatedError as error:
            return [PlanResult(error)]
        return [self.result(find)]
