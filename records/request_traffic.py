"""Traffic: the different requests of a time window with their counts, and how complete these are.

It is parsed from request lines (`records.request_line`). Nearly every line of a log differs from an earlier
one only in its time, and is not parsed again:

    [2026-11-23 06:59:41,   042       ] DEBUG Principal = User:a is Allowed operation = READ ...
    head                    fraction  tail

If head and tail are cached, only the fraction is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from records.errors import DecodeError
from records.request_line import BEGIN, TIME, Logged, RequestLine, RequestLines, event_line

#: Maximum number of rejected lines that are reported.
NAMED_LINES: Final = 5

_BEGIN: Final = BEGIN.encode()
_TIME: Final = re.compile(TIME.encode())
_MS_DIGITS: Final = 3
#: Maximum number of cached heads and tails; a tail has some 400 bytes.
_REMEMBERED_MAX: Final = 100_000


class Window(NamedTuple):
    """A span of time, in milliseconds since the epoch; None: without a bound.

    Attributes:
        since_ms: inclusive.
        until_ms: exclusive.
    """

    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_bounded(self) -> bool:
        return self.since_ms is not None or self.until_ms is not None

    def has(self, first_ms: int, last_ms: int) -> bool:
        """Return whether the span overlaps the window."""
        since_ms, until_ms = self
        return (since_ms is None or last_ms >= since_ms) and (until_ms is None or first_ms < until_ms)


@dataclass(slots=True)
class Coverage:
    """How much of the requested window is known.

    Attributes:
        outside: lines of requests before or after it.
        untimed: lines of requests without a time; left out if there is a window.
        other: lines that are not about requests.
        not_understood: lines that seem to be, but cannot be parsed.
        bad_lines: the first of these, each with the reason.
        sampled: lines that represent others which were left out.
        first_ms: of the requests in the window, since the epoch; None while none has a time.
    """

    lines: int = 0
    requests: int = 0
    outside: int = 0
    untimed: int = 0
    other: int = 0
    not_understood: int = 0
    bad_lines: list[str] = field(default_factory=list)
    sampled: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    def bad(self, what: str) -> None:
        """Count a line that could not be parsed."""
        self.not_understood += 1
        if len(self.bad_lines) < NAMED_LINES:
            self.bad_lines.append(what)

    def spans(self, first_ms: int, last_ms: int) -> None:
        """Extend the time span."""
        self.first_ms = first_ms if self.first_ms is None else min(first_ms, self.first_ms)
        self.last_ms = last_ms if self.last_ms is None else max(last_ms, self.last_ms)

    def add(self, other: Coverage, times: int = 1) -> None:
        """Add ``times`` parts with the same coverage."""
        for name in ("lines", "requests", "outside", "untimed", "other", "not_understood", "sampled"):
            setattr(self, name, getattr(self, name) + getattr(other, name) * times)
        self.bad_lines += other.bad_lines[: NAMED_LINES - len(self.bad_lines)]
        if other.first_ms is not None and other.last_ms is not None:
            self.spans(other.first_ms, other.last_ms)


class Span(NamedTuple):
    """The first and the last time of equal requests, in milliseconds since the epoch; both are inclusive."""

    first_ms: int
    last_ms: int


@dataclass(slots=True)
class Traffic:
    """See the module.

    Attributes:
        counts: number of decisions by request and result.
        spans: of the same, without those whose lines have no time.
    """

    counts: dict[Logged, int] = field(default_factory=dict)
    spans: dict[Logged, Span] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def has_allowed(self) -> bool:
        """Whether any request was allowed: Kafka logs these only if it is configured to."""
        return any(logged.is_allowed for logged in self.counts)

    def add(self, other: Traffic) -> None:
        self.coverage.add(other.coverage)
        for logged, decisions in other.counts.items():
            self.count(logged, decisions, other.spans.get(logged))

    def count(self, logged: Logged, decisions: int, span: Span | None = None) -> None:
        """Add decisions of one request whose lines are already counted."""
        self.counts[logged] = self.counts.get(logged, 0) + decisions
        if span is not None:
            first_ms, last_ms = self.spans.get(logged, span)
            self.spans[logged] = Span(min(first_ms, span.first_ms), max(last_ms, span.last_ms))

    def event_lines(self) -> Iterator[bytes]:
        """Yield one decision event for each of ``counts``, in order; they do not say what is a sample."""
        for logged, decisions in sorted(self.counts.items()):
            yield event_line(logged, decisions, *self.spans.get(logged, (None, None)))


class _Form(NamedTuple):
    """The position of the fraction in a line's time, and the zone after it; empty: none."""

    start: int
    end: int
    zone: bytes


