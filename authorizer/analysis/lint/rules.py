"""Configuration of lint: its rules, those that are off, and the accepted ACLs."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, get_args

from authorizer.analysis.lint.removable_acls import RemovalRule
from records.acl import ResourceType
from records.entries import AccessControlEntryRecord

Rule = Literal[RemovalRule, "duplicate", "unknown-code", "principal-type", "topic-gone"]

#: In display order.
RULES: Final[tuple[Rule, ...]] = (
    "duplicate",
    "unknown-code",
    "principal-type",
    "topic-gone",
    *get_args(RemovalRule),
)
#: Rules whose findings are no defects: both kinds of ACL may be there for what comes later.
INFORMATIVE: Final[frozenset[Rule]] = frozenset(("topic-gone", "idle-deny"))
#: The principal types of Kafka's DefaultKafkaPrincipalBuilder.
USUAL_TYPES: Final = frozenset(("User",))


class AcceptedAcls(NamedTuple):
    """ACLs that some rules, or all, do not report; names are patterns with ``*`` and ``?``."""

    rules: frozenset[Rule] = frozenset(RULES)
    principal: str = "*"
    resource_type: ResourceType | None = None
    resource_name: str = "*"
    reason: str = ""

    def matches(self, rule: Rule, record: AccessControlEntryRecord) -> bool:
        return (
            rule in self.rules
            and self.resource_type in (None, record.resource_type)
            and fnmatchcase(record.principal, self.principal)
            and fnmatchcase(record.resource_name, self.resource_name)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRules:
    """See the module; ``is_strict``: whether findings of `INFORMATIVE` rules are defects, too."""

    principal_types: frozenset[str] = USUAL_TYPES
    off: frozenset[Rule] = frozenset()
    accepted: tuple[AcceptedAcls, ...] = ()
    is_strict: bool = False

    def is_defect(self, rule: Rule) -> bool:
        """Return whether a finding of this rule is a defect, not information."""
        return self.is_strict or rule not in INFORMATIVE

    def acceptance(self, rule: Rule, record: AccessControlEntryRecord) -> str | None:
        """Return why this rule does not report the ACL, which may be empty; None if it reports it."""
        if rule in self.off:
            return "the rule is off"
        return next((each.reason for each in self.accepted if each.matches(rule, record)), None)
