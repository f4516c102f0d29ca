"""Writer: the single writer of an aclog-managed log, with group commit for any number of threads; its lock.

An append encodes its batches in the calling thread and queues them. The first thread to get the lock commits
all queued requests; the other threads then find theirs done, or commit next.

The lock is an advisory file lock. The kernel releases it when its holder ends in any way; the process id in
the file is for messages only. Readers take no lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import MetadataRecord
from records.errors import AclogError, EncodeError, LogError, LogLockedError, LogMovedError
from records.log.base import LogIdentity
from records.log.directory.appender import GROUP_BYTES_MAX, Appender, EncodedBatch
from records.log.directory.creation import complete_creation, prepare_directory
from records.log.directory.files import LOCK_FILE, storage_errors

# `has_writer` shares the lock for an instant, or for longer on a busy machine: a writer retries meanwhile.
_RETRY_INTERVAL_S: Final = 0.002
_SHARED_TIMEOUT_S: Final = 5.0


def has_writer(directory: Path) -> bool:
    """Whether the log is open for writing now, or this user may not test that. Raises OSError."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class WriterLock:
    """Held from construction to ``release``.

    Raises:
        LogLockedError: another opening, in this process or another one, holds it.
        OSError: the lock file cannot be opened.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(directory)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _take(self, directory: Path) -> None:
        deadline_s = time.monotonic() + _SHARED_TIMEOUT_S
        while not (is_taken := self._try(fcntl.LOCK_EX)) and self._is_shared():
            if time.monotonic() > deadline_s:
                break
            time.sleep(_RETRY_INTERVAL_S)
        if is_taken:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
            return
        holder = os.pread(self._descriptor, 32, 0).decode("ascii", errors="replace").strip()
        by = f"process {holder}" if holder.isdigit() else "another process"
        raise LogLockedError(
            f"{directory}: {by} has this log open for writing, and a log has one writer; "
            f"read it, or stop that process first"
        )

    def _is_shared(self) -> bool:
        is_shared = self._try(fcntl.LOCK_SH)
        if is_shared:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return is_shared

    def _try(self, operation: int) -> bool:
        try:
            fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        # Do not remove the file: then two processes could lock two files of the same name.
        os.close(self._descriptor)


#: KafkaRaftClient.MAX_BATCH_SIZE_BYTES: maximum batch of a KRaft quorum.
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024


def now_ms() -> int:
    """Milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class _Request:
    """The batches of one call; ``after``: required end of the log before it, None: any."""

    __slots__ = ("after", "batches", "end_offset", "error", "is_done", "record_count", "size_bytes")

    def __init__(self, batches: list[EncodedBatch], after: int | None) -> None:
        self.batches = batches
        self.after = after
        self.record_count = sum(batch.record_count for batch in batches)
        self.size_bytes = sum(len(batch.data) for batch in batches)
        self.end_offset = 0
        self.error: AclogError | None = None
        self.is_done = False


class Writer:
    """Holds the writer lock from ``open`` to ``close``."""

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        lock: WriterLock,
        appender: Appender,
        clock_ms: Callable[[], int],
    ) -> None:
        self._directory = directory
        self.identity = identity
        self._lock = lock
        self._appender = appender
        self._clock_ms = clock_ms
        self._requests: deque[_Request] = deque()
        self._committing = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        create: bool,
        cluster_id: str | None,
        segment_bytes: int,
        clock_ms: Callable[[], int],
    ) -> Self:
        """Lock the log, create it if it does not exist and ``create`` is set, and recover its tail."""
        with storage_errors(directory), ExitStack() as opened:
            prepare_directory(directory, create=create)
            lock = WriterLock(directory)
            opened.callback(lock.release)
            identity = complete_creation(directory, cluster_id)
            appender = Appender.open(directory, segment_bytes=segment_bytes)
            opened.pop_all()
        return cls(directory, identity, lock, appender, clock_ms)

    @property
    def end_offset(self) -> int:
        return self._appender.end_offset

    def append(
        self, batches: Iterable[tuple[Sequence[MetadataRecord], int | None]], *, after: int | None = None
    ) -> int:
        """Append batches, each with its timestamp or None for now; returns the end once all are committed.

        Raises:
            LogMovedError: the log does not end at ``after``; nothing was written.
            EncodeError: a record that the format cannot hold, or a batch that is too large; nothing was
            written. LogStorageError: the disk failed; the batches below ``end_offset`` were appended.
            LogError: closed.
        """
        request = _Request([self._encode(records, at_ms) for records, at_ms in batches if records], after)
        if not request.batches:
            return self.end_offset
        self._requests.append(request)
        while not request.is_done:
            with self._committing:
                if not request.is_done:
                    self._commit_waiting()
        if request.error is not None:
            raise request.error
        return request.end_offset

    def close(self) -> None:
        """Release the lock, after a running commit. Idempotent."""
        with self._committing:
            if not self._is_closed:
                self._is_closed = True
                self._appender.close()
                self._lock.release()

    def _encode(self, records: Sequence[MetadataRecord], timestamp_ms: int | None) -> EncodedBatch:
        data = encode_batch(
            [encode_frame(record) for record in records],
            base_offset=0,
            epoch=self._appender.epoch,
            timestamp_ms=self._clock_ms() if timestamp_ms is None else timestamp_ms,
        )
        if len(data) > BATCH_BYTES_MAX:
            raise EncodeError(
                f"{len(records)} records make a batch of {len(data)} bytes; {BATCH_BYTES_MAX} is the most"
            )
        return EncodedBatch(bytearray(data), len(records))

    def _commit_waiting(self) -> None:
        group: list[_Request] = []
        size_bytes, end_offset = 0, self.end_offset
        while self._requests and size_bytes < GROUP_BYTES_MAX:
            request = self._requests.popleft()
            if request.after not in (None, end_offset):
                request.error = LogMovedError(
                    f"{self._directory}: it ends at {end_offset}, not at {request.after}; nothing was written"
                )
                request.is_done = True
                continue
            group.append(request)
            size_bytes += request.size_bytes
            end_offset += request.record_count
            request.end_offset = end_offset
        error: AclogError | None = LogError(f"{self._directory}: the append was interrupted")
        try:
            if self._is_closed:
                raise LogError(f"{self._directory}: the log is closed")
            self._appender.commit(batch for request in group for batch in request.batches)
            error = None
        except AclogError as caught:
            error = caught
        finally:
            for request in group:
                if request.end_offset > self.end_offset:
                    request.error = error
                request.is_done = True
