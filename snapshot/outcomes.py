"""What becomes of ids that several records are about, by looking at all of them at once. Pure.

    one id's, in log order     ACL a     ACL a     ACL b     removal   ACL c     ACL c
    before it, in force        -         a         a         b         -         c
    counted as                 added     repeated  replaced  removed   added     repeated
    kept                                                               here: the first writing stays on record

ACLs are told apart by the hashes that the digest is made of (snapshot.digest): of id and content. The rules
are AclsDelta's (I8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    _Ids = npt.NDArray[np.void]
    _Ints = npt.NDArray[np.int64]
    _Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Outcomes:
    """``kept``: of the ACLs given, which are in force in the end. How often what happened, as DeltaCounts."""

    kept: _Mask
    added: int
    removed: int
    replaced: int
    repeated: int
    unknown_removals: int


def outcomes(ids: _Ids, hashes: _Ids, numbers: _Ints, removed: _Ids, removal_numbers: _Ints) -> Outcomes:
    """What becomes of these ids.

    Args:
        ids: of ACLs, 16 bytes each.
        hashes: of these ACLs, 16 bytes each.
        numbers: of these ACLs, in log order; negative for what was there before, once for an id, and is not
            counted.
        removed: ids that are removed.
        removal_numbers: of these removals, in log order.
    """
    all_numbers = np.concatenate([numbers, removal_numbers])
    high, low = _words(np.concatenate([ids, removed]))
    order = np.lexsort((all_numbers, low, high))
    is_same = np.zeros(len(order), np.bool_)
    is_same[1:] = (high[order[1:]] == high[order[:-1]]) & (low[order[1:]] == low[order[:-1]])
    is_acl = order < len(ids)
    # In force before each: something, and the same thing.
    is_held = np.zeros(len(order), np.bool_)
    is_held[1:] = is_same[1:] & is_acl[:-1]
    is_equal = is_held & is_acl
    at = np.flatnonzero(is_equal)
    is_equal[at] = hashes[order[at]] == hashes[order[at - 1]]
    is_counted = all_numbers[order] >= 0
    is_written = is_acl & is_counted
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = ~is_same[1:]
    # Where the content came into force that is in force at each.
    since = np.maximum.accumulate(np.where(is_acl & ~is_equal, np.arange(len(order)), 0))
    kept = np.zeros(len(ids), np.bool_)
    kept[order[since[is_last & is_acl]]] = True
    return Outcomes(
        kept=kept,
        added=int((is_written & ~is_held).sum()),
        removed=int((~is_acl & is_held).sum()),
        replaced=int((is_written & is_held & ~is_equal).sum()),
        repeated=int((is_written & is_equal).sum()),
        unknown_removals=int((~is_acl & ~is_held).sum()),
    )


def _words(ids: _Ids) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The halves of ids, as numbers."""
    words = np.ascontiguousarray(ids).view(">u8").reshape(-1, 2).astype(np.uint64)
    return words[:, 0].copy(), words[:, 1].copy()
