"""Extracts the cause of an error inside Spark, without the stack traces of Java and Python.

A Python worker's error arrives as the text of its traceback within nested Java exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException

from records.errors import LogUnreachableError
from snapshot.errors import SparkBusyError, SparkJobError
from snapshot.jobs.sources.log_failures import PlanningFailedError, failures_of

_TRACEBACK: Final = "Traceback (most recent call last):"
# The last line of a traceback: the error's name and the first line of its message. Frames are indented.
_RAISED: Final = re.compile(r"^(?:[\w.]+\.)?(?P<name>\w+)(?:: (?P<text>.*))?$")
_JAVA_FRAME: Final = re.compile(r"^\s+at |^Caused by: |^\s*\.\.\. \d+ more")
# Text that Spark appends to a cause.
_ADDED: Final = re.compile(r"\s+SQLSTATE: \w{5}|\s+=== Streaming Query ===")
# Text that py4j prepends to it.
_CALLED: Final = re.compile(r"An error occurred while calling [^\n]*\n: ")
# Between these two Spark advises settings that would let the job skip records.
_LOST: Final = re.compile(
    r"(?P<what>Some data may have been lost[^;\n]*).*?^\s*Reason: (?P<why>[^\n]+)", re.DOTALL | re.MULTILINE
)
# Spark's timeout for a new Python process is fixed (PythonWorkerFactory).
_NO_WORKER: Final = "Python worker failed to connect back"
_JAVA_NAME: Final = re.compile(r"^(?:[a-z][\w$]*\.)+([A-Z][\w$]*): ")


def is_of_spark(error: BaseException) -> bool:
    """Whether it is pyspark's error, or a Java error that pyspark has no class for."""
    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j.")


def job_failure(error: BaseException) -> SparkJobError | LogUnreachableError:
    """The error of a job whose query or action ended with ``error``.

    LogUnreachableError: a Python process of Spark could not reach a log; a retry may help.
    """
    texts = [str(cause) for cause in _causes(error)]
    if any(_NO_WORKER in text for text in texts):
        return SparkBusyError(
            "a Python process did not start within Spark's ten seconds: the machine is too busy"
        )
    for text in reversed(texts):
        raised = _raised(text)
        if raised is not None:
            name, message = raised
            if name == PlanningFailedError.__name__:
                return failures_of(message)
            return (LogUnreachableError if name == LogUnreachableError.__name__ else SparkJobError)(message)
    return SparkJobError(_first_line(texts[-1]) if texts else type(error).__name__)


@contextmanager
def as_job_failure() -> Iterator[None]:
    """Convert Spark's errors in the block by ``job_failure``, for callers without pyspark."""
    try:
        yield
    except Exception as error:
        if is_of_spark(error):
            raise job_failure(error) from error
        raise


def _causes(error: BaseException) -> list[BaseException]:
    """The error and the chain of its causes, of pyspark's or Python's kind."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:
        found.append(cause)
        cause = getattr(cause, "_cause", None) or cause.__cause__
    return found


def _raised(text: str) -> tuple[str, str] | None:
    """Name and message of the error of the last Python traceback in a text, if there is one."""
    _, found, tail = text.rpartition(_TRACEBACK)
    if not found:
        return None
    name, message = "", list[str]()
    for line in _ADDED.split(tail)[0].splitlines():
        if _JAVA_FRAME.match(line):
            break
        if not message:
            raised = _RAISED.match(line)
            if raised is not None and line[:1].strip():
                name = raised["name"]
                message.append(raised["text"] or line)
        elif not line.strip():
            break
        else:
            message.append(line)
    return (name, "\n".join(message)) if message else None


def _first_line(text: str) -> str:
    """The message of a Java exception."""
    if lost := _LOST.search(text):
        return f"{lost['what']}: {lost['why']}"
    text = _CALLED.sub("", text, count=1)
    all_lines = _ADDED.split(text)[0].splitlines()
    lines = [line for line in all_lines if line.strip() and not _JAVA_FRAME.match(line)]
    return _JAVA_NAME.sub("", lines[0]) if lines else text
