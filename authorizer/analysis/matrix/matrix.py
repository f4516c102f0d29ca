"""Matrix: the permissions of principals on the names of one resource type, cell by cell, exact.

A row is a name, all names with a prefix, or the names of a team. A column is a principal, or all principals
without ACLs. Rows are an outline: names that agree up to a separator are one row, which can be opened. A
cell has the operations that are allowed on all names of its row from every host, and those allowed on some,
or from some hosts. A column is computed on demand, from its principal's ACLs and those for ``User:*``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import or_
from typing import Final, NamedTuple

from authorizer.analysis.permissions.access_queries import answers_for
from authorizer.analysis.permissions.effective_permissions import Answers, EffectivePermissions
from authorizer.analysis.permissions.related_acls import acls_by_principal, changes_between
from authorizer.analysis.request_space.host_answers import (
    NO_OPERATIONS,
    OPERATION_BITS,
    Answer,
    masks_by_host,
    subtract,
)
from authorizer.analysis.request_space.name_map import NameMap, PrefixLookup
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key, NameSpace
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.masks import EVERYTHING
from authorizer.engine.index.pattern_keys import PREFIXED, PatternKey
from authorizer.engine.index.resource_index import Change
from records.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from records.principal import WILDCARD_PRINCIPAL

#: Characters that end a part of a name.
SEPARATORS: Final = ".-_:/"
# Limits of the caches of a column and of a matrix.
_CELLS_MAXIMUM: Final = 2_000
_OUTLINES_MAXIMUM: Final = 8
#: The operations that a DENY of an operation names; operations without a name have no bits.
_DENIED_BITS: Final[Mapping[int, int]] = {
    **{int(each): bit for each, bit in OPERATION_BITS.items()},
    int(AclOperation.ALL): EVERYTHING,
}


class Cell(NamedTuple):
    """Masks of operations, as in `host_answers`.

    Attributes:
        always: allowed on every name of the row, from every host.
        sometimes: allowed on some name, from some host; these too.
        by_host: those of ``sometimes`` for which the answer on one name depends on the host.
    """

    always: int
    sometimes: int
    by_host: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class NameTeam:
    """The names and prefixes of ACLs that are of one team (`teams`).

    Attributes:
        name: of the team.
        keys: the names and prefixes, sorted, without those that another one of them covers.
    """

    name: str
    keys: Sequence[Key]


class Row(NamedTuple):
    """A name, all names with a prefix, or all names of a team.

    Attributes:
        key: the name or prefix; of a team unused.
        inside: number of names and prefixes below it; 0 if it cannot be opened.
        team: the team.
        outside: a name outside the row's team that a prefix of the row covers; None: none is known.
    """

    key: Key
    inside: int
    team: NameTeam | None = None
    outside: str | None = None

    @property
    def keys(self) -> Sequence[Key]:
        """The names and prefixes that together are the row."""
        return [self.key] if self.team is None else self.team.keys


class Column:
    """The answers to one principal, summarized by row."""

    __slots__ = ("_cells", "_values_of_key", "answers")

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self._values_of_key = PrefixLookup(answers)
        self._cells: dict[Key | NameTeam, Cell] = {}

    def cell(self, names: Key | NameTeam) -> Cell:
        """Return the cell of a row; cached, as a row may have many patterns."""
        cell = self._cells.get(names)
        if cell is None:
            if len(self._cells) >= _CELLS_MAXIMUM:
                self._cells.clear()
            keys = names.keys if isinstance(names, NameTeam) else (names,)
            values = {value for key in keys for value in self._values_of_key.values(key)}
            cell = self._cells[names] = combine_cells(map(_cell_of, values))
        return cell

    def cell_of(self, row: Row) -> Cell:
        return self.cell(row.team or row.key)


def combine_cells(cells: Iterable[Cell]) -> Cell:
    """Return the combination of cells, of which there is at least one."""
    always, sometimes, by_host = EVERYTHING, 0, 0
    for cell in cells:
        always &= cell.always
        sometimes |= cell.sometimes
        by_host |= cell.by_host
    return Cell(always, sometimes, by_host)


def _cell_of(answer: Answer) -> Cell:
    if isinstance(answer, int):
        return Cell(answer, answer)
    always, sometimes, _ = combine_cells(Cell(mask, mask) for _, (mask,) in masks_by_host(answer))
    return Cell(always, sometimes, sometimes & ~always)


@dataclass(frozen=True, slots=True)
class Matrix:
    """See the module; of one state.

    Attributes:
        keys: every name and prefix of an ACL, sorted as in `name_map`.
        principals: the principals with ACLs for the type, and super users.
        cached_columns: the computed columns; None: that of all principals without ACLs.
    """

    index: AclIndex
    settings: AuthorizerSettings
    resource_type: ResourceType
    keys: list[Key]
    principals: frozenset[str]
    cached_columns: dict[str | None, Column] = field(default_factory=dict)
    _outlines: dict[tuple[object, ...], list[Row]] = field(default_factory=dict)
    _denials: dict[str, dict[Key, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, index: AclIndex, settings: AuthorizerSettings, resource_type: ResourceType) -> Matrix:
        settings = settings.with_version_of(index.image)
        principals = _principals(index, resource_type) | settings.super_users
        return cls(index, settings, resource_type, _keys(index, resource_type), principals)

    def at(
        self, index: AclIndex, settings: AuthorizerSettings, changes: Iterable[Change] | None = None
    ) -> Matrix:
        """Return the matrix of another state, which shares the unchanged columns, keys and outlines.

        Each part has its own condition: settings and ``User:*`` for columns, then principals, names, keys.
        ``changes`` are those between the two states, in either direction; None: compare the states.
        """
        if changes is None:
            changes = changes_between(self.index, index)
        if changes is None:
            return Matrix.of(index, settings, self.resource_type)
        records = [acl.record for change in changes for acl in change if acl is not None]
        changed = {each.principal for each in records}
        settings = settings.with_version_of(index.image)
        cached_columns: dict[str | None, Column] = {}
        if settings == self.settings and WILDCARD_PRINCIPAL not in changed and not settings.allow_everyone:
            cached_columns = {
                each: column for each, column in self.cached_columns.items() if each not in changed
            }
        has_acls = {each for each in changed if _has_acls(index, each, self.resource_type)}
        principals = (self.principals - changed) | has_acls | settings.super_users
        names = {each.resource_name for each in records if each.resource_type == int(self.resource_type)}
        keys = self.keys
        if names and self.resource_type != ResourceType.CLUSTER:
            keys = _with_names(keys, names, index, self.resource_type)
        outlines = self._outlines if keys is self.keys else {}
        return Matrix(index, settings, self.resource_type, keys, principals, cached_columns, outlines)

    def rows(self, key: tuple[object, ...], rows_of: Callable[[Sequence[Key]], list[Row]]) -> list[Row]:
        """Return the rows of the keys, by a function that ``key`` identifies; the last few are cached."""
        rows = self._outlines.get(key)
        if rows is None:
            if len(self._outlines) >= _OUTLINES_MAXIMUM:
                self._outlines.clear()
            rows = self._outlines[key] = rows_of(self.keys)
        return rows

    def columns(self, principals: Sequence[str | None]) -> list[Column]:
        """Return the columns of principals, ``Type:name``; None: of all principals without ACLs."""
        missing = [each for each in principals if each not in self.cached_columns]
        if missing:
            named = [each for each in missing if each is not None]
            permissions = self._permissions(named)
            for each in missing:
                answers = (
                    permissions.wildcard[self.resource_type]
                    if each is None
                    else answers_for(permissions, each, self.resource_type)
                )
                self.cached_columns[each] = Column(answers)
        return [self.cached_columns[each] for each in principals]

    def changes_since(self, before: Matrix, principals: Sequence[str | None]) -> list[tuple[Column, Column]]:
        """Return for each principal a column of new permissions, and a column of lost ones."""
        pairs = zip(before.columns(principals), self.columns(principals), strict=True)
        space = NAME_SPACES[self.resource_type]
        return [(newly_allowed(new, old, space), newly_allowed(old, new, space)) for old, new in pairs]

    def count_acls(self, principals: Collection[str]) -> int:
        """Return the number of ACLs that decide about principals: each one's, and those for ``User:*``."""
        usual, *counts = (
            len(self.index.rows_of(each)) + sum(1 for _ in self.index.added_of(each))
            for each in (WILDCARD_PRINCIPAL, *principals)
        )
        return usual * len(counts) + sum(counts)

    def denied(self, principal: str | None, key: Key) -> int:
        """Return the operations that a DENY ACL names for a principal on some name of a row, from some host.

        The ACLs are the principal's and those for ``User:*``, whether or not an ALLOW grants the operation.
        None: a principal without ACLs. No ACL denies anything to a super user.
        """
        return reduce(or_, (_mask_of_row(each, key) for each in self._denials_for(principal)), 0)

    def denied_keys(self, principal: str | None) -> set[Key]:
        """Return the names and prefixes of the ACLs that `denied` evaluates."""
        return {key for denials in self._denials_for(principal) for key in denials}

    def _denials_for(self, principal: str | None) -> list[dict[Key, int]]:
        if principal in self.settings.super_users:
            return []
        return [self._denials_of(each) for each in {WILDCARD_PRINCIPAL, principal or WILDCARD_PRINCIPAL}]

    def _denials_of(self, acl_principal: str) -> dict[Key, int]:
        """The denied operations by name or prefix, in order; cached."""
        found = self._denials.get(acl_principal)
        if found is None:
            found = self._denials[acl_principal] = {}
            for record in self._denying_records(acl_principal):
                key = NAME_SPACES[self.resource_type].pattern(
                    record.resource_name, is_prefix=record.pattern_type == PatternType.PREFIXED
                )
                if key is not None:
                    found[key] = found.get(key, 0) | _DENIED_BITS.get(record.operation, 0)
            self._denials[acl_principal] = found = dict(sorted(found.items()))
        return found

    def _denying_records(self, acl_principal: str) -> Iterator[AccessControlEntryRecord]:
        columns, rows = self.index.rows.columns, self.index.rows_of(acl_principal)
        is_denial = columns.permission_types[rows] == int(AclPermissionType.DENY)
        is_denial &= columns.resource_types[rows] == int(self.resource_type)
        yield from columns.records(rows[is_denial])
        for acl in self.index.added_of(acl_principal):
            record = acl.record
            if (record.permission_type, record.resource_type) == (AclPermissionType.DENY, self.resource_type):
                yield record

    def _permissions(self, principals: Collection[str]) -> EffectivePermissions:
        if self.settings.allow_everyone:
            # A name is open to every principal unless an ACL of any principal covers it.
            return EffectivePermissions.of(self.index.image.merged().columns, self.settings, principals)
        return EffectivePermissions.of(
            acls_by_principal(self.index, {*principals, WILDCARD_PRINCIPAL}), self.settings
        )


