"""Rights: what the ACLs of one principal say about the names of one resource type.

A name is covered by the literal entry of that name, by every prefix that it starts with, and by the literal
``*``, whatever order names sort in (architecture.md 8.2). There are three kinds of Rights:

    MadeRights      all is put together, so that a decision is one look-up, or one bisection
    ChangedRights   a few places are not as made rights have them
    RowRights       nothing is put together: looked up in the rows, for a principal that hardly asks
                    (principal_index)

Of a literal name its own leaf is united with those of ``*`` and of its prefixes when rights are made:

    literals  orders -> r, carts -> {host: w}      named   orders -> r | p, carts -> {host: w | p, *: p}
    prefixes  "" -> p                         ==>  ranges  "" -> p
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import immutables
import msgspec

from authorizer.index import limits
from authorizer.index.masks import Leaf, OwnLeaf, leaf_mask, union_leaf
from authorizer.index.places import PREFIXED
from authorizer.index.prefix_ranges import PrefixRanges
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterable, Iterator


class Rights(Protocol):
    """See the module. Immutable in effect."""

    @property
    def named(self) -> dict[str, Leaf]:
        """What everything that covers a name says together, the literal ``*`` among it, of some names."""

    def leaf(self, name: str) -> Leaf:
        """The same of a name that is not there."""

    def literal(self, name: str) -> OwnLeaf | None:
        """The leaf of a literal name, ``*`` among them; None if there are no ACLs of it."""

    def prefixes_of(self, name: str) -> Iterable[tuple[str, OwnLeaf]]:
        """Every prefix of ``name`` (itself included) that has ACLs, with its leaf; longest first."""


def covering(rights: Rights, name: str) -> list[tuple[int, str, OwnLeaf]]:
    """What covers ``name``: PREFIXED or 0, the name or prefix of the ACLs, and what they say."""
    literal = rights.own.get if isinstance(rights, MadeRights) else rights.literal
    found = []
    leaf = literal(name)
    if leaf is not None:
        found.append((0, name, leaf))
    if name != WILDCARD:
        leaf = literal(WILDCARD)
        if leaf is not None:
            found.append((0, WILDCARD, leaf))
    for prefix, leaf in rights.prefixes_of(name):
        found.append((PREFIXED, prefix, leaf))
    return found


def leaf_of_each(rights: Rights, name: str) -> Leaf:
    """As `Rights.leaf`, from everything that covers the name."""
    return tuple([leaf for _, _, leaf in covering(rights, name)])


def said(rights: Rights, name: str, host: str) -> int:
    """The mask of everything that covers ``name`` for ``host``."""
    leaf = rights.named.get(name)
    if leaf is None:
        leaf = rights.leaf(name)
    return leaf if type(leaf) is int else leaf_mask(leaf, host)


# Leaves by name, None where there is nothing any more.
_Changes = immutables.Map[str, OwnLeaf | None]
_NONE: Final[_Changes] = immutables.Map()
# Nothing is put in.
_NO_NAMES: Final[dict[str, Leaf]] = {}


class MadeRights(msgspec.Struct, gc=False):
    """All put together; see the module."""

    own: dict[str, OwnLeaf]
    ranges: PrefixRanges
    named: dict[str, Leaf]  # of literal names; and of others, where those are remembered
    remembers: bool

    @classmethod
    def of(
        cls, literals: dict[str, OwnLeaf], prefixes: dict[str, OwnLeaf], *, remembers: bool = False
    ) -> MadeRights:
        """Neither may ever change again. ``remembers`` other names than literals, as many prefixes do."""
        star = literals.get(WILDCARD, 0)
        ranges = PrefixRanges.of(prefixes, star)
        remembers = remembers or len(ranges.bounds) >= limits.REMEMBERED_BOUNDS
        if not prefixes and star == 0 and not remembers:
            return cls(literals, ranges, literals, remembers)  # type: ignore[arg-type] # nothing is put in
        named = {name: union_leaf(leaf, ranges.leaf(name)) for name, leaf in literals.items()}
        return cls(literals, ranges, named, remembers)

    def __len__(self) -> int:
        return len(self.own) + len(self.ranges.values)

    def leaf(self, name: str) -> Leaf:
        ranges = self.ranges
        leaf = ranges.leaves[bisect_right(ranges.bounds, name)]
        if self.remembers and len(name) <= limits.REMEMBERED_LENGTH:
            named = self.named
            if len(named) - len(self.own) < limits.REMEMBERED_NAMES:
                named[name] = leaf
        return leaf

    def literal(self, name: str) -> OwnLeaf | None:
        return self.own.get(name)

    def prefixes_of(self, name: str) -> list[tuple[str, OwnLeaf]]:
        return self.ranges.of_name(name)

    def literals(self) -> ItemsView[str, OwnLeaf]:
        """Every literal name, ``*`` among them, and its leaf."""
        return self.own.items()

    def prefixes(self) -> ItemsView[str, OwnLeaf]:
        """Every prefix and its leaf."""
        return self.ranges.values.items()

    def with_literal(self, name: str, leaf: OwnLeaf | None) -> WholeRights:
        """With the leaf of this literal name set, or removed if None."""
        return ChangedRights(self, _NONE, _NONE, (), _NO_NAMES).with_literal(name, leaf)

    def with_prefix(self, prefix: str, leaf: OwnLeaf | None) -> WholeRights:
        """The same of a prefix."""
        return ChangedRights(self, _NONE, _NONE, (), _NO_NAMES).with_prefix(prefix, leaf)


class ChangedRights(msgspec.Struct, gc=False):
    """Made rights under what changed since: by literal name and by prefix a leaf, or None where it is gone.

    What changed is not put together with the rest: who asks about it, or about what is below a prefix that
    changed, looks at each part.
    """

    _made: MadeRights
    _literals: _Changes
    _prefixes: _Changes
    _lengths: tuple[int, ...]  # of the prefixes, longest first; one may have had its day
    named: dict[str, Leaf]  # none

    def leaf(self, name: str) -> Leaf:
        made, literals = self._made, self._literals
        if WILDCARD in literals or (self._lengths and self._is_below_change(name)):
            return leaf_of_each(self, name)
        if name in literals:
            leaf, others = literals[name], made.ranges.leaf(name)
            return others if leaf is None else union_leaf(leaf, others)
        known = made.named.get(name)
        return made.leaf(name) if known is None else known

    def _is_below_change(self, name: str) -> bool:
        prefixes = self._prefixes
        return any(name[:length] in prefixes for length in self._lengths)

    def literal(self, name: str) -> OwnLeaf | None:
        literals = self._literals
        return literals[name] if name in literals else self._made.literal(name)

    def prefixes_of(self, name: str) -> Iterator[tuple[str, OwnLeaf]]:
        found: dict[str, OwnLeaf | None] = dict(self._made.prefixes_of(name))
        for prefix in map(name.__getitem__, map(slice, self._lengths)):
            if prefix in self._prefixes:
                found[prefix] = self._prefixes[prefix]
        for prefix, leaf in sorted(found.items(), key=lambda each: len(each[0]), reverse=True):
            if leaf is not None:
                yield prefix, leaf

    def literals(self) -> Iterator[tuple[str, OwnLeaf]]:
        """Every literal name, ``*`` among them, and its leaf."""
        return _changed(self._made.literals(), self._literals)

    def prefixes(self) -> Iterator[tuple[str, OwnLeaf]]:
        """Every prefix and its leaf."""
        return _changed(self._made.prefixes(), self._prefixes)

    def with_literal(self, name: str, leaf: OwnLeaf | None) -> WholeRights:
        """With the leaf of this literal name set, or removed if None."""
        made = self._made
        literals = _with(self._literals, name, leaf, made.own)
        return _changed_rights(made, literals, self._prefixes, self._lengths)

    def with_prefix(self, prefix: str, leaf: OwnLeaf | None) -> WholeRights:
        """The same of a prefix."""
        made, lengths = self._made, self._lengths
        if len(prefix) not in lengths:
            lengths = tuple(sorted((*lengths, len(prefix)), reverse=True))
        prefixes = _with(self._prefixes, prefix, leaf, made.ranges.values)
        return _changed_rights(made, self._literals, prefixes, lengths)


def _changed_rights(
    made: MadeRights, literals: _Changes, prefixes: _Changes, lengths: tuple[int, ...]
) -> WholeRights:
    """Put together anew if very much changed."""
    changes = len(literals) + len(prefixes)
    if changes > limits.CHANGES and changes > limits.CHANGES + len(made) // limits.CHANGES_PART:
        return MadeRights.of(
            dict(_changed(made.literals(), literals)),
            dict(_changed(made.prefixes(), prefixes)),
            remembers=made.remembers,
        )
    return ChangedRights(made, literals, prefixes, lengths, _NO_NAMES) if changes else made


def _with(changes: _Changes, name: str, leaf: OwnLeaf | None, made: Mapping[str, OwnLeaf]) -> _Changes:
    if leaf != made.get(name):
        return changes.set(name, leaf)
    return changes.delete(name) if name in changes else changes  # it is as it was


def _changed(made: ItemsView[str, OwnLeaf], changes: _Changes) -> Iterator[tuple[str, OwnLeaf]]:
    for item in made:
        if item[0] not in changes:
            yield item
    for name, leaf in changes.items():
        if leaf is not None:
            yield name, leaf


#: Rights that can be listed, and followed by changes.
WholeRights = MadeRights | ChangedRights
#: What there is before the first ACL.
NO_RIGHTS_OF_TYPE: Final = MadeRights.of({}, {})
