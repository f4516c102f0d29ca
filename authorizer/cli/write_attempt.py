"""What a command that writes must say when it fails: that nothing was written, or how much."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.failure import Failure
from records.errors import EncodeError, LogReadOnlyError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTHING: Final = "nothing was written"
#: What an append raises before it writes (MetadataLog.append).
_BEFORE_APPEND: Final = (EncodeError, LogReadOnlyError)


@dataclass(slots=True)
class WriteAttempt:
    """How far a command has come.

    Attributes:
        appends: whether an append has begun: from then on its own errors say what became of it.
        written: what is in the log by now, for people; empty if nothing is.
    """

    appends: bool = False
    written: str = ""


@contextmanager
def write_attempt() -> Iterator[WriteAttempt]:
    """Whatever is raised in the block says what was written, where it does not say so itself."""
    attempt = WriteAttempt()
    try:
        yield attempt
    except Exception as error:
        is_before = not attempt.appends or isinstance(error, _BEFORE_APPEND)
        outcome = attempt.written or (_NOTHING if is_before else "")
        said = str(error) + (error.way_out if isinstance(error, Failure) else "")
        if not outcome or outcome in said.lower():
            raise
        # Click shows no notes.
        if isinstance(error, Failure):
            raise Failure(f"{error.message}; {outcome}", error.code, error.way_out) from error
        if isinstance(error, click.UsageError):
            raise click.UsageError(f"{error.message}; {outcome}", error.ctx) from error
        error.add_note(outcome)
        raise
