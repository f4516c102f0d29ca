"""Minimal covers: the least ACLs that satisfy all needs, where each need has several ACLs that suffice.

Least by what they allow (one pass over the ACLs, the broadest first), or by number (a set cover, exact where
groups of connected needs have few ACLs).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

#: ACLs by their positions in a list, the narrowest first.
Need = frozenset[int]

#: A group of needs with at most this number of ACLs is searched exactly.
EXACT_ACLS: Final = 16


class MinimalCover(NamedTuple):
    """ACLs that satisfy all needs.

    Attributes:
        acls: their positions.
        groups: number of groups of needs without an ACL in common.
        guessed: number of groups for which fewer ACLs may suffice.
    """

    acls: set[int]
    groups: int
    guessed: int


def narrowest_cover(needs: Collection[Need]) -> set[int]:
    """Return ACLs none of which can be replaced by narrower ones: exact, and irreducible."""
    needed_by: dict[int, list[int]] = defaultdict(list)
    left = []
    for number, need in enumerate(needs):
        left.append(len(need))
        for acl in need:
            needed_by[acl].append(number)
    kept = set()
    for acl in sorted(needed_by, reverse=True):
        if any(left[number] == 1 for number in needed_by[acl]):
            kept.add(acl)
        else:
            for number in needed_by[acl]:
                left[number] -= 1
    return kept


def minimal_cover(needs: Collection[Need]) -> MinimalCover:
    """Return as few ACLs as possible; of equally many, mostly the narrower ones."""
    found: set[int] = set()
    groups = guessed = 0
    for group in _groups(needs):
        chosen = _greedily(group)
        groups += 1
        if len(chosen) > 1:
            if len(frozenset().union(*group)) <= EXACT_ACLS:
                chosen = _exactly(group, chosen)
            else:
                guessed += 1
        found |= chosen
    return MinimalCover(found, groups, guessed)


def _groups(needs: Iterable[Need]) -> Iterator[Sequence[Need]]:
    """Needs that are connected by common ACLs."""
    leader: dict[int, int] = {}

    def lead(acl: int) -> int:
        while (upper := leader.setdefault(acl, acl)) != acl:
            leader[acl] = acl = leader.setdefault(upper, upper)
        return acl

    needs = list(needs)
    for need in needs:
        first, *others = need
        for other in others:
            leader[lead(other)] = lead(first)
    groups: dict[int, list[Need]] = defaultdict(list)
    for need in needs:
        groups[lead(next(iter(need)))].append(need)
    yield from groups.values()


def _greedily(needs: Sequence[Need]) -> set[int]:
    """Repeatedly the ACL of most needs; then without those that are no longer needed."""
    needed_by: dict[int, set[int]] = defaultdict(set)
    for number, need in enumerate(needs):
        for acl in need:
            needed_by[acl].add(number)
    chosen: set[int] = set()
    while needed_by:
        best = max(needed_by, key=lambda acl: (len(needed_by[acl]), -acl))
        chosen.add(best)
        for number in needed_by.pop(best):
            for acl in needs[number]:
                if acl != best and acl in needed_by:
                    needed_by[acl].discard(number)
        needed_by = {acl: left for acl, left in needed_by.items() if left}
    return narrowest_cover([need & chosen for need in needs])


def _exactly(needs: Sequence[Need], best: set[int]) -> set[int]:
    """The fewest possible ACLs; ``best`` is a known solution."""

    def search(left: Sequence[Need], chosen: set[int]) -> None:
        nonlocal best
        if not left:
            best = chosen
        elif len(chosen) + 1 < len(best):
            hardest: Need = min(left, key=len)
            for acl in sorted(hardest):
                search([need for need in left if acl not in need], chosen | {acl})

    search(needs, set())
    return best
