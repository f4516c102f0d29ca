"""Matrix: what principals may do to the names of one resource type, cell by cell, exact.

A row is a name, or all names with a prefix; a column is a principal, or all principals without ACLs. Rows are
outlined: names that agree up to a separator are one row, which can be opened. A cell has the operations that
are allowed on all names of its row from every host, and those allowed on some, or from some hosts. A column
is computed when it is read, from its principal's ACLs and those for ``User:*``.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from authorizer.analysis.access_queries import answers_for
from authorizer.analysis.effective_permissions import EffectivePermissions
from authorizer.analysis.host_answers import NO_OPERATIONS, masks_by_host, subtract
from authorizer.analysis.name_map import NameMap, PrefixLookup
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.analysis.related_acls import acls_by_principal, changes_between
from authorizer.engine.index.masks import EVERYTHING
from authorizer.engine.index.pattern_keys import PREFIXED
from records.acl import CLUSTER_NAME, WILDCARD, ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from authorizer.analysis.effective_permissions import Answers
    from authorizer.analysis.host_answers import Answer
    from authorizer.analysis.name_space import Key, NameSpace
    from authorizer.engine.decisions.state import AuthorizerSettings
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.pattern_keys import PatternKey
    from authorizer.engine.index.resource_index import Change

#: Characters that end a part of a name.
SEPARATORS: Final = ".-_:/"
# Limits of the caches of a column and of a matrix.
_CELLS_MAXIMUM: Final = 2_000
_OUTLINES_MAXIMUM: Final = 8
#: All names of the type.
ALL_NAMES: Final[Key] = ("", False)


class Cell(NamedTuple):
    """Masks of operations, as in `host_answers`.

    Attributes:
        always: allowed on every name of the row, from every host.
        sometimes: allowed on some name, from some host; these too.
    """

    always: int
    sometimes: int


class Row(NamedTuple):
    """A name, or all names with a prefix.

    Attributes:
        key: the name or prefix.
        inside: number of names and prefixes below it; 0 if it cannot be opened.
    """

    key: Key
    inside: int


class Column:
    """The answers to one principal, summarized by row."""

    __slots__ = ("_cells", "_within", "answers")

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._within = PrefixLookup(answers)
        self._cells: dict[Key, Cell] = {}

    def cell(self, key: Key) -> Cell:
        """Return the cell of a row; cached, as a row may have many patterns."""
        cell = self._cells.get(key)
        if cell is None:
            if len(self._cells) >= _CELLS_MAXIMUM:
                self._cells.clear()
            cell = self._cells[key] = both(map(_summed, set(self._within.values(key))))
        return cell


def both(cells: Iterable[Cell]) -> Cell:
    """Return the combination of cells, of which there is at least one."""
    always, sometimes = EVERYTHING, 0
    for cell in cells:
        always &= cell.always
        sometimes |= cell.sometimes
    return Cell(always, sometimes)


def _summed(answer: Answer) -> Cell:
    if isinstance(answer, int):
        return Cell(answer, answer)
    return both(Cell(mask, mask) for _, (mask,) in masks_by_host(answer))


@dataclass(frozen=True, slots=True)
class Matrix:
    """See the module; of one state.

    Attributes:
        index: the state's.
        settings: by which it answers.
        resource_type: whose names are its rows.
        keys: every name and prefix that an ACL is about, sorted as in `name_map`.
        principals: those with ACLs of their own about the type, and super users.
        known: columns that have been worked out; None: everybody's who has no ACLs.
    """

    index: AclIndex
    settings: AuthorizerSettings
    resource_type: ResourceType
    keys: list[Key]
    principals: frozenset[str]
    known: dict[str | None, Column] = field(default_factory=dict)
    _outlines: dict[tuple[str, str], list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, index: AclIndex, settings: AuthorizerSettings, resource_type: ResourceType) -> Matrix:
        """Of a state by itself."""
        settings = settings.with_version_of(index.image)
        principals = _principals(index, resource_type) | settings.super_users
        return cls(index, settings, resource_type, _keys(index, resource_type), principals)

    def at(
        self, index: AclIndex, settings: AuthorizerSettings, changes: Iterable[Change] | None = None
    ) -> Matrix:
        """That of another state, with what is the same there: a step in time costs what it changed.

        Args:
            index: of that state.
            settings: by which it answers.
            changes: what makes the one state of the other, either way, if that is known.
        """
        if changes is None:
            changes = changes_between(self.index, index)
        if changes is None:
            return Matrix.of(index, settings, self.resource_type)
        records = [acl.record for change in changes for acl in change if acl is not None]
        changed = {each.principal for each in records}
        settings = settings.with_version_of(index.image)
        known: dict[str | None, Column] = {}
        if settings == self.settings and WILDCARD_PRINCIPAL not in changed and not settings.allow_everyone:
            known = {each: theirs for each, theirs in self.known.items() if each not in changed}
        has_acls = {each for each in changed if _has_acls(index, each, self.resource_type)}
        principals = (self.principals - changed) | has_acls | settings.super_users
        names = {each.resource_name for each in records if each.resource_type == int(self.resource_type)}
        keys = self.keys
        if names and self.resource_type != ResourceType.CLUSTER:
            keys = _with_names(keys, names, index, self.resource_type)
        outlines = self._outlines if keys is self.keys else {}
        return Matrix(index, settings, self.resource_type, keys, principals, known, outlines)

    def rows(self, under: str, containing: str) -> list[Row]:
        """`outline` of its keys; the last ones are remembered."""
        rows = self._outlines.get((under, containing))
        if rows is None:
            if len(self._outlines) >= _OUTLINES_MAXIMUM:
                self._outlines.clear()
            rows = self._outlines[under, containing] = outline(self.keys, under, containing)
        return rows

    def columns(self, principals: Sequence[str | None]) -> list[Column]:
        """Of these principals, as ``Type:name``; None: of everybody who has no ACLs."""
        missing = [each for each in principals if each not in self.known]
        if missing:
            named = [each for each in missing if each is not None]
            meaning = self._meaning(named)
            for each in missing:
                answers = (
                    meaning.wildcard[self.resource_type]
                    if each is None
                    else answers_for(meaning, each, self.resource_type)
                )
                self.known[each] = Column(answers)
        return [self.known[each] for each in principals]

    def flips(self, before: Matrix, principals: Sequence[str | None]) -> list[tuple[Column, Column]]:
        """For each principal what is allowed here and was not before, and the other way round."""
        pairs = zip(before.columns(principals), self.columns(principals), strict=True)
        space = NAME_SPACES[self.resource_type]
        return [(gained(new, old, space), gained(old, new, space)) for old, new in pairs]

    def _meaning(self, principals: Collection[str]) -> EffectivePermissions:
        if self.settings.allow_everyone:
            # What is open to everybody depends on everyone's ACLs.
            return EffectivePermissions.of(self.index.image.merged().columns, self.settings, principals)
        return EffectivePermissions.of(
            acls_by_principal(self.index, {*principals, WILDCARD_PRINCIPAL}), self.settings
        )


_NOTHING_GAINED: Final = Column(NameMap(NO_OPERATIONS))


def gained(now: Column, then: Column, space: NameSpace) -> Column:
    """What the one allows and the other does not."""
    if now.answers == then.answers:
        return _NOTHING_GAINED
    return Column(now.answers.combined(then.answers, subtract, space))


def _principals(index: AclIndex, resource_type: ResourceType) -> frozenset[str]:
    """Whose ACLs are about the type, ``User:*`` and what can be nobody's apart."""
    columns, rows = index.rows.columns, index.rows_of(None)
    codes = columns.principals.codes[rows[columns.resource_types[rows] == int(resource_type)]]
    found = {columns.principals.texts[code] for code in np.unique(codes).tolist()}
    found |= {
        acl.record.principal for acl in index.added_of(None) if acl.record.resource_type == int(resource_type)
    }
    return frozenset(each for each in found if ":" in each and each != WILDCARD_PRINCIPAL)


