"""PrefixRanges: the leaves of one principal's prefixed ACLs, found for any name by one bisection.

A prefix P covers the names from P up to, not including, P's *successor*: P with its last character one higher
("ab" covers ["ab", "ac")). Those bounds cut all names, in code point order, into ranges within which every
name has the same stored prefixes. For the prefixes "a" and "ab":

    bounds         ["a",  "ab",  "ac",  "b" ]   where each range begins
    owners   [None, "a",  "ab",  "a",   None]   the longest stored prefix there; first: before all bounds
    leaves   [0,    leaf, leaf,  leaf,  0   ]   the union of the owner's leaf and all shorter prefixes'

A leaf is None where it has not been worked out since the last change: the first reader does that. (Readers in
several threads may each do it once; they store equal values.) Bounds, owners and leaves are cut into chunks,
so that a new prefix copies CHUNK_MAXIMUM bounds, not all. Where there are many, decisions find them in blocks
by how names start (prefix_blocks). Immutable but for those leaves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import repeat
from typing import TYPE_CHECKING, Final

from authorizer.index.masks import Leaf, leaf_mask, union_leaf
from authorizer.index.overlay import Table, with_entries
from authorizer.index.prefix_blocks import NO_RANGES, Blocks, Ranges, head_width, successor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: Bounds in one chunk. Copying three lists of this size takes some ten microseconds.
CHUNK_MAXIMUM: Final = 4096
#: Above this many bounds there are blocks.
UNDIVIDED_MAXIMUM: Final = 256
#: So many names calls with many actions remember where there are blocks: some 10 MB, mostly names, which are
#: a stranger's. A topic's is not longer than this (org.apache.kafka.common.internals.Topic).
REMEMBERED_MAXIMUM: Final = 1 << 16
REMEMBERED_LENGTH_MAXIMUM: Final = 249
#: Above this many a single decision uses them: with 20,000 it is 10 to 20 % cheaper, with 2,400 dearer, where
#: each step waits for memory. Calls with many actions, which do not, always use them.
SMALL_MAXIMUM: Final = 4096

# Bounds; and of the range that begins at each, the owner and the leaf.
_Cut = tuple[list[str], list[str | None], list["Leaf | None"]]

_NOTHING: Final[dict[str, Leaf]] = {}
_NO_BLOCKS: Final = Blocks(1, {}, NO_RANGES, 0)


class PrefixRanges:
    """See the module.

    Attributes:
        values: the leaf of each prefix, without those of shorter prefixes.
        only: all ranges, if they are few enough for a single decision.
        blocks: all ranges, if they are many; else without any, and ``has_blocks`` is False.
        remembered: leaves by name, of names that calls with many actions asked about; where there are blocks.
    """

    __slots__ = ("_chunks", "_first_bounds", "blocks", "has_blocks", "only", "remembered", "values")

    def __init__(self, values: Table[str, Leaf], chunks: list[Ranges], blocks: Blocks) -> None:
        self.values = values
        self._chunks = chunks
        self._first_bounds = [chunk.bounds[0] for chunk in chunks if chunk.bounds]
        self.only = chunks[0] if _are_up_to(SMALL_MAXIMUM, chunks) else None
        self.blocks = blocks
        self.has_blocks = blocks is not _NO_BLOCKS
        self.remembered: dict[str, Leaf] = {} if self.has_blocks else _NOTHING

    @classmethod
    def of(cls, values: dict[str, Leaf]) -> PrefixRanges:
        """From all prefixes at once, every leaf worked out; ``values`` must never change again."""
        cut = _cut(values)
        chunks = _chunks(cut) or [NO_RANGES]
        return cls(values, chunks, _blocks(values, chunks))

    def __len__(self) -> int:
        return len(self.values)

    def mask(self, name: str, host: str) -> int:
        """What all stored prefixes of ``name`` say to ``host``."""
        ranges = self.only or self.blocks.of_name(name)
        at = bisect_right(ranges.bounds, name)
        leaf = ranges.leaves[at]
        if leaf is not None:
            return leaf_mask(leaf, host)
        mask = 0
        union: Leaf | None = 0
        for _, own in self._and_shorter(ranges.owners[at]):
            mask |= leaf_mask(own, host)
            union = None if union is None else union_leaf(union, own)
        ranges.leaves[at] = union
        return mask

    def remember(self, name: str) -> Leaf | None:
        """The leaf of the range of ``name``, which has blocks; None if it is not worked out.

        What a call with many actions asks about, the next one mostly does, too, whoever asks: and what these
        prefixes say is the same. Single decisions do not: they would pay for names that are asked about once.
        """
        ranges = self.blocks.of_name(name)
        at = bisect_right(ranges.bounds, name)
        leaf = ranges.leaves[at]
        if leaf is None and self.only is not None:
            # That is where `mask` works it out.
            leaf = ranges.leaves[at] = self.only.leaves[bisect_right(self.only.bounds, name)]
        is_short = len(name) <= REMEMBERED_LENGTH_MAXIMUM
        if is_short and leaf is not None and len(self.remembered) < REMEMBERED_MAXIMUM:
            self.remembered[name] = leaf
        return leaf

    def leaves_of(self, names: Iterable[str]) -> Iterator[Leaf | None]:
        """For each name what all its stored prefixes say together; None where that is not worked out."""
        only = self.only
        if only is not None:
            return map(only.leaves.__getitem__, map(bisect_right, repeat(only.bounds), names))
        each = ((name, self.blocks.of_name(name)) for name in names)
        return (ranges.leaves[bisect_right(ranges.bounds, name)] for name, ranges in each)

    def of_name(self, name: str) -> Iterator[tuple[str, Leaf]]:
        """Every stored prefix of ``name`` (itself included) with its leaf, longest first."""
        return self._and_shorter(self._longest(name))

    def _and_shorter(self, prefix: str | None) -> Iterator[tuple[str, Leaf]]:
        while prefix is not None:
            yield prefix, self.values.get(prefix)  # type: ignore[misc] # owners are stored prefixes
            prefix = self._longest(prefix[:-1]) if prefix else None

    def _longest(self, name: str) -> str | None:
        """The longest stored prefix of ``name``."""
        chunk = self._chunks[max(bisect_right(self._first_bounds, name) - 1, 0)]
        return chunk.owners[bisect_right(chunk.bounds, name)]

    def with_values(self, values: Mapping[str, Leaf | None]) -> PrefixRanges:
        """With these prefixes' leaves set, or prefixes removed where it is None; this one stays as it is."""
        changed = self
        for prefix, leaf in values.items():
            if leaf is not None or changed.values.get(prefix) is not None:
                changed = changed._with_value(prefix, leaf)
        return changed.with_blocks(self.blocks, values)

    def with_blocks(self, before: Blocks, changed: Iterable[str]) -> PrefixRanges:
        """The same in blocks, if there are many ranges: in ``before``, but for the prefixes that changed."""
        if _are_up_to(UNDIVIDED_MAXIMUM, self._chunks):
            return self
        values, width = self.values, before.width
        if len(values) > 2 * before.made_for:
            return PrefixRanges(values, self._chunks, _blocks(values, self._chunks))
        rest = before.rest
        by_head: dict[str, Ranges | None] = {}
        short = [prefix for prefix in changed if len(prefix) < width]
        if short:
            # Each of those stored owns a range.
            stored = {prefix: values.get(prefix) for prefix in (*rest.owners, *short) if prefix is not None}
            rest = _ranges(_cut({prefix: leaf for prefix, leaf in stored.items() if leaf is not None}))
        for prefix in short:
            ranges = self._starting_with(prefix)
            by_head |= {head: ranges.starting_with(head) for head in _heads(ranges, width)}
        for head in {prefix[:width] for prefix in changed if len(prefix) >= width}:
            ranges = self._starting_with(head)
            by_head[head] = ranges if _heads(ranges, width) else None
        blocks = Blocks(width, with_entries(before.by_head, by_head), rest, before.made_for)
        return PrefixRanges(values, self._chunks, blocks)

    def _starting_with(self, prefix: str) -> Ranges:
        """The ranges of the names that start with ``prefix``."""
        first, last = self._chunks_of(prefix, successor(prefix))
        near = self._chunks[first:last]
        return (near[0] if len(near) == 1 else _ranges(_joined(near))).starting_with(prefix)

    def _chunks_of(self, begin: str, end: str | None) -> tuple[int, int]:
        """From which chunk on, and up to which, there are ranges of names from ``begin`` up to ``end``."""
        first = max(bisect_right(self._first_bounds, begin) - 1, 0)
        last = len(self._chunks) if end is None else max(bisect_right(self._first_bounds, end), first + 1)
        return first, last

    def _with_value(self, prefix: str, leaf: Leaf | None) -> PrefixRanges:
        """Renew the chunks that hold ranges of ``prefix``; share the others."""
        end = successor(prefix)
        first, last = self._chunks_of(prefix, end)
        bounds, owners, leaves = _joined(self._chunks[first:last])
        if end is not None:
            self._begin(end, bounds, owners, leaves)
        begin_at = self._begin(prefix, bounds, owners, leaves)
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
        chunks = [*self._chunks[:first], *_chunks((bounds, owners, leaves)), *self._chunks[last:]]
        return PrefixRanges(with_entries(self.values, {prefix: leaf}), chunks or [NO_RANGES], _NO_BLOCKS)

    def _begin(
        self, bound: str, bounds: list[str], owners: list[str | None], leaves: list[Leaf | None]
    ) -> int:
        """Let a range begin at ``bound``, if none does; its place."""
        at = bisect_left(bounds, bound)
        if at == len(bounds) or bounds[at] != bound:
            bounds.insert(at, bound)
            owners.insert(at, self._longest(bound))
            leaves.insert(at, None)
        return at


