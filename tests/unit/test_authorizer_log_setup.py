"""Logging of a program: JSON lines or a console on stderr, structlog and plain logging alike."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from authorizer.api.audit_levels import AUDIT_LOGGER_NAME
from authorizer.configuration.log_setup import setup_logging


@pytest.fixture(autouse=True)
def default_audit_level() -> Iterator[None]:
    """Reset the level of the audit log, which another test may have disabled."""
    audit = logging.getLogger(AUDIT_LOGGER_NAME)
    level = audit.level
    audit.setLevel(logging.NOTSET)
    yield
    audit.setLevel(level)


def test_events_and_plain_records_are_json_lines() -> None:
    """One object a line, with the same keys for both, and only at or above the level."""
    stream = io.StringIO()
    setup_logging("json", "INFO", stream=stream)
    structlog.get_logger("a").info("image_published", offset=3)
    structlog.get_logger("a").debug("not_this")
    logging.getLogger("uvicorn.error").warning("said %s", "so", extra={"color_message": "said \x1b[1m%s"})
    logging.getLogger("uvicorn.error").debug("not this")
    first, second = map(json.loads, stream.getvalue().splitlines())
    for line in (first, second):
        assert line.pop("timestamp")
    assert first == {"event": "image_published", "offset": 3, "logger": "a", "level": "info"}
    assert second == {"event": "said so", "logger": "uvicorn.error", "level": "warning"}


def test_the_audit_logger_may_have_other_records() -> None:
    stream = io.StringIO()
    setup_logging("json", "INFO", stream=stream)
    logging.getLogger(AUDIT_LOGGER_NAME).warning("rotated")
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp")
    assert line == {"event": "rotated", "logger": AUDIT_LOGGER_NAME, "level": "warning"}


@pytest.mark.parametrize("kind", ["json", "console"])
def test_tracebacks_hold_no_local_variables(kind: str) -> None:
    """Locals contain large states and passwords; in JSON the traceback is data."""
    stream = io.StringIO()
    setup_logging(kind, "INFO", stream=stream)

    def fail() -> None:
        password = "sec" + str(len("ret"))
        raise ValueError(f"why {len(password)}")

    try:
        fail()
    except ValueError:
        structlog.get_logger("a").exception("fault")
    assert "why 4" in stream.getvalue()
    assert "sec3" not in stream.getvalue()
    if kind == "json":
        (line,) = stream.getvalue().splitlines()
        assert json.loads(line)["exception"][0]["exc_type"] == "ValueError"


def test_a_second_call_replaces_the_first() -> None:
    """No line is repeated."""
    first, second = io.StringIO(), io.StringIO()
    setup_logging("json", "INFO", stream=first)
    setup_logging("json", "WARNING", stream=second)
    logging.getLogger("a").info("no")
    logging.getLogger("a").warning("yes")
    assert (first.getvalue(), len(second.getvalue().splitlines())) == ("", 1)


def test_auto_is_json_without_a_terminal() -> None:
    """A stream that is no terminal gets JSON; colours never get into a file."""
    stream = io.StringIO()
    setup_logging("auto", "INFO", stream=stream)
    logging.getLogger("a").info("event")
    assert json.loads(stream.getvalue())["event"] == "event"
    console = io.StringIO()
    setup_logging("console", "INFO", stream=console)
    logging.getLogger("a").info("event")
    assert "event" in console.getvalue()
    assert "\x1b" not in console.getvalue()


def test_stdout_has_no_log_lines() -> None:
    """stdout is for answers."""
    program = (
        "import logging, structlog\n"
        "from authorizer.configuration.log_setup import setup_logging\n"
        "setup_logging()\n"
        "structlog.get_logger('a').warning('one')\n"
        "logging.getLogger('b').warning('two')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 2


FORGING = "a\x1b[2J\r\x9b31m\u2028b\u2029c\u202ed\u2066e\u200f"
FORGERS = "\x1b\r\x9b\u2028\u2029\u202e\u2066\u200f"


def test_a_name_forges_nothing_on_the_console() -> None:
    """It forges neither a line nor the order of letters, also in the text of an error."""
    stream = io.StringIO()
    setup_logging("console", "INFO", stream=stream)
    logging.getLogger("a").info("name %s", FORGING, extra={"topic": FORGING})
    logging.getLogger("a").error("failed", exc_info=ValueError(FORGING))
    output = stream.getvalue()
    assert not set(FORGERS) & set(output)
    assert output.count("\\u202e") == 3
    assert "\nValueError: a" in output
