"""Prefixes that cover a name: nesting of sorted prefixes, and the ranges of names that share their prefixes.

A prefix P covers the names from P up to, not including, P's *successor*: P with its last character one higher
("ab" covers ["ab", "ac")). Those bounds divide all names, in code point order, into ranges. All names of a
range have the same prefixes. For the prefixes "a" and "ab":

    bounds         ["a",  "ab",  "ac",  "b" ]   the start of each range
    covers   [last, "a",  "ab",  "a",   last]   the longest prefix of the range, linked to what follows;
                                                first: before all bounds

The literal ``*`` follows all prefixes. Immutable.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.engine.index.covers import Cover

#: Position of the enclosing prefix where there is none.
NO_PREFIX: Final = -1

_LAST_CHARACTER: Final = "\U0010ffff"


class PrefixRanges(msgspec.Struct, gc=False):
    """One principal's prefixed ACLs, found for any name by one bisection. See the module.

    Attributes:
        bounds: the start of each range but the first.
        covers: of each range.
    """

    # The garbage collector visits a tuple of texts once, and a list at every collection.
    bounds: tuple[str, ...]
    covers: tuple[Cover, ...]

    @classmethod
    def of(cls, prefixes: Iterable[Cover], last: Cover) -> PrefixRanges:
        """Link the prefixes to one another and to ``last``, the cover of every name."""
        bounds: list[str] = []
        covers = [last]
        # Prefixes that may cover the next one, shortest first, and the successor of each. Not by
        # `enclosing_prefixes`, which does not tell where a prefix ends.
        open_ranges: list[tuple[str | None, Cover]] = []

        def begin(bound: str, cover: Cover) -> None:
            if bounds and bounds[-1] == bound:  # the previous range has no names
                covers[-1] = cover
            else:
                bounds.append(bound)
                covers.append(cover)

        def end_last() -> None:
            end, cover = open_ranges.pop()
            if end is not None:
                begin(end, cover.next)

        for cover in sorted(prefixes, key=attrgetter("name")):
            while open_ranges and not cover.name.startswith(open_ranges[-1][1].name):
                end_last()
            cover.prepend_to(open_ranges[-1][1] if open_ranges else last)
            open_ranges.append((successor(cover.name), cover))
            begin(cover.name, cover)
        while open_ranges:
            end_last()
        return cls(tuple(bounds), tuple(covers))

    def cover(self, name: str) -> Cover:
        """Return all stored prefixes of ``name``, itself included, and the last."""
        return self.covers[bisect_right(self.bounds, name)]

    def stored(self) -> Iterator[Cover]:
        """Iterate over the stored prefixes in order."""
        for bound, cover in zip(self.bounds, self.covers[1:], strict=True):
            if cover.prefixed and cover.name == bound:
                yield cover


def successor(prefix: str) -> str | None:
    """Return the least text above all texts that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER) if prefix.endswith(_LAST_CHARACTER) else prefix
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


def enclosing_prefixes(keys: Iterable[tuple[str, bool, *tuple[object, ...]]]) -> list[int]:
    """Return for each key the position of the longest other prefix that covers it, or NO_PREFIX.

    A key is a text, whether it is a single name, and anything else. Keys are sorted by these two, each once:
    a prefix sorts before the name that is equal, and before all that it covers.
    """
    enclosing: list[int] = []
    # The prefixes that may cover the next key: the last one is the longest, each covers the next.
    open_texts: list[str] = []
    open_positions = [NO_PREFIX]
    for position, key in enumerate(keys):
        text = key[0]
        while open_texts and not text.startswith(open_texts[-1]):
            open_texts.pop()
            open_positions.pop()
        enclosing.append(open_positions[-1])
        if not key[1]:
            open_texts.append(text)
            open_positions.append(position)
    return enclosing
