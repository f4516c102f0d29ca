"""Lint: findings about single ACLs of a set, with reasons, and the removable ACLs.

The rules:

- ``duplicate``: the ACL exists under several ids, and is in force until all are removed.
- ``unknown-code``: its pattern type or permission type is unknown, and means PREFIXED or DENY.
- ``principal-type``: no principal has this type.
- ``topic-gone``: its topic does not exist, if the log knows the topics. An ACL may be created before its
  topic.
- ``dead``: no request can match it.
- ``super-user``: its principal is a super user, who is allowed everything anyway.
- ``shadowed``: an ALLOW whose requests are all denied.
- ``broader-twin``: an ALLOW with an equal one for every host, name, operation or principal. Either it is
  redundant, or the broad one is a mistake.
- ``redundant``: other ACLs have all its effects.
- ``idle-deny``: a DENY whose requests no ALLOW allows: a guard against future ALLOWs, which is kept unless
  the rules are strict.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from authorizer.analysis.lint.affected_acls import (
    NO_ROW,
    ChangedParts,
    parts_around,
    rows_of,
    types_denied_to_everyone,
)
from authorizer.analysis.lint.ineffective_acls import ineffective_reason
from authorizer.analysis.lint.removable_acls import RemovableAcl, find_removable
from authorizer.analysis.lint.rules import RULES, LintRules, Rule
from authorizer.analysis.permissions.acl_comparison import DistinctAcls
from authorizer.engine.decisions.rules import allows
from authorizer.engine.index.pattern_keys import PATTERNS, PERMISSIONS
from records.acl import WILDCARD, PatternType, ResourceType
from records.columns.acl_table import AclTable

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from authorizer.analysis.lint.affected_acls import Part
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.entries import AccessControlEntryRecord
    from records.ids import Uuid

#: What happens to a removable ACL; ``kept`` is one that is information only.
_Outcome = Literal["removed", "accepted", "kept"]
_Found = dict[_Outcome, list[RemovableAcl]]


class Finding(NamedTuple):
    """A finding about one ACL.

    Attributes:
        by: the other ACLs that are the reason.
        is_removable: whether it can be removed together with the other removable ACLs.
        is_defect: whether it is a defect; else it is information.
        is_independent: whether it can be removed first; else ``by`` is an ALLOW to remove before it.
        keeps_by_resource_type: whether the answers of authorize-by-resource-type (KIP-679) are known to be
            the same without it.
    """

    rule: Rule
    acl: AccessControlEntryRecord
    ids: tuple[Uuid, ...]
    reason: str
    by: tuple[AccessControlEntryRecord, ...] = ()
    is_removable: bool = False
    is_defect: bool = True
    is_independent: bool = True
    keeps_by_resource_type: bool = True

    @property
    def severity(self) -> str:
        return _severity(is_defect=self.is_defect)


class FoundRow(msgspec.Struct, frozen=True, gc=False):
    """A finding without its ACL and its proof, which `Lint.finding` adds: few of many are shown.

    Attributes:
        row: the row of the ACL in `Lint.acls`.
        removable: with the proof; None if the rule does not make an ACL removable.
    """

    rule: Rule
    row: int
    removable: RemovableAcl | None


class Lint:
    """The findings about a set of ACLs.

    Attributes:
        acls: the set without repeats.
        removable: the ACLs that can be removed together, without those that the rules accept, and without
            DENYs that are information only.
    """

    def __init__(
        self,
        table: AclTable,
        settings: AuthorizerSettings,
        rules: LintRules,
        *,
        keeps_by_type: bool = False,
        topics: Container[str] | None = None,
        previous: Lint | None = None,
    ) -> None:
        """Check ACLs, in any order, with repeats; those that ``rules`` accept are kept.

        With ``keeps_by_type`` an ACL is also kept, without a finding, if the answers of
        authorize-by-resource-type may change without it. ``topics``: the existing ones, if known. What cannot
        have changed since ``previous``, the findings about another set, is not computed again.
        """
        self._settings = settings
        self._rules = rules
        self._topics = topics
        self._keep_by_type = keeps_by_type
        self._distinct = DistinctAcls.of(table)
        self.acls = self._distinct.table
        found = None if previous is None else self._search_changed(previous)
        self._found = self._search() if found is None else found
        self.accepted = len(self._found["accepted"])
        self.removable = self._found["removed"]
        self._is_removable = np.zeros(len(self.acls), np.bool_)
        self._is_removable[[each.row for each in self.removable]] = True

    def _search_changed(self, previous: Lint) -> _Found | None:
        """Search only among ACLs whose findings may differ from the previous ones; None: among all."""
        if (
            self._settings.allow_everyone
            or (previous._settings, previous._rules) != (self._settings, self._rules)
            or previous._keep_by_type
            or self._keep_by_type
        ):
            return None
        changed = ChangedParts.between(previous.acls, self.acls)
        parts = changed.parts
        found = self._search_parts(parts)
        if found is not None and (more := self._denied_to_everyone(previous, changed, found)):
            parts = parts | more
            found = self._search_parts(parts)
        if found is None:
            return None
        is_affected, rows = rows_of(self.acls, parts), changed.new_rows.tolist()
        return {
            outcome: [each.without_proof(each.row) for each in found[outcome] if is_affected[each.row]]
            + [
                each.without_proof(row)
                for each in same
                if (row := rows[each.row]) != NO_ROW and not is_affected[row]
            ]
            for outcome, same in previous._found.items()
        }

    def _search_parts(self, parts: set[Part]) -> _Found | None:
        """Search among the ACLs on which findings about parts depend; None: those are most ACLs."""
        is_searched = rows_of(self.acls, parts_around(self.acls, rows_of(self.acls, parts)))
        if 2 * np.count_nonzero(is_searched) > len(self.acls):
            return None
        return self._search(np.flatnonzero(is_searched))

    def _denied_to_everyone(self, previous: Lint, changed: ChangedParts, found: _Found) -> set[Part]:
        """The resource types where changes, also of what is removed, may affect a DENY of ``User:*``."""
        is_removable = np.zeros(len(self.acls), np.bool_)
        is_removable[[each.row for each in found["removed"]]] = True
        was_removable = np.zeros(len(self.acls), np.bool_)
        was_removable[~changed.is_added] = previous._is_removable[~changed.is_removed]
        is_changed = rows_of(self.acls, changed.parts) & (is_removable != was_removable) | changed.is_added
        tables = previous.acls.take(changed.is_removed), self.acls.take(is_changed)
        return types_denied_to_everyone(AclTable.concat(tables), self.acls)

    def findings(self) -> Iterator[Finding]:
        """Yield all findings by rule; those of one rule in the order of the ACLs."""
        return iter(self.findings_of([*self.found_rows()]))

    def found_rows(self) -> Iterator[FoundRow]:
        """Yield the same as `findings`, without proofs."""
        reported: set[int] = set()
        for found, acceptance in self._other_rows():
            if acceptance is None:
                reported.add(found.row)
                yield found
            else:
                self.accepted += 1
        by_rule: dict[Rule, list[RemovableAcl]] = {rule: [] for rule in RULES}
        idle = (each for each in self._found["kept"] if each.row not in reported)
        for each in (*self.removable, *idle):
            by_rule[each.rule].append(each)
        for rule, same in by_rule.items():
            for each in sorted(same, key=attrgetter("row")):
                yield FoundRow(rule, each.row, each)

    def accepted_rows(self) -> Iterator[tuple[FoundRow, str]]:
        """Yield the findings that the rules accept, each with the reason in the rules."""
        for found, acceptance in self._other_rows():
            if acceptance is not None:
                yield found, acceptance
        for each in sorted(self._found["accepted"], key=attrgetter("row")):
            yield FoundRow(each.rule, each.row, each), self._acceptance(each.rule, each.row) or ""

    def _other_rows(self) -> Iterator[tuple[FoundRow, str | None]]:
        """The findings by other rules, and the reason in the rules of those that they accept."""
        for rule, has_finding in self._other_rules():
            # A removable ACL has another finding.
            for row in np.flatnonzero(has_finding & ~self._is_removable).tolist():
                yield FoundRow(rule, row, None), self._acceptance(rule, row)

    def is_removable(self, found: FoundRow) -> bool:
        """Return whether the ACL can be removed together with the other removable ACLs."""
        return bool(self._is_removable[found.row])

    def is_defect(self, found: FoundRow) -> bool:
        """Return whether it is a defect; else it is information."""
        return self._rules.is_defect(found.rule)

    def severity(self, found: FoundRow) -> str:
        """Return ``warning`` for a defect, else ``info``."""
        return _severity(is_defect=self.is_defect(found))

    def findings_of(self, found: Sequence[FoundRow]) -> list[Finding]:
        self._prove([each.removable for each in found if each.removable is not None])
        return [*map(self._finding, found)]

    def finding(self, found: FoundRow) -> Finding:
        (finding,) = self.findings_of((found,))
        return finding

    def _finding(self, found: FoundRow) -> Finding:
        rule, row, removable = found.rule, found.row, found.removable
        acl, is_defect = self._record(row), self.is_defect(found)
        if removable is None:
            return Finding(rule, acl, self._ids(row), _OTHER_REASONS[rule](acl), is_defect=is_defect)
        by = tuple(map(self._record, removable.by))
        return Finding(
            rule,
            acl,
            self._ids(row),
            _REASONS[removable.rule](acl, by),
            by,
            is_removable=self.is_removable(found),
            is_defect=is_defect,
            is_independent=removable.is_independent,
            keeps_by_resource_type=removable.keeps_by_resource_type,
        )

    def ids_of(self, found: FoundRow) -> tuple[Uuid, ...]:
        return self._ids(found.row)

    def records_of(self, found: Sequence[FoundRow]) -> Iterator[AccessControlEntryRecord]:
        return self.acls.records(np.array([each.row for each in found], np.int64))

    def needed(self) -> AclTable:
        """Return the ACLs without the removable ones."""
        return self.acls.take(np.flatnonzero(~self._is_removable))

    def removable_records(self) -> Iterator[AccessControlEntryRecord]:
        """Yield the removable ACLs, in order."""
        return self.acls.records(np.flatnonzero(self._is_removable))

    def _search(self, rows: npt.NDArray[np.int64] | None = None) -> _Found:
        """Find the removable ACLs among some of the ACLs, or all."""
        found: _Found = {each: [] for each in get_args(_Outcome)}

        def keeps(removable: RemovableAcl) -> bool:
            outcome = self._outcome(removable)
            if outcome is not None:
                found[outcome].append(removable)
            return outcome != "removed"

        find_removable(self.acls, self._settings, keeps, rows)
        return found

    def _prove(self, removable: Iterable[RemovableAcl]) -> None:
        """Find the proofs that `_search_changed` leaves out."""
        unproven = {each.row: each for each in removable if not each.has_proof}
        if not unproven:
            return
        is_row = np.zeros(len(self.acls), np.bool_)
        is_row[[*unproven]] = True
        is_searched = rows_of(self.acls, parts_around(self.acls, is_row))
        # Those for impossible names have an effect on authorize-by-resource-type.
        all_found = chain.from_iterable(self._found.values())
        is_searched[[each.row for each in all_found if each.rule == "dead"]] = True
        for found in chain.from_iterable(self._search(np.flatnonzero(is_searched)).values()):
            if found.row in unproven:
                unproven[found.row].known_proof = found.proof

    def _outcome(self, found: RemovableAcl) -> _Outcome | None:
        if self._keep_by_type and not found.keeps_by_resource_type:
            return None
        if self._acceptance(found.rule, found.row) is not None:
            return "accepted"
        return "removed" if self._rules.is_defect(found.rule) else "kept"

    def _acceptance(self, rule: Rule, row: int) -> str | None:
        # Without such rules no record needs to be created.
        if not (self._rules.off or self._rules.accepted):
            return None
        return self._rules.acceptance(rule, self._record(row))

    def _other_rules(self) -> Iterator[tuple[Rule, npt.NDArray[np.bool_]]]:
        """The rules that do not make an ACL removable, and the ACLs that have a finding."""
        yield "duplicate", self._is_duplicate()
        yield "unknown-code", self._has_unknown_code()
        yield "principal-type", self._has_unused_type()
        yield "topic-gone", self._is_on_no_topic()

    def _is_duplicate(self) -> npt.NDArray[np.bool_]:
        is_duplicate = np.zeros(len(self.acls), np.bool_)
        is_duplicate[[*self._distinct.ids]] = True
        return is_duplicate

    def _has_unknown_code(self) -> npt.NDArray[np.bool_]:
        acls = self.acls
        return ~(np.isin(acls.pattern_types, PATTERNS) & np.isin(acls.permission_types, PERMISSIONS))

    def _has_unused_type(self) -> npt.NDArray[np.bool_]:
        used = self._rules.principal_types
        return self.acls.principals.where(lambda text: ":" in text and text.partition(":")[0] not in used)

    def _is_on_no_topic(self) -> npt.NDArray[np.bool_]:
        acls, topics = self.acls, self._topics
        if topics is None:
            return np.zeros(len(acls), np.bool_)
        is_missing = acls.names.where(lambda name: name != WILDCARD and name not in topics)
        is_topic = (acls.resource_types == ResourceType.TOPIC) & (acls.pattern_types == PatternType.LITERAL)
        found: npt.NDArray[np.bool_] = is_topic & is_missing
        return found

    def _record(self, row: int) -> AccessControlEntryRecord:
        return self.acls.acl(row).record

    def _ids(self, row: int) -> tuple[Uuid, ...]:
        return self._distinct.ids.get(row) or (self.acls.id_of(row),)


def _severity(*, is_defect: bool) -> str:
    return "warning" if is_defect else "info"


def _duplicate(_: AccessControlEntryRecord) -> str:
    return "it exists under several ids, and is in force until all of them are removed"


def _unknown_code(acl: AccessControlEntryRecord) -> str:
    meanings = []
    if acl.pattern_type not in PATTERNS:
        meanings.append(f"the pattern type {acl.pattern_type} is read as PREFIXED")
    if acl.permission_type not in PERMISSIONS:
        meanings.append(f"the permission type {acl.permission_type} is read as DENY")
    return " and ".join(meanings)


def _unused_type(acl: AccessControlEntryRecord) -> str:
    kind = acl.principal.partition(":")[0]
    return f"no principal has the type `{kind}`, unless `principal_types` of the rules has it"


def _on_no_topic(acl: AccessControlEntryRecord) -> str:
    return f"there is no topic {acl.resource_name}: it was deleted, or does not exist yet"


def _ineffective(acl: AccessControlEntryRecord, _: Sequence[AccessControlEntryRecord]) -> str:
    return ineffective_reason(acl)


def _of_super_user(acl: AccessControlEntryRecord, _: Sequence[AccessControlEntryRecord]) -> str:
    return f"{acl.principal} is a super user, who is allowed everything"


def _shadowed(_: AccessControlEntryRecord, by: Sequence[AccessControlEntryRecord]) -> str:
    return f"all that it allows is denied by {_count(by)}"


def _has_twin(acl: AccessControlEntryRecord, by: Sequence[AccessControlEntryRecord]) -> str:
    (twin,) = by
    if twin.principal != acl.principal:
        scope = "to every principal"
    elif twin.host != acl.host:
        scope = "from every host"
    elif twin.operation != acl.operation:
        scope = "for every operation"
    else:
        scope = "on every name"
    return f"the same is allowed {scope}: this ACL is redundant, or that one is too broad"


def _redundant(acl: AccessControlEntryRecord, by: Sequence[AccessControlEntryRecord]) -> str:
    if not allows(acl):
        return f"all that it denies is denied by {_count(by)}"
    if all(map(allows, by)):
        return f"all that it allows is allowed by {_count(by)}"
    return f"all that it allows is allowed or denied by {_count(by)}"


def _idle(_: AccessControlEntryRecord, by: Sequence[AccessControlEntryRecord]) -> str:
    if by:
        return "only removable ALLOWs, such as this one, allow what it denies: keep it while they exist"
    return "no ALLOW allows what it denies: it changes no answer, and is a guard against future ALLOWs"


def _count(by: Sequence[AccessControlEntryRecord]) -> str:
    return "one other ACL" if len(by) == 1 else f"{len(by)} other ACLs"


_REASONS = {
    "dead": _ineffective,
    "super-user": _of_super_user,
    "shadowed": _shadowed,
    "broader-twin": _has_twin,
    "redundant": _redundant,
    "idle-deny": _idle,
}
_OTHER_REASONS: Final[Mapping[Rule, Callable[[AccessControlEntryRecord], str]]] = {
    "duplicate": _duplicate,
    "unknown-code": _unknown_code,
    "principal-type": _unused_type,
    "topic-gone": _on_no_topic,
}
