"""The audit log of `aclog serve`: decisions wait in a queue, and one thread makes and writes their lines.

Who decides only puts down what was decided, when and by which state, so that a denied question costs what an
allowed one does. The thread finds the ACL that decided, makes the lines and writes many at once, in the order
of the decisions, 50 ms late at most where it keeps up.

Nothing waits for it: where as many decisions wait as may, a line is left out, counted and said. With room for
none every line is written before its decision is answered, by who decides.

The decision log, where there is one, takes the same decisions from the same thread (``decision_log``).
"""

from __future__ import annotations

import json
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

import msgspec
import structlog

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.configuration.keys.names import AUDIT_LEVEL, AUDIT_QUEUE
from authorizer.engine.decisions.audit import AuditLine, AuditLog, audit_line, audit_record
from authorizer.node.decision_log.decision_log import DecisionLog
from authorizer.node.decision_log.metrics import DecisionLogCollector
from authorizer.node.dropped_event_counter import Losses
from records.polling import PeriodicThread

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from authorizer.configuration.load import Config
    from authorizer.configuration.log_setup import LogOutput
    from authorizer.engine.decisions.decision import DecidedAction

log = structlog.get_logger(__name__)

_INTERVAL_S: Final = 0.05
# The interpreter runs one thread at a time: lines are made in pieces of half a millisecond, and between two
# of them the thread that answers requests gets its turn. While there are any, there is a piece every five
# milliseconds: of what has gathered for longer one piece would come right behind the other, and hold up all
# requests meanwhile. Where many wait, pieces are larger, and come sooner.
_PIECE: Final = 128
_PIECES: Final = 8
_PAUSE_S: Final = 0.005
_SHORT_PAUSE_S: Final = 0.0002


class AuditWriter(AuditLog):
    """See the module. Close it after whatever decides: what waits then is written.

    Attributes:
        max_lines: how many decisions may wait; 0 to write each before it is answered.
        decision_log: where decisions become events, if there is such a place.
    """

    __slots__ = (
        "_as_json",
        "_closing",
        "_handler",
        "_lines_from",
        "_losses",
        "_queue",
        "_thread",
        "decision_log",
        "max_lines",
    )

    def __init__(
        self, output: LogOutput, level: int, *, max_lines: int, decision_log: DecisionLog | None = None
    ) -> None:
        """``decision_log`` is this writer's from here on, also to close."""
        self.decision_log = decision_log
        super().__init__(level)
        self._handler, self._as_json = output
        self.max_lines = max_lines
        self._queue: deque[DecidedAction] = deque()
        self._losses = Losses()
        self._thread = PeriodicThread(
            "aclog-audit", self._run, delay_s=_INTERVAL_S, on_close=self._write_remaining
        )
        if max_lines or decision_log is not None:
            self._thread.start()

    @classmethod
    def configured(cls, config: Config, output: LogOutput, worker: int | None = None) -> Self:
        """As the configuration has it; ``worker``: see ``DecisionLog.configured``.

        Raises:
            ConfigError: the decision log cannot be written where that says.
        """
        return cls(
            output,
            AUDIT_LEVELS[config.audit_level],
            max_lines=config.audit_queue_max_lines,
            decision_log=DecisionLog.configured(config, worker),
        )

    def show_to(self, registry: CollectorRegistry) -> None:
        """Put the decision log's counts among a node's metrics, if there is one."""
        if self.decision_log is not None:
            registry.register(DecisionLogCollector(self.decision_log))

    @property
    def waiting(self) -> int:
        """How many decisions wait for their lines."""
        return len(self._queue)

    def set_level(self, level: int) -> None:
        super().set_level(level)
        self._lines_from = self.threshold
        if self.decision_log is not None:
            self.threshold = min(self.threshold, self.decision_log.level)

    def write(self, decided: DecidedAction) -> None:
        decided.decided_s = time.time()
        if len(self._queue) < self.max_lines:
            self._queue.append(decided)
        elif self.max_lines:
            self._lose(decided.level)
        else:
            self._write([decided])

    def close(self) -> None:
        """Write what waits; from here on each line is written at once. Idempotent."""
        self.max_lines = 0
        self._thread.close()
        if self.decision_log is not None:
            self.decision_log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _lose(self, level: int) -> None:
        if level >= self._lines_from:
            self.lost += 1
        if self.decision_log is not None and level >= self.decision_log.level:
            self.decision_log.lost += 1

    def _run(self) -> float:
        queue = self._queue
        pause_s = _SHORT_PAUSE_S if len(queue) > _PIECE else _PAUSE_S if queue else _INTERVAL_S
        self._write_some()
        self._say_lost()
        return pause_s

    def _write_remaining(self) -> None:
        while self._queue:
            self._write_some()
        self._say_lost(is_last=True)

    def _write_some(self) -> None:
        queue = self._queue
        count = min(len(queue), max(_PIECE, len(queue) // _PIECES))
        if count or self.decision_log is not None:
            self._write([queue.popleft() for _ in range(count)])

    def _write(self, decisions: list[DecidedAction]) -> None:
        lines, level = [], self._lines_from
        for each in decisions:
            if each.level >= level:
                try:
                    lines.append(_line(each))
                except Exception as error:  # noqa: BLE001 - a decision stands, whatever its line does
                    self._report(error)
        if lines:
            self._write_lines(lines)
        if self.decision_log is not None:
            self._write_events(self.decision_log, decisions)

    def _write_events(self, decision_log: DecisionLog, decisions: list[DecidedAction]) -> None:
        for each in decisions:
            if each.level >= decision_log.level:
                try:
                    decision_log.take(each)
                except Exception as error:  # noqa: BLE001 - as in _write
                    self._report(error)
        try:
            decision_log.write()
        except Exception as error:  # noqa: BLE001 - as in _write
            self._report(error)

    def _write_lines(self, lines: list[AuditLine]) -> None:
        handler = self._handler
        try:
            text = _json(lines) if self._as_json else self._console(lines)
            # One write, and other log lines before it or after it.
            handler.acquire()
            try:
                handler.stream.write(text)
                handler.flush()
            finally:
                handler.release()
        except Exception as error:  # noqa: BLE001 - as in _write
            self._report(error, len(lines))

    def _console(self, lines: list[AuditLine]) -> str:
        texts = []
        for line in lines:
            record = audit_record(line)
            record.__dict__["timestamp"] = msgspec.to_builtins(line.timestamp)
            texts.append(self._handler.format(record) + "\n")
        return "".join(texts)

    def _say_lost(self, *, is_last: bool = False) -> None:
        lost = self._losses.to_say(self.lost, is_last=is_last)
        if lost:
            log.warning(
                "audit_lines_lost",
                lines=lost,
                reason="more decisions waited for their lines than may: what reads them is too slow",
                way_out=f"more room ({AUDIT_QUEUE}), or a level that writes less ({AUDIT_LEVEL})",
            )


def _line(decided: DecidedAction) -> AuditLine:
    timestamp = datetime.fromtimestamp(decided.decided_s, UTC)
    return audit_line(
        decided.level, decided.state, decided.context, decided.action, decided.decision(), timestamp
    )


def _json(lines: list[AuditLine]) -> str:
    """A line each, in ASCII: the stream's encoding may be any."""
    try:
        text = _encoder.encode_lines(lines)
    except UnicodeEncodeError:  # half a surrogate pair, which no codec but UTF-16 has
        text = None
    if text is not None and text.isascii():
        return text.decode("ascii")
    return "".join(json.dumps(msgspec.to_builtins(line)) + "\n" for line in lines)


_encoder: Final = msgspec.json.Encoder()
