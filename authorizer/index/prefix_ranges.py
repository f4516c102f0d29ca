"""PrefixRanges: the leaves of one principal's prefixed ACLs, found for any name by one bisection.

A prefix P covers the names from P up to, not including, P's *successor*: P with its last character one higher
("ab" covers ["ab", "ac")). Those bounds cut all names, in code point order, into ranges within which every
name has the same stored prefixes. For the prefixes "a" and "ab":

    bounds         ["a",  "ab",  "ac",  "b" ]   where each range begins
    owners   [None, "a",  "ab",  "a",   None]   the longest stored prefix there; first: before all bounds
    leaves   [0,    leaf, leaf,  leaf,  0   ]   the union of the owner's leaf and all shorter prefixes'

A leaf is None where it has not been worked out since the last change: the first reader does that. (Readers in
several threads may each do it once; they store equal values.) Bounds, owners and leaves are cut into chunks,
so that a new prefix copies CHUNK_MAXIMUM bounds, not all. Immutable but for those leaves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from authorizer.index.masks import Leaf, leaf_mask, union_leaf
from authorizer.index.overlay import Table, with_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bounds in one chunk. What is in one chunk is read without a call (authorizer.fast_path): at a million ACLs
#: that made a decision 13 % cheaper than 512 did. Copying three lists of this size takes some ten
#: microseconds.
CHUNK_MAXIMUM: Final = 4096
_LAST_CHARACTER: Final = "\U0010ffff"


def successor(prefix: str) -> str | None:
    """The least text above all that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER) if prefix.endswith(_LAST_CHARACTER) else prefix
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


class Chunk:
    """Neighbouring ranges; ``owners`` and ``leaves`` have one item more than ``bounds``, see the module."""

    __slots__ = ("bounds", "leaves", "owners")

    def __init__(self, bounds: list[str], owners: list[str | None], leaves: list[Leaf | None]) -> None:
        self.bounds = bounds
        self.owners = owners
        self.leaves = leaves


_NO_RANGES: Final = Chunk([], [None], [0])


