"""Text of ACLs, decisions and differences, in the notation of ``authorizer.api.acl_text``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.acl_json import acl_json
from authorizer.api.acl_text import acl_text
from authorizer.cli.rendering.output import answer, shown
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.engine.decisions.decision import Decision
    from records.entries import AccessControlEntryRecord
    from snapshot.image import AclsImage

#: Width of a label of `log verify`.
LABEL: Final = 12


def acl_line(acl: AccessControlEntryRecord) -> str:
    """Return ``ALLOW User:bob READ on TOPIC:LITERAL:orders from *``; control characters are escaped."""
    return shown(acl_text(acl_json(acl)))


def decided_by(decision: Decision) -> str:
    """Return the rule, with the ACL that decided: ``MatchingAcl (ALLOW User:bob ...)``, ``DefaultDeny``."""
    rule = decision.rule.value
    return rule if decision.acl is None else f"{rule} ({acl_line(decision.acl.record)})"


def print_changed_acls(
    removed: Iterable[AccessControlEntryRecord], added: Iterable[AccessControlEntryRecord]
) -> None:
    """Print a line for each ACL: ``-`` removed, ``+`` added."""
    for sign, acls in (("-", removed), ("+", added)):
        for acl in acls:
            answer(f"  {sign} {acl_line(acl)}", indent=6)


@dataclass(frozen=True, slots=True)
class Differences:
    """ACLs that differ between two states; ``changed`` has pairs (here, there) with the same id."""

    only_here: tuple[AccessControlEntryRecord, ...]
    only_there: tuple[AccessControlEntryRecord, ...]
    changed: tuple[tuple[AccessControlEntryRecord, AccessControlEntryRecord], ...]

    @classmethod
    def between(cls, here: AclsImage, there: AclsImage) -> Differences:
        """Compare two states; sorted by content, so that two runs list the same ACLs first."""
        only_here, changed = [], []
        for acl in here:
            other = there.get(acl.record.id)
            if other is None:
                only_here.append(acl.record)
            elif other.record != acl.record:
                changed.append((acl.record, other.record))
        only_there = [acl.record for acl in there if acl.record.id not in here]
        return cls(
            tuple(sorted(only_here, key=_order)),
            tuple(sorted(only_there, key=_order)),
            tuple(sorted(changed, key=lambda pair: _order(pair[0]))),
        )

    def __bool__(self) -> bool:
        return bool(self.only_here or self.only_there or self.changed)

    def to_json(self, at_most: int) -> dict[str, Any]:
        """As JSON: counts, and the first ACLs of each kind."""
        return {
            "onlyHereCount": len(self.only_here),
            "onlyThereCount": len(self.only_there),
            "changedCount": len(self.changed),
            "onlyHere": [acl_json(record) for record in self.only_here[:at_most]],
            "onlyThere": [acl_json(record) for record in self.only_there[:at_most]],
            "changed": [
                {"here": acl_json(here), "there": acl_json(there)} for here, there in self.changed[:at_most]
            ],
        }

    def print(self, at_most: int) -> None:
        """Print them: ``-`` only here, ``+`` only there, ``!`` other content there."""
        sides = (
            ("-", "only here", [_text(record) for record in self.only_here]),
            ("+", "only there", [_text(record) for record in self.only_there]),
            ("!", "different", [f"{_text(here)}\n    there: {_text(there)}" for here, there in self.changed]),
        )
        for sign, title, lines in sides:
            if lines:
                answer(f"  {len(lines)} {title}")
            for line in lines[:at_most]:
                answer(f"  {sign} {line}", indent=6)
            if len(lines) > at_most:
                answer(f"  {sign} ... and {len(lines) - at_most} more")


def _text(record: AccessControlEntryRecord) -> str:
    return f"{uuid_to_string(record.id)} {acl_line(record)}"


def _order(record: AccessControlEntryRecord) -> tuple[tuple[int, str, int, str, str, int, int], bytes]:
    return record.content, record.id
