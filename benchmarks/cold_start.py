"""A cold start in a separate process: from imported modules to the first decision, then all principals.

``python -m benchmarks.cold_start WORKLOAD LOG [SNAPSHOTS]`` prints one JSON object, a ``Started``. LOG is a
path or a URL. Without SNAPSHOTS it starts from the log alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from authorizer.configuration.log_setup import setup_logging
from authorizer.node.standard_authorizer import StandardAuthorizer
from benchmarks.requests import PRINCIPALS, Request, read_requests
from benchmarks.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What was measured. Seconds and nanoseconds are CPU time but for ``wall_s``.

    Attributes:
        acls: how many are in force.
        imports_s: what the interpreter and all imports took before.
        cpu_s: from there to the first decision.
        wall_s: the same by the clock.
        index_s: the index's part of it: it is built once more.
        size_bytes: memory that only this process has, after the first decision; without what it had before.
        peak_bytes: the most that the process had in memory by then, with the interpreter and all imports.
        first_ns: the first request of each principal that has ACLs, without the one of the first decision;
            ascending.
        second_ns: the same requests a second time; ascending.
        asked_bytes: as ``size_bytes``, when all of these have sent many requests.
    """

    acls: int
    imports_s: float
    cpu_s: float
    wall_s: float
    index_s: float
    size_bytes: int
    peak_bytes: int
    first_ns: list[int]
    second_ns: list[int]
    warm_bytes: int


def main(workload: str, log: str, snapshots: str | None = None) -> None:
    imports_s = time.process_time()
    setup_logging("console", "ERROR")
    first = read_requests(Path(workload), "zipf")[:1]
    known = first[0].context.principal
    later_requests = [
        each for each in read_requests(Path(workload), PRINCIPALS) if each.context.principal != known
    ]
    before_bytes = unshared_bytes()
    began_cpu, began_wall = time.process_time(), time.perf_counter()
    subject = Subject.open(log, None if snapshots is None else Path(snapshots))
    subject.decide(first, allow_everyone=False)
    cpu_s, wall_s = time.process_time() - began_cpu, time.perf_counter() - began_wall
    size_bytes, peak = unshared_bytes() - before_bytes, peak_bytes()
    first_ns, second_ns = call_times_ns(subject, later_requests), call_times_ns(subject, later_requests)
    subject.send_until_cached(later_requests)
    warm_bytes = unshared_bytes() - before_bytes
    started = Started(
        acls=len(subject.image),
        imports_s=imports_s,
        cpu_s=cpu_s,
        wall_s=wall_s,
        index_s=index_s(subject),
        size_bytes=size_bytes,
        peak_bytes=peak,
        first_ns=first_ns,
        second_ns=second_ns,
        warm_bytes=warm_bytes,
    )
    print(msgspec.json.encode(started).decode())


def call_times_ns(subject: Subject, requests: Sequence[Request]) -> list[int]:
    """CPU of each call, ascending."""
    authorize = subject.authorizer.authorize
    clock = time.thread_time_ns
    took = []
    for request in requests:
        context, actions = request.context, request.actions
        began = clock()
        authorize(context, actions)
        took.append(clock() - began)
    return sorted(took)


def index_s(subject: Subject) -> float:
    """CPU of building the index: another authorizer takes the same image."""
    began = time.process_time()
    StandardAuthorizer().load(subject.image)
    return time.process_time() - began


def unshared_bytes() -> int:
    """Memory that only this process has."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
    return 1024 * (sizes["Private_Clean"] + sizes["Private_Dirty"])


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main(*sys.argv[1:])
