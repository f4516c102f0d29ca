"""Decisions per second of all cores: a worker process for each, beside as many Java threads.

By the clock: this is about throughput, so other load on the machine shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate
from benchmarks.settings import progress
from benchmarks.stored import log_directory, snapshot_directory

_GOALS = {"w3": Goal("at least", 1, 2), "w2": Goal("at least", 1, 2)}
_LIST = "zipf"
# For a command to reach every worker.
_HEAD_START_S = 0.05


def measure(arena: Arena) -> Iterator[Row]:
    count = os.cpu_count() or 1
    arena.give_java(_LIST)
    seconds = 2 * arena.settings.round_s
    progress(f"{arena.workload}: loading {count} workers")
    with ExitStack() as stack:
        workers = [stack.enter_context(_worker(arena, index / count)) for index in range(count)]
        for worker in workers:
            _answer(worker)  # that it is ready
        progress(f"{arena.workload}: {count} workers")
        _java_rate(arena, count, arena.settings.warm_s)
        theirs, ours = alternate(
            arena.settings.rounds,
            partial(_java_rate, arena, count, seconds),
            partial(_rate, workers, seconds),
        )
    yield Row(
        what=f"decisions by {count} workers",
        workload=arena.workload,
        unit="/s",
        ours=ours,
        other=theirs,
        against=f"Java, {count} threads",
        ratio=ours.over(theirs),
        goal=_GOALS.get(arena.workload),
    )


def _worker(arena: Arena, share: float) -> subprocess.Popen[str]:
    log, snapshots = log_directory(arena.directory), snapshot_directory(arena.directory)
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", log, snapshots, arena.directory, _LIST, str(share)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _rate(workers: list[subprocess.Popen[str]], seconds: float) -> float:
    """Decisions per second of all together."""
    start_s = time.monotonic() + _HEAD_START_S
    for worker in workers:
        print(start_s, seconds, file=worker.stdin, flush=True)
    return sum(float(_answer(worker)) for worker in workers)


def _answer(worker: subprocess.Popen[str]) -> str:
    line = worker.stdout.readline() if worker.stdout is not None else ""
    if not line:
        raise RuntimeError(f"a worker ended with {worker.wait()}")
    return line


def _java_rate(arena: Arena, threads: int, seconds: float) -> float:
    answer = arena.java.tell("threads", list=_LIST, threads=threads, seconds=seconds)
    return float(answer["decisions"] / (answer["wall_ns"] / 1e9))
