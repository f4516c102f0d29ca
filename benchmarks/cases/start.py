"""A cold start, in a new process each time, and the memory that it leaves in use.

Java's side is kinder than a broker's start: its records are in memory already and are not parsed. Its heap is
measured after the collector has run; ours is what the operating system says that the process has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

from benchmarks.anchor import ROOT, Anchor
from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, Spread
from benchmarks.settings import progress
from benchmarks.stored import log_directory, snapshot_directory

_START_GOALS = {"w2": Goal("at most", 0.6, 0.2)}
_MEMORY_GOALS = {"w2": Goal("at most", 1.25, 0.6)}


def measure(arena: Arena) -> Iterator[Row]:
    starts = [cold_start(arena) for _ in range(arena.settings.loads)]
    progress(f"{arena.workload}: Java's loadSnapshot")
    with closing(Anchor()) as java:
        java.tell("read-acls", file=str(arena.directory / "acls.jsonl"))
        java_load = Spread.of(*(java.tell("load")["cpu_ns"] / 1e9 for _ in range(arena.settings.loads)))
        java_bytes = Spread.of(java.tell("heap")["bytes"] / 1e6)
    cpu = Spread.of(*(start["cpu_s"] for start in starts))
    wall = Spread.of(*(start["wall_s"] for start in starts))
    index = Spread.of(*(start["index_cpu_s"] for start in starts))
    used = Spread.of(*(start["bytes"] / 1e6 for start in starts))
    peak = Spread.of(*(start["peak_bytes"] / 1e6 for start in starts))
    yield Row(
        what="cold start: snapshot on disk to first decision",
        workload=arena.workload,
        unit="s",
        ours=cpu,
        other=java_load,
        against="Java's loadSnapshot, from memory",
        ratio=cpu.over(java_load),
        goal=_START_GOALS.get(arena.workload),
        note=f"{wall.median:.2f} s by the clock; {index.median:.2f} s of CPU for the index",
    )
    yield Row(
        what="memory after start, everything kept",
        workload=arena.workload,
        unit="MB",
        ours=used,
        other=java_bytes,
        against="Java's heap",
        ratio=used.over(java_bytes),
        goal=_MEMORY_GOALS.get(arena.workload),
        note=f"{peak.high:.0f} MB at its peak, with the interpreter and all imports",
    )


def cold_start(arena: Arena) -> dict[str, float]:
    """What benchmarks.cold_start prints."""
    log, snapshots = log_directory(arena.directory), snapshot_directory(arena.directory)
    progress(f"{arena.workload}: cold start")
    command = [sys.executable, "-m", "benchmarks.cold_start", str(log), str(snapshots), str(arena.directory)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    started: dict[str, float] = json.loads(done.stdout)
    return started
