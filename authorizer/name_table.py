"""NameTable: values by resource name, literal or prefixed, and what covers a name.

A resource name is covered by the literal entry of that name, by every prefixed entry that it starts with, and by
the literal entry ``*`` (architecture.md 8.2). Whatever order the names sort in: a ``*`` covers them all.

Source: the search in StandardAuthorizerData.checkSection, by meaning.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Generic, TypeVar

from authorizer.overlay import Table, with_entries
from authorizer.prefixes import Prefixes
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from authorizer.masks import Leaf

V = TypeVar("V")


class NameTable(Generic[V]):
    """Immutable. Values are never None.

    Attributes:
        literals: by name; ``*`` among them.
        prefixes: by prefix.
        star: the value of the literal ``*``, kept apart because every question needs it.
    """

    __slots__ = ("literals", "prefixes", "star")

    def __init__(self, literals: Table[str, V], prefixes: Prefixes[V] | None) -> None:
        self.literals = literals
        self.prefixes = prefixes
        self.star = literals.get(WILDCARD)

    def __len__(self) -> int:
        return len(self.literals) + (len(self.prefixes) if self.prefixes is not None else 0)

    def get(self, name: str, *, prefixed: bool) -> V | None:
        """The value of exactly this entry."""
        if not prefixed:
            return self.literals.get(name)
        return None if self.prefixes is None else self.prefixes.get(name)

    def items(self) -> Iterator[tuple[str, bool, V]]:
        """(name, prefixed, value) of every entry, in no particular order."""
        for name, value in self.literals.items():
            yield name, False, value
        if self.prefixes is not None:
            for name, value in self.prefixes.items():
                yield name, True, value

    def covers(self, name: str) -> bool:
        """Whether any entry covers ``name``."""
        return (
            self.star is not None
            or self.literals.get(name) is not None
            or (self.prefixes is not None and self.prefixes.longest(name) is not None)
        )

    def with_values(self, values: Mapping[tuple[str, bool], V | None]) -> NameTable[V]:
        """With these entries, by (name, prefixed), set, or removed where the value is None."""
        literals = {name: value for (name, prefixed), value in values.items() if not prefixed}
        prefixes = self.prefixes
        for (name, prefixed), value in values.items():
            if prefixed:
                prefixes = (prefixes or Prefixes([], [], {})).with_value(name, value)
        return NameTable(
            with_entries(self.literals, literals) if literals else self.literals,
            prefixes if prefixes is not None and len(prefixes) else None,
        )
