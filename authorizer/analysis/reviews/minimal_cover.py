"""Minimal covers: as few or as narrow ACLs as possible that satisfy all needs.

A need is a set of ACLs, each of which satisfies it. The narrowest ACLs are found in one pass, the broadest
first. The fewest ACLs are a set cover, exact if groups of connected needs have few ACLs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

#: ACLs by their positions in a list, the narrowest first.
Need = frozenset[int]

#: A group of needs with at most this number of ACLs is searched exactly.
EXACT_ACLS: Final = 16


class MinimalCover(NamedTuple):
    """ACLs that satisfy all needs.

    Attributes:
        acls: their positions.
        inexact_groups: number of groups for which fewer ACLs may suffice.
    """

    acls: set[int]
    groups: int
    inexact_groups: int


def narrowest_cover(needs: Collection[Need]) -> set[int]:
    """Return an irreducible set of ACLs, none of which can be replaced by narrower ones. Exact."""
    needed_by: dict[int, list[int]] = defaultdict(list)
    remaining = []
    for number, need in enumerate(needs):
        remaining.append(len(need))
        for acl in need:
            needed_by[acl].append(number)
    chosen = set()
    for acl in sorted(needed_by, reverse=True):
        if any(remaining[number] == 1 for number in needed_by[acl]):
            chosen.add(acl)
        else:
            for number in needed_by[acl]:
                remaining[number] -= 1
    return chosen


def minimal_cover(needs: Collection[Need]) -> MinimalCover:
    """Return as few ACLs as possible; of equally many, mostly the narrower ones."""
    found: set[int] = set()
    groups = inexact_groups = 0
    for group in _groups(needs):
        chosen = _greedy_cover(group)
        groups += 1
        if len(chosen) > 1:
            if len(frozenset().union(*group)) <= EXACT_ACLS:
                chosen = _exact_cover(group, chosen)
            else:
                inexact_groups += 1
        found |= chosen
    return MinimalCover(found, groups, inexact_groups)


def _groups(needs: Iterable[Need]) -> Iterator[Sequence[Need]]:
    parents: dict[int, int] = {}

    def find_root(acl: int) -> int:
        while (parent := parents.setdefault(acl, acl)) != acl:
            parents[acl] = acl = parents.setdefault(parent, parent)
        return acl

    needs = list(needs)
    for need in needs:
        first, *rest = need
        for other in rest:
            parents[find_root(other)] = find_root(first)
    groups: dict[int, list[Need]] = defaultdict(list)
    for need in needs:
        groups[find_root(next(iter(need)))].append(need)
    yield from groups.values()


def _greedy_cover(needs: Sequence[Need]) -> set[int]:
    """Choose the ACL of most needs repeatedly; then drop those that are not needed any more."""
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
        needed_by = {acl: remaining for acl, remaining in needed_by.items() if remaining}
    return narrowest_cover([need & chosen for need in needs])


def _exact_cover(needs: Sequence[Need], best: set[int]) -> set[int]:
    """The fewest possible ACLs; ``best`` is a known solution."""

    def search(remaining: Sequence[Need], chosen: set[int]) -> None:
        nonlocal best
        if not remaining:
            best = chosen
        elif len(chosen) + 1 < len(best):
            hardest: Need = min(remaining, key=len)
            for acl in sorted(hardest):
                search([need for need in remaining if acl not in need], chosen | {acl})

    search(needs, set())
    return best
