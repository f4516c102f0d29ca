"""SharedTokenBuckets, FairShare and the debt of an address: limits shared by processes or holders."""

from __future__ import annotations

import multiprocessing
from mmap import mmap

import pytest

from authorizer.authentication import rate_limits
from authorizer.authentication.rate_limits import (
    FAILURES_MAX,
    FORGET_AFTER_S,
    SHARED_BYTES,
    FailureRateLimit,
    SharedTokenBuckets,
    TokenBuckets,
)
from authorizer.listeners.connection_limiter import FairShare
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


ONE, OTHER = "10.0.0.1", "10.0.0.2"


def failed(times: int, address: str = ONE, now_s: float = 100.0) -> FailureRateLimit:
    failures = FailureRateLimit()
    for _ in range(times):
        failures.add(address, now_s)
    return failures


def test_an_address_waits_after_its_last_try_and_others_do_not() -> None:
    assert failed(FAILURES_MAX - 1).wait_s(ONE, 100.0) == 0
    failures = failed(FAILURES_MAX)
    assert failures.wait_s(ONE, 100.0) == FORGET_AFTER_S
    assert failures.wait_s(OTHER, 100.0) == 0


def test_failures_are_forgotten_one_after_another() -> None:
    failures = failed(FAILURES_MAX)
    assert failures.wait_s(ONE, 100.0 + FORGET_AFTER_S) == 0
    failures.add(ONE, 100.0 + FORGET_AFTER_S)
    assert failures.wait_s(ONE, 100.0 + FORGET_AFTER_S) == FORGET_AFTER_S
    # And all of them after a while.
    long_after = 100.0 + 10 * FAILURES_MAX * FORGET_AFTER_S
    for _ in range(FAILURES_MAX - 1):
        failures.add(ONE, long_after)
    assert failures.wait_s(ONE, long_after) == 0


def test_debt_has_a_small_cap() -> None:
    """However many have failed, the wait is over as soon after the last one."""
    failures = failed(20_000)
    assert failures.wait_s(ONE, 100.0) == FORGET_AFTER_S
    assert failures.wait_s(ONE, 100.0 + FORGET_AFTER_S) == 0


def test_a_network_of_ipv6_is_one_caller() -> None:
    failures = failed(FAILURES_MAX, "2001:db8:1:2::1")
    assert failures.wait_s("2001:db8:1:2:ffff::9", 100.0) > 0
    assert failures.wait_s("2001:db8:1:3::1", 100.0) == 0
    assert failed(FAILURES_MAX, "fe80::1%eth0").wait_s("fe80::2%eth0", 100.0) > 0


def test_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "KEYS_MAX", 3)
    failures = failed(FAILURES_MAX)
    for number in range(2, 5):
        failures.add(f"10.0.0.{number}", 100.0)
    assert len(failures._buckets._full_at_s) == 3
    assert failures.wait_s(ONE, 100.0) == 0


PLACES = 64


def taken_by(share: FairShare, holder: str) -> int:
    """Places that it gets while it takes all that it can."""
    count = 0
    while share.take(holder, PLACES):
        count += 1
    return count


def test_a_holder_gets_half_and_those_after_it_have_room() -> None:
    share = FairShare()
    assert [taken_by(share, holder) for holder in "abc"] == [32, 16, 8]
    assert share.taken == 56


def test_holders_that_compete_get_the_same() -> None:
    share = FairShare()
    while any([share.take(holder, PLACES) for holder in "abc"]):  # noqa: C419 - each of them
        pass
    assert [share._counts[holder] for holder in "abc"] == [16, 16, 16]
    assert share.take("d", PLACES)


def test_a_place_that_was_given_back_is_free() -> None:
    share = FairShare()
    for _ in range(3):
        taken = taken_by(share, "a")
        for _ in range(taken):
            share.release("a")
        assert (taken, share.taken, share._counts) == (32, 0, {})


def test_the_only_place_is_for_who_comes_first() -> None:
    share = FairShare()
    assert [share.take("a", 1), share.take("a", 1), share.take("b", 1)] == [True, False, False]
    assert not share.take("c", 0)
