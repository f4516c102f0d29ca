"""Requests to a sidecar of several processes, beside one of one process: what each core gives.

One client asks both in turn, on as many connections, and the kernel spreads those over the workers. It takes
a core of its own, so on a machine of two there is no more than one for two workers: there each process gets
the same part of a core, both times.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.arena import Arena
from benchmarks.core_share import core_share
from benchmarks.figures import Goal, Row, Spread, alternate
from benchmarks.http_load import Order
from benchmarks.http_servers import ONE, Server, evaluation, running_sidecar
from benchmarks.load_client import LoadClient, bodies_file, running_client
from benchmarks.requests import AUDITED
from benchmarks.settings import progress
from benchmarks.stored import writable_log

_WORKERS = 2
_CONNECTIONS = 64
# Until every principal has asked often enough for rights of its own, of each worker.
_WARM_S = 4.0
_AGAINST = "one process"
_SHARE = 0.2
# Times a round of something short: the kernel deals in periods of 20 ms.
_ROUNDS_S = 6
# Of one process's requests/s.
_GOAL = Goal("at least", 1.8)


class _Round:
    """What one order to a server came to."""

    def __init__(self, client: LoadClient, server: Server, order: Order) -> None:
        before_ns = server.each_cpu_ns()
        outcome = client.load(order)
        took_ns = [after - before for before, after in zip(before_ns, server.each_cpu_ns(), strict=True)]
        self.rate = outcome.requests / outcome.seconds
        self.cpu_ns = sum(took_ns) / outcome.requests


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: requests to {_WORKERS} workers")
    bodies = [evaluation(request) for request in arena.requests(AUDITED)]
    with (
        writable_log(arena.directory) as log,
        writable_log(arena.directory) as other_log,
        running_sidecar(log, workers=_WORKERS) as several,
        running_sidecar(other_log) as one,
        running_client() as client,
        bodies_file(bodies) as file,
    ):
        for server in (several, one):
            client.load(_order(server, file, _WARM_S))

        def load(server: Server, rounds: list[_Round]) -> float:
            rounds.append(_Round(client, server, _order(server, file, _ROUNDS_S * arena.settings.round_s)))
            return 0.0

        def both() -> tuple[list[_Round], list[_Round]]:
            ours: list[_Round] = []
            theirs: list[_Round] = []
            alternate(arena.settings.rounds, partial(load, several, ours), partial(load, one, theirs))
            return ours, theirs

        with core_share((*several.pids, *one.pids), _SHARE) as is_shared:
            shared = both() if is_shared else None
        free = both()

    def row(
        sides: tuple[list[_Round], list[_Round]],
        what: str,
        unit: str,
        field: str,
        goal: Goal | None = None,
        note: str = "",
    ) -> Row:
        our_spread, their_spread = (Spread(tuple(getattr(each, field) for each in side)) for side in sides)
        return Row(
            what=f"{what}, {_WORKERS} workers, {_CONNECTIONS} connections",
            workload=arena.workload,
            unit=unit,
            ours=our_spread,
            other=their_spread,
            against=_AGAINST,
            ratio=their_spread.over(our_spread) if unit == "ns" else our_spread.over(their_spread),
            goal=goal,
            note=note,
        )

    yield row(free, "CPU of all workers for a request", "ns", "cpu_ns")
    if shared is not None:
        note = f"{_SHARE:g} of a core for each process"
        yield row(shared, "requests by the clock, cores enough", "/s", "rate", _GOAL, note)
    yield row(free, "requests by the clock", "/s", "rate", note="the client takes a core, too")


def _order(server: Server, file: Path, seconds: float) -> Order:
    return Order(server.port, ONE, str(file), _CONNECTIONS, seconds)
