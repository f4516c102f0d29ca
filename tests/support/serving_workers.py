"""``aclog serve --workers N`` in processes of its own, and a connection to each of its workers."""

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
        said: its stderr, and its workers'.
        workers: how many.
    """

    process: subprocess.Popen[bytes]
    said: Path
    workers: int

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it has logged by this name."""
        lines = self.said.read_text("utf-8").splitlines(keepends=True)
        logged = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [event for event in logged if event.get("event") == name]

    @property
    def urls(self) -> list[str]:
        """Where it listens."""
        urls: list[str] = wait_until(lambda: self.events("listening"))[0]["urls"]
        return urls

    def pids(self) -> dict[int, int]:
        """Of each worker that was started last, by number."""

        def find() -> dict[int, int] | None:
            pids = {event["worker"]: event["pid"] for event in self.events("worker_started")}
            return pids if len(pids) == self.workers else None

        return wait_until(find)

    def console_pid(self, *, other_than: int = 0) -> int:
        """Of the console's process, the one that was started last; another one than this, once there is."""

        def find() -> int | None:
            started = [event["pid"] for event in self.events("console_started")]
            return started[-1] if started and started[-1] != other_than else None

        return wait_until(find)

    def wait_until_ready(self) -> None:
        """All of its workers."""
        with httpx.Client(base_url=self.urls[0], timeout=SOON_S) as client:
            wait_until(lambda: client.get("/readyz").is_success)

    @contextmanager
    def client_of_each(self, url: str | None = None, **options: Any) -> Iterator[dict[int, httpx.Client]]:
        """A client of each worker, by number: it keeps one connection."""
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
    """Which process has the other end of a connection over loopback."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            fields = line.split()
            if fields[2].endswith(f":{client_port:04X}") and fields[9] != "0":
                for pid in pids:
                    if fields[9] in sockets(pid):
                        return pid
    raise AssertionError("no worker has this connection")


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
    """Whether there is such a process, and not only what is left for its parent to wait for."""
    try:
        is_left_over = ") Z " in Path(f"/proc/{pid}/stat").read_text("utf-8")
        # Threads may go on for a moment when the first one has ended.
        return not is_left_over or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def serving_workers(
    tmp_path: Path,
    log: Path | str | None,
    settings: Mapping[str, str],
    *args: str,
    command: tuple[str, ...] = SERVE,
    workers: int = 2,
) -> Iterator[Serving]:
    """One of a log, or a fleet, that has been started, with settings by their keys; it ends with code 0."""
    of_log = () if log is None else ("--log", str(log))
    config = tmp_path / "sidecar.properties"
    lines = {"aclog.listeners": "PLAINTEXT://127.0.0.1:0", "aclog.logging.format": "json", **settings}
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    said = tmp_path / "said.txt"
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--config", str(config), "--workers", str(workers), *of_log, *args],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=ROOT,
        )
    serving = Serving(process, said, workers)
    try:
        yield serving
        # What it says in the end is part of what it said.
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON_S) == 0, said.read_text("utf-8")
    finally:
        process.kill()
        process.wait()
        for event in (*serving.events("worker_started"), *serving.events("console_started")):
            with suppress(ProcessLookupError):
                os.kill(event["pid"], signal.SIGKILL)
