"""Commands as a shell runs them, each a process of its own: its CPU, from the interpreter's start to its end.

Beside them stands Python with click imported and nothing done; beside a listing, Python that decodes the same
ACLs from JSON lines and puts them in order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate
from benchmarks.settings import progress
from benchmarks.stored import log_directory

_ACLOG = str(Path(sys.executable).with_name("aclog"))
_QUESTION = ("--principal", "User:nobody", "--operation", "Read", "--topic", "orders")
_COMPLETION = {"_ACLOG_COMPLETE": "bash_complete", "COMP_WORDS": "aclog ", "COMP_CWORD": "1"}
_DENIED = 1

_JUST_CLICK = "import click"
_SORTED_LINES = """
import json, sys
with open(sys.argv[1], "rb") as lines:
    acls = [json.loads(line)["data"] for line in lines]
acls.sort(key=lambda acl: (acl["resourceType"], acl["resourceName"], acl["patternType"], acl["principal"]))
"""


def measure(arena: Arena) -> Iterator[Row]:
    """Help, completion, and one question of a small log."""
    log = str(log_directory(arena.directory))
    for what, args, environ, goal in (
        ("aclog check --help", ("check", "--help"), {}, Goal("at most", 3, 2)),
        ("completion of aclog's commands", (), _COMPLETION, Goal("at most", 4, 2)),
        ("aclog check", ("check", "--log", log, *_QUESTION), {}, Goal("at most", 6, 4)),
    ):
        progress(f"{arena.workload}: {what}")
        yield _row(
            arena,
            what,
            [_ACLOG, *args],
            [sys.executable, "-c", _JUST_CLICK],
            against=f"python -c '{_JUST_CLICK}'",
            goal=goal,
            environ=environ,
        )


def measure_listing(arena: Arena) -> Iterator[Row]:
    """Every ACL of a large log."""
    progress(f"{arena.workload}: aclog acls --list")
    yield _row(
        arena,
        "aclog acls --list",
        [_ACLOG, "acls", "--log", str(log_directory(arena.directory)), "--list"],
        [sys.executable, "-c", _SORTED_LINES, str(arena.directory / "acls.jsonl")],
        against="Python's json: as many lines decoded and sorted",
        goal=Goal("at most", 1, 0.5),
    )


def _row(
    arena: Arena,
    what: str,
    ours: list[str],
    other: list[str],
    *,
    against: str,
    goal: Goal,
    environ: Mapping[str, str] | None = None,
) -> Row:
    beside, measured = alternate(
        arena.settings.rounds, partial(_cpu_s, other), partial(_cpu_s, ours, environ or {})
    )
    return Row(
        what=what,
        workload=arena.workload,
        unit="s",
        ours=measured,
        other=beside,
        against=against,
        ratio=measured.over(beside),
        goal=goal,
    )


def _cpu_s(command: list[str], environ: Mapping[str, str] | None = None) -> float:
    """Of one process, user and system. What it prints is thrown away."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # What is compiled stays compiled, as where it is installed.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **(environ or {})},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, _DENIED):
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
