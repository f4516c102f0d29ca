"""Tree of single ACLs by pattern: which of them cover a name or prefix, and which are below it.

`patterns` has the union of the ACLs of a pattern; here each ACL is identified by its number among the rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.api.ip_network import address_of, network_of
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from authorizer.analysis.patterns import PatternRows
    from authorizer.api.ip_network import Network

#: The host of an ACL for every host; others are numbered from 0.
EVERY_HOST: Final = -1
#: Enclosing pattern where there is none.
NO_PATTERN: Final = -1
# Patterns with more ACLs get a table of them by host.
_FEW_ACLS: Final = 16


class DecidingAcls:
    """The rows that decide, as lists: single ACLs are read one after the other.

    Attributes:
        keys: the key of each one's pattern (see `patterns.PatternRows`).
        masks: the mask of each.
        hosts: the host of each.
        wider: by host, the networks that contain it; ``narrower``: the other way round.
        networks: of each host that is a network or an address, if any host is a network.
    """

    __slots__ = ("hosts", "keys", "masks", "narrower", "networks", "principals", "texts", "types", "wider")

    def __init__(self, rows: PatternRows, *, networks: bool) -> None:
        codes = np.arange(len(rows.host_texts))
        codes[[host == WILDCARD for host in rows.host_texts]] = EVERY_HOST
        self.wider: dict[int, list[int]] = {}
        self.narrower: dict[int, list[int]] = {}
        self.networks: dict[int, Network] = {}
        if networks:
            self._relate(rows.host_texts, codes)
        self.hosts: list[int] = codes[rows.hosts].tolist()
        self.keys: list[int] = rows.keys.tolist()
        self.masks: list[int] = rows.masks.tolist()
        self.types: list[int] = rows.types.tolist()
        self.principals: list[int] = rows.principals.tolist()
        self.texts: Sequence[str] = rows.texts

    def _relate(self, texts: Sequence[str], codes: npt.NDArray[np.int64]) -> None:
        """Record which networks contain which hosts and networks; equal networks have one code."""
        first: dict[Network, int] = {}
        for code, text in enumerate(texts):
            if (network := network_of(text)) is not None:
                codes[code] = first.setdefault(network, code)
        for code, text in enumerate(texts) if first else ():
            place = network_of(text) or address_of(text)
            if place is not None and codes[code] == code:
                self.networks[code] = place
                for network, other in first.items():
                    if other != code and place.is_within(network):
                        self.wider.setdefault(code, []).append(other)
                        self.narrower.setdefault(other, []).append(code)

    def narrower_of(self, host: int, other: int) -> int:
        """Return the host that both cover, of two that have one in common."""
        return other if host == EVERY_HOST or other in self.narrower.get(host, ()) else host


class AclForest:
    """Some of the ACLs, as a tree for each resource type and principal, or for each resource type."""

    def __init__(
        self, rows: PatternRows, acls: DecidingAcls, numbers: npt.NDArray[np.int64], *, of_all: bool
    ) -> None:
        """Of the ACLs with these numbers; ``of_all``: principals share a tree."""
        principals = np.zeros_like(numbers) if of_all else rows.principals[numbers]
        types, keys = rows.types[numbers], rows.keys[numbers]
        order = np.lexsort((numbers, keys, principals, types))
        self.acls = acls
        #: The ACLs in the order of their patterns.
        self.numbers: list[int] = numbers[order].tolist()
        self.masks = rows.masks[numbers][order]
        whose = (types * (len(rows.principal_texts) + 1) + principals)[order]
        begins = (np.diff(whose, prepend=-1) != 0) | (np.diff(keys[order], prepend=-1) != 0)
        starts = np.flatnonzero(begins)
        #: By pattern: its key, and the start of its ACLs.
        self.keys: list[int] = keys[order][starts].tolist()
        self.starts: list[int] = [*starts.tolist(), len(order)]
        firsts = np.flatnonzero(np.diff(whose[starts], prepend=-1)).tolist()
        # One more than there are: the code of a principal without ACLs.
        self._principals = len(rows.principal_texts) + 1
        self._ranges = dict(
            zip(whose[starts][firsts].tolist(), pairwise((*firsts, len(starts))), strict=True)
        )
        self._trees: dict[int, AclTree] = {}

    def tree(self, resource_type: int, principal: int = 0) -> AclTree:
        """Return the tree of one type and principal, which may have no ACLs."""
        whose = resource_type * self._principals + principal
        found = self._trees.get(whose)
        if found is None:
            found = self._trees[whose] = AclTree(self, *self._ranges.get(whose, (0, 0)))
        return found

    def ranges(self) -> Iterator[tuple[int, int, AclTree]]:
        """Yield each type and principal with its tree, which is created for this and not stored."""
        for whose, (first, end) in self._ranges.items():
            tree = self._trees.get(whose) or AclTree(self, first, end)
            yield *divmod(whose, self._principals), tree


class AclTree:
    """The ACLs of one resource type, of one principal or of all.

    Attributes:
        first: the number of the first pattern.
        outer: by pattern, from the first on, the next prefix that covers it, or ``NO_PATTERN``.
    """

    __slots__ = ("_by_host", "_every_host", "_forest", "_named", "end", "first", "outer")

    def __init__(self, forest: AclForest, first: int, end: int) -> None:
        self._forest = forest
        self.first = first
        self.end = end
        self.outer: list[int] = []
        # The mask for every host, at a pattern and around it; and at a pattern the masks of named hosts.
        self._every_host: list[int] = []
        self._named: dict[int, dict[int, int]] = {}
        self._by_host: dict[int, dict[int, list[int]]] = {}
        keys, starts, numbers, acls = forest.keys, forest.starts, forest.numbers, forest.acls
        texts, hosts, masks = acls.texts, acls.hosts, acls.masks
        # Not by `enclosing_prefixes`, for which each key would have to be made a tuple.
        open_prefixes: list[tuple[str, int]] = []
        for place in range(first, end):
            key = keys[place]
            name = texts[key >> 1]
            while open_prefixes and not name.startswith(open_prefixes[-1][0]):
                open_prefixes.pop()
            outer = open_prefixes[-1][1] if open_prefixes else NO_PATTERN
            self.outer.append(outer)
            combined_mask = self._every_host[outer - first] if open_prefixes else 0
            for number in numbers[starts[place] : starts[place + 1]]:
                host = hosts[number]
                if host == EVERY_HOST:
                    combined_mask |= masks[number]
                else:
                    named = self._named.setdefault(place, {})
                    named[host] = named.get(host, 0) | masks[number]
            self._every_host.append(combined_mask)
            if not key & 1:
                open_prefixes.append((name, place))

    def at(self, place: int) -> list[int]:
        """Return the ACLs of a pattern."""
        starts = self._forest.starts
        return self._forest.numbers[starts[place] : starts[place + 1]]

    def pattern_around(self, key: int) -> int:
        """Return the narrowest pattern that covers the key; ``NO_PATTERN`` if none does."""
        if self.first == self.end:
            return NO_PATTERN
        keys, texts = self._forest.keys, self._forest.acls.texts
        place = bisect_right(keys, key, self.first, self.end) - 1
        name = texts[key >> 1]
        while place >= self.first:
            here = keys[place]
            if here == key or (not here & 1 and name.startswith(texts[here >> 1])):
                return place
            place = self.outer[place - self.first]
        return NO_PATTERN

    def combined_mask(self, place: int, host: int) -> int:
        """Return the mask for a host, at a pattern and around it."""
        if place == NO_PATTERN:
            return 0
        combined_mask = self._every_host[place - self.first]
        if host != EVERY_HOST and self._named:
            while place != NO_PATTERN:
                if place in self._named:
                    named = self._named[place]
                    combined_mask |= named.get(host, 0)
                    for wider in self._forest.acls.wider.get(host, ()):
                        combined_mask |= named.get(wider, 0)
                place = self.outer[place - self.first]
        return combined_mask

    def covering(self, key: int, host: int) -> list[int]:
        """Return the ACLs for the host or every host that cover the key; narrowest patterns first."""
        found: list[int] = []
        place = self.pattern_around(key)
        while place != NO_PATTERN:
            found += self._of_host(place, host)
            place = self.outer[place - self.first]
        return found

    def covering_in_part(self, key: int, host: int) -> Iterator[int]:
        """Yield the ACLs that cover the key for only some addresses of a network."""
        narrower = self._forest.acls.narrower.get(host, ())
        place = self.pattern_around(key) if narrower else NO_PATTERN
        while place != NO_PATTERN:
            by_host = self._hosts_at(place)
            for each in narrower:
                yield from by_host.get(each, ())
            place = self.outer[place - self.first]

    def overlapping(self, key: int, host: int, bits: int) -> Iterator[int]:
        """Yield the ACLs with some of these bits that share a name with the key, and match the host.

        With ``EVERY_HOST`` the ACLs for every host are returned.
        """
        acls = self._forest.acls
        narrower = acls.narrower.get(host, ())
        shared = {EVERY_HOST, host, *acls.wider.get(host, ()), *narrower}
        place = self.pattern_around(key)
        while place != NO_PATTERN:
            near = self.at(place) if host == EVERY_HOST or narrower else self._of_host(place, host)
            for number in near:
                if acls.masks[number] & bits and (host == EVERY_HOST or acls.hosts[number] in shared):
                    yield number
            place = self.outer[place - self.first]
        for at in self._below(key, bits):
            number = self._forest.numbers[at]
            if host == EVERY_HOST or acls.hosts[number] in shared:
                yield number

    def _below(self, key: int, bits: int) -> Iterator[int]:
        """The positions of the ACLs with some of the bits whose patterns are below the key; not its own."""
        if key & 1:
            return
        forest, texts = self._forest, self._forest.acls.texts
        prefix = texts[key >> 1]
        begin = bisect_right(forest.keys, key, self.first, self.end)
        end = bisect_left(
            forest.keys,
            True,
            begin,
            self.end,
            key=lambda each: not texts[each >> 1].startswith(prefix),
        )
        start = forest.starts[begin] if begin < end else 0
        stop = forest.starts[end] if begin < end else 0
        # In pieces: usually one of the first is enough.
        for piece in range(start, stop, _PIECE):
            masks = forest.masks[piece : min(piece + _PIECE, stop)]
            yield from (piece + np.flatnonzero(masks & bits)).tolist()

    def _of_host(self, place: int, host: int) -> list[int]:
        acls, here = self._forest.acls, self.at(place)
        hosts, wider = acls.hosts, acls.wider.get(host, ())
        if len(here) <= _FEW_ACLS:
            about = (EVERY_HOST, host, *wider)
            return [number for number in here if hosts[number] in about]
        by_host = self._hosts_at(place)
        every = by_host.get(EVERY_HOST, [])
        if host == EVERY_HOST:
            return every
        return [number for each in (host, *wider) for number in by_host.get(each, ())] + every

    def _hosts_at(self, place: int) -> dict[int, list[int]]:
        """The ACLs of a pattern by host."""
        by_host = self._by_host.get(place)
        if by_host is None:
            by_host = self._by_host[place] = {}
            for number in self.at(place):
                by_host.setdefault(self._forest.acls.hosts[number], []).append(number)
        return by_host


_PIECE: Final = 4096
