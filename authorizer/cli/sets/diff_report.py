"""Report of ``aclog diff`` and ``aclog plan``: the ACLs that differ, and the changed decisions."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.analysis.request_class_text import describe_class, describe_principal, describe_witness
from authorizer.analysis.witness import decide_witness, state_for_witnesses
from authorizer.api.acl_json import acl_json
from authorizer.cli.rendering.acls import decided_by, print_changed_acls
from authorizer.cli.rendering.output import answer, shown
from authorizer.cli.rendering.terminal import bad, good

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.acl_comparison import ChangedAcls
    from authorizer.analysis.decision_changes import DecisionChange
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

#: Where a line begins, after its label.
_LABEL: Final = 9


class Report(NamedTuple):
    """What differs, and what that means.

    Attributes:
        settings: by which each of them answers.
        labels: what the sets are called where both answer.
    """

    sets: tuple[AclSet, AclSet]
    changed: ChangedAcls
    flips: list[DecisionChange]
    settings: tuple[AuthorizerSettings, AuthorizerSettings]
    labels: tuple[str, str] = ("A", "B")

    def to_json(self) -> Iterator[dict[str, Any]]:
        """For ``--json``: the ACLs, the flips of each operation, and whether all is the same."""
        for kind, table in (("removed", self.changed.removed), ("added", self.changed.added)):
            for record in _sorted(table):
                yield {"acl": kind} | acl_json(record)
        counts: Counter[str] = Counter()
        for flip, decisions in self._decided():
            for operation, (before, after) in zip(flip.request_class.operations, decisions, strict=True):
                counts[flip.direction] += 1
                yield {
                    "flip": flip.direction,
                    "releases": flip.releases,
                    **flip.request_class.to_json(operation),
                    "before": before.to_json(),
                    "after": after.to_json(),
                }
        yield {
            "same": not self.flips,
            "aclsRemoved": len(self.changed.removed),
            "aclsAdded": len(self.changed.added),
            "granted": counts["granted"],
            "revoked": counts["revoked"],
        }

    def print(self) -> None:
        """The same for people."""
        for label, each in zip(self.labels, self.sets, strict=True):
            answer(f"{label:{_LABEL}}{shown(each.name)}, {len(each.image):,} ACLs", _LABEL)
        removed, added = _sorted(self.changed.removed), _sorted(self.changed.added)
        answer(f"{'ACLs':{_LABEL}}{len(removed)} removed, {len(added)} added", _LABEL)
        print_changed_acls(removed, added)
        if not self.flips:
            answer(f"{'meaning':{_LABEL}}{good('the same')}: every request has the same answer", _LABEL)
            return
        answer(f"{'meaning':{_LABEL}}{bad('DIFFERENT')}", _LABEL)
        for flip, decisions in self._decided():
            title = good("GRANTED") if flip.direction == "granted" else bad("REVOKED")
            questions, ((before, after), *_) = flip.request_class, decisions
            only = "" if flip.releases is None else f" ({flip.releases})"
            answer(
                f"  {title}{only}  {shown(f'{describe_principal(questions)}: {describe_class(questions)}')}",
                indent=6,
            )
            answer(f"    such as {shown(describe_witness(questions))}", indent=6)
            for label, decision in zip(self.labels, (before, after), strict=True):
                answer(f"    {label}: {decision.result.value} by {decided_by(decision)}", indent=6)

    def _decided(self) -> Iterator[tuple[DecisionChange, list[tuple[Decision, Decision]]]]:
        """Each class with what decides its witness on both sides, operation by operation."""
        for version, flips in groupby(self.flips, key=attrgetter("version")):
            some = list(flips)
            classes = [flip.request_class for flip in some]
            witnesses = [each.witness for each in classes]
            before, after = (
                state_for_witnesses(
                    each.table(), witnesses, how if version is None else how.with_version(version)
                )
                for each, how in zip(self.sets, self.settings, strict=True)
            )
            for flip, asked in zip(some, classes, strict=True):
                yield (
                    flip,
                    [
                        (
                            decide_witness(before, asked.witness, each),
                            decide_witness(after, asked.witness, each),
                        )
                        for each in asked.operations
                    ],
                )


def _sorted(table: AclTable) -> list[AccessControlEntryRecord]:
    return sorted((acl.record for acl in table), key=lambda record: (record.content, record.id))
