"""Every failure of a writing command reports the outcome of the write."""

from __future__ import annotations

import click
import pytest

from authorizer.cli.failure import ExitCode, Failure, failure_of, write_attempt
from records.errors import EncodeError, LogOutcomeUnknownError, LogUnreachableError


def message(error: Exception, *, appends: bool, written: str = "") -> str:
    def attempted() -> None:
        with write_attempt() as attempt:
            attempt.appends, attempt.written = appends, written
            raise error

    with pytest.raises(type(error)) as raised:
        attempted()
    found = raised.value
    return found.message if isinstance(found, click.ClickException) else failure_of(found).message


@pytest.mark.parametrize(
    ("error", "appends", "expected"),
    [
        (LogUnreachableError("kafka://b/t: no leader"), False, "kafka://b/t: no leader; nothing was written"),
        (FileNotFoundError(2, "No such file", "x"), False, "x: No such file; nothing was written"),
        (click.UsageError("nobody answered"), False, "nobody answered; nothing was written"),
        (Failure("held", ExitCode.NOT_READY, "Wait."), False, "held; nothing was written"),
        (Failure("held", ExitCode.NOT_READY, "Nothing was written. Wait."), False, "held"),
        (EncodeError("too long"), True, "too long; nothing was written"),
        (LogUnreachableError("writing; nothing was written: x"), False, "writing; nothing was written: x"),
        (LogUnreachableError("writing; nothing was written: x"), True, "writing; nothing was written: x"),
        (LogOutcomeUnknownError("committing: no answer"), True, "committing: no answer"),
    ],
    ids=str,
)
def test_a_failure_says_once_whether_anything_was_written(
    error: Exception, appends: bool, expected: str
) -> None:
    """Before the append nothing was written; after that the log's error has the outcome."""
    assert message(error, appends=appends) == expected


def test_earlier_successful_appends_are_reported() -> None:
    """Of several appends the failed one wrote nothing, and the error counts the others."""
    text = message(
        LogUnreachableError("writing; nothing was written: x"),
        appends=True,
        written="before that 2 of 5 batches were written",
    )
    assert text == "writing; nothing was written: x; before that 2 of 5 batches were written"


def test_a_defect_has_the_same_note() -> None:
    """An unexpected exception gets the note, too."""
    with pytest.raises(ZeroDivisionError) as raised, write_attempt():
        raise ZeroDivisionError("division by zero")
    failure = failure_of(raised.value)
    assert (failure.code, failure.message) == (
        ExitCode.DEFECT,
        "a defect in aclog: ZeroDivisionError: division by zero; nothing was written",
    )
