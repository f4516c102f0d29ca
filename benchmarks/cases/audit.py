"""authorize() with the flags of its actions, and the level of the audit log, at their defaults.

What is denied is written at INFO, a line each; what is allowed is DEBUG, which neither side writes. Java's
line is text with the time, by slf4j-simple, with a write for each. Here it is

- JSON, with the facts as keys beside Kafka's text, as ``aclog serve`` writes it: decisions wait in a queue
  for a thread that makes and writes lines. The CPU of the thread that decides is measured, for
  which a request waits, and that of the entire process, until all lines are written. None may be lost.
- The same with ``aclog.audit.queue.max.lines`` 0: each line before its decision is answered.
- Text with the time, by a handler of the standard library's logging, as a program has it that uses aclog as a
  library.

All write to files in one directory, which begin anew in each round.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Self, TextIO

from authorizer.api.audit_levels import INFO
from authorizer.configuration.keys.names import AUDIT_QUEUE
from authorizer.configuration.keys.table import BY_NAME
from authorizer.configuration.log_setup import LogOutput, setup_logging
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.standard_authorizer import StandardAuthorizer
from benchmarks.arena import Arena, DecisionsDifferError, sampled
from benchmarks.figures import Goal, Row, Spread, alternate, faster
from benchmarks.requests import AUDITED, PRINCIPALS, Request
from benchmarks.settings import progress
from benchmarks.subject import OFTEN

_GOALS = {"w3": Goal("at least", 1.2), "w2": Goal("at least", 8)}
# Lines of both sides that are compared.
_COMPARED = 500
# Calls after which lines may be caught up with: fewer than may wait.
_STRIDE = 16_384
_POLL_S = 0.005


def measure(arena: Arena) -> Iterator[Row]:
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=arena.settings.cache, prefix="audit-"))
        ours_file, java_file = Path(scratch, "aclog.log"), Path(scratch, "java.log")
        arena.java.tell("log-to", file=str(java_file))
        with _logged_as_text(ours_file):
            compared = arena.check_decisions(AUDITED)
        queued, unqueued = (
            stack.enter_context(_Served(arena, ours_file, max_lines=room))
            for room in (BY_NAME[AUDIT_QUEUE].read(None), 0)
        )
        denied = _compare_lines(arena, queued, java_file)
        progress(f"{arena.workload}: authorize, audited")
        theirs, process, synchronous, as_text = alternate(
            arena.settings.rounds,
            partial(_java_round, arena, java_file),
            queued.round,
            unqueued.round,
            partial(_text_round, arena, ours_file),
        )
        arena.java.tell("log-to", file=None)
    goal = _GOALS.get(arena.workload)
    for how, ours, goal_here in (
        ("JSON, entire process", process, goal),
        ("JSON, deciding thread", Spread(tuple(queued.deciding_ns)), goal),
        ("JSON, without a queue", synchronous, None),
        ("text, by logging", as_text, goal),
    ):
        yield Row(
            what=f"authorize(context, [action]), distinct, audited, {how}",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against="Java, text",
            ratio=faster(theirs, ours),
            goal=goal_here,
            note=f"{compared} decisions equal, and {denied} lines; {denied * 100 // _COMPARED} % are denied",
        )


class _Served:
    """An authorizer with the audit log of ``aclog serve``, the file its stderr.

    Attributes:
        deciding_ns: of each round, CPU of the thread that decides, for a call.
    """

    def __init__(self, arena: Arena, file: Path, *, max_lines: int) -> None:
        self.deciding_ns: list[float] = []
        self._file = file
        self._seconds = arena.settings.round_s
        # The stream is put in place by each round.
        self._handler: logging.StreamHandler[TextIO] = logging.StreamHandler()
        self._audit = AuditWriter(LogOutput(self._handler, as_json=True), INFO, max_lines=max_lines)
        self._authorizer = StandardAuthorizer(audit=self._audit)
        self._authorizer.load(arena.ours.image)
        self._requests = cycle(arena.requests(AUDITED))
        with self._written():
            for _ in range(OFTEN):
                self.decide(arena.requests(PRINCIPALS))

    def decide(self, requests: list[Request]) -> None:
        authorize = self._authorizer.authorize
        for request in requests:
            authorize(request.context, request.actions)

    def lines(self, requests: list[Request]) -> list[str]:
        """Kafka's lines of what is asked."""
        with self._written():
            self.decide(requests)
        return [json.loads(line)["event"] for line in self._file.read_text(encoding="utf-8").splitlines()]

    def round(self) -> float:
        """ns of CPU of the whole process for each call."""
        process_s = -time.process_time()
        with self._written():
            calls, deciding_s = decided_in_pieces(self.decide, self._requests, self._seconds, self._wait)
        process_s += time.process_time()
        self.deciding_ns.append(deciding_s * 1e9 / calls)
        return process_s * 1e9 / calls

    @contextmanager
    def _written(self) -> Iterator[None]:
        """To a new file, all of it by the end."""
        with self._file.open("w", encoding="utf-8") as stream:
            before = self._handler.setStream(stream)
            yield
            self._wait()
            # The last lines are being written.
            time.sleep(_POLL_S)
            self._handler.setStream(before or sys.stderr)
        if self._audit.lost or self._audit.failures:
            raise RuntimeError(f"{self._audit.lost} lines were lost, {self._audit.failures} failed")

    def _wait(self) -> None:
        while self._audit.waiting:
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._audit.close()


def decided_in_pieces(
    decide: Callable[[list[Request]], None],
    requests: Iterator[Request],
    seconds: float,
    catch_up: Callable[[], None],
) -> tuple[int, float]:
    """Calls, and the CPU of this thread for them; ``catch_up``: until nothing waits to be written."""
    calls, deciding_s = 0, 0.0
    while deciding_s < seconds:
        piece = list(islice(requests, _STRIDE))
        began_s = time.thread_time()
        decide(piece)
        deciding_s += time.thread_time() - began_s
        calls += _STRIDE
        catch_up()
    return calls, deciding_s


def _compare_lines(arena: Arena, served: _Served, java_file: Path) -> int:
    """How many both wrote for the same sample.

    Raises:
        DecisionsDifferError: they are not the same.
    """
    arena.java.tell("log-to", file=str(java_file))
    arena.java.tell("decide", list=AUDITED, count=_COMPARED)
    theirs = [line.partition(" - ")[2] for line in java_file.read_text(encoding="utf-8").splitlines()]
    ours = served.lines(sampled(arena.requests(AUDITED), _COMPARED))
    if ours != theirs:
        pairs = zip([*ours, "nothing"], [*theirs, "nothing"], strict=False)
        our_line, their_line = next(pair for pair in pairs if pair[0] != pair[1])
        raise DecisionsDifferError(
            f"{arena.workload}: aclog's audit log says {our_line!r}, Kafka's {their_line!r}"
        )
    return len(ours)


def _java_round(arena: Arena, file: Path) -> float:
    arena.java.tell("log-to", file=str(file))
    return arena.java_round(AUDITED)()


def _text_round(arena: Arena, file: Path) -> float:
    with _logged_as_text(file):
        return arena.our_round(AUDITED)()


@contextmanager
def _logged_as_text(file: Path) -> Iterator[None]:
    """The line that Kafka's own configuration of log4j makes."""
    with file.open("w", encoding="utf-8") as stream:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
        logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
        try:
            yield
        finally:
            setup_logging("console", "ERROR")
