"""Commands as a shell runs them, each a process of its own: its CPU, from the interpreter's start to its end.

Beside them stands Python with click imported and nothing done; beside a listing, Python that decodes the same
ACLs from JSON lines and puts them in order; beside lint, Python that compares each ACL with each other one of
its principal, which finds those that a single one covers; beside diff, Python that reads the same Parquet
files, and finds the rows that only one snapshot has.
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
from benchmarks.stored import EDITS, edited_snapshots, log_directory

_ACLOG = str(Path(sys.executable).with_name("aclog"))
_QUESTION = ("--principal", "User:nobody", "--operation", "Read", "--topic", "orders")
_COMPLETION = {"_ACLOG_COMPLETE": "bash_complete", "COMP_WORDS": "aclog ", "COMP_CWORD": "1"}
_DENIED = 1

_JUST_CLICK = "import click"
_A_NODE = "from authorizer.node import Node"
_SORTED_LINES = """
import json, sys
with open(sys.argv[1], "rb") as lines:
    acls = [json.loads(line)["data"] for line in lines]
acls.sort(key=lambda acl: (acl["resourceType"], acl["resourceName"], acl["patternType"], acl["principal"]))
"""
_EACH_WITH_EACH = """
import json, sys
of = {}
with open(sys.argv[1], "rb") as lines:
    for line in lines:
        acl = json.loads(line)["data"]
        of.setdefault((acl["principal"], acl["resourceType"], acl["permissionType"]), []).append(
            (acl["resourceName"], acl["patternType"] == 4, acl["host"], acl["operation"])
        )
found = 0
for acls in of.values():
    for one in acls:
        name, _, host, operation = one
        for other in acls:
            if other is one or other[2] not in ("*", host) or other[3] not in (2, operation):
                continue
            if name.startswith(other[0]) if other[1] else other[0] == "*" or other[:2] == one[:2]:
                found += 1
                break
print(found)
"""
_OTHER_ROWS = """
import glob, sys
import pyarrow.parquet
said = "resource_type resource_name pattern_type principal host operation permission_type".split()
before, after = (
    {
        acl
        for part in glob.glob(f"{directory}/*/{int(end):020d}-*/part-*")
        for acl in zip(*pyarrow.parquet.read_table(part, columns=said).to_pydict().values())
    }
    for directory, end in (snapshot.rsplit("@", 1) for snapshot in sys.argv[1:])
)
print(len(before - after), len(after - before))
"""


def measure(arena: Arena) -> Iterator[Row]:
    """Help, completion, one check on a small log, and the imports of a node."""
    log = str(log_directory(arena.directory))
    check = (_ACLOG, "check", "--log", log, *_QUESTION)
    for what, command, environ, goal in (
        ("aclog --help", (_ACLOG, "--help"), {}, Goal("at most", 4, 2)),
        ("aclog check --help", (_ACLOG, "check", "--help"), {}, Goal("at most", 3, 2)),
        ("completion of aclog's commands", (_ACLOG,), _COMPLETION, Goal("at most", 4, 2)),
        ("aclog check", check, {}, Goal("at most", 6, 4)),
        (_A_NODE, (sys.executable, "-c", _A_NODE), {}, Goal("at most", 9, 7)),
    ):
        progress(f"{arena.workload}: {what}")
        yield _row(
            arena,
            what,
            [*command],
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


def measure_lint(arena: Arena) -> Iterator[Row]:
    """Findings and removable ACLs of a large log: all proven, ten of each rule printed."""
    progress(f"{arena.workload}: aclog lint")
    yield _row(
        arena,
        "aclog lint",
        [_ACLOG, "lint", "--log", str(log_directory(arena.directory))],
        [sys.executable, "-c", _EACH_WITH_EACH, str(arena.directory / "acls.jsonl")],
        against="Python: each ACL compared with each other one of its principal",
        goal=Goal("at most", 30, of="ours"),
    )


def measure_diff(arena: Arena) -> Iterator[Row]:
    """Two snapshots of one store, a few edits apart."""
    snapshots = edited_snapshots(arena.directory)
    progress(f"{arena.workload}: aclog diff")
    yield _row(
        arena,
        f"aclog diff of snapshots, {EDITS} edits",
        [_ACLOG, "diff", *snapshots],
        [sys.executable, "-c", _OTHER_ROWS, *snapshots],
        against="Python: the rows that only one of them has",
        goal=Goal("at most", 3, of="ours"),
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