def _mask_of_row(masks: dict[Key, int], key: Key) -> int:
    """The union of the masks of all patterns that have a name in common with a row."""
    if not masks:
        return 0
    text, is_name = key
    patterns = [(text[:length], False) for length in range(len(text) + 1)]
    if is_name:
        patterns.append(key)
    else:
        keys = list(masks)
        first, end = key_range(keys, text)
        patterns += keys[first:end]
    return reduce(or_, (masks.get(each, 0) for each in patterns))


_NOTHING_ALLOWED: Final = Column(NameMap(NO_OPERATIONS))


def newly_allowed(now: Column, then: Column, space: NameSpace) -> Column:
    """Return what the first column allows and the second does not."""
    if now.answers == then.answers:
        return _NOTHING_ALLOWED
    return Column(now.answers.combined(then.answers, subtract, space))


def _principals(index: AclIndex, resource_type: ResourceType) -> frozenset[str]:
    """The principals with ACLs for the type, without ``User:*`` and texts that are no principal."""
    columns, rows = index.rows.columns, index.rows_of(None)
    found = columns.principals.texts_of(rows[columns.resource_types[rows] == int(resource_type)])
    found |= {
        acl.record.principal for acl in index.added_of(None) if acl.record.resource_type == int(resource_type)
    }
    return frozenset(each for each in found if ":" in each and each != WILDCARD_PRINCIPAL)


