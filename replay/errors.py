"""Errors of the replay layer.

AclogError
+-- ReplayError
    +-- LogGapError             the log starts beyond everything that is left of its beginning
    +-- LogDivergedError        the log is not a continuation of what was applied (I11)
    +-- LogChangedError         a log that was truncated, trimmed or replaced while it was read
    +-- InvariantError          the log, or this program, contradicts its own rules
    +-- OffsetUnavailableError  the state at the offset asked for cannot be built
    +-- ReplayClosedError       a loader that was closed, or was never started
"""

from __future__ import annotations

from records.errors import AclogError


class ReplayError(AclogError):
    """Replay cannot go on, or cannot give what was asked for."""


class LogGapError(ReplayError):
    """The log starts beyond zero and no snapshot covers what is missing.

    Attributes:
        log_start: first offset that the log still holds.
    """

    def __init__(self, log_start: int, refused: tuple[str, ...] = ()) -> None:
        because = f" ({'; '.join(refused)})" if refused else ""
        super().__init__(f"log starts at {log_start} and no snapshot covers it{because}")
        self.log_start = log_start


class LogDivergedError(ReplayError):
    """The log is not a continuation of what was applied: it was truncated and written anew."""


class LogChangedError(ReplayError):
    """What was being read of the log is not there any more. The same may go well at the next try."""


class InvariantError(ReplayError):
    """Something that cannot be in a sound log, or in a sound program.

    Attributes:
        offset: of the record or batch that shows it, if it is one.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (offset {offset})")
        self.offset = offset


class OffsetUnavailableError(ReplayError):
    """The state after the record at this offset cannot be built.

    Attributes:
        offset: what was asked for.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"no state at offset {offset}: {reason}")
        self.offset = offset
