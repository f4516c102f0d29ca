"""PrefixRanges: what one principal's prefixed ACLs say about any name, found by one bisection.

A prefix P covers the names from P up to, not including, P's *successor*: P with its last character one higher
("ab" covers ["ab", "ac")). Those bounds cut all names, in code point order, into ranges within which every
name has the same stored prefixes. For the prefixes "a" and "ab":

    bounds         ["a",  "ab",  "ac",  "b" ]   where each range begins
    owners   [None, "a",  "ab",  "a",   None]   the longest stored prefix there, with a link to the next
                                                longest; first: before all bounds
    leaves   [0,    leaf, leaf,  leaf,  0   ]   the union of the owner's leaf and all shorter prefixes'

What is said of every name is in every leaf. Immutable.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import msgspec

from authorizer.index.masks import Leaf, OwnLeaf, union_leaf

_LAST_CHARACTER: Final = "\U0010ffff"


class Owner(msgspec.Struct, gc=False):
    """A stored prefix, its own leaf, and the next shorter one that it starts with."""

    prefix: str
    leaf: OwnLeaf
    around: Owner | None


class PrefixRanges(msgspec.Struct, gc=False):
    """See the module.

    Attributes:
        values: the leaf of each prefix, without those of shorter prefixes.
        bounds: where each range begins, but for the first.
        owners: of each range.
        leaves: of each range.
    """

    # Tuples: the garbage collector looks at one of texts and numbers once, and at a list again and again.
    values: dict[str, OwnLeaf]
    bounds: tuple[str, ...]
    owners: tuple[Owner | None, ...]
    leaves: tuple[Leaf, ...]

    @classmethod
    def of(cls, values: dict[str, OwnLeaf], everywhere: Leaf = 0) -> PrefixRanges:
        """``values`` must never change again. ``everywhere`` is said of every name."""
        bounds: list[str] = []
        owners: list[Owner | None] = [None]
        leaves: list[Leaf] = [everywhere]
        # What the next prefix may start with, shortest first: where it ends, itself, and the union so far.
        above: list[tuple[str | None, Owner | None, Leaf]] = [(None, None, everywhere)]

        def begin(bound: str, owner: Owner | None, leaf: Leaf) -> None:
            if bounds and bounds[-1] == bound:  # the range before has no names
                owners[-1], leaves[-1] = owner, leaf
            else:
                bounds.append(bound)
                owners.append(owner)
                leaves.append(leaf)

        def end_last() -> None:
            end, _, _ = above.pop()
            if end is not None:
                _, owner, leaf = above[-1]
                begin(end, owner, leaf)

        for prefix in sorted(values):
            while (last := above[-1][1]) is not None and not prefix.startswith(last.prefix):
                end_last()
            _, around, leaf = above[-1]
            owner = Owner(prefix, values[prefix], around)
            leaf = union_leaf(leaf, values[prefix])
            above.append((successor(prefix), owner, leaf))
            begin(prefix, owner, leaf)
        while len(above) > 1:
            end_last()
        return cls(values, tuple(bounds), tuple(owners), tuple(leaves))

    def leaf(self, name: str) -> Leaf:
        """What all stored prefixes of ``name`` say together."""
        return self.leaves[bisect_right(self.bounds, name)]

    def of_name(self, name: str) -> list[tuple[str, OwnLeaf]]:
        """Every stored prefix of ``name`` (itself included) with its own leaf, longest first."""
        found = []
        owner = self.owners[bisect_right(self.bounds, name)]
        while owner is not None:
            found.append((owner.prefix, owner.leaf))
            owner = owner.around
        return found


def successor(prefix: str) -> str | None:
    """The least text above all that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER) if prefix.endswith(_LAST_CHARACTER) else prefix
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None
