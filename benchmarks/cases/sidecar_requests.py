"""Requests to the sidecar: how many a second, and what each costs its process.

The sidecar is ``aclog serve`` at its defaults, with the audit log in a file; beside it a bare protocol
answers the same requests with the same bytes each time. Each has one core. One client asks both, in a
process of its own that sends a request on each connection when the one before is answered. It takes as long
as a server does, so requests a second are as much its as the servers': what is judged is the CPU of a
server's process for each request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.arena import Arena, timed_calls
from benchmarks.cases.reason import check_results
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_load import Order
from benchmarks.http_servers import MANY, ONE, Server, ask, evaluation, running_bare_server, running_sidecar
from benchmarks.load_client import Load, LoadClient, bodies_file, running_client
from benchmarks.requests import AUDITED, BULK_ACTIONS, Request
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
    audited = [evaluation(request) for request in arena.requests(AUDITED)]
    with (
        writable_log(arena.directory) as log,
        running_sidecar(log) as sidecar,
        running_bare_server() as bare,
        running_client() as client,
        bodies_file(audited) as ones,
    ):
        # One core for each server, the same one: the client has the others.
        for server in (sidecar, bare):
            server.keep_to(0)
        _answer_as(bare, sidecar, ONE, ones)
        for server in (sidecar, bare):
            client.load(Order(server.port, ONE, str(ones), _MANY_CONNECTIONS, _WARM_S))
        for transport in ("TCP", "a Unix socket"):
            for connections in (_MANY_CONNECTIONS, 1):
                yield from _requests(arena, client, sidecar, bare, transport, connections, ones)
        yield from _batches(arena, client, sidecar)


def _requests(
    arena: Arena,
    client: LoadClient,
    sidecar: Server,
    bare: Server,
    transport: str,
    connections: int,
    file: Path,
) -> Iterator[Row]:
    def load(server: Server, outcomes: list[Load]) -> float:
        address = server.port if transport == "TCP" else str(server.socket)
        seconds = 2 * arena.settings.round_s
        outcomes.append(client.measured(server, Order(address, ONE, str(file), connections, seconds)))
        return 0.0

    ours: list[Load] = []
    theirs: list[Load] = []
    alternate(arena.settings.rounds, partial(load, sidecar, ours), partial(load, bare, theirs))
    where = f"{transport}, {connections} connection{'s' if connections > 1 else ''}"

    def row(what: str, unit: str, field: str, goal: Goal | None = None, *, less_is_more: bool = True) -> Row:
        our_spread, their_spread = (
            Spread(tuple(getattr(each, field) for each in side)) for side in (ours, theirs)
        )
        ratio = their_spread.over(our_spread) if less_is_more else our_spread.over(their_spread)
        return Row(
            what=f"{what}, {where}",
            workload=arena.workload,
            unit=unit,
            ours=our_spread,
            other=their_spread,
            against=_BARE,
            ratio=ratio,
            goal=goal,
        )

    yield row("CPU of the server for a request", "ns", "cpu_ns", _SHARE)
    yield row("requests by the clock", "/s", "rate", less_is_more=False)
    yield row("p99 by the clock", "ns", "p99_ns", _P99 if connections > 1 else None)


def _batches(arena: Arena, client: LoadClient, sidecar: Server) -> Iterator[Row]:
    """Batches that are not logged, over HTTP and by the library, with and without the deciding ACL.

    The evaluations of a batch are of one client, as for a gateway that filters topics, or of different ones.
    """
    compared = check_results(arena, "distinct")
    arena.warm_up_principals()
    requests = arena.requests("distinct")
    groups = [
        requests[at : at + BULK_ACTIONS] for at in range(0, len(requests) - BULK_ACTIONS + 1, BULK_ACTIONS)
    ]
    of_one = [[Request(group[0].context, request.actions) for request in group] for group in groups]
    authorizer = arena.ours.authorizer
    for whose, request_groups, goal in (
        ("one client", of_one, _OF_LIBRARY),
        ("as many clients", groups, None),
    ):
        calls = [(request.context, request.actions[0]) for group in request_groups for request in group]
        for reason, explain, decide in (
            ("with", True, authorizer.decide),
            ("without", False, authorizer.answer),
        ):
            batches = [
                {"evaluations": [evaluation(request, explain=explain) for request in group]}
                for group in request_groups
            ]
            with bodies_file(batches) as file:
                order = Order(sidecar.port, MANY, str(file), 1, 2 * arena.settings.round_s)
                ours, theirs = alternate(
                    arena.settings.rounds,
                    lambda order=order: client.measured(sidecar, order).cpu_ns / BULK_ACTIONS,  # type: ignore[misc]
                    timed_calls(decide, calls, arena.settings.round_s),
                )
            yield Row(
                what=f"CPU of a decision {reason} its ACL, {BULK_ACTIONS} of {whose} in a request",
                workload=arena.workload,
                unit="ns",
                ours=ours,
                other=theirs,
                against=f"the library's {decide.__name__}",
                ratio=ours.over(theirs),
                goal=goal,
                note=f"nothing logged on either side; {compared} results as authorize has them",
            )


def _answer_as(bare: Server, sidecar: Server, path: str, file: Path) -> None:
    """Let the bare server answer what the sidecar answers to the first of the requests."""
    with file.open("rb") as lines:
        first = lines.readline()
    with closing(bare.connection(_ANSWER_S)) as theirs, closing(sidecar.connection(_ANSWER_S)) as ours:
        ask(theirs, path, ask(ours, path, first), method="PUT")
