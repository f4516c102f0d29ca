"""Errors of the replay layer, below AclogError of records.errors."""

from __future__ import annotations

from records.errors import AclogError


class ReplayError(AclogError):
    """Replay cannot continue, or cannot build the requested state."""


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
    """The log does not continue the applied state: it was truncated and written anew."""


class LogChangedError(ReplayError):
    """The log changed while it was read. A retry may succeed."""


class InvariantError(ReplayError):
    """A contradiction in the log, or a defect of this program.

    Attributes:
        offset: of the record or batch that shows it, if any.
    """

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message if offset is None else f"{message} (offset {offset})")
        self.offset = offset


class OffsetUnavailableError(ReplayError):
    """The state after the record at this offset cannot be built.

    Attributes:
        offset: the requested one.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"no state at offset {offset}: {reason}")
        self.offset = offset
