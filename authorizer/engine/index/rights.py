"""Rights: what the ACLs of one principal say about the names of one resource type.

There are three kinds:

    MadeRights      all is put together, so that a decision is one look-up, or one bisection
    ChangedRights   a few places are not as made rights have them
    RowRights       nothing is put together: looked up in the rows, for a principal that hardly asks
                    (principal_index)

Each has, for every name, the chain of what covers it (covers). Those of literal names are put together when
rights are made:

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
        """What covers some names."""

    @property
    def others(self) -> Cover | None:
        """What covers all others; None if that is not the same for all."""

    def cover(self, name: str) -> Cover:
        """What covers a name that is not there."""


def cover_of(rights: Rights, name: str) -> Cover:
    """What covers a name."""
    return rights.named.get(name, rights.others) or rights.cover(name)


# By literal name, or PREFIXED and prefix: what is said there now, or NOTHING.
_Changes = immutables.Map[str | tuple[int, str], Cover]
_UNCHANGED: Final[_Changes] = immutables.Map()
#: Nothing is put in.
NO_NAMES: Final[dict[str, Cover]] = {}


def _key(prefixed: int, name: str) -> str | tuple[int, str]:
    return (prefixed, name) if prefixed else name


class MaterializedRights(msgspec.Struct, eq=False, gc=False):
    """All put together; see the module.

    Attributes:
        star: of the literal ``*``, which is behind all the others; NOTHING if there are no ACLs of it.
        own: of the other literal names.
        named: the same; and what covers others, where that is remembered.
    """

    star: Cover
    own: dict[str, Cover]
    ranges: PrefixRanges
    named: dict[str, Cover]
    others: Cover | None
    remembers: bool

    @classmethod
    def of(cls, places: Collection[Cover], *, remembers: bool = False) -> MaterializedRights:
        """All stand alone yet, and are put together here. ``remembers`` other names, as many prefixes do."""
        literals = {cover.name: cover for cover in places if not cover.prefixed}
        star = literals.pop(WILDCARD, NO_COVER)
        ranges = PrefixRanges.of([cover for cover in places if cover.prefixed], star)
        remembers = remembers or len(ranges.bounds) >= limits.REMEMBERED_BOUNDS
        if ranges.bounds or star is not NO_COVER:
            for name, cover in literals.items():
                cover.put_before(ranges.cover(name))
        named = dict(literals) if remembers else literals
        return cls(star, literals, ranges, named, None if ranges.bounds else star, remembers)

    def __len__(self) -> int:
        """About how many places there are."""
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
        """One place; NOTHING if there are no ACLs."""
        if prefixed:
            cover = self.ranges.cover(name)
            return cover if cover.prefixed and cover.name == name else NO_COVER
        return self.star if name == WILDCARD else self.own.get(name, NO_COVER)

    def places(self) -> Iterator[Cover]:
        """Where there are ACLs."""
        if self.star is not NO_COVER:
            yield self.star
        yield from self.own.values()
        yield from self.ranges.stored()

    def with_place(self, prefixed: int, name: str, leaf: PatternLeaf | None) -> ListableRights:
        """With what is said at this place; None if nothing is."""
        return ChangedRights(self, _UNCHANGED, ()).with_place(prefixed, name, leaf)


class ChangedRights(msgspec.Struct, eq=False, gc=False):
    """Made rights under what changed since.

    What changed is not put together with the rest before it is asked about. A literal name is then
    remembered; what is below a prefix that changed is looked at part by part.
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
            self.named[name] = cover = changes[name].before(made.ranges.cover(name))
            return cover
        return made.named.get(name, made.others) or made.cover(name)

    def _from_each(self, name: str) -> Cover:
        prefixes = {cover.name for cover in self._made.ranges.cover(name) if cover.prefixed}
        prefixes.update(name[:length] for length in self._lengths)
        cover = self.at(0, WILDCARD)
        for prefix in sorted(prefixes, key=len):
            cover = self.at(PREFIXED, prefix).before(cover)
        return cover if name == WILDCARD else self.at(0, name).before(cover)

    def at(self, prefixed: int, name: str) -> Cover:
        """One place; NOTHING if there are no ACLs."""
        changed = self._changes.get(_key(prefixed, name))
        return self._made.at(prefixed, name) if changed is None else changed

    def places(self) -> Iterator[Cover]:
        """Where there are ACLs."""
        changes = self._changes
        for cover in self._made.places():
            if _key(cover.prefixed, cover.name) not in changes:
                yield cover
        for cover in changes.values():
            if cover is not NO_COVER:
                yield cover

    def with_place(self, prefixed: int, name: str, leaf: PatternLeaf | None) -> ListableRights:
        """With what is said at this place; None if nothing is."""
        made, changes, lengths = self._made, self._changes, self._lengths
        key, here = _key(prefixed, name), made.at(prefixed, name)
        if leaf != (None if here is NO_COVER else here.leaf):
            changes = changes.set(key, NO_COVER if leaf is None else single_cover(prefixed, name, leaf, None))
            if prefixed and len(name) not in lengths:
                lengths = (*lengths, len(name))
        elif key in changes:  # it is as it was
            changes = changes.delete(key)
        if len(changes) > limits.CHANGES and len(changes) > limits.CHANGES + len(made) // limits.CHANGES_PART:
            places = ChangedRights(made, changes, lengths).places()
            return MaterializedRights.of([each.before(NO_COVER) for each in places], remembers=made.remembers)
        return ChangedRights(made, changes, lengths) if changes else made


#: Rights that can be listed, and followed by changes.
ListableRights = MaterializedRights | ChangedRights
#: What there is before the first ACL.
NO_RIGHTS_OF_TYPE: Final = MaterializedRights.of(())


class RowRights:
    """Of one principal and resource type."""

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
        """``principal`` is its code, ``changed`` what is not as the rows have it.

        ``lengths`` are those that prefixes of the type have, longest first.
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
            # Hardly any is a name that there is.
            if length <= size and (prefix in names or self._changed):
                cover = self._at(PREFIXED, prefix).before(cover)
        return cover if name == WILDCARD else self._at(0, name).before(cover)

    def _at(self, prefixed: int, name: str) -> Cover:
        place = self._type + prefixed, name
        if place in self._changed:
            leaf, group = self._changed[place], None
        else:
            group = self._rows.group_at(self._principal, *place)
            leaf = None if group is None else self._rows.leaf_of(group)
        return NO_COVER if leaf is None else single_cover(prefixed, name, leaf, group)
