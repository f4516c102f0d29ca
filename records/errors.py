"""Errors of the records layer, and the root of every error that aclog raises.

Decoder invariant (fuzzed): any input results in a value or a DecodeError.
"""

from __future__ import annotations


class AclogError(Exception):
    """Root of all errors that aclog raises on purpose."""


class RecordError(AclogError):
    """Something is wrong with one record or batch."""


class DecodeError(RecordError):
    """Input that cannot be decoded.

    Attributes:
        reason: what is wrong, without the place.
        source: file or URL that was read, if known.
        offset: log offset of the record or batch, if known.
        position: byte position within ``source`` (or within the buffer given), if known.
    """

    def __init__(
        self,
        reason: str,
        *,
        source: str | None = None,
        offset: int | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.source = source
        self.offset = offset
        self.position = position

    def located(
        self, *, source: str | None = None, offset: int | None = None, position: int | None = None
    ) -> DecodeError:
        """The same error with the missing places filled in."""
        return type(self)(
            self.reason,
            source=self.source if self.source is not None else source,
            offset=self.offset if self.offset is not None else offset,
            position=self.position if self.position is not None else position,
        )

    def __str__(self) -> str:
        places = [
            f"{name} {value}"
            for name, value in (("in", self.source), ("offset", self.offset), ("byte", self.position))
            if value is not None
        ]
        return f"{self.reason} ({', '.join(places)})" if places else self.reason


class TruncatedRecordError(DecodeError):
    """The input ends before the record or batch does."""


class ChecksumMismatchError(DecodeError):
    """A batch has a wrong CRC-32C."""


class UnsupportedVersionError(DecodeError):
    """A format or record version that this build does not know."""


class EncodeError(RecordError):
    """A value that the format cannot hold."""


class LogError(AclogError):
    """Something is wrong with a log."""


class LogMovedError(LogError):
    """The log does not end at the offset that an append requires; nothing was written."""


class LogUrlError(LogError):
    """A text that is not the URL of a log."""


class LogNotFoundError(LogError):
    """There is no log at that URL, or not the expected one."""


class LogMissingError(LogNotFoundError):
    """There is nothing at that URL, so a log can be created there.

    Attributes:
        url: of the log.
    """

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class LogLockedError(LogError):
    """Another process holds the log's writer lock."""


class LogReadOnlyError(LogError):
    """An append to a log that this process may only read."""


class LogCorruptError(LogError):
    """A log whose files contradict one another, beyond a truncated tail."""


class LogStorageError(LogError):
    """The operating system, the disk or the cluster failed or refused. Known state remains valid."""


class LogUnreachableError(LogStorageError):
    """The log's cluster does not answer this now. A retry may succeed."""


class LogRefusedError(LogStorageError):
    """The log's cluster denies access or this request. A retry does not help."""


class LogAuthenticationError(LogRefusedError):
    """TLS or SASL failed: the client's settings do not match the cluster's listener."""


class LogOutcomeUnknownError(LogStorageError):
    """An append is in the log completely or not at all; which of these is unknown."""


class LogHeldUpError(LogStorageError):
    """An open transaction hides whether the committed records before it are complete."""


class OffsetOutOfRangeError(LogError):
    """An offset that the log does not hold.

    Attributes:
        end: one past the last offset in the log.
    """

    def __init__(self, offset: int, *, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside the log, which holds [{start}, {end})")
        self.offset = offset
        self.start = start
        self.end = end
