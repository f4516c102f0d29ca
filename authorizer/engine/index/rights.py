"""Rights: one principal's ACLs for the names of one resource type, as the covers of each name.

There are three kinds:

    MaterializedRights  everything is built: a decision is one look-up, or one bisection
    ChangedRights       materialized rights with a few changed patterns
    RowRights           nothing is built: look-ups in the rows, for principals with few requests

Each returns for every name the linked list of what covers it (covers). MaterializedRights link the lists of
literal names in advance:

    literals  orders -> r, carts -> {host: w}      named   orders -> r | p, carts -> {host: w | p, *: p}
    prefixes  "" -> p                         ==>  ranges  "" -> p
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Protocol

import immutables
import msgspec

from authorizer.engine.index import limits
from authorizer.engine.index.covers import NO_COVER, Cover, single_cover
from authorizer.engine.index.masks import PatternLeaf
from authorizer.engine.index.pattern_keys import PREFIXED
from authorizer.engine.index.prefix_ranges import PrefixRanges
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from authorizer.engine.index.pattern_keys import PatternKey
    from authorizer.engine.index.row_index import RowIndex


class Rights(Protocol):
    """See the module. Immutable in effect."""

    @property
    def named(self) -> dict[str, Cover]:
        """The covers of some names."""

    @property
    def others(self) -> Cover | None:
        """The cover of all other names; None if they differ."""

    def cover(self, name: str) -> Cover:
        """Return the cover of a name that is not in ``named``."""


def cover_of(rights: Rights, name: str) -> Cover:
    """Return the cover of a name."""
    return rights.named.get(name, rights.others) or rights.cover(name)


# By literal name, or PREFIXED and prefix: what is said there now, or NOTHING.
_Changes = immutables.Map[str | tuple[int, str], Cover]
_UNCHANGED: Final[_Changes] = immutables.Map()
#: Never filled.
NO_NAMES: Final[dict[str, Cover]] = {}


def _key(prefixed: int, name: str) -> str | tuple[int, str]:
    return (prefixed, name) if prefixed else name


class MaterializedRights(msgspec.Struct, eq=False, gc=False):
    """See the module.

    Attributes:
        star: the literal ``*``, which follows all others; NO_COVER if it has no ACLs.
        own: the other literal names.
        named: the same; and the covers of other names, where those are cached.
        others: the cover of all other names; None if they differ.
        remembers: whether other names are cached.
    """

    star: Cover
    own: dict[str, Cover]
    ranges: PrefixRanges
    named: dict[str, Cover]
    others: Cover | None
    remembers: bool

    @classmethod
    def of(cls, places: Collection[Cover], *, remembers: bool = False) -> MaterializedRights:
        """Link single covers. ``remembers``: cache other names, as rights with many prefixes always do."""
        literals = {cover.name: cover for cover in places if not cover.prefixed}
        star = literals.pop(WILDCARD, NO_COVER)
        ranges = PrefixRanges.of([cover for cover in places if cover.prefixed], star)
        remembers = remembers or len(ranges.bounds) >= limits.REMEMBERED_BOUNDS
        if ranges.bounds or star is not NO_COVER:
            for name, cover in literals.items():
                cover.prepend_to(ranges.cover(name))
        named = dict(literals) if remembers else literals
        return cls(star, literals, ranges, named, None if ranges.bounds else star, remembers)

    def __len__(self) -> int:
        """Return the approximate number of patterns."""
        return len(self.own) + len(self.ranges.bounds) // 2

    def cover(self, name: str) -> Cover:
        ranges = self.ranges
        cover = ranges.covers[bisect_right(ranges.bounds, name)]
        if self.remembers and len(name) <= limits.REMEMBERED_LENGTH:
            named = self.named
            if len(named) - len(self.own) < limits.REMEMBERED_NAMES:
                named[name] = cover
        return cover

    def at(self, prefixed: int, name: str) -> Cover:
        """Return the cover of one pattern; NO_COVER if it has no ACLs."""
        if prefixed:
            cover = self.ranges.cover(name)
            return cover if cover.prefixed and cover.name == name else NO_COVER
        return self.star if name == WILDCARD else self.own.get(name, NO_COVER)

    def places(self) -> Iterator[Cover]:
        """Yield the covers of all patterns with ACLs."""
        if self.star is not NO_COVER:
            yield self.star
        yield from self.own.values()
        yield from self.ranges.stored()

    def with_place(self, prefixed: int, name: str, leaf: PatternLeaf | None) -> ListableRights:
        """Return rights with another leaf of one pattern; None: no ACLs."""
        return ChangedRights(self, _UNCHANGED, ()).with_place(prefixed, name, leaf)


class ChangedRights(msgspec.Struct, eq=False, gc=False):
    """Materialized rights with changed patterns.

    A change is linked when a request needs it. A literal name is then cached; below a changed prefix the list
    is linked for each request.
    """

    _made: MaterializedRights
    _changes: _Changes
    _lengths: tuple[int, ...]  # of the prefixes that changed; one may have had its day
    named: dict[str, Cover] = {}
    others: Cover | None = None

    def cover(self, name: str) -> Cover:
        made, changes, lengths = self._made, self._changes, self._lengths
        is_below = lengths and any((PREFIXED, name[:length]) in changes for length in lengths)
        if is_below or WILDCARD in changes:
            return self._from_each(name)
        if name in changes:
            self.named[name] = cover = changes[name].prepended_to(made.ranges.cover(name))
            return cover
        return made.named.get(name, made.others) or made.cover(name)

    def _from_each(self, name: str) -> Cover:
        prefixes = {cover.name for cover in self._made.ranges.cover(name) if cover.prefixed}
        prefixes.update(name[:length] for length in self._lengths)
        cover = self.at(0, WILDCARD)
        for prefix in sorted(prefixes, key=len):
            cover = self.at(PREFIXED, prefix).prepended_to(cover)
        return cover if name == WILDCARD else self.at(0, name).prepended_to(cover)

    def at(self, prefixed: int, name: str) -> Cover:
        """Return the cover of one pattern; NO_COVER if it has no ACLs."""
        changed = self._changes.get(_key(prefixed, name))
        return self._made.at(prefixed, name) if changed is None else changed

    def places(self) -> Iterator[Cover]:
        """Yield the covers of all patterns with ACLs."""
        changes = self._changes
        for cover in self._made.places():
            if _key(cover.prefixed, cover.name) not in changes:
                yield cover
        for cover in changes.values():
            if cover is not NO_COVER:
                yield cover

    def with_place(self, prefixed: int, name: str, leaf: PatternLeaf | None) -> ListableRights:
        """Return rights with another leaf of one pattern; None: no ACLs."""
        made, changes, lengths = self._made, self._changes, self._lengths
        key, here = _key(prefixed, name), made.at(prefixed, name)
        if leaf != (None if here is NO_COVER else here.leaf):
            changes = changes.set(key, NO_COVER if leaf is None else single_cover(prefixed, name, leaf, None))
            if prefixed and len(name) not in lengths:
                lengths = (*lengths, len(name))
        elif key in changes:  # the change is undone
            changes = changes.delete(key)
        if len(changes) > limits.CHANGES and len(changes) > limits.CHANGES + len(made) // limits.CHANGES_PART:
            places = ChangedRights(made, changes, lengths).places()
            return MaterializedRights.of(
                [each.prepended_to(NO_COVER) for each in places], remembers=made.remembers
            )
        return ChangedRights(made, changes, lengths) if changes else made


#: Rights whose patterns can be listed, and that can be changed.
ListableRights = MaterializedRights | ChangedRights
#: Rights without ACLs.
NO_RIGHTS_OF_TYPE: Final = MaterializedRights.of(())


class RowRights:
    """Rights of one principal and resource type, looked up in the rows for each name."""

    __slots__ = ("_changed", "_lengths", "_principal", "_rows", "_type")

    named = NO_NAMES
    others = None

    def __init__(
        self,
        rows: RowIndex,
        principal: int,
        changed: Mapping[PatternKey, PatternLeaf | None],
        resource_type: int,
        lengths: Sequence[int],
    ) -> None:
        """Create them.

        Args:
            rows: the rows.
            principal: its code.
            changed: the leaves that differ from the rows.
            resource_type: the type.
            lengths: of all prefixes of the type, longest first.
        """
        self._rows = rows
        self._principal = principal
        self._changed = changed
        self._type = resource_type
        self._lengths = lengths

    def cover(self, name: str) -> Cover:
        size, names = len(name), self._rows.name_codes
        cover = self._at(0, WILDCARD)
        for length in reversed(self._lengths):
            prefix = name[:length]
            # Few of these prefixes are names of ACLs.
            if length <= size and (prefix in names or self._changed):
                cover = self._at(PREFIXED, prefix).prepended_to(cover)
        return cover if name == WILDCARD else self._at(0, name).prepended_to(cover)

    def _at(self, prefixed: int, name: str) -> Cover:
        place = self._type + prefixed, name
        if place in self._changed:
            leaf, group = self._changed[place], None
        else:
            group = self._rows.group_at(self._principal, *place)
            leaf = None if group is None else self._rows.leaf_of(group)
        return NO_COVER if leaf is None else single_cover(prefixed, name, leaf, group)
