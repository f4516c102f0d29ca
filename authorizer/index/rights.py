"""Rights: what the ACLs of one principal say about the names of one resource type.

A name is covered by the literal entry of that name, by every prefix that it starts with, and by the literal
``*``, whatever order names sort in (architecture.md 8.2). Most names that are asked for are literal entries:
for those, all three are put together when rights are made, so that a decision finds them with one look-up.

    literals  orders -> r, carts -> {host: w}      named   orders -> r | p, carts -> {host: w | p, *: p}
    star      None                          ==>    others  None
    prefixes  "" -> p
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.index.masks import Leaf, union_leaf
from authorizer.index.overlay import Table, with_entries
from authorizer.index.prefix_ranges import PrefixRanges
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Rights:
    """Immutable.

    Attributes:
        literals: the leaf of each literal name, ``*`` among them.
        star: the leaf of the literal ``*``, kept apart because every other name needs it.
        prefixes: the leaves of the prefixes; None if there are none.
        named: by literal name, what it, ``*`` and its prefixes say together.
        others: the leaves of the literals that are not in ``named``; None if all are. They are those below a
            prefix or ``*`` with very many hosts; and all, once something has changed and there are prefixes
            or ``*``.
    """

    __slots__ = ("literals", "named", "others", "prefixes", "star")

    def __init__(
        self,
        literals: Table[str, Leaf],
        prefixes: PrefixRanges | None,
        named: Table[str, Leaf] | None = None,
        others: Table[str, Leaf] | None = None,
    ) -> None:
        """Without ``named`` only what needs no work is put together: right for all names, and slower."""
        self.literals = literals
        self.star = literals.get(WILDCARD)
        self.prefixes = prefixes
        if named is None and (not len(literals) or (prefixes is None and not self.star)):
            named = literals
        elif named is None:
            named, others = {}, literals
        self.named = named
        self.others = others

    @classmethod
    def of(cls, literals: dict[str, Leaf], prefixes: PrefixRanges | None) -> Rights:
        """From all leaves at once; ``literals`` must never change again."""
        star = literals.get(WILDCARD, 0)
        of_prefixes = list((prefixes or _NO_PREFIXES).leaves_of(literals))
        if star == 0 and of_prefixes.count(0) == len(literals):
            return cls(literals, prefixes, literals)
        named: dict[str, Leaf] = {}
        others: dict[str, Leaf] = {}
        for (name, leaf), more in zip(literals.items(), of_prefixes, strict=True):
            together = _together(leaf, star, more)
            if together is None:
                others[name] = leaf
            else:
                named[name] = together
        return cls(literals, prefixes, named, others or None)

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
        """With the leaves of these literal names set, or removed where None; None if none is left.

        They are not put together anew: copying a second table costs as much as the rest of an update.
        """
        literals = with_entries(self.literals, leaves)
        return Rights(literals, self.prefixes) if self.prefixes is not None or len(literals) else None

    def with_prefixes(self, leaves: Mapping[str, Leaf | None]) -> Rights | None:
        """The same with prefixes."""
        prefixes = (self.prefixes or _NO_PREFIXES).with_values(leaves)
        if len(prefixes):
            return Rights(self.literals, prefixes)
        return Rights(self.literals, None) if len(self.literals) else None


def _together(leaf: Leaf, star: Leaf, more: Leaf | None) -> Leaf | None:
    """The union; None if it, or ``more``, names too many hosts to keep such copies."""
    if more is not None and star != 0:
        more = union_leaf(star, more)
    if more is None:
        return None
    return leaf if more == 0 else union_leaf(leaf, more)


_NO_PREFIXES: Final = PrefixRanges.of({})
#: What remains where none is left, to set leaves in.
NO_LEAVES: Final = Rights({}, None)
