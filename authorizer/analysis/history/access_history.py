"""Access changes of a history: what each change of ACLs granted and revoked, within bounds.

The work on a change grows with the related principals times the related ACLs for ``User:*``. A change that
would take more than its bound is not analysed completely, and says so. Changes beyond the bound of a range
are deferred: a later call analyses them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import DecisionChange, decision_changes_for
from authorizer.analysis.permissions.related_acls import related_rows
from authorizer.analysis.permissions.request_class import PrincipalSet
from authorizer.analysis.permissions.witness import unnamed_principal
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from authorizer.analysis.request_space.name_space import Key
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import ResourceType
    from records.columns.acl_table import AclTable

# Work of a principal beside its ACLs, and rows that are filtered by name for one unit of work.
_PRINCIPAL_WORK = 100
_ROWS_FILTERED = 256


class AclPeriods(NamedTuple):
    """ACLs, and the offsets between which each was in force.

    ``ends``: exclusive; beyond every offset while in force.
    """

    table: AclTable
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def take(self, rows: npt.NDArray[np.intp]) -> AclPeriods:
        return AclPeriods(self.table.take(rows), self.begins[rows], self.ends[rows])

    def in_force(self, offset: int) -> AclTable:
        """Return the ACLs after the record at an offset."""
        return self.table.take(np.flatnonzero((self.begins <= offset) & (self.ends > offset)))


class Bounds(NamedTuple):
    """Bounds of an analysis. A unit of work takes some 10 µs.

    Attributes:
        work: of all changes of the range.
        deferred_work: of all changes that earlier calls deferred; more than ``change_work``, or none is
            analysed.
        change_work: of one change.
        classes: of one change.
    """

    work: int = 5_000_000
    deferred_work: int = 1_000_000
    change_work: int = 100_000
    classes: int = 1_000


class AccessStep(NamedTuple):
    """What the change at one offset granted and revoked.

    Attributes:
        principals: of the changed ACLs, sorted.
        changes: the classes; if principals are omitted, those of principals without related ACLs.
        omitted_principals: number of principals that were not analysed; all that have no related ACLs count
            as one.
        omitted_classes: number of classes that are not in ``changes``.
        is_deferred: nothing of it was analysed, because the work was used up.
    """

    offset: int
    principals: tuple[str, ...]
    changes: Sequence[DecisionChange]
    omitted_principals: int = 0
    omitted_classes: int = 0
    is_deferred: bool = False


def access_steps(
    periods: AclPeriods,
    first: int,
    settings: AuthorizerSettings,
    bounds: Bounds | None = None,
    *,
    deferred: Collection[int] = (),
    settings_at: Callable[[int], AuthorizerSettings] | None = None,
) -> Iterator[AccessStep]:
    """Yield a step for each offset, from ``first`` on, at which ACLs began or ended, and for deferred ones.

    Changes for ``User:*`` come first, so that they are the last ones to be deferred. ``periods`` are all that
    include the offset before an analysed change or a later offset: for all principals if
    `needs_all_principals`, else for the changed principals and ``User:*``. ``deferred``: offsets below
    ``first`` whose changes earlier calls deferred. ``settings_at``: the settings at an offset, with its
    release; None: ``settings``.
    """
    bounds = bounds or Bounds()
    at = settings_at or (lambda _: settings)
    ranges = [(bounds.work, lambda offsets: (offsets >= first) & (offsets < np.iinfo(np.int64).max))]
    if deferred:
        ranges.append((bounds.deferred_work, lambda offsets: np.isin(offsets, list(deferred))))
    for work, is_wanted in ranges:
        rows_by_offset = _changed_rows(periods, is_wanted)
        yield from _steps(periods, rows_by_offset, settings, bounds._replace(work=work), at)


def _steps(
    periods: AclPeriods,
    rows_by_offset: Mapping[int, npt.NDArray[np.intp]],
    settings: AuthorizerSettings,
    bounds: Bounds,
    settings_at: Callable[[int], AuthorizerSettings],
) -> Iterator[AccessStep]:
    """Yield the steps of these offsets within ``bounds.work``."""
    remaining = bounds.work
    rows_of = _PrincipalRows(periods.table)
    for affected, offsets in _by_affected(periods.table, rows_by_offset, settings):
        chosen = periods
        if remaining >= 0:
            rows = np.concatenate([rows_by_offset[offset] for offset in offsets])
            chosen = periods if affected is None else periods.take(rows_of(affected))
            chosen = chosen.take(related_rows(chosen.table, _names(periods.table.take(rows)), affected))
        for offset in offsets:
            changed = periods.table.take(rows_by_offset[offset])
            deferred = AccessStep(offset, _principals(changed), (), is_deferred=True)
            if remaining < 0:
                yield deferred
                continue
            related = chosen.take(related_rows(chosen.table, _names(changed), affected))
            work = _work(related) + len(chosen.table) // _ROWS_FILTERED
            is_bounded = work > bounds.change_work
            remaining -= _PRINCIPAL_WORK if is_bounded else work
            if remaining < 0:
                yield deferred
                continue
            step = _Step(offset, changed, related, affected)
            yield (step.of_unlisted if is_bounded else step.analysed)(settings_at(offset), bounds)


def needs_all_principals(changed: Collection[str], settings: AuthorizerSettings) -> bool:
    """Return whether changed ACLs for these principals may change the answers to any principal."""
    return settings.allow_everyone or WILDCARD_PRINCIPAL in changed


class _Step(NamedTuple):
    """One change, with the related ACLs before and after it."""

    offset: int
    changed: AclTable
    related: AclPeriods
    affected: frozenset[str] | None

    def analysed(self, settings: AuthorizerSettings, bounds: Bounds) -> AccessStep:
        return self._step(self._changes(self.affected, settings), bounds)

    def of_unlisted(self, settings: AuthorizerSettings, bounds: Bounds) -> AccessStep:
        """The changes of principals without related ACLs only."""
        known = self._related_principals()
        example = unnamed_principal({*known, *settings.super_users})
        unlisted = PrincipalSet(None, (), example)
        changes = []
        for change in self._changes(frozenset(), settings):
            requests = change.request_class
            if requests.principals.principal is None:
                witness = requests.witness._replace(principal=example)
                requests = requests._replace(principals=unlisted, witness=witness)
                changes.append(change._replace(request_class=requests))
        return self._step(changes, bounds, omitted_principals=len(known))

    def _related_principals(self) -> set[str]:
        return {*self.related.table.principals.texts} - {WILDCARD_PRINCIPAL}

    def _changes(
        self, affected: Collection[str] | None, settings: AuthorizerSettings
    ) -> list[DecisionChange]:
        before, after = (self.related.in_force(offset) for offset in (self.offset - 1, self.offset))
        return decision_changes_for(affected, before, after, settings)

    def _step(
        self, changes: Sequence[DecisionChange], bounds: Bounds, *, omitted_principals: int = 0
    ) -> AccessStep:
        return AccessStep(
            self.offset,
            _principals(self.changed),
            changes[: bounds.classes],
            omitted_principals,
            max(0, len(changes) - bounds.classes),
        )


def _principals(changed: AclTable) -> tuple[str, ...]:
    return tuple(sorted(changed.principals.texts))


def _changed_rows(
    periods: AclPeriods, is_wanted: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
) -> Mapping[int, npt.NDArray[np.intp]]:
    """The rows of the ACLs that begin or end at each wanted offset."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for offsets in (periods.begins, periods.ends):
        rows = np.flatnonzero(is_wanted(offsets))
        for row, offset in zip(rows.tolist(), offsets[rows].tolist(), strict=True):
            found[offset].append(row)
    return {offset: np.array(found[offset], np.intp) for offset in sorted(found)}


