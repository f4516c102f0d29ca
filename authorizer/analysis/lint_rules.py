"""Which findings are wanted: the rules, those that are off, and ACLs that are accepted as they are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from authorizer.analysis.removable_acls import RemovalRule
from records.acl import ResourceType

if TYPE_CHECKING:
    from records.entries import AccessControlEntryRecord

Rule = Literal[RemovalRule, "duplicate", "unknown-code", "principal-type", "topic-gone"]

#: In the order in which they are shown.
RULES: Final[tuple[Rule, ...]] = (
    "duplicate",
    "unknown-code",
    "principal-type",
    "topic-gone",
    *get_args(RemovalRule),
)
#: Those whose findings are only to be known: nothing need be amiss.
INFORMATIVE: Final[frozenset[Rule]] = frozenset(("topic-gone",))
#: What Kafka's DefaultKafkaPrincipalBuilder makes.
USUAL_TYPES: Final = frozenset(("User",))


class Accepted(NamedTuple):
    """ACLs about which some rules, or all, say nothing; texts are patterns with ``*`` and ``?``."""

    rules: frozenset[Rule] = frozenset(RULES)
    principal: str = "*"
    resource_type: ResourceType | None = None
    resource_name: str = "*"

    def has(self, rule: Rule, record: AccessControlEntryRecord) -> bool:
        return (
            rule in self.rules
            and self.resource_type in (None, record.resource_type)
            and fnmatchcase(record.principal, self.principal)
            and fnmatchcase(record.resource_name, self.resource_name)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRules:
    """See the module.

    Attributes:
        principal_types: that a principal can have.
        off: the rules that say nothing.
        accepted: ACLs that are wanted as they are.
    """

    principal_types: frozenset[str] = USUAL_TYPES
    off: frozenset[Rule] = frozenset()
    accepted: tuple[Accepted, ...] = ()

    def accepts(self, rule: Rule, record: AccessControlEntryRecord) -> bool:
        """Whether this rule has nothing to say about the ACL."""
        return rule in self.off or any(each.has(rule, record) for each in self.accepted)
