"""The shard of an ACL."""

from __future__ import annotations

import random

import numpy as np
import pytest

from snapshot.jobs.folding.stored_state import shards_of


def shard_of(acl_id: bytes, shards: int) -> int:
    """The rule in Python's own numbers."""
    first, second = int.from_bytes(acl_id[:8], "big"), int.from_bytes(acl_id[8:], "big")
    return (((first ^ second) * 0x9E3779B97F4A7C15) % 2**64 >> 32) % shards


def ids(count: int) -> list[bytes]:
    draw = random.Random(7)
    few = [bytes(16), b"\xff" * 16, *(number.to_bytes(16, "big") for number in range(20))]
    return few + [draw.randbytes(16) for _ in range(count)]


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 1000])
def test_the_shard_is_a_hash_of_the_id(shards: int) -> None:
    """The stored parts depend on it: it must never change."""
    some = ids(50)
    found = shards_of(b"".join(some), shards)
    assert found.tolist() == [shard_of(acl_id, shards) for acl_id in some]
    assert found.dtype == np.int32


def test_shards_are_of_about_one_size() -> None:
    """Also for ids that only count up."""
    counted = b"".join(number.to_bytes(16, "big") for number in range(16_000))
    for some in (b"".join(ids(16_000)), counted):
        counts = np.bincount(shards_of(some, 8), minlength=8).tolist()
        assert min(counts) > 1_700
        assert max(counts) < 2_300


def test_no_ids_have_no_shards() -> None:
    """An empty blob is fine, another size is not."""
    assert shards_of(b"", 8).tolist() == []
    with pytest.raises(ValueError, match="reshape"):
        shards_of(b"12345678", 8)
    with pytest.raises(ValueError, match="at least 1 shard, not 0"):
        shards_of(bytes(16), 0)
