"""Nested patterns: the prefixes around names and prefixes, for arrays of them.

Each step of a loop here handles all patterns of one depth or distance, so that numpy does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

#: Enclosing pattern where there is none.
NO_PATTERN: Final = -1


def last_keys(keys: npt.NDArray[np.int64], texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return for each key (see `patterns.PatternRows`) the last key that it covers."""
    lasts = 2 * np.arange(len(texts)) + 1
    is_prefix = np.zeros(len(texts), np.bool_)
    is_prefix[keys[keys & 1 == 0] >> 1] = True
    # The prefixes of a text, the shortest first.
    around: list[int] = []
    for rank, (text, is_opened) in enumerate(zip(texts, is_prefix.tolist(), strict=True)):
        while around and not text.startswith(texts[around[-1]]):
            lasts[around.pop()] = 2 * rank - 1
        if is_opened:
            around.append(rank)
    lasts[around] = 2 * len(texts) - 1
    return np.where(keys & 1, keys, lasts[keys >> 1])


class NestedPatterns:
    """The distinct patterns of some ACLs, each with the longest prefix around it in its group.

    Attributes:
        order: the ACLs in the order of their groups and keys; else in the order in which they were given.
        starts: by pattern, the start of its ACLs in ``order``.
        of_rows: by ACL in ``order``, its pattern.
        outer: by pattern, the longest prefix around it, or `NO_PATTERN`. One more entry at the end is for
            `NO_PATTERN` itself.
    """

    def __init__(
        self, groups: npt.NDArray[np.int64], keys: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64]
    ) -> None:
        """Arrange ACLs by their groups and keys; ``lasts``: `last_keys` of the keys."""
        self._groups, group_ranks = np.unique(groups, return_inverse=True)
        # One more than any key: a place is one number for a group and a key.
        self._keys_end = int(lasts.max(initial=0)) + 1
        places = group_ranks * self._keys_end + keys
        self.order = np.argsort(places, kind="stable")
        places = places[self.order]
        begins = np.diff(places, prepend=-1) != 0
        self.starts = np.flatnonzero(begins)
        self.of_rows = np.cumsum(begins) - 1
        self._places = places[self.starts]
        firsts = self.order[self.starts]
        ends = self._places + lasts[firsts] - keys[firsts]
        self._ends = np.append(ends, np.iinfo(np.int64).max)
        # First the previous pattern: if it does not cover one pattern, it covers no later one either.
        self.outer = np.append(np.arange(len(ends)) - 1, NO_PATTERN)
        self._widen(self.outer[:-1], self._places)

    def _widen(self, patterns: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> None:
        """Replace patterns that do not cover their places by the next ones around them that do."""
        left = np.flatnonzero(self._ends[patterns] < places)
        while len(left):
            patterns[left] = self.outer[patterns[left]]
            left = left[self._ends[patterns[left]] < places[left]]

    def innermost(
        self, groups: npt.NDArray[np.int64], keys: npt.NDArray[np.int64], *, is_around: bool = False
    ) -> npt.NDArray[np.int64]:
        """Return the narrowest pattern of a group that covers each key, or `NO_PATTERN`.

        With ``is_around`` it is not the pattern with the key itself.
        """
        places = self._places_of(groups, keys)
        patterns = np.searchsorted(self._places, places, "left" if is_around else "right") - 1
        self._widen(patterns, places)
        return patterns

    def exact(self, groups: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the pattern of a group with each key, or `NO_PATTERN`."""
        places = self._places_of(groups, keys)
        patterns = np.searchsorted(self._places, places)
        is_found = (places >= 0) & (np.append(self._places, -1)[patterns] == places)
        return np.where(is_found, patterns, NO_PATTERN)

    def _places_of(self, groups: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The places of keys; -1 where there is no such group, or all its patterns end before the key."""
        ranks = np.searchsorted(self._groups, groups)
        has_group = np.append(self._groups, -1)[ranks] == groups
        return np.where(has_group & (keys < self._keys_end), ranks * self._keys_end + keys, -1)

    def combined(self, masks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the union of the masks of ACLs, which are in ``order``, by pattern with those around it.

        The last entry is for `NO_PATTERN`.
        """
        unions = np.append(np.bitwise_or.reduceat(masks, self.starts) if len(masks) else masks, 0)
        outer = self.outer
        while (outer != NO_PATTERN).any():
            unions |= unions[outer]
            outer = outer[outer]
        return unions