def _by_affected(
    table: AclTable,
    rows_by_offset: Mapping[int, npt.NDArray[np.intp]],
    settings: AuthorizerSettings,
) -> Iterator[tuple[frozenset[str] | None, list[int]]]:
    """The offsets by the affected principals; None: all, first."""
    groups: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for offset, rows in rows_by_offset.items():
        principals = frozenset(table.principals.texts_of(rows))
        groups[frozenset() if needs_all_principals(principals, settings) else principals].append(offset)
    for principals in sorted(groups, key=sorted):
        yield principals or None, groups[principals]


class _PrincipalRows:
    """The rows of some principals and of ``User:*``, without a scan of the table for each."""

    def __init__(self, table: AclTable) -> None:
        codes = table.principals.codes
        self._codes = {text: code for code, text in enumerate(table.principals.texts)}
        self._rows = np.argsort(codes, kind="stable")
        self._bounds = np.searchsorted(codes[self._rows], np.arange(len(self._codes) + 1))

    def __call__(self, principals: Collection[str]) -> npt.NDArray[np.intp]:
        codes = [self._codes[each] for each in (*principals, WILDCARD_PRINCIPAL) if each in self._codes]
        return np.concatenate([self._rows[self._bounds[code] : self._bounds[code + 1]] for code in codes])


def _names(changed: AclTable) -> Mapping[ResourceType, Collection[Key]]:
    return ChangedAcls(changed, changed.take(np.array([], np.intp))).names


def _work(related: AclPeriods) -> int:
    principals = related.table.principals
    counts = np.bincount(principals.codes, minlength=len(principals.texts))
    texts = principals.texts
    wildcards = int(counts[texts.index(WILDCARD_PRINCIPAL)]) if WILDCARD_PRINCIPAL in texts else 0
    return len(related.table) + (wildcards + _PRINCIPAL_WORK) * len(texts)
