"""Errors of the records layer, and the root of every error that aclog raises.

    AclogError
    +-- RecordError                      something about one record or batch
    |   +-- DecodeError                  bytes or text that are not what they should be
    |   |   +-- TruncatedRecordError     the input ends inside a record or batch
    |   |   +-- ChecksumMismatchError    a batch whose CRC-32C does not fit its bytes
    |   |   +-- UnsupportedVersionError  a record version or magic that this build does not know
    |   +-- EncodeError                  a value that the format cannot hold
    +-- LogError                         something about a log as a whole
        +-- LogMovedError                another append came between a look and an append upon it
        +-- LogNotFoundError             nothing to read at that URL
        +-- LogLockedError               another process is the writer
        +-- LogReadOnlyError             the log is a broker's or was opened to read
        +-- LogCorruptError              a log file that cannot be trusted, beyond a torn tail
        +-- LogStorageError              what keeps the log could not be reached, or refused
        |   +-- LogUnreachableError      its cluster does not answer now
        |   +-- LogRefusedError          its cluster answers, and does not let us in
        |   +-- LogOutcomeUnknownError   whether an append is in it is not known
        |   +-- LogHeldUpError           an open transaction hides what is committed
        +-- OffsetOutOfRangeError        the offset asked for is below the log's start or beyond its end

Decoder invariant (fuzzed): any input gives a value or a DecodeError, nothing else.
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
        """The same error with the places filled in that were not known where it was raised."""
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
    """A batch's CRC-32C does not fit its bytes."""


class UnsupportedVersionError(DecodeError):
    """A format or record version that this build does not know."""


class EncodeError(RecordError):
    """A value that the format cannot hold."""


class LogError(AclogError):
    """Something is wrong with a log as a whole."""


class LogMovedError(LogError):
    """An append upon an end that is not the log's any more; nothing was written."""


class LogNotFoundError(LogError):
    """There is no log at that place."""


class LogLockedError(LogError):
    """Another process holds the log's writer lock."""


class LogReadOnlyError(LogError):
    """An append to a log that this process may only read."""


class LogCorruptError(LogError):
    """A log whose files contradict one another, beyond a torn tail."""


class LogStorageError(LogError):
    """What keeps a log could not be asked, or refused: the operating system, the disk, a cluster.

    What was known of the log before still holds.
    """


class LogUnreachableError(LogStorageError):
    """The log's cluster does not answer, or not to this now. The same may go well later."""


class LogRefusedError(LogStorageError):
    """The log's cluster answers, and does not let us in, or not do this, until that is changed."""


class LogAuthenticationError(LogRefusedError):
    """TLS or SASL failed: the client's settings do not fit the cluster's listener."""


class LogOutcomeUnknownError(LogStorageError):
    """An append that is in the log, as a whole, or will never be: it was not said which."""


class LogHeldUpError(LogStorageError):
    """An open transaction hides whether what is committed before it is whole."""


class OffsetOutOfRangeError(LogError):
    """An offset that the log does not hold.

    Attributes:
        offset: what was asked for.
        start: first offset in the log.
        end: one past the last offset in the log.
    """

    def __init__(self, offset: int, *, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside the log, which holds [{start}, {end})")
        self.offset = offset
        self.start = start
        self.end = end
