"""MetadataLog: the base of every kind of log.

Readers and writers use the same methods; a log that cannot be written raises LogReadOnlyError. Offsets are
inclusive, end offsets are exclusive. One thread uses a log; another one may end ``wait`` by ``close``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self

from records.errors import DecodeError, OffsetOutOfRangeError
from records.ids import Uuid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from records.batch import RecordBatch
    from records.entries import MetadataRecord
    from records.log.cluster_writer import ClusterWriter
    from records.log_batch import LogBatch

#: ``create`` makes the log if it is not there, and is ``write`` otherwise.
Mode = Literal["read", "write", "create"]

#: Maximum bytes of batches that one read returns (at least one complete batch).
READ_BYTES_MAX: Final = 4 * 1024 * 1024

_CHECKPOINT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Identity of a log (I9): two logs with the same identity have the same history."""

    cluster_id: str
    topic_id: Uuid


@dataclass(frozen=True, slots=True, order=True)
class CheckpointId:
    """A snapshot of Kafka: the state below ``end_offset``; ``epoch`` is that of its last record.

    ``path``: of its file; None: it is on another machine.
    """

    end_offset: int
    epoch: int
    path: Path | None = None

    @classmethod
    def parse(cls, name: str, path: Path | None = None) -> CheckpointId | None:
        """The checkpoint whose file has this name; None: it is no checkpoint's name."""
        found = _CHECKPOINT.fullmatch(name)
        return cls(int(found[1]), int(found[2]), path) if found else None

    @property
    def name(self) -> str:
        """Kafka's name of its file: ``00000000000000000266-0000000001.checkpoint``."""
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """Position of the batch at ``base_offset`` in a segment file."""

    segment_base_offset: int
    position: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailingBytes:
    """Bytes after the last complete batch of a log.

    Attributes:
        position: of the first of them in the segment.
        offset: the next one of the log.
        still_s: seconds since the last write to the segment, by the machine's clock.
        is_being_written: whether a writer seems to be at work; else a writer was killed there, a copy ends
            there, or they never were a batch.
    """

    path: Path
    position: int
    size_bytes: int
    offset: int
    still_s: float
    is_being_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Age of a log that polls its cluster.

    Attributes:
        age_ms: since the last answer; None: there was none.
        refresh_ms: interval of polls.
        error: of the last poll; None: it succeeded.
    """

    age_ms: int | None
    refresh_ms: int
    polls: int
    failures: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """What a log answered at one time.

    Attributes:
        identity: of the log that has this URL.
        start_offset: first offset of the log.
        high_watermark: one past the last committed offset.
        log_end_offset: one past the last offset, committed or not.
    """

    identity: LogIdentity
    start_offset: int
    high_watermark: int
    log_end_offset: int


class StateEnd(Protocol):
    """The end of a state in its log: the arguments of ``MetadataLog.is_history``."""

    @property
    def end_offset(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    @property
    def empty_tail(self) -> int: ...


class MetadataLog(ABC):
    """A totally ordered, durable log of metadata records.

    What is not abstract answers for a local log with one writer, without compaction and Kafka transactions.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """As given by the user: ``file:DIR``, ``kafka://...``, ``kraft://...``."""

    @property
    @abstractmethod
    def identity(self) -> LogIdentity:
        """Cluster id and topic id."""

    @property
    def directory(self) -> Path | None:
        """Absolute path of the local directory of its segments; None: it has none."""
        return None

    @property
    def removal_retention_ms(self) -> int | None:
        """How long a removal remains in the log (I10); None: for ever, as it is not compacted."""
        return None

    @property
    def connection(self) -> object | None:
        """What connecting has queried, for another object of this log (``open_log``); None: nothing."""
        return None

    @property
    def is_shared(self) -> bool:
        """Whether several nodes may append to it."""
        return False

    @property
    def is_cluster_metadata_log(self) -> bool:
        """Whether it is the metadata log of a Kafka cluster. Only the cluster changes the ACLs in it."""
        return False

    @property
    def cluster_writer(self) -> ClusterWriter | None:
        """Sends changes of ACLs to the cluster; None: this process appends records itself."""
        return None

    @property
    def is_read_only(self) -> bool:
        """Whether no process can change ACLs through it: a broker's directory, or polled ACLs."""
        return False

    @property
    def uncommitted_from(self) -> int | None:
        """Offset from which on batches may not be committed; None: all are. Thread-safe.

        A broker's directory does not record what is committed, except by checkpoints. If its cluster is not
        asked, all complete batches count as committed, and a new leader may still truncate them. As of the
        last read; equal to the high watermark if everything is certain.
        """
        return None

    @property
    def blocks_readers(self) -> bool:
        """Whether the last ``read`` held back records below the high watermark.

        They are part of a committed Kafka transaction whose other records may be above an open one.
        """
        return False

    def freshness(self) -> Freshness | None:
        """Age of a polled log; None: every read asks the log itself. Thread-safe."""
        return None

    def connect(self) -> None:  # noqa: B027 - `open` has checked a local log
        """Check once that the log's cluster answers, and that this is a log. Thread-safe.

        Raises:
            LogUnreachableError: the cluster does not answer; it may do so later.
            LogError: there is no such log, or the cluster denies access.
        """

    def connect_or_close(self) -> Self:
        """Connect, and return the log; if that fails, close it. Raises as ``connect``."""
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    @abstractmethod
    def start_offset(self) -> int:
        """First offset of the log."""

    @abstractmethod
    def high_watermark(self) -> int:
        """One past the last committed offset, queried on each call."""

    def verified_high_watermark(self) -> int | None:
        """As ``high_watermark``, thread-safe.

        None: the log has a new leader, and the records read so far may not belong to its history.

        Raises:
            LogError: the log does not answer.
        """
        return self.high_watermark()

    def log_end_offset(self) -> int:
        """One past the last offset, committed or not: Kafka's log end offset, queried on each call.

        Raises:
            LogError: the log does not answer.
        """
        return self.high_watermark()

    def current_topic_id(self) -> Uuid:
        """Topic id of the log that has this URL now; ``identity`` is that of the log that was read.

        Raises:
            LogError: the log does not answer; a directory was removed or has another log.
        """
        self.high_watermark()  # detects another log in its place
        return self.identity.topic_id

    def checkpoints(self) -> Sequence[CheckpointId]:
        """Kafka's current snapshots of this log, oldest first. Raises LogError: the log cannot be read."""
        return ()

    def checkpoint_bytes(self, checkpoint: CheckpointId) -> bytes:
        """Content of the file of one of ``checkpoints``, unchecked.

        Raises:
            LogError, OSError: it no longer exists; there may be a newer one.
        """
        if checkpoint.path is None:
            raise FileNotFoundError(checkpoint.name)
        return checkpoint.path.read_bytes()

    def trailing_bytes(self, *, settle_s: float = 0) -> TrailingBytes | None:
        """Bytes after the last complete batch: an unfinished write, or damage. None: there are none.

        Blocks for up to ``settle_s`` to see whether they change.

        Raises:
            LogError: the log cannot be read.
        """
        return None

    def open_transaction(self) -> str | None:
        """Describe the open Kafka transaction and how to end it, for people; None: there is none.

        No record appended after its first one can be read yet. Asks the cluster.

        Raises:
            LogError: the cluster does not answer.
        """
        return None

    @abstractmethod
    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[LogBatch]:
        """Complete committed batches from the one that contains ``offset`` on; empty at the high watermark.

        A batch may begin below ``offset``: the caller skips records that it has applied. If a batch cannot be
        decoded, this call returns the batches before it, and the next one raises.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the start (trimmed) or beyond the end (truncated).
            DecodeError: the batch at ``offset`` cannot be decoded (I7).
        """

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        """Whether the log has ``epoch`` just below ``end_offset``, which is not beyond its end.

        Call it before a ``read`` that continues from a stored state.

        Args:
            end_offset: of the stored state.
            epoch: of the last record of the stored state.
            empty_tail: number of offsets just below ``end_offset`` without relevant records; these may have
                later epochs.

        Returns:
            False: the log was truncated there and written to again. None: unknown. True also if the log
            starts at ``end_offset`` or later, as nothing can contradict.

        Raises:
            LogError: the log cannot be read.
        """
        # For cheap random access. The batch that ends there must have this epoch; if it was compacted away or
        # cannot be decoded, the next one.
        if end_offset <= self.start_offset():
            return True
        try:
            found = self._epoch_from(end_offset - 1)
        except OffsetOutOfRangeError as error:
            if error.start < end_offset:
                raise
            # Trimmed meanwhile; or a follower whose log ends below the snapshot that it fetched.
            return True
        if found is None:
            # A snapshot may be the way past a record of a newer version.
            found = self._epoch_from(end_offset)
        return None if found is None else found == epoch

    def _epoch_from(self, offset: int) -> int | None:
        """Epoch of the first batch that ends beyond ``offset``; None: there is none, or it is undecodable."""
        try:
            batches = self.read(offset, max_bytes=1)
        except DecodeError:
            return None
        return batches[0].epoch if batches else None

    def position_hint(self, offset: int) -> BatchPosition | None:
        """Position of a batch at or below ``offset``, for another reader's ``use_position_hint`` (BatchLog).

        None: no reader needs it.

        Raises:
            LogError: the log cannot be read.
        """
        return None

    @abstractmethod
    def wait(self, offset: int, timeout_s: float) -> bool:
        """Block until the high watermark is beyond ``offset``; False on timeout or close."""

    @abstractmethod
    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        """Append one atomic batch; returns the end offset once it is durable and committed.

        ``after``: append only if the log ends at this offset.

        Raises:
            LogMovedError: the log ends beyond ``after``; nothing was written.
            LogReadOnlyError: this log was not opened for writing.
            EncodeError: a record that the format cannot hold; nothing was written.
        """

    def end_reading(self) -> None:  # noqa: B027 - a local log has no connections
        """Close the connections that only reading needs; the next read opens them again."""

    @abstractmethod
    def close(self) -> None:
        """Release files, sockets and locks. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class BatchLog(MetadataLog):
    """A log whose batches can be read as they were written: a directory, or a quorum's log."""

    @abstractmethod
    def read_raw(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[RecordBatch]:
        """As ``read``, but the records of each batch are still encoded, and not checked."""

    @abstractmethod
    def use_position_hint(self, position: BatchPosition) -> None:
        """Search for offsets from this position on, which another reader of the same log found."""


#: Maximum pause between two reads while records are held back.
_HELD_BACK_POLL_S: Final = 0.2


def read_with_retry(log: MetadataLog, offset: int) -> Sequence[LogBatch]:
    """As ``log.read``, but what is held back is waited for: empty only where nothing more is committed.

    Raises:
        LogHeldUpError: the log held it back for too long.
    """
    while not (batches := log.read(offset)) and log.blocks_readers:
        log.wait(offset, _HELD_BACK_POLL_S)
    return batches
