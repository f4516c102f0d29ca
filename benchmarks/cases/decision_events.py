"""authorize() with a decision log: an event in a file for each decision, DENIED compared with ALLOWED.

The list ``audited`` is split by its decisions. Measured are the CPU of the thread that decides, for which a
request waits, and that of the entire process until all events are written. Both are measured again without a
decision log: then an allowed request is not logged, and a denied one is a line of the audit log.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Self

from authorizer.api.audit_levels import DEBUG, INFO, OFF
from authorizer.configuration.keys.names import AUDIT_QUEUE
from authorizer.configuration.keys.table import BY_NAME
from authorizer.configuration.log_setup import LogOutput
from authorizer.engine.decisions.authorize import decide
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.decision_log.decision_log import DecisionLog
from authorizer.node.decision_log.destinations import FileDestination
from authorizer.node.standard_authorizer import StandardAuthorizer
from benchmarks.arena import Arena
from benchmarks.cases.audit import decided_in_pieces
from benchmarks.figures import Goal, Row, Spread, alternate, faster
from benchmarks.requests import AUDITED, PRINCIPALS, Request
from benchmarks.settings import progress
from benchmarks.subject import OFTEN

# What is denied may cost a tenth more than what is allowed: the noise of one run is as much.
_GOAL = Goal("at least", 0.9)
_FILE_BYTES = 256 * 1024 * 1024
_LOOK_S = 0.005


def measure(arena: Arena) -> Iterator[Row]:
    halves: dict[bool, list[Request]] = {True: [], False: []}
    for each in arena.requests(AUDITED):
        decision = decide(arena.ours.authorizer.state, each.context, each.actions[0])
        halves[decision.is_allowed].append(each)
    allowed, denied = halves[True], halves[False]
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=arena.settings.cache, prefix="events-"))
        logged = stack.enter_context(_Decided(arena, Path(scratch)))
        plain = stack.enter_context(_Decided(arena, None))
        progress(f"{arena.workload}: authorize, with decision events")
        sides = [
            _Side(decided, half) for decided in (logged, plain) for half in (cycle(denied), cycle(allowed))
        ]
        process = alternate(
            arena.settings.rounds, *(partial(side.round, arena.settings.round_s) for side in sides)
        )
    deciding = [Spread(tuple(side.deciding_ns)) for side in sides]
    for log, at, goal in (("an event each", 0, _GOAL), ("no events", 2, None)):
        for how, spreads in (("deciding thread", deciding), ("entire process", process)):
            yield Row(
                what=f"authorize(context, [action]), denied, {log}, {how}",
                workload=arena.workload,
                unit="ns",
                ours=spreads[at],
                other=spreads[at + 1],
                against="allowed",
                ratio=faster(spreads[at + 1], spreads[at]),
                goal=goal,
                note=f"{len(denied)} denied and {len(allowed)} allowed requests",
            )


class _Decided:
    """An authorizer as ``aclog serve`` has it; without ``home`` it has no decision log."""

    def __init__(self, arena: Arena, home: Path | None) -> None:
        self._decision_log = None
        if home is not None:
            file = FileDestination("file", home / "events", max_bytes=_FILE_BYTES, keep=1)
            self._decision_log = DecisionLog([file], level=DEBUG)
        self._stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - closed with this
        self._audit = AuditWriter(
            LogOutput(logging.StreamHandler(self._stderr), as_json=True),
            OFF if home is not None else INFO,
            max_lines=BY_NAME[AUDIT_QUEUE].read(None),
            decision_log=self._decision_log,
        )
        self._authorizer = StandardAuthorizer(audit=self._audit)
        self._authorizer.load(arena.ours.image)
        for _ in range(OFTEN):
            self.decide(arena.requests(PRINCIPALS))
        self.catch_up()

    def decide(self, requests: list[Request]) -> None:
        authorize = self._authorizer.authorize
        for request in requests:
            authorize(request.context, request.actions)

    def catch_up(self) -> None:
        while self._audit.waiting:
            time.sleep(_LOOK_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._audit.close()
        self._stderr.close()
        lost = self._audit.lost + self._audit.failures
        if self._decision_log is not None:
            lost += self._decision_log.lost + sum(each.lost for each in self._decision_log.destinations)
        if lost and exc_info[0] is None:
            raise RuntimeError(f"{lost} lines or events were lost")


class _Side:
    """The allowed or the denied half of the requests, on one authorizer.

    Attributes:
        deciding_ns: of each round, CPU of the thread that decides, for a call.
    """

    def __init__(self, decided: _Decided, requests: Iterator[Request]) -> None:
        self.deciding_ns: list[float] = []
        self._decided = decided
        self._requests = requests

    def round(self, seconds: float) -> float:
        """ns of CPU of the process for each call."""
        process_s = -time.process_time()
        decided = self._decided
        calls, deciding_s = decided_in_pieces(decided.decide, self._requests, seconds, decided.catch_up)
        process_s += time.process_time()
        self.deciding_ns.append(deciding_s * 1e9 / calls)
        return process_s * 1e9 / calls
