"""The memory and CPU of a process and of those that it started, from Linux's /proc."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

#: Between two looks.
_LOOK_S = 0.2
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: What the processes of a Spark job on one machine are.
DRIVER, JVM, WORKERS = "the driver's Python", "the JVM, driver and executor", "the workers' Python"
TOGETHER = "all together"
BROKER = "the broker"


class Process(NamedTuple):
    """One process, as /proc has it.

    Attributes:
        resident_bytes: memory, pages among it that it shares.
        cpu_s: of all its threads, and of children of its own that have ended.
    """

    pid: int
    parent: int
    name: str
    resident_bytes: int
    cpu_s: float


class PeakMemory:
    """The most that a process and its descendants have had, by ``role``, while the block ran.

    Sums of what each has resident: a page that two of them share is counted twice.

    Attributes:
        peaks: of each role, and ``TOGETHER``; bytes. Not at the same moment.
    """

    def __init__(self, root: int) -> None:
        self.peaks: Counter[str] = Counter()
        self._root = root
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.peaks |= resident_by_role(self._root, running())


def resident_by_role(root: int, processes: Iterable[Process]) -> Counter[str]:
    """Bytes of ``root`` and its descendants by their role, and ``TOGETHER``."""
    sums: Counter[str] = Counter()
    for process in _tree(root, processes):
        sums[_role(process, root)] += process.resident_bytes
        sums[TOGETHER] += process.resident_bytes
    return sums


def cpu_s(root: int, processes: Iterable[Process]) -> float:
    """Of ``root`` and its descendants since they began."""
    return sum(process.cpu_s for process in _tree(root, processes))


def cpu_by_role(root: int, processes: Iterable[Process]) -> dict[str, float]:
    """As ``cpu_s``, by role; a broker that ``root`` started is another role than Spark's JVM."""
    sums = dict.fromkeys((DRIVER, JVM, WORKERS, BROKER), 0.0)
    for process in _tree(root, processes):
        sums[BROKER if _is_broker(process) else _role(process, root)] += process.cpu_s
    return sums


def running() -> Iterable[Process]:
    """All processes that there are."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                yield parse_stat((directory / "stat").read_text(encoding="utf-8", errors="replace"))


def parse_stat(line: str) -> Process:
    """What proc_pid_stat(5) describes; the name is in parentheses, and may hold some."""
    pid, _, rest = line.partition(" (")
    name, _, fields = rest.rpartition(") ")
    values = fields.split()
    ticks = sum(map(int, values[11:15]))
    return Process(int(pid), int(values[1]), name, int(values[21]) * _PAGE_BYTES, ticks / _TICKS_PER_S)


def _tree(root: int, processes: Iterable[Process]) -> list[Process]:
    by_pid = {process.pid: process for process in processes}
    return [process for process in by_pid.values() if _descends(process, root, by_pid)]


def _descends(process: Process | None, root: int, by_pid: Mapping[int, Process]) -> bool:
    while process is not None:
        if process.pid == root:
            return True
        process = by_pid.get(process.parent)
    return False


def _is_broker(process: Process) -> bool:
    with suppress(OSError):  # it ended meanwhile
        return b"kafka.Kafka" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    return False


def _role(process: Process, root: int) -> str:
    if process.pid == root:
        return DRIVER
    return JVM if process.name == "java" else WORKERS
