"""Decisions per second of all cores: a worker process for each, beside as many Java threads.

The workers are forked from a loaded process and share its memory, as a server's would. By the clock: this is
about throughput, so other load on the machine shows.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate
from benchmarks.settings import progress

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

_GOALS = {"w3": Goal("at least", 1, 2), "w2": Goal("at least", 1, 2)}
_LIST = "zipf"
_STRIDE = 256


def measure(arena: Arena) -> Iterator[Row]:
    workers = os.cpu_count() or 1
    progress(f"{arena.workload}: {workers} workers")
    arena.give_java(_LIST)
    ours = _worker_round(arena, workers)
    theirs, mine = alternate(arena.settings.rounds, lambda: _java_round(arena, workers), ours)
    yield Row(
        what=f"decisions by {workers} workers",
        workload=arena.workload,
        unit="/s",
        ours=mine,
        other=theirs,
        against=f"Java, {workers} threads",
        ratio=mine.over(theirs),
        goal=_GOALS.get(arena.workload),
    )


def _java_round(arena: Arena, threads: int) -> float:
    seconds = 2 * arena.settings.round_s
    answer = arena.java.tell("threads", list=_LIST, threads=threads, seconds=seconds)
    return float(answer["decisions"] / (answer["wall_ns"] / 1e9))


def _worker_round(arena: Arena, workers: int) -> Callable[[], float]:
    requests = [(request.context, request.actions) for request in arena.requests(_LIST)]
    authorize = arena.ours.authorizer.authorize
    seconds = 2 * arena.settings.round_s
    forking = multiprocessing.get_context("fork")

    def work(worker: int, results: SimpleQueue[float], start: float) -> None:
        """Decide from ``start`` on, for ``seconds``."""
        first = worker * len(requests) // workers
        mine = requests[first:] + requests[:first]
        calls = at = 0
        time.sleep(max(0.0, start - time.monotonic()))
        end = start + seconds
        while time.monotonic() < end:
            for context, actions in mine[at : at + _STRIDE]:
                authorize(context, actions)
            calls += min(_STRIDE, len(mine) - at)
            at = at + _STRIDE if at + _STRIDE < len(mine) else 0
        results.put(calls / (time.monotonic() - start))

    def a_round() -> float:
        results: SimpleQueue[float] = forking.SimpleQueue()
        gc.freeze()  # or the first collection in a worker would copy every page that holds an object
        start = time.monotonic() + 0.3
        processes = [forking.Process(target=work, args=(i, results, start)) for i in range(workers)]
        for process in processes:
            process.start()
        rates = [results.get() for _ in processes]
        for process in processes:
            process.join()
        gc.unfreeze()
        return sum(rates)

    return a_round
