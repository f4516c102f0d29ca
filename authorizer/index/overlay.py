"""Overlay: an immutable map whose next version costs what changed, however large it is.

A large base dict that is never changed once published, under a persistent map of the changes since; the same
idea as `snapshot.image.AclsImage`. Small maps are plain dicts, which are read two to three times faster:
``with_entries`` copies them as long as that is cheap and turns to an Overlay above. Both have ``get``,
``len``, ``items`` and ``values``, so readers need not know which one they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import immutables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

K = TypeVar("K")
V = TypeVar("V")

#: Copying a dict of this size takes about as long as one change of an Overlay.
COPY_MAXIMUM: Final = 512
# Changes are merged into a new base when they are more than this part of it: the copy, at memory speed, is
# paid for by the changes that made it due.
MERGE_SHARE: Final = 8

_REMOVED: Final = object()


class Overlay(Generic[K, V]):
    """A map that never changes; see the module. Values are never None."""

    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, base: dict[K, V], changes: immutables.Map[K, object], length: int) -> None:
        self._base = base
        self._changes = changes  # a key of the base that is gone maps to _REMOVED
        self._length = length

    @classmethod
    def over(cls, base: dict[K, V]) -> Overlay[K, V]:
        """An Overlay without changes yet; ``base`` must never change again."""
        return cls(base, immutables.Map(), len(base))

    def get(self, key: K) -> V | None:
        changed = self._changes.get(key)
        if changed is None:
            return self._base.get(key)
        return None if changed is _REMOVED else changed  # type: ignore[return-value]

    def __len__(self) -> int:
        return self._length

    def items(self) -> Iterator[tuple[K, V]]:
        """Every key with its value, in no particular order."""
        changes = self._changes
        for item in self._base.items():
            if item[0] not in changes:
                yield item
        for key, value in changes.items():
            if value is not _REMOVED:
                yield key, value  # type: ignore[misc]

    def values(self) -> Iterator[V]:
        """Every value, in no particular order."""
        return (value for _, value in self.items())

    def with_entries(self, entries: Mapping[K, V | None]) -> Overlay[K, V]:
        """The map with these entries set, or removed where the value is None; this one stays as it is."""
        base, changes, length = self._base, self._changes, self._length
        for key, value in entries.items():
            before = changes.get(key)
            was_there = key in base if before is None else before is not _REMOVED
            if value is not None:
                changes = changes.set(key, value)
            elif key in base:
                changes = changes.set(key, _REMOVED)
            elif before is not None:
                changes = changes.delete(key)
            length += (value is not None) - was_there
        if len(changes) <= len(base) // MERGE_SHARE:
            return Overlay(base, changes, length)
        merged = base.copy()
        _apply(merged, changes, _REMOVED)
        return Overlay.over(merged)


Table = dict[K, V] | Overlay[K, V]


def with_entries(table: Table[K, V], entries: Mapping[K, V | None]) -> Table[K, V]:
    """``table`` with these entries set, or removed where the value is None; ``table`` stays as it is."""
    if not isinstance(table, dict):
        return table.with_entries(entries)
    if len(table) > COPY_MAXIMUM:
        return Overlay.over(table).with_entries(entries)
    copy = table.copy()
    _apply(copy, entries, None)
    return copy


def _apply(table: dict[K, V], entries: Mapping[K, object], removed: object) -> None:
    for key, value in entries.items():
        if value is removed:
            table.pop(key, None)
        else:
            table[key] = value  # type: ignore[assignment]
