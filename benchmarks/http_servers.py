"""The sidecar as users run it, and the bare server, each in a separate process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
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
        pids: of the processes that answer.
    """

    port: int
    socket: Path
    pids: tuple[int, ...]

    def cpu_ns(self) -> float:
        """Of the threads that it has, since they began; the kernel's clock ticks are too coarse for this."""
        return sum(self.each_cpu_ns())

    def each_cpu_ns(self) -> list[float]:
        """The same of each process."""
        return [float(sum(map(_thread_cpu_ns, Path(f"/proc/{pid}/task").iterdir()))) for pid in self.pids]

    def keep_to(self, core: int) -> None:
        """Let it run on this core alone."""
        for pid in self.pids:
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {core})

    def connection(self, timeout_s: float) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)


def evaluation(request: Request, *, explain: bool = False) -> dict[str, object]:
    """AuthZEN's JSON for a request of one action; it is logged as the action says."""
    (action,) = request.actions
    pattern, principal = action.resource_pattern, request.context.principal
    return {
        "subject": {"type": principal.principal_type, "id": principal.name},
        "action": {"name": action.operation.name},
        "resource": {"type": pattern.resource_type.name, "id": pattern.name},
        "context": {
            "host": request.context.client_address,
            "explain": explain,
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
def running_sidecar(
    log: Path, workers: int = 1, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """``aclog serve`` at its defaults: what is denied is in the audit log, on stderr, which is a file."""
    port = free_port()
    environ = {**(environ or {}), "ACLOG_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"}
    command = [_ACLOG, "serve", "--log", str(log), "--describe-principals", "User:ANONYMOUS"]
    command += ["--workers", str(workers), *options]
    # The console's process is there a little later than the one that decides.
    ready = ("/readyz", "/console/v1/now") if "--console" in options else ("/readyz",)
    with running(command, port, log / SOCKET_FILE, ready, environ) as server:
        yield server


@contextmanager
def running_admin(log: Path | str, admin_port: int, super_user: str = "User:ANONYMOUS") -> Iterator[Server]:
    """``aclog serve`` that speaks Kafka's protocol, too; clients are ``User:ANONYMOUS``."""
    port = free_port()
    environ = {
        "ACLOG_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "ACLOG_ADMIN_LISTENERS": f"ADMIN://127.0.0.1:{admin_port}",
        "ACLOG_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        "ACLOG_SUPER_USERS": super_user,
    }
    command = [_ACLOG, "serve", "--log", str(log)]
    with running(command, port, Path(log) / SOCKET_FILE, ("/readyz",), environ) as server:
        # Its listeners accept a little later than /readyz says so.
        deadline = time.monotonic() + _READY_S
        while not _accepts(admin_port) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield server


@contextmanager
def running_bare_server() -> Iterator[Server]:
    """`benchmarks.bare_server`."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bare.sock"
        command = [sys.executable, "-m", "benchmarks.bare_server", str(port), str(path)]
        with running(command, port, path, ("/",), {}) as server:
            yield server


@contextmanager
def running(
    command: list[str], port: int, path: Path, ready: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[Server]:
    """A server that is ready when it answers 200 at these paths. What it prints explains a failure."""
    environ = {**os.environ, **environ}
    with (
        tempfile.NamedTemporaryFile() as output_file,
        subprocess.Popen(command, stdout=output_file, stderr=output_file, cwd=ROOT, env=environ) as process,
    ):
        try:
            for each in ready:
                _wait_until_ready(process, port, each, Path(output_file.name))
            yield Server(port, path, _children(process.pid) or (process.pid,))
        finally:
            process.terminate()


def _children(pid: int) -> tuple[int, ...]:
    """Of its main thread."""
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()))


def _thread_cpu_ns(thread: Path) -> int:
    return int((thread / "schedstat").read_text(encoding="ascii").split()[0])


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, output_file: Path) -> None:
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
    raise RuntimeError(f"{process.args!r} did not start: {output_file.read_text(encoding='utf-8')[-2000:]}")


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port
