"""Logging, set up once by a program (never by the library): structlog over the standard library's logging.

Lines go to stderr, because stdout is for answers: coloured text on a terminal, else one JSON object a line.
Both structlog's own events and records of plain ``logging`` users (uvicorn, the audit log) come out the
same way; what is passed as ``extra`` becomes keys. Where the lines go is given back for the audit log, which
writes many at once (``authorizer.node.audit.audit_writer``).
"""

from __future__ import annotations

import io
import logging
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

import structlog

from authorizer.api.audit_levels import AUDIT_LOGGER_NAME
from authorizer.api.control_characters import ESCAPED
from authorizer.configuration.shared_handler import SharedHandler

if TYPE_CHECKING:
    from pathlib import Path

    from structlog.typing import EventDict, ExcInfo, Processor

#: Keys whose text this program made, line by line.
_OF_SEVERAL_LINES: Final = ("exception", "stack")
_ESCAPED_BUT_LINES: Final = {code: text for code, text in ESCAPED.items() if chr(code) not in "\n\t"}


class LogOutput(NamedTuple):
    """Where a program's log lines go, and whether as JSON."""

    handler: logging.StreamHandler[TextIO]
    as_json: bool


def setup_logging(
    format: str = "auto",
    level: str = "INFO",
    *,
    stream: TextIO | None = None,
    shared_by: Path | None = None,
) -> LogOutput:
    """Configure structlog and the root logger; a second call replaces what the first did.

    Args:
        format: one of ``keys.LOGGING_FORMATS``.
        level: the lowest level that is written, except by the audit log, which has its own.
        stream: where lines go; stderr as it is at the time of the call if None.
        shared_by: the file by whose lock processes that write to the same stream take turns.
    """
    stream = sys.stderr if stream is None else stream
    as_json = format == "json" or (format == "auto" and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        # A line of the audit log has the time of its decision.
        structlog.processors.MaybeTimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # Never with the frames' local variables: they hold whole states, and passwords.
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
    # Its level is the audit log's own (AuditLog.set_level); its lines take the same way out.
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
    """Uvicorn passes its message a second time, with colours, for a formatter of its own."""
    event.pop("color_message", None)
    return event


def _traceback(stream: TextIO, error: ExcInfo) -> None:
    """Text that came with an error may be a caller's, too."""
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, error)
    stream.write(plain.getvalue().translate(_ESCAPED_BUT_LINES))


def _without_control_characters(_logger: object, _name: str, event: EventDict) -> EventDict:
    """Names that a caller chose, as in the audit log's lines, can neither forge a line nor clear a screen."""
    return {
        key: value.translate(_ESCAPED_BUT_LINES if key in _OF_SEVERAL_LINES else ESCAPED)
        if isinstance(value, str)
        else value
        for key, value in event.items()
    }
