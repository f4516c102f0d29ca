"""Audit log of `aclog serve`: a queue of decisions, and a thread that writes their lines.

A request only adds its decision, time and state to the queue, so that a denied request is as fast as an
allowed one. The thread computes the reasons and writes lines in batches, in order, at most 50 ms late if it
keeps up, or 200 ms after a pause without decisions. If the queue is full, a line is dropped and counted, and
a warning is logged. With a queue of size 0 each line is written before its decision is answered. The thread
also feeds the decision log.
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
from authorizer.node.decision_log.decision_log import DecisionLog, DecisionLogCollector, LossWarnings
from records.polling import PeriodicThread

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from authorizer.configuration.load import Config
    from authorizer.configuration.log_setup import LogOutput
    from authorizer.engine.decisions.decision import DecidedAction

log = structlog.get_logger(__name__)

_INTERVAL_S: Final = 0.05
# An idle node wakes less often: each wait is longer by this factor, up to the maximum.
_IDLE_GROWTH: Final = 1.25
_IDLE_INTERVAL_MAX_S: Final = 0.2
# The interpreter runs one thread at a time: each batch takes half a millisecond, and requests are answered
# between two batches. There is a batch every five milliseconds while the queue is not empty, because several
# batches in a row would delay all requests. With a long queue batches are larger and more frequent.
_BATCH_MIN: Final = 128
_BATCH_FRACTION: Final = 8
_PAUSE_S: Final = 0.005
_SHORT_PAUSE_S: Final = 0.0002


class AuditWriter(AuditLog):
    """Writes the audit log in a thread. Close it after the authorizer: that writes the rest of the queue.

    ``max_lines``: maximum length of the queue; 0 to write each line before its decision is answered.
    """

    __slots__ = (
        "_as_json",
        "_closing",
        "_handler",
        "_idle_pause_s",
        "_lines_from",
        "_loss_warnings",
        "_queue",
        "_thread",
        "decision_log",
        "max_lines",
    )

    def __init__(
        self, output: LogOutput, level: int, *, max_lines: int, decision_log: DecisionLog | None = None
    ) -> None:
        """``decision_log``: owned and closed by this writer."""
        self.decision_log = decision_log
        super().__init__(level)
        self._handler, self._as_json = output
        self.max_lines = max_lines
        self._queue: deque[DecidedAction] = deque()
        self._loss_warnings = LossWarnings()
        self._idle_pause_s = _INTERVAL_S
        self._thread = PeriodicThread(
            "aclog-audit", self._run, delay_s=_INTERVAL_S, on_close=self._write_remaining
        )
        if max_lines or decision_log is not None:
            self._thread.start()

    @classmethod
    def configured(cls, config: Config, output: LogOutput, worker: int | None = None) -> Self:
        """Return the configured writer; ``worker`` and ConfigError: see ``DecisionLog.configured``."""
        return cls(
            output,
            AUDIT_LEVELS[config.audit_level],
            max_lines=config.audit_queue_max_lines,
            decision_log=DecisionLog.configured(config, worker),
        )

    def show_to(self, registry: CollectorRegistry) -> None:
        """Add the decision log's metrics to a registry, if there is one."""
        if self.decision_log is not None:
            registry.register(DecisionLogCollector(self.decision_log))

    @property
    def waiting(self) -> int:
        """Present length of the queue."""
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
        """Write the rest of the queue; each later line is written before its answer. Idempotent."""
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
        waiting = len(self._queue)
        self._write_batch()
        self._warn_if_lost()
        if waiting:
            self._idle_pause_s = _INTERVAL_S
            return _SHORT_PAUSE_S if waiting > _BATCH_MIN else _PAUSE_S
        self._idle_pause_s = min(self._idle_pause_s * _IDLE_GROWTH, _IDLE_INTERVAL_MAX_S)
        return self._idle_pause_s

    def _write_remaining(self) -> None:
        while self._queue:
            self._write_batch()
        self._warn_if_lost(is_last=True)

    def _write_batch(self) -> None:
        queue = self._queue
        count = min(len(queue), max(_BATCH_MIN, len(queue) // _BATCH_FRACTION))
        if count or self.decision_log is not None:
            self._write([queue.popleft() for _ in range(count)])

    def _write(self, decisions: list[DecidedAction]) -> None:
        lines, level = [], self._lines_from
        for each in decisions:
            if each.level >= level:
                try:
                    lines.append(_line(each))
                except Exception as error:  # noqa: BLE001 - a failed line must not affect the decision
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
            # The handler's lock keeps other log lines out of the batch.
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

    def _warn_if_lost(self, *, is_last: bool = False) -> None:
        lost = self._loss_warnings.take_unreported(self.lost, is_last=is_last)
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
    """Encode each line in ASCII, because the stream may have any encoding."""
    try:
        text = _encoder.encode_lines(lines)
    except UnicodeEncodeError:  # an unpaired surrogate
        text = None
    if text is not None and text.isascii():
        return text.decode("ascii")
    return "".join(json.dumps(msgspec.to_builtins(line)) + "\n" for line in lines)


_encoder: Final = msgspec.json.Encoder()
