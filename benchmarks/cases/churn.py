"""How long one authorize() takes, by the clock, while 1,000 updates a second are applied.

Two forms: a thread here publishes them, each by itself, which is the cost of updates alone; and as in
production, where another process writes them to a log that the loader's thread follows here.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Protocol

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, Spread, alternate, percentile
from benchmarks.requests import Request, updates_file
from benchmarks.settings import progress
from benchmarks.stored import read_acls, snapshot_directory, writable_log
from benchmarks.subject import Subject
from records.entries import RemoveAccessControlEntryRecord
from replay.loader import Loader

_GOALS = {"w2": Goal("at most", 3, 1.5)}
_UPDATES_PER_S = 1_000
_LIST = "zipf"
_CALLS = 200_000
_PERCENTILES = (50.0, 99.0, 99.9)
# For what was written in a round to be applied here.
_CATCH_UP_S = 30.0


class Updates(Protocol):
    """Updates that can be started and stopped, many times."""

    def start(self) -> None:
        """Return without waiting."""

    def stop(self) -> tuple[float, float]:
        """Records and publishes per second since the start; none is under way any more."""


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: authorize under {_UPDATES_PER_S} updates/s of a thread")
    here = PublishedHere(arena)
    yield from _rows(arena, "published by a thread", arena.ours, here, {})
    progress(f"{arena.workload}: authorize under {_UPDATES_PER_S} updates/s of another process")
    with (
        writable_log(arena.directory) as followed,
        writable_log(arena.directory) as unseen,
        closing(Subject.open(followed, snapshot_directory(arena.directory))) as subject,
        _writer(arena, followed) as writer,
        _writer(arena, unseen) as other_writer,
    ):
        subject.loader.start()
        how = "of another process, through a log"
        # On a machine with few cores the writing alone shows, and the disk's interrupts do.
        beside = {"as many written, not followed": WrittenElsewhere(other_writer, None)}
        yield from _rows(arena, how, subject, WrittenElsewhere(writer, subject.loader), beside)


def _rows(
    arena: Arena, how: str, subject: Subject, updates: Updates, also_beside: Mapping[str, Updates]
) -> Iterator[Row]:
    """Latencies under the updates beside those when idle, and under others that change nothing here."""
    requests = arena.requests(_LIST)
    kinds: dict[str, Updates | None] = {"": updates, "idle": None, **also_beside}
    latencies: dict[str, list[list[int]]] = {kind: [] for kind in kinds}
    applied: list[tuple[float, float]] = []

    def a_round(kind: str) -> float:
        running = kinds[kind]
        if running is not None:
            running.start()
        latencies[kind].append(_latencies_ns(subject, requests))
        if running is not None:
            rates = running.stop()
            if running is updates:
                applied.append(rates)
        return 0.0

    _latencies_ns(subject, requests)  # not counted: it contains the first request of every caller
    alternate(arena.settings.rounds, *(partial(a_round, kind) for kind in kinds))
    records, publishes = (Spread(tuple(rates)).median for rates in zip(*applied, strict=True))
    for percent in _PERCENTILES:
        spreads = {
            kind: Spread(tuple(percentile(of_round, percent) for of_round in rounds))
            for kind, rounds in latencies.items()
        }
        ours = spreads.pop("")
        for beside, other in spreads.items():
            yield Row(
                what=f"p{percent:g} of authorize under {_UPDATES_PER_S} updates/s {how}",
                workload=arena.workload,
                unit="ns",
                ours=ours,
                other=other,
                against=beside,
                ratio=ours.over(other),
                goal=_GOALS.get(arena.workload) if percent == 99 and beside == "idle" else None,
                note=f"{records:.0f} updates/s were applied in {publishes:.0f} publishes/s",
            )


class PublishedHere:
    """A thread that adds and removes ACLs, each published by itself, at an even pace."""

    def __init__(self, arena: Arena) -> None:
        self._subject = arena.ours
        self._acls = list(read_acls(updates_file(arena.directory)))
        self._stop = threading.Event()
        self._published = 0
        self._began_s = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stop.clear()
        self._published = 0
        self._began_s = time.perf_counter()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> tuple[float, float]:
        """The image holds none of the ACLs any more."""
        if self._thread is None:
            raise RuntimeError("nothing was started")
        self._stop.set()
        took_s = time.perf_counter() - self._began_s
        self._thread.join()
        return self._published / took_s, self._published / took_s

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


class WrittenElsewhere:
    """A process that appends to a log, and the loader whose thread follows that log here, if there is one."""

    def __init__(self, writer: subprocess.Popen[str], loader: Loader | None) -> None:
        self._writer = writer
        self._loader = loader
        self._began_s = 0.0
        self._before = (0, 0)
        self._answer()  # that it is ready

    def start(self) -> None:
        self._before = self._seen()
        self._began_s = time.perf_counter()
        self._tell()

    def stop(self) -> tuple[float, float]:
        """What was applied by now; then everything that was written is applied."""
        (records, publishes), (records_before, publishes_before) = self._seen(), self._before
        took_s = time.perf_counter() - self._began_s
        self._tell()
        written = int(self._answer())
        if self._loader is not None and not self._loader.wait_for(records_before + written, _CATCH_UP_S):
            raise RuntimeError(f"{written} records were not applied: {self._loader.status()}")
        return (records - records_before) / took_s, (publishes - publishes_before) / took_s

    def _seen(self) -> tuple[int, int]:
        """The end offset, and how often something was published."""
        if self._loader is None:
            return 0, 0
        return self._loader.status().end_offset or 0, self._loader.metrics.publishes

    def _tell(self) -> None:
        print("go", file=self._writer.stdin, flush=True)

    def _answer(self) -> str:
        line = self._writer.stdout.readline() if self._writer.stdout is not None else ""
        if not line:
            raise RuntimeError(f"the writer ended with {self._writer.wait()}")
        return line


def _writer(arena: Arena, log: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.writer", log, arena.directory, str(_UPDATES_PER_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _latencies_ns(subject: Subject, requests: list[Request]) -> list[int]:
    """By the clock, ascending."""
    authorize = subject.authorizer.authorize
    clock = time.perf_counter_ns
    took = []
    for request in islice(cycle(requests), _CALLS):
        context, actions = request.context, request.actions
        began = clock()
        authorize(context, actions)
        took.append(clock() - began)
    took.sort()
    return took
