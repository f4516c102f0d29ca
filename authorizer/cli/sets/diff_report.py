"""Report of ``aclog diff`` and ``aclog plan``: the ACLs that differ, and the changed decisions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.analysis.permissions.decision_changes import decide_changes
from authorizer.analysis.permissions.request_class import (
    describe_class,
    describe_principal,
    describe_witness,
)
from authorizer.api.acl_json import acl_json
from authorizer.cli.rendering.acls import decided_by, print_changed_acls
from authorizer.cli.rendering.output import answer, print_fact, shown
from authorizer.cli.rendering.terminal import bad, good

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.analysis.permissions.acl_comparison import ChangedAcls
    from authorizer.analysis.permissions.decision_changes import DecisionChange
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

    DecidedChange = tuple[DecisionChange, list[tuple[Decision, Decision]]]

#: Width of a label.
LABEL_WIDTH: Final = 9


class Report(NamedTuple):
    """The differences of two sets."""

    sets: tuple[AclSet, AclSet]
    changed: ChangedAcls
    decision_changes: list[DecisionChange]
    settings: tuple[AuthorizerSettings, AuthorizerSettings]
    labels: tuple[str, str] = ("A", "B")

    def to_json(self) -> Iterator[dict[str, Any]]:
        """As JSON: the ACLs, the changes of each operation's decisions, and a summary."""
        for kind, table in (("removed", self.changed.removed), ("added", self.changed.added)):
            for record in _sorted(table):
                yield {"acl": kind} | acl_json(record)
        counts: Counter[str] = Counter()
        for row in changed_rows(self._decided()):
            counts[row["flip"]] += 1
            yield row
        yield {
            "same": not self.decision_changes,
            "aclsRemoved": len(self.changed.removed),
            "aclsAdded": len(self.changed.added),
            "granted": counts["granted"],
            "revoked": counts["revoked"],
        }

    def print(self) -> None:
        for label, each in zip(self.labels, self.sets, strict=True):
            print_fact(label, f"{shown(each.name)}, {len(each.image):,} ACLs", LABEL_WIDTH)
        removed, added = _sorted(self.changed.removed), _sorted(self.changed.added)
        print_fact("ACLs", f"{len(removed)} removed, {len(added)} added", LABEL_WIDTH)
        print_changed_acls(removed, added)
        if not self.decision_changes:
            print_fact("meaning", f"{good('the same')}: every request has the same answer", LABEL_WIDTH)
            return
        print_fact("meaning", bad("DIFFERENT"), LABEL_WIDTH)
        for change, decisions in self._decided():
            title = good("GRANTED") if change.direction == "granted" else bad("REVOKED")
            request_class, ((before, after), *_) = change.request_class, decisions
            only = "" if change.releases is None else f" ({change.releases})"
            text = shown(f"{describe_principal(request_class)}: {describe_class(request_class)}")
            answer(f"  {title}{only}  {text}", indent=6)
            answer(f"    such as {shown(describe_witness(request_class))}", indent=6)
            for label, decision in zip(self.labels, (before, after), strict=True):
                answer(f"    {label}: {decision.result.value} by {decided_by(decision)}", indent=6)

    def _decided(self) -> Iterator[DecidedChange]:
        before, after = zip((each.table() for each in self.sets), self.settings, strict=True)
        return decide_changes(self.decision_changes, before, after)


def changed_rows(changes: Iterable[DecidedChange]) -> Iterator[dict[str, Any]]:
    """As JSON: the changed decision of each operation."""
    for change, decisions in changes:
        for operation, (before, after) in zip(change.request_class.operations, decisions, strict=True):
            yield {
                "flip": change.direction,
                "releases": change.releases,
                **change.request_class.to_json(operation),
                "before": before.to_json(),
                "after": after.to_json(),
            }


def _sorted(table: AclTable) -> list[AccessControlEntryRecord]:
    return sorted((acl.record for acl in table), key=lambda record: (record.content, record.id))
