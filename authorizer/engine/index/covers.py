"""Covers: the ACLs of one principal that cover a name, pattern by pattern, as a linked list.

A name is covered by the literal entry of that name, by every prefix of it, and by the literal ``*``. The list
has the literal name first, then the prefixes, the longest first, and ``*`` last. Each element also has the
union of its leaf and all that follow:

    literal orders: r      prefix ord: w      literal *: d       NO_COVER
    combined: r | w | d    combined: w | d    combined: d        combined: 0

Names below one prefix share its list. Immutable once it is linked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from authorizer.engine.index.masks import Leaf, PatternLeaf, union_leaf


class Cover(msgspec.Struct, gc=False, eq=False):
    """A principal's ACLs for one pattern, linked to the next broader pattern that covers the same names.

    Attributes:
        prefixed: PREFIXED (pattern_keys) if ``name`` is a prefix, else 0.
        name: the name or prefix of the ACLs.
        leaf: what these ACLs allow and deny.
        group: the group of their rows (row_index); None if an ACL of the pattern changed since.
        combined: the union of ``leaf`` and all that follow.
        next: the next element of the list; NO_COVER at its end.
    """

    prefixed: int
    name: str
    leaf: PatternLeaf
    group: int | None
    combined: Leaf
    next: Cover

    def __iter__(self) -> Iterator[Cover]:
        cover = self
        while cover is not NO_COVER:
            yield cover
            cover = cover.next

    def prepend_to(self, next: Cover) -> None:
        """Link this single element in front of a list."""
        if next is not NO_COVER:
            self.combined = union_leaf(self.leaf, next.combined)
            self.next = next

    def prepended_to(self, next: Cover) -> Cover:
        """Return the list with a copy of this element in front; the list itself if this is NO_COVER."""
        if self is NO_COVER:
            return next
        combined = union_leaf(self.leaf, next.combined)
        return Cover(self.prefixed, self.name, self.leaf, self.group, combined, next)


#: The empty list: no ACLs.
NO_COVER: Final = Cover(0, "", 0, None, 0, None)  # type: ignore[arg-type] # never read


def single_cover(prefixed: int, name: str, leaf: PatternLeaf, group: int | None) -> Cover:
    """Return a list of one pattern."""
    return Cover(prefixed, name, leaf, group, leaf, NO_COVER)
