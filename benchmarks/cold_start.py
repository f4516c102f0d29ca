"""A cold start, from nothing imported to the first decision, in a process of its own.

``python -m benchmarks.cold_start LOG SNAPSHOTS WORKLOAD`` prints one JSON object.
"""

from __future__ import annotations

import time

_BEGAN_WALL = time.perf_counter()
_BEGAN_CPU = time.process_time()  # what the interpreter took to start is in it

import json  # noqa: E402 - the clock comes first
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from authorizer.index import AclIndex  # noqa: E402
from authorizer.log_setup import setup_logging  # noqa: E402
from benchmarks.requests import read_requests  # noqa: E402
from benchmarks.subject import Subject  # noqa: E402


def unshared_bytes() -> int:
    """Memory that only this process has."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines[1:])}
    return 1024 * (sizes["Private_Clean"] + sizes["Private_Dirty"])


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def index_cpu_s(subject: Subject) -> float:
    """What the index's part of the start was: it is built once more."""
    began = time.process_time()
    AclIndex.of(subject.image)
    return time.process_time() - began


def main(log: str, snapshots: str, workload: str) -> None:
    setup_logging("console", "ERROR")
    first = read_requests(Path(workload), "zipf")[:1]
    before_bytes = unshared_bytes()
    imported_cpu = time.process_time()
    imported_wall = time.perf_counter()
    subject = Subject.open(Path(log), Path(snapshots))
    subject.decide(first, allow_everyone=False)
    ready_cpu = time.process_time()
    ready_wall = time.perf_counter()
    answer = {
        "acls": len(subject.image),
        "cpu_s": ready_cpu - imported_cpu,
        "wall_s": ready_wall - imported_wall,
        "imports_cpu_s": imported_cpu,
        "bytes": unshared_bytes() - before_bytes,
        "peak_bytes": peak_bytes(),
        "index_cpu_s": index_cpu_s(subject),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
