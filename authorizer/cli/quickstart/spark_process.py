"""SparkProcess: runs `aclog spark all` beside the node of a quickstart and prints its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from authorizer.cli.command_name import command_words
from authorizer.cli.quickstart.directory import CHANGES, COUNTS, PROPERTIES
from authorizer.cli.rendering.output import say, say_command

#: Time to end in order before the processes are killed; the next run continues either way.
_END_S: Final = 10.0
_POLL_INTERVAL_S: Final = 0.05
#: State of a process that has ended and was not waited for yet.
_ENDED: Final = "Z"


class SparkProcess:
    """The process, with its own memory. Leaving the block ends it, its JVM and its workers."""

    def __init__(self, directory: Path) -> None:
        words = ["spark", "all", "--config", str(directory / PROPERTIES), "--once"]
        words += ["--counts", str(directory / COUNTS), "--history", str(directory / CHANGES)]
        say_command(*command_words(), *words)
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "authorizer.cli", *words, "--progress"],
            stdin=subprocess.DEVNULL,
            # Printed here, so that no line is lost and none breaks another.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
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

    def __exit__(self, *exc_info: object) -> None:
        if self._process.poll() is None:
            say(f"Stopping Spark (process {self._process.pid}); the next run continues ...")
            _end(self._process)
        self._threads.shutdown()
        with self._process:
            """Close the pipe."""


def _end(process: subprocess.Popen[str]) -> None:
    """End a running process and those that it started: Spark's JVM ends when its driver has ended."""
    # Stopped, it starts no further process while they are listed.
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    # The JVM has its own session, and its workers are in that. A session has the id of the process that makes
    # it, and a child may make its session only after this.
    children = [each for each in _processes() if each.parent == process.pid]
    sessions = {process.pid, *(each.session for each in children), *(each.pid for each in children)}
    process.terminate()
    process.send_signal(signal.SIGCONT)
    deadline_s = time.monotonic() + _END_S
    while left := [each.pid for each in _processes() if each.session in sessions]:
        if time.monotonic() > deadline_s:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            break
        time.sleep(_POLL_INTERVAL_S)


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int


def _processes() -> Iterator[_Process]:
    """All running processes of this machine that this user may see."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of a program, in parentheses, may contain anything.
            state, parent, _, session, *_ = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
            if state != _ENDED:
                yield _Process(int(stat.parent.name), int(parent), int(session))
