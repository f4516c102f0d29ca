"""Tree of single ACLs by pattern, to find those that cover a name or prefix, and those below it.

`patterns` has the union of the ACLs of a pattern. Here an ACL is the number of its row in PatternRows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.analysis.request_space.nested_patterns import NO_PATTERN, NestedPatterns, last_keys
from authorizer.api.ip_address import Network, address_of, network_of
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from authorizer.analysis.request_space.patterns import PatternRows

#: The host of an ACL for every host; others are numbered from 0.
EVERY_HOST: Final = -1
# Patterns with more ACLs get a table of them by host.
_FEW_ACLS: Final = 16


class DecidingRows:
    """The columns of PatternRows as lists, which Python reads faster one by one, and the nesting of hosts.

    Attributes:
        keys: by row, the key of its pattern (see `patterns.PatternRows`).
        last_keys: by row, the last key that its pattern covers; an array.
        wider: by host, the networks that contain it, the narrowest first.
        narrower: by network, the hosts and networks in it.
        networks: by host, its network or address; empty if no host is a network.
    """

    __slots__ = (
        *("host_codes", "hosts", "keys", "last_keys", "masks", "narrower", "networks", "principals"),
        *("texts", "types", "wider"),
    )

    def __init__(self, rows: PatternRows, *, networks: bool) -> None:
        codes = np.arange(len(rows.host_texts))
        codes[[host == WILDCARD for host in rows.host_texts]] = EVERY_HOST
        self.wider: dict[int, list[int]] = {}
        self.narrower: dict[int, set[int]] = {}
        self.networks: dict[int, Network] = {}
        if networks:
            self._relate(rows.host_texts, codes)
        self.host_codes = codes[rows.hosts]
        self.hosts: list[int] = self.host_codes.tolist()
        self.keys: list[int] = rows.keys.tolist()
        self.last_keys = last_keys(rows.keys, rows.texts)
        self.masks: list[int] = rows.masks.tolist()
        self.types: list[int] = rows.types.tolist()
        self.principals: list[int] = rows.principals.tolist()
        self.texts: Sequence[str] = rows.texts

    def _relate(self, texts: Sequence[str], codes: npt.NDArray[np.int64]) -> None:
        """Record which networks contain which hosts and networks; equal networks have one code."""
        first: dict[Network, int] = {}
        for code, network in enumerate(map(network_of, texts)):
            if network is not None:
                codes[code] = first.setdefault(network, code)
        if not first:
            return
        self.networks = {code: network for network, code in first.items()}
        for code, address in enumerate(map(address_of, texts)):
            if address is not None:
                self.networks[code] = address
        lengths = sorted({each.length for each in first}, reverse=True)
        for code, inner in self.networks.items():
            for length in lengths:
                if length <= inner.length:
                    other = first.get(inner.wider(inner.length - length))
                    if other is not None and other != code:
                        self.wider.setdefault(code, []).append(other)
                        self.narrower.setdefault(other, set()).add(code)

    def narrower_of(self, host: int, other: int) -> int:
        """Return the narrower one of two overlapping hosts."""
        return other if host == EVERY_HOST or other in self.narrower.get(host, ()) else host


class AclForest:
    """Some of the ACLs, as a tree for each resource type and principal, or for each resource type."""

    def __init__(
        self, rows: PatternRows, acls: DecidingRows, numbers: npt.NDArray[np.int64], *, is_shared: bool
    ) -> None:
        """Arrange the ACLs with these numbers; ``is_shared``: principals share a tree."""
        principals = np.zeros_like(numbers) if is_shared else rows.principals[numbers]
        keys = rows.keys[numbers]
        groups = rows.types[numbers] * (len(rows.principal_texts) + 1) + principals
        patterns = NestedPatterns(groups, keys, acls.last_keys[numbers])
        order, firsts = patterns.order, patterns.order[patterns.starts]
        self.acls = acls
        #: The ACLs in the order of their patterns.
        self.numbers: list[int] = numbers[order].tolist()
        self.masks = rows.masks[numbers][order]
        #: By pattern: its key, the start of its ACLs, and the longest prefix around it, or ``NO_PATTERN``.
        self.keys: list[int] = keys[firsts].tolist()
        self.starts: list[int] = [*patterns.starts.tolist(), len(order)]
        self.outer: list[int] = patterns.outer.tolist()
        group_starts = np.flatnonzero(np.diff(groups[firsts], prepend=-1))
        # One more than there are: the last code is that of a principal without ACLs.
        self._principals = len(rows.principal_texts) + 1
        self._ranges = dict(
            zip(
                groups[firsts][group_starts].tolist(),
                pairwise((*group_starts.tolist(), len(firsts))),
                strict=True,
            )
        )
        self._trees: dict[int, AclTree] = {}

    def tree(self, resource_type: int, principal: int = 0) -> AclTree:
        """Return the tree of one type and principal, which may have no ACLs."""
        group = resource_type * self._principals + principal
        found = self._trees.get(group)
        if found is None:
            found = self._trees[group] = AclTree(self, *self._ranges.get(group, (0, 0)))
        return found


class AclTree:
    """The ACLs of one resource type, of one principal or of all: the patterns from ``first`` to ``end``."""

    __slots__ = ("_by_host", "_forest", "end", "first")

    def __init__(self, forest: AclForest, first: int, end: int) -> None:
        self._forest = forest
        self.first = first
        self.end = end
        self._by_host: dict[int, dict[int, list[int]]] = {}

    def acls_of(self, pattern: int) -> list[int]:
        starts = self._forest.starts
        return self._forest.numbers[starts[pattern] : starts[pattern + 1]]

    def pattern_around(self, key: int) -> int:
        """Return the narrowest pattern that covers the key; ``NO_PATTERN`` if none does."""
        if self.first == self.end:
            return NO_PATTERN
        keys, texts = self._forest.keys, self._forest.acls.texts
        pattern = bisect_right(keys, key, self.first, self.end) - 1
        name = texts[key >> 1]
        while pattern >= self.first:
            acls_here = keys[pattern]
            if acls_here == key or (not acls_here & 1 and name.startswith(texts[acls_here >> 1])):
                return pattern
            pattern = self._forest.outer[pattern]
        return NO_PATTERN

    def covering(self, key: int, host: int) -> list[int]:
        """Return the ACLs for the host or every host that cover the key; narrowest patterns first."""
        found: list[int] = []
        pattern = self.pattern_around(key)
        while pattern != NO_PATTERN:
            found += self._of_host(pattern, host)
            pattern = self._forest.outer[pattern]
        return found

    def covering_in_part(self, key: int, host: int) -> Iterator[int]:
        """Yield the ACLs that cover the key for only some addresses of a network."""
        hosts, narrower = self._forest.acls.hosts, self._forest.acls.narrower.get(host, ())
        pattern = self.pattern_around(key) if narrower else NO_PATTERN
        while pattern != NO_PATTERN:
            yield from (number for number in self.acls_of(pattern) if hosts[number] in narrower)
            pattern = self._forest.outer[pattern]

    def overlapping(self, key: int, host: int, bits: int) -> Iterator[int]:
        """Yield the ACLs with some of these bits that share a name with the key, and match the host.

        With ``EVERY_HOST`` the ACLs for every host are returned.
        """
        acls = self._forest.acls
        narrower = acls.narrower.get(host, ())
        wider = {EVERY_HOST, host, *acls.wider.get(host, ())}

        def is_shared(number: int) -> bool:
            other = acls.hosts[number]
            return host == EVERY_HOST or other in wider or other in narrower

        pattern = self.pattern_around(key)
        while pattern != NO_PATTERN:
            candidates = (
                self.acls_of(pattern) if host == EVERY_HOST or narrower else self._of_host(pattern, host)
            )
            for number in candidates:
                if acls.masks[number] & bits and is_shared(number):
                    yield number
            pattern = self._forest.outer[pattern]
        for position in self._below(key, bits):
            number = self._forest.numbers[position]
            if is_shared(number):
                yield number

    def _below(self, key: int, bits: int) -> Iterator[int]:
        """The positions of the ACLs with some of the bits group patterns are below the key; not its own."""
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
        # In chunks: usually the caller stops at one of the first.
        for chunk in range(start, stop, _CHUNK):
            masks = forest.masks[chunk : min(chunk + _CHUNK, stop)]
            yield from (chunk + np.flatnonzero(masks & bits)).tolist()

    def _of_host(self, pattern: int, host: int) -> list[int]:
        acls, acls_here = self._forest.acls, self.acls_of(pattern)
        hosts, wider = acls.hosts, acls.wider.get(host, ())
        if len(acls_here) <= _FEW_ACLS:
            matching_hosts = (EVERY_HOST, host, *wider)
            return [number for number in acls_here if hosts[number] in matching_hosts]
        by_host = self._hosts_at(pattern)
        every = by_host.get(EVERY_HOST, [])
        if host == EVERY_HOST:
            return every
        return [number for each in (host, *wider) for number in by_host.get(each, ())] + every

    def _hosts_at(self, pattern: int) -> dict[int, list[int]]:
        by_host = self._by_host.get(pattern)
        if by_host is None:
            by_host = {}
            for number in self.acls_of(pattern):
                by_host.setdefault(self._forest.acls.hosts[number], []).append(number)
            self._by_host[pattern] = by_host  # when it is complete: several threads may read the tree
        return by_host


_CHUNK: Final = 4096
