"""How long one authorize() takes, by the clock, while another thread publishes 1,000 updates a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import cycle, islice

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.requests import updates_file
from benchmarks.settings import progress
from benchmarks.stored import read_acls
from records.entries import RemoveAccessControlEntryRecord

_GOALS = {"w2": Goal("at most", 3, 1.5)}
_UPDATES_PER_S = 1_000
_LIST = "zipf"
_CALLS = 200_000
_PERCENTILES = (50.0, 99.0, 99.9)


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: authorize under {_UPDATES_PER_S} updates/s")
    applied: list[float] = []
    idle: list[list[int]] = []
    busy: list[list[int]] = []

    def while_idle() -> float:
        idle.append(_latencies_ns(arena))
        return 0.0

    def while_updated() -> float:
        updates = _Updates(arena)
        updates.start()
        busy.append(_latencies_ns(arena))
        applied.append(updates.stop())
        return 0.0

    alternate(arena.settings.rounds, while_idle, while_updated)
    for percentile in _PERCENTILES:
        ours = Spread(tuple(_percentile(round_, percentile) for round_ in busy))
        other = Spread(tuple(_percentile(round_, percentile) for round_ in idle))
        yield Row(
            what=f"p{percentile:g} of authorize under {_UPDATES_PER_S} updates/s",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=other,
            against="idle",
            ratio=ours.over(other),
            goal=_GOALS.get(arena.workload) if percentile == 99.0 else None,
            note=f"{Spread(tuple(applied)).median:.0f} updates/s were applied",
        )


class _Updates:
    """A thread that adds and removes ACLs, each published by itself, at an even pace."""

    def __init__(self, arena: Arena) -> None:
        self._subject = arena.ours
        self._acls = list(read_acls(updates_file(arena.directory)))
        self._stop = threading.Event()
        self._published = 0
        self._began_s = 0.0
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._began_s = time.perf_counter()
        self._thread.start()

    def stop(self) -> float:
        """Published per second; the image holds none of the ACLs any more."""
        self._stop.set()
        took_s = time.perf_counter() - self._began_s
        self._thread.join()
        return self._published / took_s

    def _run(self) -> None:
        for acl in cycle(self._acls):
            if self._stop.is_set():
                return
            for record in (acl, RemoveAccessControlEntryRecord(acl.id)):
                wait_s = self._began_s + self._published / _UPDATES_PER_S - time.perf_counter()
                # Not behind its time: to sleep is to wait for the interpreter lock afterwards.
                if wait_s > 0:
                    time.sleep(wait_s)
                self._subject.publish([record])
                self._published += 1


def _latencies_ns(arena: Arena) -> list[int]:
    authorize = arena.ours.authorizer.authorize
    clock = time.perf_counter_ns
    took = []
    for request in islice(cycle(arena.requests(_LIST)), _CALLS):
        context, actions = request.context, request.actions
        began = clock()
        authorize(context, actions)
        took.append(clock() - began)
    took.sort()
    return took


def _percentile(ordered: list[int], percentile: float) -> float:
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * percentile / 100))])
