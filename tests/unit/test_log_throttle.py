"""Log lines that clients cause are limited."""

from __future__ import annotations

import pytest

from authorizer.listeners import log_throttle
from authorizer.listeners.log_throttle import LOG_INTERVAL_S, LogThrottle


def test_a_key_has_one_line_in_an_interval_and_the_next_one_counts_the_others() -> None:
    lines = LogThrottle()
    assert [lines.count("a", 5.0), lines.count("a", 5.0), lines.count("b", 6.0)] == [1, None, 1]
    assert lines.count("a", 5.0 + LOG_INTERVAL_S - 0.1) is None
    assert lines.count("a", 5.0 + LOG_INTERVAL_S) == 3
    assert lines.count("a", 5.0 + 2 * LOG_INTERVAL_S) == 1


def test_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_throttle, "KEYS_MAX", 2)
    lines = LogThrottle()
    assert [lines.count(key, 1.0) for key in "abcab"] == [1, 1, 1, 1, 1]
    assert lines.count("b", 1.0) is None