class TrafficReader:
    """Parses lines into traffic; `settle` adds the cached counts.

    Attributes:
        traffic: of the lines, as of the last `settle`.
        has_requests: at any time.
        has_allowed: a request was allowed, at any time.
    """

    def __init__(self, window: Window) -> None:
        self.traffic = Traffic()
        self.has_requests = self.has_allowed = False
        self._window = window
        self._lines = RequestLines()
        self._form = _Form(0, 0, b"")
        self._seconds_ms: dict[bytes, int] = {}
        self._tails: dict[bytes, int] = {}
        # By the number of a tail.
        self._logged: list[Logged] = []
        self._decisions: list[int] = []
        self._first_ms: list[float] = []
        self._last_ms: list[float] = []

    def __len__(self) -> int:
        """Return the size of the cache: different requests, and lines."""
        return len(self.traffic.counts) + len(self._tails)

    def read(self, lines: Iterable[bytes], name: str, number: int | None = None) -> None:
        """Parse more lines; a line that cannot be parsed is reported with its file and number."""
        coverage, decisions = self.traffic.coverage, self._decisions
        tail_first_ms, tail_last_ms = self._first_ms, self._last_ms
        tail_of, second_of = self._tails.get, self._seconds_ms.get
        since_ms = -inf if self._window.since_ms is None else self._window.since_ms
        until_ms = inf if self._window.until_ms is None else self._window.until_ms
        first_ms, last_ms = inf, -inf
        start, end, _ = self._form
        ms_end = start + _MS_DIGITS
        count = outside = 0
        for count, line in enumerate(lines, 1):
            tail = tail_of(line[end:])
            second_ms = second_of(line[:start])
            if tail is None or second_ms is None or not line[start:end].isdigit():
                self._take(line, name if number is None else f"{name} line {number + count - 1}")
                start, end, _ = self._form
                ms_end = start + _MS_DIGITS
                continue
            at_ms = second_ms + int(line[start:ms_end])
            if not since_ms <= at_ms < until_ms:
                outside += 1
                continue
            decisions[tail] += 1
            tail_last_ms[tail] = max(tail_last_ms[tail], at_ms)
            tail_first_ms[tail] = min(tail_first_ms[tail], at_ms)
            first_ms = min(first_ms, at_ms)
            last_ms = max(last_ms, at_ms)
        coverage.lines += count
        coverage.outside += outside
        if first_ms <= last_ms:
            coverage.spans(int(first_ms), int(last_ms))

    def settle(self) -> Traffic:
        """Return the traffic of all lines so far."""
        traffic = self.traffic
        counted = zip(self._logged, self._decisions, self._first_ms, self._last_ms, strict=True)
        for logged, decisions, first_ms, last_ms in counted:
            if decisions:
                traffic.coverage.requests += decisions
                traffic.count(logged, decisions, Span(int(first_ms), int(last_ms)))
        self._decisions[:] = [0] * len(self._decisions)
        return traffic

    def _take(self, line: bytes, name: str) -> None:
        coverage = self.traffic.coverage
        try:
            found = self._lines.read(line)
        except DecodeError as error:
            coverage.bad(f"{name}: {error}")
            return
        if found is None:
            coverage.other += 1
            return
        self.has_requests = True
        self.has_allowed |= found.logged.is_allowed
        if found.first_ms is not None and not line.startswith(b"{"):
            self._remember(line, found)
        self._count(found)

    def _count(self, line: RequestLine) -> None:
        coverage, window = self.traffic.coverage, self._window
        first_ms, last_ms = line.first_ms, line.last_ms
        span = None
        if first_ms is None or last_ms is None:
            if window.is_bounded:
                coverage.untimed += 1
                return
        elif window.has(first_ms, last_ms):
            coverage.spans(first_ms, last_ms)
            span = Span(first_ms, last_ms)
        else:
            coverage.outside += 1
            return
        coverage.sampled += line.is_sampled
        coverage.requests += line.decisions
        self.traffic.count(line.logged, line.decisions, span)

    def _remember(self, line: bytes, found: RequestLine) -> None:
        """Cache the head and the tail of one of Kafka's lines."""
        time = _TIME.search(line, 0, line.find(_BEGIN))
        if time is None or found.first_ms is None:
            return
        start, end = time.span(3)
        # Longer fractions are cut by the expression, so that the rest would begin with digits.
        if end - start < _MS_DIGITS or line[end : end + 1].isdigit():
            return
        form = _Form(start, end, time[4] or b"")
        if form != self._form or max(len(self._tails), len(self._seconds_ms)) >= _REMEMBERED_MAX:
            self.settle()
            self._form = form
            self._tails.clear()
            self._seconds_ms.clear()
            for each in (self._logged, self._decisions, self._first_ms, self._last_ms):
                each.clear()
        self._seconds_ms[line[:start]] = found.first_ms - int(line[start : start + _MS_DIGITS])
        if line[end:] not in self._tails:
            self._tails[line[end:]] = len(self._logged)
            self._logged.append(found.logged)
            self._decisions.append(0)
            self._first_ms.append(inf)
            self._last_ms.append(-inf)
