"""Polling ends by success, by its deadline or early; a thread repeats its work until it is closed."""

from __future__ import annotations

import threading
import time

import pytest

from records.polling import PeriodicThread, poll_until

SOON_S = 60.0


def test_poll_until_succeeds_after_some_checks() -> None:
    answers = iter([False, False, True])
    assert poll_until(lambda: next(answers), 0.0, time.monotonic() + SOON_S)
    assert list(answers) == []


def test_poll_until_checks_once_after_its_deadline() -> None:
    """A check that would succeed immediately runs even after the deadline."""
    assert poll_until(lambda: True, 0.0, float("-inf"))
    assert not poll_until(lambda: False, 0.0, float("-inf"))


def test_poll_until_ends_early() -> None:
    closing = threading.Event()
    closing.set()
    assert not poll_until(lambda: False, SOON_S, float("inf"), closing)


def test_poll_until_raises_what_the_check_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        poll_until(lambda: bool(1 // 0), 0.0, float("inf"))


def test_a_periodic_thread_repeats_its_work_and_ends_with_its_last_call() -> None:
    calls: list[str] = []
    done = threading.Event()

    def work() -> float:
        calls.append("work")
        if len(calls) == 3:
            done.set()
            return SOON_S  # the close does not wait for it
        return 0.0

    with PeriodicThread("aclog-test", work, on_close=lambda: calls.append("last")) as thread:
        assert done.wait(SOON_S)
    thread.close()  # idempotent
    assert calls == ["work", "work", "work", "last"]


def test_a_periodic_thread_that_was_not_started_can_be_closed() -> None:
    PeriodicThread("aclog-test", lambda: 0.0).close()
