"""A cold start, in a new process each time, and the memory that it leaves in use.

Java's side is kinder than a broker's start: its records are in memory already and are not parsed. Its heap is
measured after the collector has run; ours is what the operating system says that the process has. What a
principal was granted is computed at its first request: so memory is measured after the start, and again
when every principal has asked.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import msgspec

from benchmarks.anchor import ROOT, Anchor
from benchmarks.arena import Arena
from benchmarks.cold_start import Started
from benchmarks.figures import Goal, Row, Spread
from benchmarks.settings import progress
from benchmarks.stored import log_directory, snapshot_directory

_START_GOALS = {"w2": Goal("at most", 0.27, 0.2)}
_LOG_GOALS = {"w2": Goal("at most", 0.6)}
_MEMORY_GOALS = {"w2": Goal("at most", 1.25, 0.6)}


def measure(arena: Arena) -> Iterator[Row]:
    starts = [cold_start(arena) for _ in range(arena.settings.loads)]
    from_log = [cold_start(arena, from_log=True) for _ in range(arena.settings.loads)]
    progress(f"{arena.workload}: Java's loadSnapshot")
    with closing(Anchor()) as java:
        java.tell("read-acls", file=str(arena.directory / "acls.jsonl"))
        java_load = Spread.of(*(java.tell("load")["cpu_ns"] / 1e9 for _ in range(arena.settings.loads)))
        java_bytes = Spread.of(java.tell("heap")["bytes"] / 1e6)
    for what, of_kind, goals in (
        ("snapshot on disk", starts, _START_GOALS),
        ("log alone", from_log, _LOG_GOALS),
    ):
        cpu = Spread.of(*(start.cpu_s for start in of_kind))
        wall = Spread.of(*(start.wall_s for start in of_kind))
        index = Spread.of(*(start.index_s for start in of_kind))
        imports = Spread.of(*(start.imports_s for start in of_kind))
        yield Row(
            what=f"cold start: {what} to first decision",
            workload=arena.workload,
            unit="s",
            ours=cpu,
            other=java_load,
            against="Java's loadSnapshot, from memory",
            ratio=cpu.over(java_load),
            goal=goals.get(arena.workload),
            note=f"{wall.median:.2f} s by the clock; {index.median:.2f} s of CPU for the index; "
            f"{imports.median:.2f} s before, to import everything",
        )
    peak = Spread.of(*(start.peak_bytes / 1e6 for start in starts))
    asking = Spread.of(*(sum(start.first_ns) / 1e9 for start in starts))
    for what, used, note in (
        (
            "memory after start, everything kept",
            Spread.of(*(start.size_bytes / 1e6 for start in starts)),
            f"{peak.high:.0f} MB at its peak, with the interpreter and all imports",
        ),
        (
            "memory when every principal has asked",
            Spread.of(*(start.warm_bytes / 1e6 for start in starts)),
            f"{len(starts[0].first_ns) + 1:,} principals, often; {asking.median:.2f} s of CPU for them",
        ),
    ):
        yield Row(
            what=what,
            workload=arena.workload,
            unit="MB",
            ours=used,
            other=java_bytes,
            against="Java's heap",
            ratio=used.over(java_bytes),
            goal=_MEMORY_GOALS.get(arena.workload),
            note=note,
        )


def cold_start(arena: Arena, *, from_log: bool = False) -> Started:
    """What benchmarks.cold_start prints."""
    directory = arena.directory
    arguments = [directory, log_directory(directory), *([] if from_log else [snapshot_directory(directory)])]
    progress(f"{arena.workload}: cold start{' from the log alone' if from_log else ''}")
    command = [sys.executable, "-m", "benchmarks.cold_start", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return msgspec.json.decode(done.stdout, type=Started)
