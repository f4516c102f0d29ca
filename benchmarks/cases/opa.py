"""Requests to the sidecar compared with OPA, which answers the same requests by the same ACLs.

Each server has one core, the same one, and what it denies is in its log; the client has the other cores.
By the clock, as users see it, and by the CPU of the server's process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

from benchmarks.arena import Arena, DecisionsDifferError, sampled
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_load import Order
from benchmarks.http_servers import ONE, Server, ask, evaluation, running_sidecar
from benchmarks.load_client import Load, bodies_file, running_client
from benchmarks.opa import MISSING, PATH, VERSION, opa_program, running_opa
from benchmarks.requests import AUDITED
from benchmarks.settings import progress
from benchmarks.stored import writable_log

_COMPARED = 500
_CONNECTIONS = {32: Goal("at least", 8), 1: Goal("at least", 2.5)}
_CORE = 0
_ANSWER_S = 60.0
# Until every principal has asked often enough for rights of its own.
_WARM_S = 2.0


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: requests over HTTP beside OPA")
    program = opa_program()
    evaluations = [evaluation(each) for each in arena.requests(AUDITED)]
    with ExitStack() as stack:
        log = stack.enter_context(writable_log(arena.directory))
        client = stack.enter_context(running_client())
        file = stack.enter_context(bodies_file(evaluations))
        servers = [(stack.enter_context(running_sidecar(log)), ONE, file)]
        if program is not None:
            opa = stack.enter_context(running_opa(program, [acl.record for acl in arena.ours.image]))
            _compare(arena, opa)
            inputs = stack.enter_context(bodies_file([{"input": each} for each in evaluations]))
            servers.append((opa, PATH, inputs))
        for server, path, bodies in servers:
            server.keep_to(_CORE)
            client.load(Order(server.port, path, str(bodies), 32, _WARM_S))
        for connections, goal in _CONNECTIONS.items():
            loads: list[list[Load]] = [[] for _ in servers]

            def load(number: int, connections: int = connections, loads: list[list[Load]] = loads) -> float:
                server, path, bodies = servers[number]
                order = Order(server.port, path, str(bodies), connections, 2 * arena.settings.round_s)
                loads[number].append(client.measured(server, order))
                return 0.0

            alternate(arena.settings.rounds, *(partial(load, number) for number in range(len(servers))))
            yield from _rows(arena, connections, goal, loads)


def _rows(arena: Arena, connections: int, goal: Goal, loads: list[list[Load]]) -> Iterator[Row]:
    where = f"one core, {connections} connection{'s' if connections > 1 else ''}"
    for what, unit, field in (
        ("requests by the clock", "/s", "rate"),
        ("CPU of the server for a request", "ns", "cpu_ns"),
        ("p99 by the clock", "ns", "p99_ns"),
    ):
        ours, *rest = (Spread(tuple(getattr(each, field) for each in of_server)) for of_server in loads)
        theirs = rest[0] if rest else None
        is_rate = field == "rate"
        ratio = None
        if theirs is not None:
            ratio = ours.over(theirs) if is_rate else theirs.over(ours)
        yield Row(
            what=f"{what}, {where}",
            workload=arena.workload,
            unit=unit,
            ours=ours,
            other=theirs,
            against=f"OPA {VERSION}",
            ratio=ratio,
            goal=goal if is_rate else None,
            note=MISSING if theirs is None else f"{_COMPARED} decisions equal",
        )


def _compare(arena: Arena, opa: Server) -> None:
    sample = sampled(arena.requests("distinct"), _COMPARED)
    with closing(opa.connection(_ANSWER_S)) as connection:
        bodies = (json.dumps({"input": evaluation(each)}).encode("ascii") for each in sample)
        answers = [json.loads(ask(connection, PATH, body))["result"] for body in bodies]
    theirs = "".join("A" if answer else "D" for answer in answers)
    if theirs != arena.ours.decide(sample, allow_everyone=False):
        raise DecisionsDifferError(f"{arena.workload}: OPA does not decide as aclog")
