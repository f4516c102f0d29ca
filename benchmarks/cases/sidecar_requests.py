"""Requests to the sidecar: how many a second, and what each costs its process.

The sidecar is ``aclog serve`` at its defaults, with the audit log in a file; beside it a bare protocol
answers the same requests with the same bytes each time. One client asks both, in a process of its own that
sends a request on each connection when the one before is answered. It takes as long as a server does, so
requests a second are as much its as the servers': what is judged is the CPU of a server's process for each
request.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena, timed_calls
from benchmarks.cases.reason import check_results
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_load import Order, Outcome
from benchmarks.http_servers import MANY, ONE, Server, ask, evaluation, running_bare_server, running_sidecar
from benchmarks.requests import AUDITED, BULK_ACTIONS
from benchmarks.settings import progress
from benchmarks.stored import writable_log

_BARE = "bare protocol, constant answer"
_MANY_CONNECTIONS = 32
# Of a bare protocol's; and of Unix beside TCP.
_SHARE = Goal("at least", 0.3)
_P99 = Goal("at most", 4e6, of="ours")
_OF_LIBRARY = Goal("at most", 2)
_ANSWER_S = 60.0
# Until every principal has asked often enough for rights of its own.
_WARM_S = 2.0


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: requests over HTTP")
    audited = [evaluation(asked) for asked in arena.requests(AUDITED)]
    quiet = [evaluation(asked) for asked in arena.requests("distinct")]
    batches = [
        {"evaluations": quiet[at : at + BULK_ACTIONS]}
        for at in range(0, len(quiet) - BULK_ACTIONS + 1, BULK_ACTIONS)
    ]
    with (
        writable_log(arena.directory) as log,
        running_sidecar(log) as sidecar,
        running_bare_server() as bare,
        _client() as client,
        _lines(audited) as ones,
        _lines(batches) as manys,
    ):
        _answer_as(bare, sidecar, ONE, ones)
        _answer_as(bare, sidecar, MANY, manys)
        for server in (sidecar, bare):
            client.load(Order(server.port, ONE, str(ones), _MANY_CONNECTIONS, _WARM_S))
        for transport in ("TCP", "a Unix socket"):
            for connections in (_MANY_CONNECTIONS, 1):
                yield from _requests(arena, client, sidecar, bare, transport, connections, ones)
        yield _batch(arena, client, sidecar, manys)


def _requests(
    arena: Arena, client: _Client, sidecar: Server, bare: Server, transport: str, connections: int, file: Path
) -> Iterator[Row]:
    def load(server: Server, outcomes: list[_Load]) -> float:
        address = server.port if transport == "TCP" else str(server.socket)
        seconds = 2 * arena.settings.round_s
        outcomes.append(client.measured(server, Order(address, ONE, str(file), connections, seconds)))
        return 0.0

    ours: list[_Load] = []
    theirs: list[_Load] = []
    alternate(arena.settings.rounds, partial(load, sidecar, ours), partial(load, bare, theirs))
    where = f"{transport}, {connections} connection{'s' if connections > 1 else ''}"

    def row(what: str, unit: str, field: str, goal: Goal | None = None, *, less_is_more: bool = True) -> Row:
        mine, others = (Spread(tuple(getattr(each, field) for each in side)) for side in (ours, theirs))
        ratio = others.over(mine) if less_is_more else mine.over(others)
        return Row(
            what=f"{what}, {where}",
            workload=arena.workload,
            unit=unit,
            ours=mine,
            other=others,
            against=_BARE,
            ratio=ratio,
            goal=goal,
        )

    yield row("CPU of the server for a request", "ns", "cpu_ns", _SHARE)
    yield row("requests by the clock", "/s", "rate", less_is_more=False)
    yield row("p99 by the clock", "ns", "p99_ns", _P99 if connections > 1 else None)


def _batch(arena: Arena, client: _Client, sidecar: Server, file: Path) -> Row:
    """Questions that are not to be logged, here and there."""
    compared = check_results(arena, "distinct")
    arena.have_everyone_asked()
    asked = [(asked.context, asked.actions[0]) for asked in arena.requests("distinct")]
    order = Order(sidecar.port, MANY, str(file), 1, 2 * arena.settings.round_s)
    ours, theirs = alternate(
        arena.settings.rounds,
        lambda: client.measured(sidecar, order).cpu_ns / BULK_ACTIONS,
        timed_calls(arena.ours.authorizer.decide, asked, arena.settings.round_s),
    )
    return Row(
        what=f"CPU of the server for a decision, {BULK_ACTIONS} evaluations in a request",
        workload=arena.workload,
        unit="ns",
        ours=ours,
        other=theirs,
        against="the library's decide",
        ratio=ours.over(theirs),
        goal=_OF_LIBRARY,
        note=f"nothing logged on either side; {compared} results as authorize has them",
    )


def _answer_as(bare: Server, sidecar: Server, path: str, file: Path) -> None:
    """Let the bare server answer what the sidecar answers to the first of the requests."""
    with file.open("rb") as lines:
        first = lines.readline()
    with closing(bare.connection(_ANSWER_S)) as theirs, closing(sidecar.connection(_ANSWER_S)) as ours:
        ask(theirs, path, ask(ours, path, first), method="PUT")


@contextmanager
def _lines(bodies: Sequence[object]) -> Iterator[Path]:
    """A file with a body on each line."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as file:
        file.writelines(json.dumps(body) + "\n" for body in bodies)
        file.flush()
        yield Path(file.name)


class _Load(msgspec.Struct):
    """What one order came to."""

    rate: float
    cpu_ns: float
    p99_ns: float


class _Client:
    """`benchmarks.http_load`, running."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def load(self, order: Order) -> Outcome:
        print(msgspec.json.encode(order).decode("ascii"), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise RuntimeError(f"the client ended with {self._process.wait()}")
        return msgspec.json.decode(line, type=Outcome)

    def measured(self, server: Server, order: Order) -> _Load:
        """The same, with the server's CPU for each request."""
        before_ns = server.cpu_ns()
        outcome = self.load(order)
        cpu_ns = server.cpu_ns() - before_ns
        return _Load(outcome.requests / outcome.seconds, cpu_ns / outcome.requests, outcome.p99_ns)


@contextmanager
def _client() -> Iterator[_Client]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.http_load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        yield _Client(process)
