"""Checks of a plan of ACL changes: mass removal, risky ACLs, and recorded requests that it would deny."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from authorizer.analysis.permissions.witness import decision_arguments
from authorizer.api.errors import MassRemovalError
from authorizer.engine.decisions.authorize import decide
from records.acl import AclOperation, AclPermissionType, ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.permissions.acl_comparison import ChangedAcls
    from authorizer.engine.decisions.state import AuthorizerState
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord
    from records.request_line import Request
    from records.request_traffic import Traffic

#: A plan that removes a larger share of the ACLs, in percent, needs an explicit higher limit.
MAX_REMOVED_PERCENT: Final = 50
#: A limit that allows every plan.
ALL_PERCENT: Final = 100


class PlanCounts(NamedTuple):
    """How many ACLs a plan removes and adds; equal ACLs under several ids count each."""

    acls: int
    to_remove: int
    to_add: int

    @classmethod
    def of(cls, before: AclTable, changed: ChangedAcls, after: AclTable) -> Self:
        """Count the changes that lead from one table to the other."""
        added = len(changed.added)
        return cls(len(before), len(before) + added - len(after), added)

    @property
    def removed_percent(self) -> float:
        """The share of the ACLs that it removes, cut to one decimal: 100.0 means all of them."""
        return 1000 * self.to_remove // self.acls / 10 if self.acls else 0.0

    def is_mass_removal(self, max_removed_percent: int = MAX_REMOVED_PERCENT) -> bool:
        return 100 * self.to_remove > max_removed_percent * self.acls

    def require_allowed(self, max_removed_percent: int) -> None:
        """Raise MassRemovalError if it removes more of the ACLs than this share."""
        if self.is_mass_removal(max_removed_percent):
            raise MassRemovalError(
                f"the plan {self}: more than the {max_removed_percent} % of the ACLs that a plan may remove; "
                "nothing was written"
            )

    def to_json(self, max_removed_percent: int = MAX_REMOVED_PERCENT) -> dict[str, Any]:
        return {
            "acls": self.acls,
            "toRemove": self.to_remove,
            "toAdd": self.to_add,
            "removedPercent": self.removed_percent,
            "isMassRemoval": self.is_mass_removal(max_removed_percent),
        }

    def __str__(self) -> str:
        return (
            f"removes {self.to_remove:,} of {self.acls:,} ACLs ({self.removed_percent:g} %), "
            f"adds {self.to_add:,}"
        )


_ALTERING = (AclOperation.ALTER, AclOperation.ALL)


class PlanWarning(NamedTuple):
    """One change of a plan to review.

    Attributes:
        kind: for programs.
        text: for users.
    """

    kind: Literal["deny-everybody", "cluster-alter", "last-allow", "denied-traffic"]
    text: str
    principal: str
    acl: AccessControlEntryRecord | None = None


def plan_warnings(changed: ChangedAcls, after: AclTable) -> Iterator[PlanWarning]:
    """Yield the warnings about changes that lead to the ACLs ``after``."""
    for acl in changed.added:
        record = acl.record
        if record.permission_type == AclPermissionType.DENY and record.principal == WILDCARD_PRINCIPAL:
            yield PlanWarning(
                "deny-everybody", "a DENY for every principal is added", WILDCARD_PRINCIPAL, record
            )
        elif (
            record.permission_type == AclPermissionType.ALLOW
            and record.resource_type == ResourceType.CLUSTER
            and record.operation in _ALTERING
        ):
            text = f"{record.principal} may alter the cluster, and so every ACL"
            yield PlanWarning("cluster-alter", text, record.principal, record)
    for principal in sorted(_allowed(changed.removed) - _allowed(after)):
        yield PlanWarning("last-allow", f"{principal} loses its last ALLOW", principal)


def denied_traffic_warnings(
    traffic: Traffic, before: AuthorizerState, after: AuthorizerState
) -> Iterator[PlanWarning]:
    """Yield one warning for each principal with requests that only ``before`` allows."""
    decisions: Counter[str] = Counter()
    examples: dict[str, Request] = {}
    for logged, count in traffic.counts.items():
        request = logged.request
        arguments = decision_arguments(*request)
        if (
            not logged.is_probe
            and decide(before, *arguments).is_allowed > decide(after, *arguments).is_allowed
        ):
            principal = request.principal
            decisions[principal] += count
            examples[principal] = min(request, examples.get(principal, request))
    for principal, example in sorted(examples.items()):
        _, host, operation, resource_type, name = example
        yield PlanWarning(
            "denied-traffic",
            f"{decisions[principal]:,} recorded requests of {principal} would be denied, such as "
            f"{operation.title} {resource_type.name} {name} from {host}",
            principal,
        )


def _allowed(table: AclTable) -> set[str]:
    return table.principals.texts_of(table.permission_types == AclPermissionType.ALLOW)
