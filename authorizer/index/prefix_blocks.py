"""Blocks: many prefix ranges by how names start, so that a name is looked up among few of them.

A bisection of thousands of bounds waits on memory for each of its comparisons. So the names are sorted into
blocks by their *head*, their first ``width`` characters, and a look-up is one of a dict and a bisection of a
handful of bounds. For the prefixes "", "ab", "abx" and "cd", and a width of two:

    by_head   "ab" -> bounds ["abx", "aby"], owners ["ab", "abx", "ab"]
              "cd" -> bounds [],             owners ["cd"]
    rest      bounds [""],                   owners [None, ""]      for every other name

A head has a block if a prefix as long or longer starts with it; in the rest are the ranges that there would
be without those. A prefix that long concerns the one block of its own head, and a shorter one any number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.index.masks import Leaf
    from authorizer.index.overlay import Table

_LAST_CHARACTER: Final = "\U0010ffff"
# Heads are to tell apart bounds that are so far from each other.
_APART: Final = 16
# So many pairs of bounds are looked at to see how long heads have to be.
_SAMPLED: Final = 32


def successor(prefix: str) -> str | None:
    """The least text above all that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER) if prefix.endswith(_LAST_CHARACTER) else prefix
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


class Ranges:
    """Neighbours; ``owners`` and ``leaves`` have one item more than ``bounds``, see prefix_ranges.

    The bounds are a tuple because a list keeps its items elsewhere: one access to memory more.
    """

    __slots__ = ("bounds", "leaves", "owners")

    def __init__(self, bounds: tuple[str, ...], owners: list[str | None], leaves: list[Leaf | None]) -> None:
        self.bounds = bounds
        self.owners = owners
        self.leaves = leaves

    def starting_with(self, prefix: str) -> Ranges:
        """Those of the names that start with ``prefix``."""
        end = successor(prefix)
        begin_at = bisect_right(self.bounds, prefix)
        end_at = len(self.bounds) if end is None else bisect_left(self.bounds, end, begin_at)
        return Ranges(
            self.bounds[begin_at:end_at],
            self.owners[begin_at : end_at + 1],
            self.leaves[begin_at : end_at + 1],
        )


NO_RANGES: Final = Ranges((), [None], [0])


class Blocks:
    """See the module. Immutable but for leaves that are worked out.

    Attributes:
        width: of a head, in characters; at least one.
        head: the slice of a name that is its head; making one for each name costs more than cutting.
        by_head: the ranges of the names with a head.
        rest: those of all names with no such head.
        made_for: how many prefixes there were when the width was chosen.
    """

    __slots__ = ("by_head", "head", "made_for", "rest", "width")

    def __init__(self, width: int, by_head: Table[str, Ranges], rest: Ranges, made_for: int) -> None:
        self.width = width
        self.head = slice(width)
        self.by_head = by_head
        self.rest = rest
        self.made_for = made_for

    def of_name(self, name: str) -> Ranges:
        """The ranges among which ``name`` is; as `authorize` finds them, without a call."""
        return self.by_head.get(name[self.head]) or self.rest


def head_width(bounds: Sequence[str]) -> int:
    """How long heads are to be for blocks of about _APART of these ascending bounds."""
    step = max(1, len(bounds) // _SAMPLED)
    pairs = zip(islice(bounds, 0, None, step), islice(bounds, _APART, None, step), strict=False)
    lengths = sorted(_shared_length(one, other) for one, other in pairs)
    return 1 + (lengths[len(lengths) // 2] if lengths else 0)


def _shared_length(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
