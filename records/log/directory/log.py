"""DirectoryLog: a directory of segments as a MetadataLog, to read or to write."""

from __future__ import annotations

import errno
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from records.errors import (
    DecodeError,
    LogCorruptError,
    LogError,
    LogMissingError,
    LogNotFoundError,
    LogReadOnlyError,
    OffsetOutOfRangeError,
)
from records.log.base import READ_BYTES_MAX, BatchLog
from records.log.directory.appender import SEGMENT_BYTES, SEGMENT_BYTES_MAX
from records.log.directory.creation import files_of_others, first_names
from records.log.directory.files import (
    HIGH_WATERMARK_FILE,
    METADATA_LOG_DIRECTORY,
    QuietFiles,
    list_directory,
    segment_name,
    storage_errors,
)
from records.log.directory.high_watermark import read_high_watermark
from records.log.directory.identity import identity_stamp, is_managed, read_identity
from records.log.directory.reader import SegmentReader
from records.log.directory.segments import FilesChangedError, Segments
from records.log.directory.tail import SETTLE_S, LastCompleteBatch
from records.log.directory.writer import Writer, has_writer, now_ms
from records.log.url import directory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from records.batch import RecordBatch
    from records.entries import MetadataRecord
    from records.log.base import BatchPosition, CheckpointId, LogIdentity, Mode, TrailingBytes
    from records.log.directory.committed import CommittedEnd
    from records.log_batch import LogBatch

# Interval of checks of another process's log: it grows while there are no new records, quickly to 0.1 s, and
# to its maximum within ten seconds.
_POLL_MIN_S: Final = 0.002
_POLL_SLOWLY_FROM_S: Final = 0.1
_POLL_MAX_S: Final = 0.2
_POLL_GROWTH: Final = 1.5
_POLL_SLOW_GROWTH: Final = 1.01

# Another process may roll, delete or truncate a file between listing and reading: an error counts if the last
# of these attempts has it.
_ATTEMPTS: Final = 10
_RETRY_INTERVAL_S: Final = 0.002

_T = TypeVar("_T")