def _cut(values: Mapping[str, Leaf]) -> _Cut:
    """By all these prefixes, every leaf worked out."""
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
    return bounds, owners, leaves


def _blocks(values: Table[str, Leaf], chunks: Sequence[Ranges]) -> Blocks:
    """The ranges of these prefixes in blocks, if they are many."""
    if _are_up_to(UNDIVIDED_MAXIMUM, chunks):
        return _NO_BLOCKS
    ranges = chunks[0] if len(chunks) == 1 else _ranges(_joined(chunks))
    width = head_width(ranges.bounds)
    by_head = {head: ranges.starting_with(head) for head in _heads(ranges, width)}
    short = {prefix: leaf for prefix, leaf in values.items() if len(prefix) < width}
    return Blocks(width, by_head, _ranges(_cut(short)), len(values))


def _heads(ranges: Ranges, width: int) -> set[str]:
    """The heads of the prefixes that own these ranges and are long enough to have one."""
    return {owner[:width] for owner in ranges.owners if owner is not None and len(owner) >= width}


def _are_up_to(bounds: int, chunks: Sequence[Ranges]) -> bool:
    """Whether they have no more than so many bounds."""
    return len(chunks) == 1 and len(chunks[0].bounds) <= bounds


def _joined(chunks: Sequence[Ranges]) -> _Cut:
    """Neighbouring chunks as one; new lists, for the caller to keep and change."""
    bounds: list[str] = []
    owners: list[str | None] = []
    leaves: list[Leaf | None] = []
    for chunk in chunks:
        bounds += chunk.bounds
        owners += chunk.owners[1:]
        leaves += chunk.leaves[1:]
    return bounds, owners, leaves


def _chunks(cut: _Cut) -> list[Ranges]:
    bounds, owners, leaves = cut
    chunks = []
    for start in range(0, len(bounds), CHUNK_MAXIMUM):
        end = start + CHUNK_MAXIMUM
        chunks.append(_ranges((bounds[start:end], owners[start:end], leaves[start:end])))
    return chunks


def _ranges(cut: _Cut) -> Ranges:
    """With the range before all bounds, which nobody owns."""
    bounds, owners, leaves = cut
    return Ranges(tuple(bounds), [None, *owners], [0, *leaves])
