"""PrefixRanges: what one principal's prefixed ACLs say about any name, found by one bisection.

A prefix P covers the names from P up to, not including, P's *successor*: P with its last character one higher
("ab" covers ["ab", "ac")). Those bounds cut all names, in code point order, into ranges within which every
name has the same stored prefixes. For the prefixes "a" and "ab":

    bounds         ["a",  "ab",  "ac",  "b" ]   where each range begins
    covers   [last, "a",  "ab",  "a",   last]   the longest stored prefix there, with all that is behind it;
                                                first: before all bounds

What is said of every name is behind all prefixes. Immutable.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.engine.index.covers import Cover

_LAST_CHARACTER: Final = "\U0010ffff"


class PrefixRanges(msgspec.Struct, gc=False):
    """See the module.

    Attributes:
        bounds: where each range begins, but for the first.
        covers: of each range.
    """

    # Tuples: the garbage collector looks at one of texts and numbers once, and at a list again and again.
    bounds: tuple[str, ...]
    covers: tuple[Cover, ...]

    @classmethod
    def of(cls, prefixes: Iterable[Cover], last: Cover) -> PrefixRanges:
        """Puts the prefixes in front of one another, and of what is said of every name."""
        bounds: list[str] = []
        covers = [last]
        # What the next prefix may start with, shortest first, and where each ends.
        open_ranges: list[tuple[str | None, Cover]] = []

        def begin(bound: str, cover: Cover) -> None:
            if bounds and bounds[-1] == bound:  # the range before has no names
                covers[-1] = cover
            else:
                bounds.append(bound)
                covers.append(cover)

        def end_last() -> None:
            end, cover = open_ranges.pop()
            if end is not None:
                begin(end, cover.behind)

        for cover in sorted(prefixes, key=attrgetter("name")):
            while open_ranges and not cover.name.startswith(open_ranges[-1][1].name):
                end_last()
            cover.put_before(open_ranges[-1][1] if open_ranges else last)
            open_ranges.append((successor(cover.name), cover))
            begin(cover.name, cover)
        while open_ranges:
            end_last()
        return cls(tuple(bounds), tuple(covers))

    def cover(self, name: str) -> Cover:
        """All stored prefixes of ``name``, itself included, and the last."""
        return self.covers[bisect_right(self.bounds, name)]

    def stored(self) -> Iterator[Cover]:
        """Every stored prefix, in their order."""
        for bound, cover in zip(self.bounds, self.covers[1:], strict=True):
            if cover.prefixed and cover.name == bound:
                yield cover


def successor(prefix: str) -> str | None:
    """The least text above all that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER) if prefix.endswith(_LAST_CHARACTER) else prefix
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None
