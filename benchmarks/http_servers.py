"""The sidecar as users run it, and the bare server beside it, each in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.anchor import ROOT
from benchmarks.requests import Request
from records.log.directory.files import SOCKET_FILE

ONE, MANY = "/access/v1/evaluation", "/access/v1/evaluations"

_ACLOG = str(Path(sys.executable).with_name("aclog"))
_READY_S = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """One that answers.

    Attributes:
        port: on loopback.
        socket: the path of its Unix domain socket.
        pid: of its one process.
    """

    port: int
    socket: Path
    pid: int

    def cpu_ns(self) -> float:
        """Of the threads that it has, since they began; the kernel's clock ticks are too coarse for this."""
        files = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return float(sum(int(file.read_text(encoding="ascii").split()[0]) for file in files))

    def connection(self, timeout_s: float) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)


def evaluation(asked: Request) -> dict[str, object]:
    """AuthZEN's JSON for a request of one action; it is logged as the action says."""
    (action,) = asked.actions
    pattern, principal = action.resource_pattern, asked.context.principal
    return {
        "subject": {"type": principal.principal_type, "id": principal.name},
        "action": {"name": action.operation.name},
        "resource": {"type": pattern.resource_type.name, "id": pattern.name},
        "context": {
            "host": asked.context.client_address,
            "log_if_allowed": action.log_if_allowed,
            "log_if_denied": action.log_if_denied,
        },
    }


def ask(connection: HTTPConnection, path: str, body: bytes, method: str = "POST") -> bytes:
    """The body of a 200; RuntimeError: anything else."""
    connection.request(method, path, body, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {answer[:500]!r}")
    return answer


@contextmanager
def running_sidecar(log: Path) -> Iterator[Server]:
    """``aclog serve`` at its defaults: what is denied is in the audit log, on stderr, which is a file."""
    port = _free_port()
    command = [_ACLOG, "serve", "--log", str(log), "--describe-principals", "User:ANONYMOUS"]
    with _running(command, port, log / SOCKET_FILE, "/readyz") as server:
        yield server


@contextmanager
def running_bare_server() -> Iterator[Server]:
    """`benchmarks.bare_server`."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bare.sock"
        command = [sys.executable, "-m", "benchmarks.bare_server", str(port), str(path)]
        with _running(command, port, path, "/") as server:
            yield server


@contextmanager
def _running(command: list[str], port: int, path: Path, ready: str) -> Iterator[Server]:
    """Its stderr is a file, which a failed start is explained by."""
    environ = {**os.environ, "ACLOG_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"}
    with (
        tempfile.NamedTemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, cwd=ROOT, env=environ) as process,
    ):
        try:
            _wait_until_ready(process, port, ready, Path(said.name))
            yield Server(port, path, process.pid)
        finally:
            process.terminate()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, said: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=1)) as connection:
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start: {said.read_text(encoding='utf-8')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