def _has_acls(index: AclIndex, principal: str, resource_type: ResourceType) -> bool:
    """Whether any of its own is about the type; reserved for ``User:*`` and what can be nobody's."""
    if ":" not in principal or principal == WILDCARD_PRINCIPAL:
        return False
    types = index.rows.columns.resource_types[index.rows_of(principal)]
    return bool((types == int(resource_type)).any()) or any(
        acl.record.resource_type == int(resource_type) for acl in index.added_of(principal)
    )


def _keys(index: AclIndex, resource_type: ResourceType) -> list[Key]:
    """The names and prefixes of ACLs, of names that can exist; sorted."""
    if resource_type == ResourceType.CLUSTER:
        return [(CLUSTER_NAME, True)]
    # Texts sort faster than pairs, and sorting two sorted lists is a merge.
    found: list[Key] = []
    for is_prefix in (False, True):
        names = sorted(index.rows.names(resource_type + PREFIXED * is_prefix))
        found += _patterns(names, NAME_SPACES[resource_type], is_prefix=is_prefix)
    return _with_names(
        sorted_distinct(found), index.resources.changed_names(resource_type), index, resource_type
    )


def sorted_distinct(keys: list[Key]) -> list[Key]:
    """Return the distinct keys, sorted; in linear time if the list consists of sorted lists."""
    return [key for key, _ in groupby(sorted(keys))]


