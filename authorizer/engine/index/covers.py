"""Covers: what covers a name, place by place; a decision reads what all of it says, its reason each.

A name is covered by the literal entry of that name, by every prefix that it starts with, and by the literal
``*``, whatever order names sort in (architecture.md 8.2). What one principal has at these places is a chain:
the literal name, the prefixes, the longest first, and ``*``. What the ones behind say is folded in:

    literal orders: r      prefix ord: w      literal *: d       NOTHING
    said: r | w | d        said: w | d        said: d            said: 0

Names below one prefix share its chain. Immutable, once it is put together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.engine.index.masks import Leaf, PatternLeaf, union_leaf

if TYPE_CHECKING:
    from collections.abc import Iterator


class Cover(msgspec.Struct, gc=False, eq=False):
    """What a principal's ACLs at one place say, in front of what else covers the same names.

    Attributes:
        prefixed: PREFIXED (places) if ``name`` is a prefix, else 0.
        name: that the ACLs have.
        leaf: what they say.
        group: of the rows that they are (row_index); None where something changed since.
        said: what they say and everything behind them.
        behind: the next of the chain; NOTHING at its end.
    """

    prefixed: int
    name: str
    leaf: PatternLeaf
    group: int | None
    said: Leaf
    behind: Cover

    def __iter__(self) -> Iterator[Cover]:
        """The chain, from here on."""
        cover = self
        while cover is not NO_COVER:
            yield cover
            cover = cover.behind

    def put_before(self, behind: Cover) -> None:
        """Put this place, that stands alone, in front of a chain."""
        if behind is not NO_COVER:
            self.said = union_leaf(self.leaf, behind.said)
            self.behind = behind

    def before(self, behind: Cover) -> Cover:
        """The chain with this place in front, wherever it stands itself; as it is, if this is NOTHING."""
        if self is NO_COVER:
            return behind
        said = union_leaf(self.leaf, behind.said)
        return Cover(self.prefixed, self.name, self.leaf, self.group, said, behind)


#: No place: where there are no ACLs, and behind every chain.
NO_COVER: Final = Cover(0, "", 0, None, 0, None)  # type: ignore[arg-type] # nobody looks behind it


def single_cover(prefixed: int, name: str, leaf: PatternLeaf, group: int | None) -> Cover:
    """A chain of one place."""
    return Cover(prefixed, name, leaf, group, leaf, NO_COVER)
