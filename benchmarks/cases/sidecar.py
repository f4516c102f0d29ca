"""10,000 evaluations in one request to the sidecar, and what another caller waits for meanwhile.

The sidecar is ``aclog serve`` at its defaults, so what is denied is in the audit log, on stderr, which is a
file. Beside it stands a bare protocol that reads the same requests and answers with the same bytes each time.
By the clock: both are servers, and the client is one, too.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from itertools import cycle, islice
from statistics import median

from authorizer.engine.decisions.authorize import decide
from benchmarks.arena import Arena, DecisionsDifferError
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_servers import MANY, ONE, Server, ask, evaluation, running_bare_server, running_sidecar
from benchmarks.requests import AUDITED, Request
from benchmarks.settings import progress
from benchmarks.stored import writable_log

_EVALUATIONS = 10_000
_ANSWER_S = 600.0
_LONGEST_WAIT = Goal("at most", 50e6, of="ours")
# Between two requests of the other caller.
_PAUSE_S = 0.002


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: {_EVALUATIONS:,} evaluations over HTTP")
    requests = list(islice(cycle(arena.requests(AUDITED)), _EVALUATIONS))
    one = _body(evaluation(requests[0]))
    many = _body({"evaluations": list(map(evaluation, requests))})
    with (
        writable_log(arena.directory) as log,
        running_sidecar(log) as sidecar_server,
        running_bare_server() as bare_server,
    ):
        sidecar, bare = _MeasuredServer(sidecar_server), _MeasuredServer(bare_server)
        answer = sidecar.ask(MANY, many)
        _check(arena, requests, answer)
        bare.ask(ONE, sidecar.ask(ONE, one), method="PUT")
        bare.ask(MANY, answer, method="PUT")
        rounds = [partial(side.disturbed, one, many) for side in (sidecar, bare)]
        ours, theirs = alternate(arena.settings.rounds, *rounds)
    row = partial(_row, arena)
    each = f"{ours.median / _EVALUATIONS / 1000:.3g} µs each; {_EVALUATIONS} decisions equal"
    yield row(f"{_EVALUATIONS:,} evaluations in one request", ours, theirs, each)
    what = "the longest that another request waited meanwhile"
    yield row(what, sidecar.longest(), bare.longest(), goal=_LONGEST_WAIT)
    yield row("the same request when there is no other", sidecar.alone(), bare.alone())


def _row(
    arena: Arena, what: str, ours: Spread, theirs: Spread, note: str = "", goal: Goal | None = None
) -> Row:
    return Row(
        what=f"{what}, by the clock",
        workload=arena.workload,
        unit="ns",
        ours=ours,
        other=theirs,
        against="bare protocol, constant answer",
        ratio=ours.over(theirs),
        goal=goal,
        note=note,
    )


def _body(value: object) -> bytes:
    return json.dumps(value).encode("ascii")


def _check(arena: Arena, requests: Sequence[Request], answer: bytes) -> None:
    state = arena.ours.authorizer.state
    # Not by the authorizer itself, whose audit log would be on the terminal.
    expected = [decide(state, each.context, each.actions[0]).is_allowed for each in requests]
    if [each["decision"] for each in json.loads(answer)["evaluations"]] != expected:
        raise DecisionsDifferError(f"{arena.workload}: the sidecar does not answer as authorize does")


class _MeasuredServer:
    """One of the two servers, measured over HTTP."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._longest_ns: list[int] = []
        self._alone_ns: list[float] = []

    def longest(self) -> Spread:
        """Of each round, the longest request of the other caller."""
        return Spread(tuple(self._longest_ns))

    def alone(self) -> Spread:
        """Of each round, the median of the same requests without other requests."""
        return Spread(tuple(self._alone_ns))

    def ask(self, path: str, body: bytes, *, method: str = "POST") -> bytes:
        with closing(self._connection()) as connection:
            return ask(connection, path, body, method)

    def disturbed(self, one: bytes, many: bytes) -> float:
        """Send a batch, and single requests until the batch is answered; returns ns for the batch."""
        took: list[int] = []

        def ask_many() -> None:
            with closing(self._connection()) as connection:
                connection.connect()
                began = time.perf_counter_ns()
                ask(connection, MANY, many)
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
        return self._server.connection(_ANSWER_S)


def _timed(connection: HTTPConnection, body: bytes) -> int:
    began = time.perf_counter_ns()
    ask(connection, ONE, body)
    return time.perf_counter_ns() - began
