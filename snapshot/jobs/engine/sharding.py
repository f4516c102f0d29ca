"""Which shard an ACL belongs to: a hash of its id, the same wherever it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

#: A million ACLs are then parts of some 3 MB.
SHARDS_DEFAULT: Final = 8

# Fibonacci hashing: 2^64 by the golden ratio. The upper half of the product depends on all bits of the id.
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)


def shards_of(ids: bytes, shards: int) -> npt.NDArray[np.int32]:
    """The shard of each of the 16-byte ids that the blob holds, 0 to ``shards`` - 1.

    Raises:
        ValueError: no shard at all, or ids that are not 16 bytes each.
    """
    if shards < 1:
        raise ValueError(f"at least 1 shard, not {shards}")
    words = np.frombuffer(ids, ">u8").astype(np.uint64).reshape(-1, 2)
    hashes = (words[:, 0] ^ words[:, 1]) * _MULTIPLIER >> _SHIFT
    return (hashes % np.uint64(shards)).astype(np.int32)