class DirectoryLog(BatchLog):
    """A log in a directory; created by ``open``.

    Thread-safe: reads run one at a time; ``wait`` and ``append`` do not block them.
    """

    def __init__(
        self, url: str, directory: Path, identity: LogIdentity, *, writer: Writer | None, is_recorded: bool
    ) -> None:
        self._url = url
        self._directory = directory
        self._identity = identity
        self._writer = writer
        self._is_recorded = is_recorded
        self._segments = Segments(directory)
        self._reader = SegmentReader(self._segments, is_managed=is_recorded)
        self._last_complete_batch = LastCompleteBatch(self._segments)
        self._cluster_end: CommittedEnd | None = None
        self._stamp = identity_stamp(directory)
        self._reading = threading.Lock()
        # Guards _is_closed; notified when it is set, and after each append.
        self._changed = threading.Condition()
        self._is_closed = False
        self._poll_s = _POLL_MIN_S
        self._quiet_files = QuietFiles()

    @classmethod
    def open(
        cls,
        url: str | Path,
        *,
        mode: Mode = "read",
        cluster_id: str | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        clock_ms: Callable[[], int] = now_ms,
    ) -> Self:
        """Open a log.

        Args:
            url: ``file:DIR`` with DIR as it is, ``file:///DIR`` with %-escapes, or a path.
            mode: ``read`` any log; ``write`` an aclog-managed one; ``create`` it unless it exists.
            cluster_id: of a new log; None: a random one. An existing log must have this id, or none.
            segment_bytes: maximum size of a segment.
            clock_ms: timestamp of appended batches.

        Raises:
            LogUrlError: not a local directory.
            LogNotFoundError: there is no log.
            LogReadOnlyError: it cannot be written, as it is not aclog-managed.
            LogLockedError: it has a writer already.
            LogCorruptError: acknowledged records are damaged (when writing), or the files with the log's ids
                are invalid.
            LogStorageError: the operating system failed or refused.
            LogError: another cluster's log, or a directory with other content.
        """
        directory = directory_of(url)
        if not 1 <= segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment_bytes must be within 1 and {SEGMENT_BYTES_MAX}, not {segment_bytes}")
        with storage_errors(directory):
            if mode == "read":
                identity, is_recorded = _identify(directory, cluster_id)
                return cls(str(url), directory, identity, writer=None, is_recorded=is_recorded)
            writer = Writer.open(
                directory,
                create=mode == "create",
                cluster_id=cluster_id,
                segment_bytes=segment_bytes,
                clock_ms=clock_ms,
            )
            return cls(str(url), directory, writer.identity, writer=writer, is_recorded=True)

    @property
    def url(self) -> str:
        return self._url

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def identity(self) -> LogIdentity:
        return self._identity

    @property
    def is_cluster_metadata_log(self) -> bool:
        return not self._is_recorded

    @property
    def is_read_only(self) -> bool:
        return not self._is_recorded

    @property
    def uncommitted_from(self) -> int | None:
        return None if self._is_recorded or self._cluster_end else self._segments.certain_end

    def use_committed_end(self, cluster_end: CommittedEnd) -> None:
        """Ask this broker's cluster for the committed end. Call it before any read."""
        self._cluster_end = cluster_end

    def connect(self) -> None:
        if self._cluster_end is not None:
            self.high_watermark()

    def trailing_bytes(self, *, settle_s: float = SETTLE_S) -> TrailingBytes | None:
        """As MetadataLog; raises as ``high_watermark``.

        An aclog-managed log is being written as long as a writer has it open, a broker's log if the bytes
        change within ``settle_s``.
        """
        began_s = time.monotonic()
        before: TrailingBytes | None = None
        while (found := self._on_files(self._trailing)) is not None:
            if self._is_recorded:
                return replace(found, is_being_written=has_writer(self._directory))
            if before and (found.position, found.size_bytes) != (before.position, before.size_bytes):
                return replace(found, is_being_written=True)
            if max(found.still_s, time.monotonic() - began_s) >= settle_s:
                return found
            before = found
            time.sleep(_POLL_MIN_S)
        return None

    def checkpoints(self) -> list[CheckpointId]:
        return self._on_files(lambda: list(self._segments.refresh().checkpoints))

    def start_offset(self) -> int:
        self._on_files(self._committed_end)
        return self._segments.start_offset

    def high_watermark(self) -> int:
        if self._writer is not None:
            # Not read from the files: a node asks after each read, which lists them.
            self._check_open()
            return self._writer.end_offset
        return self._on_files(self._committed_end)

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        """As MetadataLog.read.

        Raises:
            OffsetOutOfRangeError: also if the log was truncated and written to again since the last read;
                then its ``end`` is at or before the start of the new history.
            LogCorruptError: the files contradict one another at ``offset``.
            LogNotFoundError: the log was removed, or another one is in its place.
            LogStorageError: the operating system failed or refused.
        """
        return self._on_files(lambda: self._read(offset, max_bytes, self._reader.read))

    def read_raw(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[RecordBatch]:
        return self._on_files(lambda: self._read(offset, max_bytes, self._reader.read_raw))

    def position_hint(self, offset: int) -> BatchPosition:
        return self._on_files(lambda: self._hint_for(offset))

    def use_position_hint(self, position: BatchPosition) -> None:
        """As BatchLog; call it before any read.

        Without a hint, all headers of a segment are read, which takes a second for a million batches.
        """
        self._on_files(lambda: self._remember(position))

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Block until there are records at ``offset``, or the log was truncated there.

        False on timeout or close. Appends of this object end the wait immediately. The log of another process
        is checked every 2 to 200 ms. Raises as ``high_watermark``.
        """
        deadline_s = time.monotonic() + timeout_s
        while not self._has_news(offset):
            with self._changed:
                left_s = deadline_s - time.monotonic()
                if self._is_closed or left_s <= 0:
                    return False
                if self._writer is None:
                    self._changed.wait(min(left_s, self._poll_s))
                    growth = _POLL_GROWTH if self._poll_s < _POLL_SLOWLY_FROM_S else _POLL_SLOW_GROWTH
                    self._poll_s = min(self._poll_s * growth, _POLL_MAX_S)
                elif self._writer.end_offset <= offset:
                    self._changed.wait(left_s)
        self._poll_s = _POLL_MIN_S
        return not self._is_closed

    def append(
        self, records: Sequence[MetadataRecord], *, after: int | None = None, timestamp_ms: int | None = None
    ) -> int:
        """Append one atomic batch, with the clock's time or the given one; no records: no batch.

        Returns the end offset once it is durable and committed. Concurrent appends share their syncs.
        ``after``: append only if the log ends at this offset.

        Raises:
            LogMovedError: it does not end there; nothing was written.
            LogReadOnlyError: not opened for writing.
            EncodeError: a record that the format cannot hold, or too many; nothing was written.
            LogStorageError: the disk failed; the text says whether the log accepts more appends.
        """
        return self.append_batches([(records, timestamp_ms)], after=after)

    def append_batches(
        self, batches: Iterable[tuple[Sequence[MetadataRecord], int | None]], *, after: int | None = None
    ) -> int:
        """Append several batches in order, each atomic, with few syncs, for importing another log.

        Raises as ``append``; after a LogStorageError the batches below the high watermark are in the log.
        """
        if self._writer is None:
            raise LogReadOnlyError(f"{self._url}: the log was opened to read")
        end_offset = self._writer.append(batches, after=after)
        with self._changed:
            self._changed.notify_all()
        return end_offset

    def close(self) -> None:
        """Close the files, release the writer lock, end every ``wait``. Idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._cluster_end is not None:
            self._cluster_end.close()
        with self._reading:
            self._segments.close()
        if self._writer is not None:
            self._writer.close()

    def _on_files(self, action: Callable[[], _T]) -> _T:
        """Run a file operation; retry it if another process changes the files meanwhile."""
        with self._reading, storage_errors(self._directory):
            for _ in range(_ATTEMPTS - 1):
                self._check_open()
                try:
                    return action()
                except (FileNotFoundError, FilesChangedError):
                    time.sleep(_RETRY_INTERVAL_S)
                except (DecodeError, LogCorruptError):
                    if self._is_recorded:
                        raise  # nothing below a recorded high watermark is ever changed
                    time.sleep(_RETRY_INTERVAL_S)
            self._check_open()
            return action()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogError(f"{self._url}: the log is closed")

    def _has_news(self, offset: int) -> bool:
        if self._writer is not None:
            return self._writer.end_offset > offset
        try:
            return self._on_files(lambda: self._is_changed(offset))
        except LogError:
            if self._is_closed:
                return False
            raise

    def _is_changed(self, offset: int) -> bool:
        """Whether another process has changed the log at or before ``offset``."""
        paths = self._changing_paths()
        if paths and self._quiet_files.are_quiet(offset, paths):
            return False
        is_changed = self._committed_end() != offset or self._reader.is_diverged(offset)
        if paths and not is_changed:
            self._quiet_files.record_check()
        return is_changed

    def _changing_paths(self) -> list[Path]:
        """The files that change with the log; none: it also depends on the cluster, or on the time."""
        if self._cluster_end is not None or self._segments.is_empty:
            return []
        paths = [self._directory, self._segments.last.path]
        if self._is_recorded:
            return [*paths, self._directory / HIGH_WATERMARK_FILE]
        return paths if self._last_complete_batch.trailing_bytes() is None else []

    def _read(self, offset: int, max_bytes: int, read: Callable[[int, int, int], list[_T]]) -> list[_T]:
        end_offset = self._committed_end()
        start_offset = self._segments.start_offset
        if not start_offset <= offset <= end_offset:
            raise OffsetOutOfRangeError(offset, start=start_offset, end=end_offset)
        # Only its writer changes an aclog-managed log: an idle node's checks need not read the last batch.
        is_at_end = self._writer is not None and offset == end_offset
        return [] if is_at_end or self._segments.is_empty else read(offset, end_offset, max_bytes)

    def _hint_for(self, offset: int) -> BatchPosition:
        self._list(may_be_empty=False)
        return self._segments.nearest(offset)

    def _remember(self, position: BatchPosition) -> None:
        self._list(may_be_empty=False)
        self._segments.remember(position)

    def _trailing(self) -> TrailingBytes | None:
        self._committed_end()
        if self._segments.is_empty:
            return None
        # Also if the committed end is recorded: an unacknowledged append may be complete.
        self._last_complete_batch.end_offset()
        return self._last_complete_batch.trailing_bytes()

    def _committed_end(self) -> int:
        """List the segments, then return the committed end: so the segments contain everything below it."""
        if self._writer is not None:
            end_offset = self._writer.end_offset
            self._list(may_be_empty=end_offset == 0)
        elif self._is_recorded:
            end_offset = self._recorded()
            self._list(may_be_empty=end_offset == 0)
        else:
            self._list(may_be_empty=False)
            end_offset = self._last_complete_batch.end_offset()
            if self._cluster_end is not None:
                epoch, certain_end = self._last_complete_batch.epoch, self._segments.certain_end
                end_offset = self._cluster_end.committed_end(end_offset, epoch, certain_end)
        return end_offset

    def _list(self, *, may_be_empty: bool) -> None:
        self._segments.refresh()
        if self._segments.is_empty and not may_be_empty:
            raise FileNotFoundError(
                errno.ENOENT, "there are no segments (*.log) any more", str(self._directory)
            )
        stamp = identity_stamp(self._directory)
        if stamp != self._stamp:
            identity = read_identity(self._directory, expected_cluster_id=self._identity.cluster_id)
            if identity != self._identity:
                raise LogNotFoundError(
                    f"{self._directory}: another log is in its place now; open that one anew"
                )
            self._stamp = stamp

    def _recorded(self) -> int:
        path = self._directory / HIGH_WATERMARK_FILE
        try:
            return read_high_watermark(path)
        except FileNotFoundError:
            if is_managed(self._directory) and not list_directory(self._directory).segments:
                return 0  # being created now
            raise


def _identify(directory: Path, cluster_id: str | None) -> tuple[LogIdentity, bool]:
    """The identity of the log, and whether it records its high watermark."""
    try:
        segments = list_directory(directory).segments
    except FileNotFoundError:
        raise LogMissingError(f"{directory}: there is no such directory", str(directory)) from None
    has_owner_file = is_managed(directory)
    if not segments and not has_owner_file:
        missing = f"no segments such as {segment_name(0)}"
        other_files = files_of_others(directory)
        if not other_files:
            raise LogMissingError(f"{directory}: empty, there are {missing}", str(directory))
        inner = directory / METADATA_LOG_DIRECTORY
        meant = f"did you mean {inner}?" if inner.is_dir() else f"a broker's is DIR/{METADATA_LOG_DIRECTORY}"
        raise LogNotFoundError(
            f"{directory}: not a log: it holds {first_names(other_files)}, but {missing}; {meant}"
        )
    identity = read_identity(directory, expected_cluster_id=cluster_id)
    return identity, has_owner_file and (not segments or (directory / HIGH_WATERMARK_FILE).exists())
