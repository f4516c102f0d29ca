"""Masks around ACLs: for arrays of ACLs, what those that are no narrower allow and deny."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.analysis.lint.acl_tree import EVERY_HOST, DecidingRows
from authorizer.analysis.request_space.nested_patterns import NO_PATTERN, NestedPatterns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from authorizer.analysis.request_space.patterns import PatternRows

    Numbers = npt.NDArray[np.int64]

_NO_HOST: Final = -2
_MASK_BITS: Final = 30


class AclMasks:
    """The masks of some ACLs by resource type, principal, host and pattern.

    ``patterns``: their patterns; each principal and host has its own.
    """

    def __init__(
        self, rows: PatternRows, acls: DecidingRows, numbers: Numbers, wildcard: int, *, by_host: bool = True
    ) -> None:
        """Arrange the ACLs with ``numbers``; ``by_host``: ACLs for different hosts are apart."""
        self._rows = rows
        self._acls = acls
        self._wildcard = wildcard
        self._by_host = by_host
        self.numbers = numbers
        groups = self._groups(numbers, rows.principals[numbers], self._hosts(numbers))
        self.patterns = NestedPatterns(groups, rows.keys[numbers], acls.last_keys[numbers])
        ordered = numbers[self.patterns.order]
        self._combined = self.patterns.combined(rows.masks[ordered])

    def around(self, numbers: Numbers, *, includes_same: bool) -> Numbers:
        """Return for each of some ACLs the union of the masks of these ACLs that are no narrower.

        Those are ACLs for the same or a wider pattern, the principal or ``User:*``, and the same or a wider
        host. ``includes_same``: also those that differ in the operation only.
        """
        rows = self._rows
        principals, keys = rows.principals[numbers], rows.keys[numbers]
        found = np.zeros(len(numbers), np.int64)
        for is_own_host, hosts in self._same_and_wider_hosts(numbers):
            has_host = hosts != _NO_HOST
            for is_own, is_queried in ((True, has_host), (False, has_host & (principals != self._wildcard))):
                at = np.flatnonzero(is_queried)
                groups = self._groups(
                    numbers[at], principals[at] if is_own else np.full(len(at), self._wildcard), hosts[at]
                )
                is_around = is_own and is_own_host and not includes_same
                found[at] |= self._combined[self.patterns.innermost(groups, keys[at], is_around=is_around)]
        return found

    def have(
        self,
        numbers: Numbers,
        *,
        principal: int | None = None,
        host: int | None = None,
        key: int | None = None,
        mask: int | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Return for each of some ACLs whether one of these ACLs is equal, but has the given values."""
        rows, size = self._rows, len(numbers)
        groups = self._groups(
            numbers,
            rows.principals[numbers] if principal is None else np.full(size, principal),
            self._acls.host_codes[numbers] if host is None else np.full(size, host),
        )
        keys = rows.keys[numbers] if key is None else np.full(size, key)
        masks = rows.masks[numbers] if mask is None else np.full(size, mask)
        found = self.patterns.exact(groups, keys)
        is_equal = np.isin((found << _MASK_BITS) | masks, self._patterns_and_masks)
        is_found: npt.NDArray[np.bool_] = (found != NO_PATTERN) & is_equal
        return is_found

    @cached_property
    def _patterns_and_masks(self) -> Numbers:
        masks = self._rows.masks[self.numbers[self.patterns.order]]
        return np.unique((self.patterns.of_rows << _MASK_BITS) | masks)

    def _hosts(self, numbers: Numbers) -> Numbers:
        return self._acls.host_codes[numbers] if self._by_host else np.full(len(numbers), EVERY_HOST)

    def _same_and_wider_hosts(self, numbers: Numbers) -> Iterator[tuple[bool, Numbers]]:
        """The host of each ACL, then the wider ones; `_NO_HOST` where there are no more."""
        hosts = self._hosts(numbers)
        yield True, hosts
        if (hosts != EVERY_HOST).any():
            yield False, np.where(hosts == EVERY_HOST, _NO_HOST, EVERY_HOST)
            wider = self._acls.wider
            for depth in range(max(map(len, wider.values()), default=0)):
                by_host = np.full(len(self._rows.host_texts) + 1, _NO_HOST)  # the last one is `EVERY_HOST`
                for host, around in wider.items():
                    if depth < len(around):
                        by_host[host] = around[depth]
                yield False, by_host[hosts]

    def _groups(self, numbers: Numbers, principals: Numbers, hosts: Numbers) -> Numbers:
        """A number for each resource type, principal and host."""
        rows = self._rows
        groups = rows.types[numbers] * (len(rows.principal_texts) + 1) + principals
        return groups * (len(rows.host_texts) + 1) + hosts + 1


def masks_of_others(masks: Numbers, starts: Numbers) -> Numbers:
    """Return for each ACL of a pattern the union of the masks of its other ACLs; ``starts``: by pattern."""
    if not len(masks):
        return masks
    shared = np.zeros(len(starts), np.int64)
    for bit in range(_MASK_BITS):
        shared |= (np.add.reduceat(masks >> bit & 1, starts) > 1).astype(np.int64) << bit
    sizes = np.diff(starts, append=len(masks))
    around: Numbers = (
        np.repeat(shared, sizes) | np.repeat(np.bitwise_or.reduceat(masks, starts), sizes) & ~masks
    )
    return around
