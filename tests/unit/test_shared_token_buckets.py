"""SharedTokenBuckets: the rates of several processes, in memory that they share."""

from __future__ import annotations

import multiprocessing
from mmap import mmap

import pytest

from authorizer.authentication.token_buckets import SHARED_BYTES, SharedTokenBuckets, TokenBuckets
from records.principal import KafkaPrincipal

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")


@pytest.fixture
def memory() -> mmap:
    return mmap(-1, SHARED_BYTES)


def test_what_one_process_takes_is_missing_for_the_other(memory: mmap) -> None:
    SharedTokenBuckets(memory).take(ALICE, 5.0, 100.0)

    def take() -> None:
        SharedTokenBuckets(memory).take(ALICE, 2.0, 101.0)

    other = multiprocessing.get_context("fork").Process(target=take)
    other.start()
    other.join()
    assert other.exitcode == 0
    buckets = SharedTokenBuckets(memory)
    assert buckets.refill_s(ALICE, 101.0) == 6.0
    assert buckets.refill_s(BOB, 101.0) == 0.0
    assert buckets.refill_s(ALICE, 108.0) == 0.0


def test_thousands_of_keys_have_the_rates_of_one_process(memory: mmap) -> None:
    """Half of all slots are in use, each by one key."""
    shared, single = SharedTokenBuckets(memory), TokenBuckets()
    keys = [f"User:{number}" for number in range(SHARED_BYTES // 32)]
    for now_s in range(3):
        for number, key in enumerate(keys):
            for each in (shared, single):
                each.take(key, 1.0 + number % 7, float(now_s))
    wrong = [key for key in keys if shared.refill_s(key, 3.0) != single.refill_s(key, 3.0)]
    assert len(wrong) <= len(keys) // 100  # more than eight keys on eight slots


def test_a_key_without_a_free_slot_replaces_the_one_that_is_full_first(memory: mmap) -> None:
    buckets = SharedTokenBuckets(memory)
    keys = [f"User:{number}" for number in range(SHARED_BYTES // 8)]
    for number, key in enumerate(keys, 1):
        buckets.take(key, float(number), 0.0)
    assert buckets.refill_s(keys[-1], 0.0) == len(keys)
    assert buckets.refill_s(keys[0], 0.0) == 0.0


def test_cleared_buckets_are_full_for_all_processes(memory: mmap) -> None:
    buckets = SharedTokenBuckets(memory)
    buckets.take(ALICE, 5.0, 0.0)
    SharedTokenBuckets(memory).clear()
    assert buckets.refill_s(ALICE, 0.0) == 0.0
