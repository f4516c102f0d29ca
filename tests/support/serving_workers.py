"""``aclog serve --workers N`` as real processes, and a connection to each worker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.nodes import SOON_S
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVE = (sys.executable, "-m", "authorizer.cli", "serve")


@dataclass
class Serving:
    """A sidecar of several processes.

    Attributes:
        process: the supervisor's.
        stderr_file: stderr of the supervisor and its workers.
        workers: number of workers.
    """

    process: subprocess.Popen[bytes]
    stderr_file: Path
    workers: int

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events that it has logged under this name."""
        lines = self.stderr_file.read_text("utf-8").splitlines(keepends=True)
        logged = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [event for event in logged if event.get("event") == name]

    @property
    def urls(self) -> list[str]:
        """The URLs of its listeners."""
        urls: list[str] = wait_until(lambda: self.events("listening"))[0]["urls"]
        return urls

    def pids(self) -> dict[int, int]:
        """The process ids of the newest workers, by number."""

        def find() -> dict[int, int] | None:
            pids = {event["worker"]: event["pid"] for event in self.events("worker_started")}
            return pids if len(pids) == self.workers else None

        return wait_until(find)

    def console_pid(self, *, other_than: int = 0) -> int:
        """The id of the newest console process; waits for one other than ``other_than``."""

        def find() -> int | None:
            started = [event["pid"] for event in self.events("console_started")]
            return started[-1] if started and started[-1] != other_than else None

        return wait_until(find)

    def wait_until_ready(self) -> None:
        """Wait until all workers are ready."""
        with httpx.Client(base_url=self.urls[0], timeout=SOON_S) as client:
            wait_until(lambda: client.get("/readyz").is_success)

    @contextmanager
    def client_of_each(self, url: str | None = None, **options: Any) -> Iterator[dict[int, httpx.Client]]:
        """A client with one connection to each worker, by number."""
        workers = {pid: number for number, pid in self.pids().items()}
        one = httpx.Limits(max_connections=1)
        with ExitStack() as clients:
            found: dict[int, httpx.Client] = {}

            def find() -> bool:
                client = httpx.Client(base_url=url or self.urls[0], limits=one, timeout=SOON_S, **options)
                clients.enter_context(client)
                with client.stream("GET", "/livez") as response:
                    response.read()
                    connected = response.extensions["network_stream"].get_extra_info("socket").getsockname()
                found.setdefault(workers[worker_pid(connected[1], workers)], client)
                return len(found) == len(workers)

            wait_until(find)
            yield found


def worker_pid(client_port: int, pids: Mapping[int, object]) -> int:
    """The process that has the other end of a loopback connection, once one has accepted it."""
    found: list[int] = []

    def find() -> bool:
        found.extend(holders(client_port, pids))
        return bool(found)

    wait_until(find, "a worker with this connection")
    return found[0]


def holders(client_port: int, pids: Mapping[int, object]) -> Iterator[int]:
    """The processes that have the other end of a loopback connection."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[2].endswith(f":{client_port:04X}") and fields[9] != "0":
                yield from (pid for pid in pids if fields[9] in sockets(pid))


def sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found = set()
    with suppress(FileNotFoundError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if matched := re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink())):
                    found.add(matched[1])
    return found


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        is_left_over = ") Z " in Path(f"/proc/{pid}/stat").read_text("utf-8")
        # Other threads may run for a while after the main thread has ended.
        return not is_left_over or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def pause(pid: int) -> None:
    """SIGSTOP, and wait until all threads are stopped, which takes a while after the signal."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    wait_until(lambda: all(") T " in (task / "stat").read_text("utf-8") for task in tasks.iterdir()))


@contextmanager
def serving_workers(
    tmp_path: Path,
    log: Path | str | None,
    settings: Mapping[str, str],
    *args: str,
    command: tuple[str, ...] = SERVE,
    workers: int = 2,
) -> Iterator[Serving]:
    """A started sidecar of a log or a fleet, with settings by key; it must exit with code 0."""
    of_log = () if log is None else ("--log", str(log))
    config = tmp_path / "sidecar.properties"
    lines = {
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        "aclog.logging.format": "json",
        # A client that connects again may reach another worker (``client_of_each``).
        "aclog.sidecar.connections.max.idle.ms": "3600000",
        **settings,
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    stderr_file = tmp_path / "stderr.txt"
    with stderr_file.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--config", str(config), "--workers", str(workers), *of_log, *args],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=ROOT,
        )
    serving = Serving(process, stderr_file, workers)
    try:
        yield serving
        # Its last output belongs to the checked output.
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON_S) == 0, stderr_file.read_text("utf-8")
    finally:
        process.kill()
        process.wait()
        for event in (*serving.events("worker_started"), *serving.events("console_started")):
            with suppress(ProcessLookupError):
                os.kill(event["pid"], signal.SIGKILL)
