"""Logging of a program (never of the library): structlog over the standard library's logging.

Lines go to stderr, because stdout is for answers: coloured text on a terminal, else one JSON object a line.
structlog's events and records of ``logging`` (uvicorn, the audit log) have the same form; ``extra`` becomes
keys. The audit log writes its lines in batches to the returned output (``node.audit_writer``).
"""

from __future__ import annotations

import fcntl
import io
import logging
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from authorizer.api.audit_levels import AUDIT_LOGGER_NAME
from authorizer.api.control_characters import ESCAPED

#: Keys whose text has several lines, made by this program.
_OF_SEVERAL_LINES: Final = ("exception", "stack")
_ESCAPED_BUT_LINES: Final = {code: text for code, text in ESCAPED.items() if chr(code) not in "\n\t"}


class SharedHandler(logging.StreamHandler[TextIO]):
    """Log handler for a stream that several processes share: a file lock keeps each line complete.

    A pipe accepts no more than 4,096 bytes in one atomic write; without the lock, another process could write
    in the middle of a longer line. The kernel releases the lock of a killed process.
    """

    def __init__(self, stream: TextIO, lock: Path) -> None:
        super().__init__(stream)
        # Never closed: the last lines may come after the handlers are closed. Each process opens the file
        # itself, because a lock that was open before a fork is shared.
        self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._depth = 0

    def acquire(self) -> None:
        super().acquire()
        self._depth += 1
        if self._depth == 1:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        super().release()


class LogOutput(NamedTuple):
    """The handler of a program's log lines, and whether they are JSON."""

    handler: logging.StreamHandler[TextIO]
    as_json: bool


def setup_logging(
    format: str = "auto",
    level: str = "INFO",
    *,
    stream: TextIO | None = None,
    shared_by: Path | None = None,
) -> LogOutput:
    """Configure structlog and the root logger; a second call replaces the first configuration.

    ``format``: of ``keys.node.LOGGING_FORMATS``. The audit log has its own level. ``shared_by``: lock file of
    several processes that write to the same stream, which is by default stderr.
    """
    stream = sys.stderr if stream is None else stream
    as_json = format == "json" or (format == "auto" and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        # An audit line already has the time of its decision.
        structlog.processors.MaybeTimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # Local variables of frames contain large states and passwords.
    renderers: list[Processor]
    if as_json:
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        renderers = [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]
    else:
        renderers = [
            _without_control_characters,
            structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=_traceback),
        ]
    handler = logging.StreamHandler(stream) if shared_by is None else SharedHandler(stream, shared_by)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _without_color_message, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    # The audit log has its own level (AuditLog.set_level) and the same output.
    logging.getLogger(AUDIT_LOGGER_NAME).propagate = True
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return LogOutput(handler, as_json)


def set_logging_level(level: str) -> None:
    """Write lines of this level and above from now on; the audit log has its own."""
    logging.getLogger().setLevel(level)


def _without_color_message(_logger: object, _name: str, event: EventDict) -> EventDict:
    """Drop uvicorn's second, coloured copy of its message."""
    event.pop("color_message", None)
    return event


def _traceback(stream: TextIO, error: ExcInfo) -> None:
    """Escape the traceback: an error's text may contain a caller's text."""
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, error)
    stream.write(plain.getvalue().translate(_ESCAPED_BUT_LINES))


def _without_control_characters(_logger: object, _name: str, event: EventDict) -> EventDict:
    """Escape control characters: a caller's text must not forge a line or clear a screen."""
    return {
        key: value.translate(_ESCAPED_BUT_LINES if key in _OF_SEVERAL_LINES else ESCAPED)
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }
