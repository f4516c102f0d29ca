"""authorize() with the flags of its actions, and the level of the audit log, at their defaults.

What is denied is written at INFO, a line each, with one write; what is allowed is DEBUG, which neither side
writes. Java's line is text with the time, by slf4j-simple. Here it is once JSON, with the facts as keys
beside Kafka's text, as ``aclog serve`` writes it; and once text with the time, by a handler of the standard
library's logging, as a program has it that uses aclog as a library. All write to files in one directory,
which begin anew in each round.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TextIO

from authorizer.configuration.log_setup import setup_logging
from benchmarks.arena import Arena, DecisionsDifferError, sampled
from benchmarks.figures import Goal, Row, alternate, faster
from benchmarks.requests import AUDITED
from benchmarks.settings import progress

_GOALS = {"w3": Goal("at least", 1.2), "w2": Goal("at least", 8)}
# Lines of both sides that are compared.
_COMPARED = 500


def measure(arena: Arena) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=arena.settings.cache, prefix="audit-") as scratch:
        ours_file, java_file = Path(scratch, "aclog.log"), Path(scratch, "java.log")
        arena.java.tell("log-to", file=str(java_file))
        with _logged_to(ours_file, _served):
            compared = arena.check_decisions(AUDITED)
        denied = _compare_lines(arena, ours_file, java_file)
        progress(f"{arena.workload}: authorize, audited")
        theirs, served, as_text = alternate(
            arena.settings.rounds,
            partial(_java_round, arena, java_file),
            partial(_our_round, arena, ours_file, _served),
            partial(_our_round, arena, ours_file, _as_text),
        )
        arena.java.tell("log-to", file=None)
    for how, ours in (("JSON", served), ("text", as_text)):
        yield Row(
            what=f"authorize(context, [action]), distinct, audited, {how}",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against="Java, text",
            ratio=faster(theirs, ours),
            goal=_GOALS.get(arena.workload),
            note=f"{compared} decisions equal, and {denied} lines; {denied * 100 // _COMPARED} % are denied",
        )


def _compare_lines(arena: Arena, ours_file: Path, java_file: Path) -> int:
    """How many both wrote for the same sample.

    Raises:
        DecisionsDifferError: they are not the same.
    """
    arena.java.tell("log-to", file=str(java_file))
    arena.java.tell("decide", list=AUDITED, count=_COMPARED)
    with _logged_to(ours_file, _served):
        arena.ours.decide(sampled(arena.requests(AUDITED), _COMPARED), allow_everyone=False)
    theirs = [line.partition(" - ")[2] for line in java_file.read_text(encoding="utf-8").splitlines()]
    ours = [json.loads(line)["event"] for line in ours_file.read_text(encoding="utf-8").splitlines()]
    if ours != theirs:
        pairs = zip([*ours, "nothing"], [*theirs, "nothing"], strict=False)
        mine, other = next(pair for pair in pairs if pair[0] != pair[1])
        raise DecisionsDifferError(f"{arena.workload}: aclog's audit log says {mine!r}, Kafka's {other!r}")
    return len(ours)


def _java_round(arena: Arena, file: Path) -> float:
    arena.java.tell("log-to", file=str(file))
    return arena.java_round(AUDITED)()


def _our_round(arena: Arena, file: Path, set_up: Callable[[TextIO], None]) -> float:
    with _logged_to(file, set_up):
        return arena.our_round(AUDITED)()


@contextmanager
def _logged_to(file: Path, set_up: Callable[[TextIO], None]) -> Iterator[None]:
    with file.open("w", encoding="utf-8") as stream:
        set_up(stream)
        try:
            yield
        finally:
            setup_logging("console", "ERROR")


def _served(stream: TextIO) -> None:
    """The logging of ``aclog serve``, this its stderr."""
    setup_logging("json", "INFO", stream=stream)


def _as_text(stream: TextIO) -> None:
    """The line that Kafka's own configuration of log4j makes."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)"))
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
