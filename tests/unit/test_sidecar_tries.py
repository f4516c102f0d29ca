"""The debt of an address, by its failed tries."""

from __future__ import annotations

import pytest

from authorizer.authentication import token_buckets
from authorizer.authentication.failure_rate_limit import FAILURES_MAX, FORGET_AFTER_S, FailureRateLimit

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
    monkeypatch.setattr(token_buckets, "KEYS_MAX", 3)
    failures = failed(FAILURES_MAX)
    for number in range(2, 5):
        failures.add(f"10.0.0.{number}", 100.0)
    assert len(failures._buckets._full_at_s) == 3
    assert failures.wait_s(ONE, 100.0) == 0
