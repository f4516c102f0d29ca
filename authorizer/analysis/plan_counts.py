"""PlanCounts: how many ACLs a plan removes and adds, of how many. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from authorizer.api.errors import MassRemovalError

if TYPE_CHECKING:
    from authorizer.analysis.changed_acls import ChangedAcls
    from records.columns.acl_table import AclTable

#: A plan that removes a larger share of the ACLs, in percent, is only applied where that is asked for.
MAX_REMOVED_PERCENT: Final = 50
#: A limit that allows every plan.
ALL_PERCENT: Final = 100


class PlanCounts(NamedTuple):
    """Equal ACLs under several ids count each.

    Attributes:
        acls: in force before the plan.
        to_remove: of these.
        to_add: beside these.
    """

    acls: int
    to_remove: int
    to_add: int

    @classmethod
    def of(cls, before: AclTable, changed: ChangedAcls, after: AclTable) -> Self:
        """Count changes that lead from one table to the other."""
        added = len(changed.added)
        return cls(len(before), len(before) + added - len(after), added)

    @property
    def removed_percent(self) -> float:
        """The share of the ACLs that it removes, cut to one decimal: 100.0 means all of them."""
        return 1000 * self.to_remove // self.acls / 10 if self.acls else 0.0

    def is_mass_removal(self, max_removed_percent: int = MAX_REMOVED_PERCENT) -> bool:
        """Whether it removes more of the ACLs than this share."""
        return 100 * self.to_remove > max_removed_percent * self.acls

    def require_allowed(self, max_removed_percent: int) -> None:
        """MassRemovalError if it removes more of the ACLs than this share."""
        if self.is_mass_removal(max_removed_percent):
            raise MassRemovalError(
                f"the plan {self}: more than the {max_removed_percent} % of the ACLs that a plan may remove; "
                "nothing was written"
            )

    def to_json(self, max_removed_percent: int = MAX_REMOVED_PERCENT) -> dict[str, Any]:
        """For programs."""
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