class PrefixRanges:
    """See the module.

    Attributes:
        values: the leaf of each prefix, without those of shorter prefixes.
        only: the one chunk, if there is no more than one: the case to be quick in.
    """

    __slots__ = ("_chunks", "_heads", "only", "values")

    def __init__(self, values: Table[str, Leaf], chunks: list[Chunk]) -> None:
        self.values = values
        self._chunks = chunks
        self._heads = [chunk.bounds[0] for chunk in chunks if chunk.bounds]
        self.only = chunks[0] if len(chunks) == 1 else None

    @classmethod
    def of(cls, values: dict[str, Leaf]) -> PrefixRanges:
        """From all prefixes at once, every leaf worked out; ``values`` must never change again."""
        bounds: list[str] = []
        owners: list[str | None] = []
        leaves: list[Leaf | None] = []
        # What the next prefix may start with, shortest first: where it ends, itself, and the union of the
        # leaves so far.
        above: list[tuple[str | None, str, Leaf | None]] = []

        def end_last() -> None:
            end, _, _ = above.pop()
            if end is not None:
                _, owner, leaf = above[-1] if above else (None, None, 0)
                if bounds[-1] == end:  # one within it ends there too
                    owners[-1], leaves[-1] = owner, leaf
                else:
                    bounds.append(end)
                    owners.append(owner)
                    leaves.append(leaf)

        for prefix in sorted(values):
            while above and not prefix.startswith(above[-1][1]):
                end_last()
            leaf: Leaf | None = values[prefix]
            if above:
                shorter = above[-1][2]
                leaf = None if shorter is None else union_leaf(shorter, values[prefix])
            above.append((successor(prefix), prefix, leaf))
            if bounds and bounds[-1] == prefix:  # the one before ends where this one begins
                owners[-1], leaves[-1] = prefix, leaf
            else:
                bounds.append(prefix)
                owners.append(prefix)
                leaves.append(leaf)
        while above:
            end_last()
        return cls(values, _chunks(bounds, owners, leaves) or [_NO_RANGES])

    def __len__(self) -> int:
        return len(self.values)

    def mask(self, name: str, host: str) -> int:
        """What all stored prefixes of ``name`` say to ``host``."""
        chunk = self.only or self._chunk(name)
        at = bisect_right(chunk.bounds, name)
        leaf = chunk.leaves[at]
        if leaf is not None:
            return leaf_mask(leaf, host)
        mask = 0
        union: Leaf | None = 0
        for _, own in self._and_shorter(chunk.owners[at]):
            mask |= leaf_mask(own, host)
            union = None if union is None else union_leaf(union, own)
        chunk.leaves[at] = union
        return mask

    def of_name(self, name: str) -> Iterator[tuple[str, Leaf]]:
        """Every stored prefix of ``name`` (itself included) with its leaf, longest first."""
        return self._and_shorter(self._longest(name))

    def _and_shorter(self, prefix: str | None) -> Iterator[tuple[str, Leaf]]:
        while prefix is not None:
            yield prefix, self.values.get(prefix)  # type: ignore[misc] # owners are stored prefixes
            prefix = self._longest(prefix[:-1]) if prefix else None

    def _longest(self, name: str) -> str | None:
        """The longest stored prefix of ``name``."""
        chunk = self._chunk(name)
        return chunk.owners[bisect_right(chunk.bounds, name)]

    def _chunk(self, name: str) -> Chunk:
        """The chunk whose ranges hold ``name``."""
        return self._chunks[max(bisect_right(self._heads, name) - 1, 0)]

    def with_values(self, values: Mapping[str, Leaf | None]) -> PrefixRanges:
        """With these prefixes' leaves set, or prefixes removed where it is None; this one stays as it is."""
        changed = self
        for prefix, leaf in values.items():
            if leaf is not None or changed.values.get(prefix) is not None:
                changed = changed._with_value(prefix, leaf)
        return changed

    def _with_value(self, prefix: str, leaf: Leaf | None) -> PrefixRanges:
        """Renew the chunks that hold ranges of ``prefix``; share the others."""
        end = successor(prefix)
        first = max(bisect_right(self._heads, prefix) - 1, 0)
        last = len(self._chunks) if end is None else max(bisect_right(self._heads, end), first + 1)
        bounds: list[str] = []
        owners: list[str | None] = []
        leaves: list[Leaf | None] = []
        for chunk in self._chunks[first:last]:
            bounds += chunk.bounds
            owners += chunk.owners[1:]
            leaves += chunk.leaves[1:]
        if end is not None:
            self._cut(end, bounds, owners, leaves)
        begin_at = self._cut(prefix, bounds, owners, leaves)
        end_at = len(bounds) if end is None else bisect_left(bounds, end)

        parent = self._longest(prefix[:-1]) if prefix else None
        giver, taker = (parent, prefix) if leaf is not None else (prefix, parent)
        for at in range(begin_at, end_at):
            leaves[at] = None
            if owners[at] == giver:
                owners[at] = taker
        # Neighbours with one owner become one range. Only here can there be any.
        for at in range(min(end_at, len(bounds) - 1), begin_at - 1, -1):
            before = owners[at - 1] if at else self._chunks[first - 1].owners[-1] if first else None
            if owners[at] == before:
                del bounds[at], owners[at], leaves[at]
        chunks = [*self._chunks[:first], *_chunks(bounds, owners, leaves), *self._chunks[last:]]
        return PrefixRanges(with_entries(self.values, {prefix: leaf}), chunks or [_NO_RANGES])

    def _cut(self, bound: str, bounds: list[str], owners: list[str | None], leaves: list[Leaf | None]) -> int:
        """Let a range begin at ``bound``, if none does; its place."""
        at = bisect_left(bounds, bound)
        if at == len(bounds) or bounds[at] != bound:
            bounds.insert(at, bound)
            owners.insert(at, self._longest(bound))
            leaves.insert(at, None)
        return at


def _chunks(bounds: list[str], owners: list[str | None], leaves: list[Leaf | None]) -> list[Chunk]:
    chunks = []
    for start in range(0, len(bounds), CHUNK_MAXIMUM):
        end = start + CHUNK_MAXIMUM
        chunks.append(Chunk(bounds[start:end], [None, *owners[start:end]], [0, *leaves[start:end]]))
    return chunks
