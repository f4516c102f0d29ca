"""The audit log of `aclog serve`: decisions wait in a queue, and one thread makes and writes their lines.

Who decides only puts down what was decided, when and by which state, so that a denied question costs what an
allowed one does. The thread finds the ACL that decided, makes the lines and writes many at once, in the order
of the decisions, 50 ms late at most where it keeps up.

Nothing waits for it: where as many decisions wait as may, a line is left out, counted and said. With room for
none every line is written before its decision is answered, by who decides.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

import msgspec
import structlog

from authorizer.configuration.keys.names import AUDIT_LEVEL, AUDIT_QUEUE
from authorizer.decisions.audit import AuditLine, AuditLog, audit_line, audit_record
from authorizer.decisions.audit_levels import AUDIT_LEVELS

if TYPE_CHECKING:
    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.configuration.load import Config
    from authorizer.configuration.log_setup import LogOutput
    from authorizer.decisions.decision import Answered, Decision
    from authorizer.decisions.state import AuthorizerState

log = structlog.get_logger(__name__)

_INTERVAL_S: Final = 0.05
# The interpreter runs one thread at a time: lines are made in pieces of half a millisecond, and between two
# of them the thread that answers requests gets its turn. Where many wait, pieces are larger.
_PIECE: Final = 64
_PIECES: Final = 8
_PAUSE_S: Final = 0.0002
_BETWEEN_WARNINGS_S: Final = 10.0


class _Entry(msgspec.Struct, gc=False):
    """What `AuditLog.write` was given, and when, in seconds since 1970. No work for the garbage collector."""

    decided_s: float
    level: int
    state: AuthorizerState
    context: AuthorizableRequestContext
    action: Action
    decided: Answered | Decision


class AuditWriter(AuditLog):
    """See the module. Close it after whatever decides: what waits then is written.

    Attributes:
        max_lines: how many decisions may wait; 0 to write each before it is answered.
    """

    __slots__ = (
        "_as_json",
        "_closing",
        "_handler",
        "_queue",
        "_said_lost",
        "_said_s",
        "_thread",
        "max_lines",
    )

    def __init__(self, output: LogOutput, level: int, *, max_lines: int) -> None:
        super().__init__(level)
        self._handler, self._as_json = output
        self.max_lines = max_lines
        self._queue: deque[_Entry] = deque()
        self._closing = threading.Event()
        self._said_lost = 0
        self._said_s = -_BETWEEN_WARNINGS_S
        self._thread = threading.Thread(target=self._run, name="aclog-audit", daemon=True)
        if max_lines:
            self._thread.start()

    @classmethod
    def configured(cls, config: Config, output: LogOutput) -> Self:
        """As the configuration has it."""
        return cls(output, AUDIT_LEVELS[config.audit_level], max_lines=config.audit_queue_max_lines)

    @property
    def waiting(self) -> int:
        """How many decisions wait for their lines."""
        return len(self._queue)

    def write(
        self,
        level: int,
        state: AuthorizerState,
        context: AuthorizableRequestContext,
        action: Action,
        decided: Answered | Decision,
    ) -> None:
        entry = _Entry(time.time(), level, state, context, action, decided)
        if len(self._queue) < self.max_lines:
            self._queue.append(entry)
        elif self.max_lines:
            self.lost += 1
        else:
            self._write([entry])

    def close(self) -> None:
        """Write what waits; from here on each line is written at once. Idempotent."""
        self.max_lines = 0
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self) -> None:
        queue = self._queue
        while not self._closing.wait(_PAUSE_S if queue else _INTERVAL_S):
            self._write_some()
            self._say_lost()
        while queue:
            self._write_some()
        self._said_s = -_BETWEEN_WARNINGS_S
        self._say_lost()

    def _write_some(self) -> None:
        queue = self._queue
        count = min(len(queue), max(_PIECE, len(queue) // _PIECES))
        if count:
            self._write([queue.popleft() for _ in range(count)])

    def _write(self, entries: list[_Entry]) -> None:
        handler = self._handler
        lines = []
        for each in entries:
            try:
                timestamp = datetime.fromtimestamp(each.decided_s, UTC)
                line = audit_line(each.level, each.state, each.context, each.action, each.decided, timestamp)
                lines.append(line)
            except Exception as error:  # noqa: BLE001 - a decision stands, whatever its line does
                self._report(error)
        try:
            text = _json(lines) if self._as_json else self._console(lines)
            # One write, and other log lines before it or after it.
            handler.acquire()
            try:
                handler.stream.write(text)
                handler.flush()
            finally:
                handler.release()
        except Exception as error:  # noqa: BLE001 - as above
            self._report(error, len(lines))

    def _console(self, lines: list[AuditLine]) -> str:
        texts = []
        for line in lines:
            record = audit_record(line)
            record.__dict__["timestamp"] = msgspec.to_builtins(line.timestamp)
            texts.append(self._handler.format(record) + "\n")
        return "".join(texts)

    def _say_lost(self) -> None:
        lost, now_s = self.lost - self._said_lost, time.monotonic()
        if lost and now_s - self._said_s >= _BETWEEN_WARNINGS_S:
            self._said_lost += lost
            self._said_s = now_s
            log.warning(
                "audit_lines_lost",
                lines=lost,
                reason="more decisions waited for their lines than may: what reads them is too slow",
                way_out=f"more room ({AUDIT_QUEUE}), or a level that writes less ({AUDIT_LEVEL})",
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
