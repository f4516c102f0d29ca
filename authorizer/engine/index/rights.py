"""Rights: one principal's ACLs for the names of one resource type, as the covers of each name.

MaterializedRights link the lists of literal names in advance:

    literals  orders -> r, carts -> {host: w}      by_name   orders -> r | p, carts -> {host: w | p, *: p}
    prefixes  "" -> p                         ==>  ranges  "" -> p
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from authorizer.engine.index import limits
from authorizer.engine.index.covers import NO_COVER, Cover, single_cover
from authorizer.engine.index.masks import PatternLeaf
from authorizer.engine.index.pattern_keys import PREFIXED, PatternKey
from authorizer.engine.index.prefix_ranges import PrefixRanges
from authorizer.engine.index.row_index import RowIndex
from records.acl import WILDCARD
from snapshot.persistent_map import PersistentMap, with_item, without_item


class Rights(Protocol):
    """See the module. Immutable in effect."""

    @property
    def by_name(self) -> dict[str, Cover]:
        """The covers of some names, by name."""

    @property
    def default(self) -> Cover | None:
        """The cover of every other name; None if they differ."""

    def cover(self, name: str) -> Cover:
        """Return the cover of a name that is not in ``by_name``."""


def cover_of(rights: Rights, name: str) -> Cover:
    """Return the cover of a name."""
    return rights.by_name.get(name, rights.default) or rights.cover(name)


# By literal name, or by (PREFIXED, prefix): the new cover; NO_COVER if the pattern has no ACLs any more.
_Changes: TypeAlias = "PersistentMap[str | tuple[int, str], Cover]"
_UNCHANGED: Final[_Changes] = PersistentMap()
#: Never filled.
_NO_NAMES: Final[dict[str, Cover]] = {}


def _key(prefixed: int, name: str) -> str | tuple[int, str]:
    return (prefixed, name) if prefixed else name


class MaterializedRights(msgspec.Struct, eq=False, gc=False):
    """See the module.

    Attributes:
        star: the literal ``*``, which follows all other covers; NO_COVER if it has no ACLs.
        literals: the covers of the other literal names.
        by_name: ``literals``, and the covers of cached names.
        default: the cover of every other name; None if they differ.
        caches_names: whether the covers of other names are cached.
    """

    star: Cover
    literals: dict[str, Cover]
    ranges: PrefixRanges
    by_name: dict[str, Cover]
    default: Cover | None
    caches_names: bool

    @classmethod
    def of(cls, patterns: Collection[Cover], *, caches_names: bool = False) -> MaterializedRights:
        """Link single covers. ``caches_names``: cache other names; rights with many prefixes always do."""
        literals = {cover.name: cover for cover in patterns if not cover.prefixed}
        star = literals.pop(WILDCARD, NO_COVER)
        ranges = PrefixRanges.of([cover for cover in patterns if cover.prefixed], star)
        caches_names = caches_names or len(ranges.bounds) >= limits.CACHE_BOUNDS_MINIMUM
        if ranges.bounds or star is not NO_COVER:
            for name, cover in literals.items():
                cover.prepend_to(ranges.cover(name))
        by_name = dict(literals) if caches_names else literals
        return cls(star, literals, ranges, by_name, None if ranges.bounds else star, caches_names)

    def __len__(self) -> int:
        """Return the approximate number of patterns."""
        return len(self.literals) + len(self.ranges.bounds) // 2

    def cover(self, name: str) -> Cover:
        ranges = self.ranges
        cover = ranges.covers[bisect_right(ranges.bounds, name)]
        if self.caches_names and len(name) <= limits.CACHED_NAME_LENGTH:
            by_name = self.by_name
            if len(by_name) - len(self.literals) < limits.CACHED_NAMES_MAXIMUM:
                by_name[name] = cover
        return cover

    def pattern_cover(self, prefixed: int, name: str) -> Cover:
        if prefixed:
            cover = self.ranges.cover(name)
            return cover if cover.prefixed and cover.name == name else NO_COVER
        return self.star if name == WILDCARD else self.literals.get(name, NO_COVER)

    def covers(self) -> Iterator[Cover]:
        if self.star is not NO_COVER:
            yield self.star
        yield from self.literals.values()
        yield from self.ranges.stored()

    def with_leaf(self, prefixed: int, name: str, leaf: PatternLeaf | None) -> ListableRights:
        return ChangedRights(self, _UNCHANGED, ()).with_leaf(prefixed, name, leaf)


class ChangedRights(msgspec.Struct, eq=False, gc=False):
    """Materialized rights with changed patterns.

    A change is linked when a request needs it. A literal name is then cached; below a changed prefix the list
    is linked for each request.
    """

    _base: MaterializedRights
    _changes: _Changes
    _lengths: tuple[int, ...]  # of the changed prefixes; one may have no prefix any more
    by_name: dict[str, Cover] = {}
    default: Cover | None = None

    def cover(self, name: str) -> Cover:
        base, changes, lengths = self._base, self._changes, self._lengths
        is_below = lengths and any((PREFIXED, name[:length]) in changes for length in lengths)
        if is_below or WILDCARD in changes:
            return self._link_each(name)
        if name in changes:
            self.by_name[name] = cover = changes[name].prepended_to(base.ranges.cover(name))
            return cover
        return base.by_name.get(name, base.default) or base.cover(name)

    def _link_each(self, name: str) -> Cover:
        prefixes = {cover.name for cover in self._base.ranges.cover(name) if cover.prefixed}
        prefixes.update(name[:length] for length in self._lengths)
        cover = self.pattern_cover(0, WILDCARD)
        for prefix in sorted(prefixes, key=len):
            cover = self.pattern_cover(PREFIXED, prefix).prepended_to(cover)
        return cover if name == WILDCARD else self.pattern_cover(0, name).prepended_to(cover)

    def pattern_cover(self, prefixed: int, name: str) -> Cover:
        changed = self._changes.get(_key(prefixed, name))
        return self._base.pattern_cover(prefixed, name) if changed is None else changed

    def covers(self) -> Iterator[Cover]:
        changes = self._changes
        for cover in self._base.covers():
            if _key(cover.prefixed, cover.name) not in changes:
                yield cover
        for cover in changes.values():
            if cover is not NO_COVER:
                yield cover

    def with_leaf(self, prefixed: int, name: str, leaf: PatternLeaf | None) -> ListableRights:
        base, changes, lengths = self._base, self._changes, self._lengths
        key, here = _key(prefixed, name), base.pattern_cover(prefixed, name)
        if leaf != (None if here is NO_COVER else here.leaf):
            changes = with_item(
                changes, key, NO_COVER if leaf is None else single_cover(prefixed, name, leaf, None)
            )
            if prefixed and len(name) not in lengths:
                lengths = (*lengths, len(name))
        elif key in changes:  # the change is undone
            changes = without_item(changes, key)
        if (
            len(changes) > limits.MERGED_CHANGES
            and len(changes) > limits.MERGED_CHANGES + len(base) // limits.MERGED_CHANGES_DIVISOR
        ):
            patterns = ChangedRights(base, changes, lengths).covers()
            return MaterializedRights.of(
                [each.prepended_to(NO_COVER) for each in patterns], caches_names=base.caches_names
            )
        return ChangedRights(base, changes, lengths) if changes else base


#: Rights whose patterns can be listed, and that can be changed.
ListableRights = MaterializedRights | ChangedRights
#: Rights without ACLs.
NO_RIGHTS_OF_TYPE: Final = MaterializedRights.of(())


class RowRights:
    """Rights of one principal and resource type, looked up in the rows for each name."""

    __slots__ = ("_changed", "_lengths", "_principal", "_rows", "_type")

    by_name = _NO_NAMES
    default = None

    def __init__(
        self,
        rows: RowIndex,
        principal: int,
        changed: Mapping[PatternKey, PatternLeaf | None],
        resource_type: int,
        lengths: Sequence[int],
    ) -> None:
        """Create them; ``lengths`` of all prefixes of the type, longest first."""
        self._rows = rows
        self._principal = principal
        self._changed = changed
        self._type = resource_type
        self._lengths = lengths

    def cover(self, name: str) -> Cover:
        size, names = len(name), self._rows.name_codes
        cover = self._pattern_cover(0, WILDCARD)
        for length in reversed(self._lengths):
            prefix = name[:length]
            # Few of these prefixes are names of ACLs.
            if length <= size and (prefix in names or self._changed):
                cover = self._pattern_cover(PREFIXED, prefix).prepended_to(cover)
        return cover if name == WILDCARD else self._pattern_cover(0, name).prepended_to(cover)

    def _pattern_cover(self, prefixed: int, name: str) -> Cover:
        key = self._type + prefixed, name
        if key in self._changed:
            leaf, group = self._changed[key], None
        else:
            group = self._rows.group_at(self._principal, *key)
            leaf = None if group is None else self._rows.leaf_of(group)
        return NO_COVER if leaf is None else single_cover(prefixed, name, leaf, group)