def _has_acls(index: AclIndex, principal: str, resource_type: ResourceType) -> bool:
    """Whether any of its own is about the type; never for ``User:*`` and what can be nobody's."""
    if ":" not in principal or principal == WILDCARD_PRINCIPAL:
        return False
    types = index.rows.columns.resource_types[index.rows_of(principal)]
    return bool((types == int(resource_type)).any()) or any(
        acl.record.resource_type == int(resource_type) for acl in index.added_of(principal)
    )


def _keys(index: AclIndex, resource_type: ResourceType) -> list[Key]:
    """What ACLs are about, of names that can exist; sorted."""
    if resource_type == ResourceType.CLUSTER:
        return [(CLUSTER_NAME, True)]
    # Texts are sorted sooner than pairs are, and two sorted lists are put together at once.
    found: list[Key] = []
    for is_prefix in (False, True):
        names = sorted(index.rows.names(resource_type + PREFIXED * is_prefix))
        found += _patterns(names, NAME_SPACES[resource_type], is_prefix=is_prefix)
    return _with_names(each_once(found), index.resources.changed_names(resource_type), index, resource_type)


def each_once(keys: list[Key]) -> list[Key]:
    """In order; of lists that are sorted themselves that takes no longer than to go through them."""
    return [key for key, _ in groupby(sorted(keys))]


