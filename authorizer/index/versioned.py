"""Versioned: a map whose versions share one dict, which holds the newest of them.

Each earlier version has what was overwritten since, and the version that did it:

    {a: 1}  ----  b was absent  --->  {a: 1, b: 2}  ----  a was 1  --->  {a: 3, b: 2}, the dict

Making the next version is a plain dict write, a fraction of what a persistent map takes, and reading the
newest is reading a dict. Reading an earlier one costs a look at each update since, of which there are few:
requests are short, and who stays longer has them put together now and then. No version refers to an earlier
one: what is kept for whoever holds one goes away with it.

One thread makes versions, any thread reads any version without waiting: a version has its link to the next
one before the dict is written, and is asked for the link after the dict was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

K = TypeVar("K")
V = TypeVar("V")

# So many updates are looked at one by one; then they are put together.
_STEPS_MAXIMUM: Final = 32


class Versioned(Generic[K, V]):
    """A map that never changes, for whoever reads it by its methods. Values are never None.

    Attributes:
        newest: the dict. To be read directly only by who looks at ``since`` afterwards.
        since: None for the newest version; else what this one has where a later one differs (None: nothing),
            and that later version.
    """

    __slots__ = ("newest", "since")

    def __init__(self, newest: dict[K, V]) -> None:
        """The first version; the dict is not to be written by anybody else."""
        self.newest = newest
        self.since: tuple[Mapping[K, V | None], Versioned[K, V]] | None = None

    def get(self, key: K) -> V | None:
        value = self.newest.get(key)
        since = self.since
        steps = 0
        while since is not None:
            overwritten, later = since
            if key in overwritten:
                return overwritten[key]
            since = later.since
            steps += 1
            if steps > _STEPS_MAXIMUM:
                return self._overwritten().get(key, value)
        return value

    def copy(self) -> dict[K, V]:
        """All of it."""
        copy = self.newest.copy()  # at once: no other thread runs meanwhile
        if self.since is not None:
            for key, value in self._overwritten().items():
                if value is None:
                    copy.pop(key, None)
                else:
                    copy[key] = value
        return copy

    def _overwritten(self) -> Mapping[K, V | None]:
        """All that this version has and the newest has not; kept, for the next who asks."""
        if self.since is None:
            return {}
        overwritten, later = self.since
        if later.since is None:
            return overwritten
        together = {**overwritten}
        while later.since is not None:
            overwritten, later = later.since
            for key, value in overwritten.items():
                together.setdefault(key, value)
        # Another thread may do the same and keep what it found earlier: right, but not up to date here.
        self.since = together, later
        return together

    def with_one(self, key: K, value: V | None) -> Versioned[K, V]:
        """The version with one entry set, or removed where the value is None.

        Costs that if this is the newest version, else a copy of all: two maps that both follow one cannot
        share its dict.
        """
        if self.since is None:
            table = self.newest
            later = Versioned(table)
            self.since = {key: table.get(key)}, later
        else:
            table = self.copy()
            later = Versioned(table)
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
        return later