def _patterns(names: Sequence[str], space: NameSpace, *, is_prefix: bool) -> list[Key]:
    """The `NameSpace.pattern` of each name. Usual names are checked together, which is faster."""
    unusual = {name for name in names if name in space.reserved or name in ("", WILDCARD)}
    usual = [name for name in names if name not in unusual]
    is_short = space.max_length is None or max(map(len, usual), default=0) < space.max_length
    if not is_short or (space.characters is not None and "".join(usual).strip(space.characters)):
        unusual, usual = set(names), []
    keys = (space.pattern(name, is_prefix=is_prefix) for name in unusual)
    return [*((name, not is_prefix) for name in usual), *(key for key in keys if key is not None)]


def _with_names(
    keys: list[Key], names: Collection[str], index: AclIndex, resource_type: ResourceType
) -> list[Key]:
    """The keys, updated for these names by the ACLs of the index."""
    found = list(keys)
    for name in names:
        for is_prefix in (False, True):
            key = NAME_SPACES[resource_type].pattern(name, is_prefix=is_prefix)
            if key is None:
                continue
            position = bisect_left(found, key)
            is_known = position < len(found) and found[position] == key
            if any(index.resources.has(pattern) for pattern in _pattern_keys_of(key, resource_type)):
                if not is_known:
                    found.insert(position, key)
            elif is_known:
                del found[position]
    return found


def _pattern_keys_of(key: Key, resource_type: ResourceType) -> Iterator[PatternKey]:
    """The pattern keys of all ACL patterns that mean these names."""
    text, is_name = key
    kind, space = int(resource_type), NAME_SPACES[resource_type]
    for name, prefixed in ((text, 0), (text, PREFIXED), (WILDCARD, 0)):
        if space.pattern(name, is_prefix=bool(prefixed)) == (text, is_name):
            yield kind + prefixed, name


def group_principals(principals: Sequence[str], under: str = "", *, opens_single: bool = True) -> list[Row]:
    """Return the outline of sorted principals: those that agree up to a separator after the type are one row.

    With ``opens_single``, a single row with all of them is opened.
    """
    keys = [(each, True) for each in principals]
    rows = outline(keys, under, part=_principal_part)[1:]
    while opens_single and len(rows) == 1 and rows[0].inside:
        rows = outline(keys, rows[0].key[0], part=_principal_part)[1:]
    return rows


def outline(
    keys: Sequence[Key],
    under: str = "",
    containing: str = "",
    part: Callable[[str, int], str | None] | None = None,
) -> list[Row]:
    """Return the rows of the names with a prefix: first one for all of them, then one for each next part.

    ``keys`` are sorted; only those with ``containing``, ignoring case, count. ``part`` returns a name up to
    the end of the part after a position; None for the last part.
    """
    part = part or _name_part
    first, end = key_range(keys, under)
    inside = keys
    if containing:
        inside = keys_with(keys[first:end], containing)
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
        _, after = key_range(inside, group, at)
        count = after - at
        rows.append(Row(inside[at], 0) if count == 1 else Row((group, False), count))
        at = after
    return rows


def keys_with(keys: Sequence[Key], text: str) -> Sequence[Key]:
    """Return the keys that contain a text, ignoring case."""
    requested = text.casefold()
    return [key for key in keys if requested in key[0].casefold()] if text else keys


def _name_part(name: str, begin: int) -> str | None:
    """The name up to the next separator, included; None if there is none."""
    found = [at for each in SEPARATORS if (at := name.find(each, begin)) >= 0]
    return name[: min(found) + 1] if found else None


def _principal_part(name: str, begin: int) -> str | None:
    """`_name_part` of a principal, whose type is not a part."""
    return _name_part(name, max(begin, name.find(":") + 1))


def key_range(keys: Sequence[Key], prefix: str, low: int = 0) -> tuple[int, int]:
    """Return the range of the keys with a prefix."""
    first = bisect_left(keys, (prefix, False), low)
    end = bisect_left(keys, True, first, key=lambda key: not key[0].startswith(prefix))
    return first, end