def _patterns(names: Sequence[str], space: NameSpace, *, is_prefix: bool) -> list[Key]:
    """As `NameSpace.pattern` has each; where nothing is odd, all are looked at together."""
    odd = {name for name in names if name in space.never or name in ("", WILDCARD)}
    usual = [name for name in names if name not in odd]
    is_short = space.max_length is None or max(map(len, usual), default=0) < space.max_length
    if not is_short or (space.characters is not None and "".join(usual).strip(space.characters)):
        odd, usual = set(names), []
    keys = (space.pattern(name, is_prefix=is_prefix) for name in odd)
    return [*((name, not is_prefix) for name in usual), *(key for key in keys if key is not None)]


def _with_names(
    keys: list[Key], names: Collection[str], index: AclIndex, resource_type: ResourceType
) -> list[Key]:
    """The same, and right about these names."""
    found = list(keys)
    for name in names:
        for is_prefix in (False, True):
            key = NAME_SPACES[resource_type].pattern(name, is_prefix=is_prefix)
            if key is None:
                continue
            at = bisect_left(found, key)
            is_there = at < len(found) and found[at] == key
            if any(index.resources.has(place) for place in _places_of(key, resource_type)):
                if not is_there:
                    found.insert(at, key)
            elif is_there:
                del found[at]
    return found


def _places_of(key: Key, resource_type: ResourceType) -> Iterator[PatternKey]:
    """Every place that is about these names."""
    text, is_name = key
    kind, space = int(resource_type), NAME_SPACES[resource_type]
    for name, prefixed in ((text, 0), (text, PREFIXED), (WILDCARD, 0)):
        if space.pattern(name, is_prefix=bool(prefixed)) == (text, is_name):
            yield kind + prefixed, name


def teams(principals: Sequence[str], under: str = "") -> list[Row]:
    """Principals, sorted, as rows are outlined: those that agree up to a separator behind the type are one.

    Where all of them are in one, it is opened.
    """
    keys = [(each, True) for each in principals]
    rows = outline(keys, under, part=_team)[1:]
    while len(rows) == 1 and rows[0].inside:
        rows = outline(keys, rows[0].key[0], part=_team)[1:]
    return rows


def outline(
    keys: Sequence[Key],
    under: str = "",
    containing: str = "",
    part: Callable[[str, int], str | None] | None = None,
) -> list[Row]:
    """The rows of the names with a prefix: all of them first, then by the next part of the name.

    Args:
        keys: what there is, sorted.
        under: the prefix.
        containing: only names with this text in them, in any case.
        part: of a name, up to the end of its next part behind a place; None if that is all of it.
    """
    part = part or _part
    first, end = range_of(keys, under)
    inside = keys
    if containing:
        wanted = containing.casefold()
        inside = [key for key in keys[first:end] if wanted in key[0].casefold()]
        first, end = 0, len(inside)
    rows = [Row((under, False), 0)]
    at = first
    while at < end:
        if inside[at] == (under, False):
            at += 1
            continue
        group = part(inside[at][0], len(under))
        if group is None:
            rows.append(Row(inside[at], 0))
            at += 1
            continue
        _, after = range_of(inside, group, at)
        count = after - at
        rows.append(Row(inside[at], 0) if count == 1 else Row((group, False), count))
        at = after
    return rows


def _part(name: str, begin: int) -> str | None:
    """The name up to the end of its next part; None if there is no further separator, or nothing behind."""
    found = [at for each in SEPARATORS if (at := name.find(each, begin)) >= 0]
    return name[: min(found) + 1] if found else None


def _team(name: str, begin: int) -> str | None:
    """The same of a principal, whose type is no part."""
    return _part(name, max(begin, name.find(":") + 1))


def range_of(keys: Sequence[Key], prefix: str, low: int = 0) -> tuple[int, int]:
    """Where the keys with a prefix are."""
    first = bisect_left(keys, (prefix, False), low)
    end = bisect_left(keys, True, first, key=lambda key: not key[0].startswith(prefix))
    return first, end
