"""Logging, set up once by a program (never by the library): structlog over the standard library's logging.

Lines go to stderr, because stdout is for answers: coloured text on a terminal, else one JSON object a line.
Both structlog's own events and records of plain ``logging`` users (uvicorn, the audit log) come out the
same way; what the audit log passes as ``extra`` becomes keys.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TextIO

import msgspec
import structlog

from authorizer.control_characters import ESCAPED
from authorizer.decisions.audit import AUDIT_LOGGER_NAME, FACTS, HTTP_FACTS

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

#: Keys whose text this program made, line by line.
_OF_SEVERAL_LINES: Final = ("exception", "stack")
_facts_of: Final = itemgetter(*FACTS)


def setup_logging(format: str = "auto", level: str = "INFO", *, stream: TextIO | None = None) -> None:
    """Configure structlog and the root logger; a second call replaces what the first did.

    Args:
        format: one of ``keys.LOGGING_FORMATS``.
        level: the lowest level that is written, except by the audit log, which has its own.
        stream: where lines go; stderr as it is at the time of the call if None.
    """
    stream = sys.stderr if stream is None else stream
    as_json = format == "json" or (format == "auto" and not stream.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # Never with the frames' local variables: they hold whole states, and passwords.
    renderers: list[Processor]
    formatter: type[structlog.stdlib.ProcessorFormatter] = structlog.stdlib.ProcessorFormatter
    if as_json:
        formatter = _JsonFormatter
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        renderers = [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]
    else:
        renderers = [
            _without_control_characters,
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        formatter(
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


class _JsonFormatter(structlog.stdlib.ProcessorFormatter):
    """Lines of the audit log take a shorter way to the same: each denied request writes one."""

    def format(self, record: logging.LogRecord) -> str:
        attributes = record.__dict__
        if record.name != AUDIT_LOGGER_NAME or "rule" not in attributes:
            return super().format(record)
        entry = dict(zip(FACTS, _facts_of(attributes), strict=True))
        if "caller" in attributes:
            entry |= {key: attributes[key] for key in HTTP_FACTS}
        entry["event"] = record.getMessage()
        entry["logger"] = record.name
        entry["level"] = record.levelname.lower()
        entry["timestamp"] = datetime.fromtimestamp(record.created, UTC)
        try:
            line = msgspec.json.encode(entry)
        except UnicodeEncodeError:  # half a surrogate pair, which no codec but UTF-16 has
            return json.dumps(entry, default=_iso)
        return line.decode("ascii") if line.isascii() else json.dumps(entry, default=_iso)


def _iso(time: datetime) -> str:
    """As msgspec writes a time in UTC."""
    return time.isoformat().replace("+00:00", "Z")


def _without_color_message(_logger: object, _name: str, event: EventDict) -> EventDict:
    """Uvicorn passes its message a second time, with colours, for a formatter of its own."""
    event.pop("color_message", None)
    return event


def _without_control_characters(_logger: object, _name: str, event: EventDict) -> EventDict:
    """Names that a caller chose, as in the audit log's lines, can neither forge a line nor clear a screen."""
    return {
        key: value.translate(ESCAPED) if isinstance(value, str) and key not in _OF_SEVERAL_LINES else value
        for key, value in event.items()
    }
