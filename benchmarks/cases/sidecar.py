"""10,000 evaluations in one request to the sidecar, and what another caller waits for meanwhile.

The sidecar is ``aclog serve`` at its defaults, so what is denied is in the audit log, on stderr, which is a
file. Beside it stands a bare ASGI application on the same uvicorn that reads the same requests and answers
with the same bytes each time. By the clock: both are servers, and the client is one, too.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena, DecisionsDifferError
from benchmarks.figures import Row, Spread, alternate
from benchmarks.requests import Request
from benchmarks.settings import progress
from benchmarks.stored import writable_log

_ACLOG = str(Path(sys.executable).with_name("aclog"))
_LIST = "distinct"
_EVALUATIONS = 10_000
_ONE, _MANY = "/access/v1/evaluation", "/access/v1/evaluations"
_READY_S = 120.0
_ANSWER_S = 600.0
# Between two requests of the other caller.
_PAUSE_S = 0.002


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: {_EVALUATIONS:,} evaluations over HTTP")
    asked = list(islice(cycle(arena.requests(_LIST)), _EVALUATIONS))
    one = _body(_evaluation(asked[0]))
    many = _body({"evaluations": list(map(_evaluation, asked))})
    with writable_log(arena.directory) as log, _sidecar(log) as sidecar, _bare_server() as bare:
        answer = sidecar.ask(_MANY, many)
        _check(arena, asked, answer)
        bare.ask(_ONE, sidecar.ask(_ONE, one), method="PUT")
        bare.ask(_MANY, answer, method="PUT")
        rounds = [partial(side.disturbed, one, many) for side in (sidecar, bare)]
        ours, theirs = alternate(arena.settings.rounds, *rounds)
    row = partial(_row, arena)
    each = f"{ours.median / _EVALUATIONS / 1000:.3g} µs each; {_EVALUATIONS} decisions equal"
    yield row(f"{_EVALUATIONS:,} evaluations in one request", ours, theirs, each)
    yield row("the longest that another request waited meanwhile", sidecar.longest(), bare.longest())
    yield row("the same request when there is no other", sidecar.alone(), bare.alone())


def _row(arena: Arena, what: str, ours: Spread, theirs: Spread, note: str = "") -> Row:
    return Row(
        what=f"{what}, by the clock",
        workload=arena.workload,
        unit="ns",
        ours=ours,
        other=theirs,
        against="bare ASGI, constant answer",
        ratio=ours.over(theirs),
        note=note,
    )


def _evaluation(asked: Request) -> dict[str, object]:
    (action,) = asked.actions
    pattern, principal = action.resource_pattern, asked.context.principal
    return {
        "subject": {"type": principal.principal_type, "id": principal.name},
        "action": {"name": action.operation.name},
        "resource": {"type": pattern.resource_type.name, "id": pattern.name},
        "context": {"host": asked.context.client_address},
    }


def _body(value: object) -> bytes:
    return json.dumps(value).encode("ascii")


def _check(arena: Arena, asked: Sequence[Request], answer: bytes) -> None:
    answers = json.loads(answer)["evaluations"]
    letters = "".join("A" if each["decision"] else "D" for each in answers)
    if letters != arena.ours.decide(asked, allow_everyone=False):
        raise DecisionsDifferError(f"{arena.workload}: the sidecar does not answer as authorize does")


class _Server:
    """One of the two, from outside."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._longest_ns: list[int] = []
        self._alone_ns: list[float] = []

    def longest(self) -> Spread:
        """Of each round, the longest that a request of the other caller took."""
        return Spread(tuple(self._longest_ns))

    def alone(self) -> Spread:
        """Of each round, the median of the same requests while nothing else was asked."""
        return Spread(tuple(self._alone_ns))

    def ask(self, path: str, body: bytes, *, method: str = "POST") -> bytes:
        with closing(self._connection()) as connection:
            return _ask(connection, path, body, method)

    def disturbed(self, one: bytes, many: bytes) -> float:
        """Ask for many at once, and for one again and again until these are answered; ns for the many."""
        took: list[int] = []

        def ask_many() -> None:
            with closing(self._connection()) as connection:
                connection.connect()
                began = time.perf_counter_ns()
                _ask(connection, _MANY, many)
                took.append(time.perf_counter_ns() - began)

        with closing(self._connection()) as connection:
            self._alone_ns.append(median(_timed(connection, one) for _ in range(50)))
            thread = threading.Thread(target=ask_many)
            thread.start()
            longest = _timed(connection, one)
            while thread.is_alive():
                time.sleep(_PAUSE_S)
                longest = max(longest, _timed(connection, one))
            self._longest_ns.append(longest)
        return float(took[0])

    def _connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_S)


def _timed(connection: HTTPConnection, body: bytes) -> int:
    began = time.perf_counter_ns()
    _ask(connection, _ONE, body)
    return time.perf_counter_ns() - began


def _ask(connection: HTTPConnection, path: str, body: bytes, method: str = "POST") -> bytes:
    connection.request(method, path, body, {"content-type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {answer[:500]!r}")
    return answer


@contextmanager
def _sidecar(log: Path) -> Iterator[_Server]:
    port = _free_port()
    command = [_ACLOG, "serve", "--log", str(log), "--describe-principals", "User:ANONYMOUS"]
    with _running(command, port, "/readyz", {"ACLOG_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"}) as server:
        yield server


@contextmanager
def _bare_server() -> Iterator[_Server]:
    port = _free_port()
    with _running([sys.executable, "-m", "benchmarks.bare_server", str(port)], port, "/", {}) as server:
        yield server


@contextmanager
def _running(command: list[str], port: int, ready: str, environ: dict[str, str]) -> Iterator[_Server]:
    """Its stderr is a file, which a failed start is explained by."""
    with (
        tempfile.NamedTemporaryFile() as said,
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=said, cwd=ROOT, env={**os.environ, **environ}
        ) as process,
    ):
        try:
            _wait_until_ready(process, port, ready, Path(said.name))
            yield _Server(port)
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
