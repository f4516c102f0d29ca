"""Rights: what the ACLs of one principal say about the names of one resource type.

A name is covered by the literal entry of that name, by every prefix that it starts with, and by the literal
``*``, whatever order names sort in (architecture.md 8.2). Most names that are asked for are literal entries:
for those, all three are put together when rights are made, so that a decision finds them with one look-up.

    literals  orders -> r, carts -> {host: w}      named   orders -> r | p, carts -> {host: w | p, *: p}
    star      None                          ==>    others  None
    prefixes  "" -> p

What changes later is kept beside that table and overrules it: here, when carts is removed and bills -> x set,

                                                   others  carts -> nothing, bills -> x
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from authorizer.index.masks import Leaf, union_leaf
from authorizer.index.overlay import Table, with_entries
from authorizer.index.places import PREFIXED
from authorizer.index.prefix_ranges import PrefixRanges
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Rights:
    """Immutable.

    Attributes:
        star: the leaf of the literal ``*``, kept apart because every other name needs it.
        prefixes: the leaves of the prefixes; None if there are none.
        others: the leaves of the literals that are not put together, or _GONE; None if there are none. They
            are those that were set or removed since the rights were made; those below a prefix or ``*`` with
            very many hosts; and all, once a prefix or ``*`` has changed.
        named: by literal name, unless it is in ``others``: what it, ``*`` and its prefixes say together.
    """

    __slots__ = ("_literals", "named", "others", "prefixes", "star")

    def __init__(
        self,
        literals: dict[str, Leaf],
        prefixes: PrefixRanges | None,
        named: dict[str, Leaf],
        others: Table[str, Leaf] | None,
    ) -> None:
        self._literals = literals  # as they were made; `others` overrules it
        self.prefixes = prefixes
        self.named = named
        self.others = others
        self.star = self.literal(WILDCARD)

    @classmethod
    def of(cls, literals: dict[str, Leaf], prefixes: PrefixRanges | None) -> Rights:
        """From all leaves at once; ``literals`` must never change again."""
        star = literals.get(WILDCARD, 0)
        of_prefixes = list((prefixes or _NO_PREFIXES).leaves_of(literals))
        if star == 0 and of_prefixes.count(0) == len(literals):
            return cls(literals, prefixes, literals, None)
        named: dict[str, Leaf] = {}
        others: dict[str, Leaf] = {}
        for (name, leaf), more in zip(literals.items(), of_prefixes, strict=True):
            together = _together(leaf, star, more)
            if together is None:
                others[name] = leaf
            else:
                named[name] = together
        return cls(literals, prefixes, named, others or None)

    def said(self, name: str, host: str) -> int:
        """The mask of everything that covers ``name``, the literal ``*`` among it, for ``host``."""
        leaf = self.named.get(name)
        others = self.others
        if leaf is not None and (others is None or others.get(name) is None):
            return leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
        mask = 0
        leaf = self.star
        if leaf is not None:
            mask = leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
        if others is not None:
            leaf = others.get(name)
            if leaf is not None:
                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
        prefixes = self.prefixes
        if prefixes is not None:
            only = prefixes.only
            leaf = None if only is None else only.leaves[bisect_right(only.bounds, name)]
            if leaf is None:
                mask |= prefixes.mask(name, host)
            else:
                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
        return mask

    def literal(self, name: str) -> Leaf | None:
        """The leaf of a literal name, ``*`` among them; None if there are no ACLs of it."""
        leaf = None if self.others is None else self.others.get(name)
        leaf = self._literals.get(name) if leaf is None else leaf
        return None if leaf is _GONE else leaf

    def literals(self) -> Iterator[tuple[str, Leaf]]:
        """Every literal name and its leaf, in no particular order."""
        others: Table[str, Leaf] = {} if self.others is None else self.others
        for item in self._literals.items():
            if others.get(item[0]) is None:
                yield item
        for item in others.items():
            if item[1] is not _GONE:
                yield item

    def covering(self, name: str) -> Iterator[tuple[int, str, Leaf]]:
        """What covers ``name``: PREFIXED or 0, the name or prefix of the ACLs, and what they say."""
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            leaf = self.literal(literal)
            if leaf is not None:
                yield 0, literal, leaf
        if self.prefixes is not None:
            for prefix, leaf in self.prefixes.of_name(name):
                yield PREFIXED, prefix, leaf

    def with_literals(self, leaves: Mapping[str, Leaf | None]) -> Rights:
        """With the leaves of these literal names set, or removed where None.

        They are not put together: finding what covers them takes as long as a decision on them does.
        """
        set_or_gone = {name: _GONE if leaf is None else leaf for name, leaf in leaves.items()}
        is_star = WILDCARD in leaves
        named, others = ({}, self._all_apart()) if is_star else (self.named, self.others)
        others = with_entries({} if others is None else others, set_or_gone)
        return Rights(self._literals, self.prefixes, named, others)

    def with_prefixes(self, leaves: Mapping[str, Leaf | None]) -> Rights:
        """The same with prefixes. Any number of literals may be below them: none stays put together."""
        prefixes = (self.prefixes or _NO_PREFIXES).with_values(leaves)
        return Rights(self._literals, prefixes if len(prefixes) else None, {}, self._all_apart())

    def _all_apart(self) -> Table[str, Leaf] | None:
        """What ``others`` is when nothing is put together."""
        if not self.named:
            return self.others
        if self.others is None:
            return self._literals
        return with_entries(self._literals, dict(self.others.items()))


def _together(leaf: Leaf, star: Leaf, more: Leaf | None) -> Leaf | None:
    """The union; None if it, or ``more``, names too many hosts to keep such copies."""
    if more is not None and star != 0:
        more = union_leaf(star, more)
    if more is None:
        return None
    return leaf if more == 0 else union_leaf(leaf, more)


_NO_PREFIXES: Final = PrefixRanges.of({})
# In place of the leaf of a literal that is gone: to who decides it says nothing, as any leaf may.
_GONE: Final[Leaf] = {WILDCARD: 0}
#: What there is before the first ACL, to set leaves in.
NO_LEAVES: Final = Rights({}, None, {}, None)
