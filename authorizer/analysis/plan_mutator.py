"""PlanMutator: applies a plan of ACL changes to a log, and the result of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from authorizer.api.authorizer_api import AclMutator

if TYPE_CHECKING:
    from concurrent.futures import Future

    from authorizer.analysis.plan import AclPlan
    from authorizer.api.errors import ApiError
    from records.entries import AccessControlEntryRecord


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Outcome of a plan, which is carried out whole or not at all; but by a cluster in part, which is said.

    Attributes:
        exception: None on success; then nothing is in the other two where nothing was left to be done.
        removed: what was, once for each id.
        added: what was.
        acl_count: the ACLs that were in force before; None where a node of an earlier release answered.
    """

    exception: ApiError | None = None
    removed: tuple[AccessControlEntryRecord, ...] = ()
    added: tuple[AccessControlEntryRecord, ...] = ()
    acl_count: int | None = None


class PlanMutator(AclMutator, Protocol):
    """The same for whole plans, which Kafka does not have."""

    def apply_plan(self, plan: AclPlan, max_removed_percent: int | None = None) -> Future[PlanResult]:
        """Carry out a plan if its log still means what it was made on, whole or not at all; authorized.

        Args:
            plan: what to carry out.
            max_removed_percent: the largest share of the ACLs that it may remove; None: what the settings
                say (aclog.plan.max.removed.percent).
        """
