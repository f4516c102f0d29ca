"""Rights: what the ACLs of one principal say about the names of one resource type.

A name is covered by the literal entry of that name, by every prefix that it starts with, and by the literal
``*``, whatever order names sort in (architecture.md 8.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.index.masks import Leaf
from authorizer.index.overlay import Table, with_entries
from authorizer.index.prefix_ranges import PrefixRanges
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Rights:
    """Immutable.

    Attributes:
        literals: the leaf of each literal name, ``*`` among them.
        star: the leaf of the literal ``*``, kept apart because every question needs it.
        prefixes: the leaves of the prefixes; None if there are none.
    """

    __slots__ = ("literals", "prefixes", "star")

    def __init__(self, literals: Table[str, Leaf], prefixes: PrefixRanges | None) -> None:
        self.literals = literals
        self.star = literals.get(WILDCARD)
        self.prefixes = prefixes

    def covering(self, name: str) -> Iterator[tuple[str, bool]]:
        """What covers ``name``: (name, prefixed) of entries, in no particular order."""
        if self.star is not None:
            yield WILDCARD, False
        if name != WILDCARD and self.literals.get(name) is not None:
            yield name, False
        if self.prefixes is not None:
            for prefix, _ in self.prefixes.of_name(name):
                yield prefix, True

    def with_literals(self, leaves: Mapping[str, Leaf | None]) -> Rights | None:
        """With the leaves of these literal names set, or removed where None; None if none is left."""
        literals = with_entries(self.literals, leaves)
        return Rights(literals, self.prefixes) if self.prefixes is not None or len(literals) else None

    def with_prefixes(self, leaves: Mapping[str, Leaf | None]) -> Rights | None:
        """The same with prefixes."""
        prefixes = (self.prefixes or _NO_PREFIXES).with_values(leaves)
        if len(prefixes):
            return Rights(self.literals, prefixes)
        return Rights(self.literals, None) if len(self.literals) else None


_NO_PREFIXES: Final = PrefixRanges.of({})
#: What remains where none is left, to set leaves in.
NO_LEAVES: Final = Rights({}, None)
