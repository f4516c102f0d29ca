"""SparkProcess: runs the Spark jobs of a quickstart in a separate process and prints what they print."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from authorizer.cli.rendering.output import say

if TYPE_CHECKING:
    from types import TracebackType

#: Time to end in order before the processes are killed; the next run continues either way.
_END_S: Final = 10.0
_STAT_PARENT: Final = 1


class SparkProcess:
    """The process of the jobs. Leaving the block ends it, its JVM and its workers."""

    def __init__(self, config_file: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "authorizer.cli.quickstart.spark_jobs", str(config_file)],
            # It ends when this pipe is closed, even if this process is killed.
            stdin=subprocess.PIPE,
            # Printed here, so that no line is lost and none breaks another.
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Ctrl-C goes to every process of a terminal's group; this one is ended from here.
            start_new_session=True,
        )
        self._threads = ThreadPoolExecutor(1, "aclog-spark-output")
        self._printed = self._threads.submit(self._print_lines)

    def wait(self) -> int:
        """Wait for the end of the jobs; returns the exit code."""
        self._printed.result()
        return self._process.wait()

    def _print_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            say(line.rstrip("\n"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            say(f"Stopping Spark (process {self._process.pid}); the next run continues ...")
            _end(self._process)
        self._threads.shutdown()
        with self._process:
            """Close the pipes."""


def _end(process: subprocess.Popen[str]) -> None:
    """End a running process, then wait for its descendants: Spark's JVM ends when its driver has ended."""
    with ExitStack() as opened:
        handles: list[int] = []
        for pid in _family(process.pid):
            with suppress(ProcessLookupError):
                handles.append(os.pidfd_open(pid))
                opened.callback(os.close, handles[-1])
        process.terminate()
        deadline_s = time.monotonic() + _END_S
        for handle in handles:
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            if not ended.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
                signal.pidfd_send_signal(handle, signal.SIGKILL)


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of a program, in parentheses, may contain anything.
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            children[int(fields[_STAT_PARENT])].append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found
