"""What every kind of metadata log offers: read committed batches from an offset, high watermark, append.

One writer's view and many readers' are the same protocol; a log that cannot be written raises
LogReadOnlyError. Offsets are inclusive, ends are exclusive. A log is driven by one thread; ``wait`` may be
interrupted from another by ``close``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from records.ids import Uuid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from records.batch import RecordBatch
    from records.entries import MetadataRecord
    from records.log.cluster_writer import ClusterWriter
    from records.log_batch import LogBatch

#: Bytes of batches that one read returns at most (one whole batch at least).
READ_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Which log this is (I9): two logs with the same identity hold the same history."""

    cluster_id: str
    topic_id: Uuid


@dataclass(frozen=True, slots=True, order=True)
class CheckpointId:
    """One of Kafka's snapshots: all below ``end_offset``, the last of it written in ``epoch``.

    Attributes:
        path: of its file; None where it is on another machine.
    """

    end_offset: int
    epoch: int
    path: Path | None = None

    @property
    def name(self) -> str:
        """As its file is named, where it has one."""
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """Where in a directory the batch that begins at ``base_offset`` was met."""

    segment_base_offset: int
    position: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailingBytes:
    """What stands behind the last whole batch of a log.

    Attributes:
        path: of the last segment.
        position: where they begin in it.
        size_bytes: how many they are.
        offset: of the record that would be the next.
        still_s: for how long the segment has not been written to, by the machine's clock.
        is_being_written: as far as one can see; else a writer was stopped there, or a copy ends there, or
            they never were a batch.
    """

    path: Path
    position: int
    size_bytes: int
    offset: int
    still_s: float
    is_being_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old the answers of a log may be whose cluster is asked at intervals.

    Attributes:
        age_ms: for how long the cluster has not answered; None: it never has.
        refresh_ms: how often it is asked.
        polls: how often it has answered this opening of the log.
        failures: how often it has not, or what came was not taken.
        error: why, the last time; None: it answered.
    """

    age_ms: int | None
    refresh_ms: int
    polls: int
    failures: int
    error: str | None


class MetadataLog(Protocol):
    """A totally ordered, durable log of metadata records."""

    @property
    def url(self) -> str:
        """As given by the user: ``file:DIR``, ``kafka://...``, ``kraft://...``."""

    @property
    def identity(self) -> LogIdentity:
        """Cluster id and topic id."""

    @property
    def directory(self) -> Path | None:
        """The directory of this machine that its segments are in, absolute; None: it has none."""

    @property
    def removal_retention_ms(self) -> int | None:
        """For how long a removal can be seen in the log (I10); None: for ever, as it does not compact."""

    @property
    def is_shared(self) -> bool:
        """Whether several nodes may append to it: then ``verified_high_watermark`` has what others wrote."""

    @property
    def is_cluster_metadata_log(self) -> bool:
        """Whether it is the metadata log of a Kafka cluster, which alone changes the ACLs in it."""

    @property
    def cluster_writer(self) -> ClusterWriter | None:
        """Who is asked to change ACLs, where none but the cluster appends records."""

    @property
    def is_read_only(self) -> bool:
        """Whether no opening of it can change ACLs: a broker's directory, and what brokers describe."""

    @property
    def uncommitted_from(self) -> int | None:
        """From which offset on the last whole batch is taken for the last committed one; None: nowhere.

        So it is in a broker's directory whose cluster is not asked: what is committed is not recorded there,
        but for what a checkpoint has, and a new leader may still truncate it. At the high watermark: nothing
        is open. As of the last look at the log; any thread.
        """

    @property
    def blocks_readers(self) -> bool:
        """Whether the last ``read`` kept back something below the high watermark.

        A part of a Kafka transaction is committed, and the rest may be behind another one, which is open.
        """

    def freshness(self) -> Freshness | None:
        """How old what can be read may be; None: each look at the log is one at the cluster. Any thread."""

    def connect(self) -> None:
        """See that the log's cluster has answered once, and that this is a log. From any thread.

        Raises:
            LogUnreachableError: the cluster is out of reach; it may answer later.
            LogError: it answered: there is no such log, or it does not let us in.
        """

    def start_offset(self) -> int:
        """First offset that the log still holds."""

    def high_watermark(self) -> int:
        """One past the last committed offset, looked up anew on each call."""

    def verified_high_watermark(self) -> int | None:
        """As ``high_watermark``, from any thread.

        None as long as it is not known whether what was read is still the log's history: it has a new leader.

        Raises:
            LogError: the log cannot be asked.
        """

    def log_end_offset(self) -> int:
        """One past the last offset, committed or not: Kafka's log end offset, looked up anew.

        Raises:
            LogError: the log cannot be asked.
        """

    def current_topic_id(self) -> Uuid:
        """Topic id of the log with this URL now, looked up anew; ``identity`` has that of what was read.

        Raises:
            LogError: the log cannot be asked; a directory's is gone, or another one is in its place.
        """

    def checkpoints(self) -> Sequence[CheckpointId]:
        """Kafka's snapshots of this log that there are now, oldest first.

        Raises:
            LogError: the log cannot be read.
        """

    def checkpoint_bytes(self, checkpoint: CheckpointId) -> bytes:
        """One of ``checkpoints``, as its file has it; not checked.

        Raises:
            LogError, OSError: it cannot be had any more; there may be a newer one.
        """

    def trailing_bytes(self, *, settle_s: float = ...) -> TrailingBytes | None:
        """What stands behind the last whole batch, if anything: an unfinished write, or damage.

        Blocks for up to ``settle_s`` to see whether it changes.

        Raises:
            LogError: the log cannot be read.
        """

    def open_transaction(self) -> str | None:
        """Which Kafka transaction is open now and how to end it, for people; None if there is none.

        Nothing that was appended after its beginning can be read yet. Asks the cluster.

        Raises:
            LogError: that cannot be asked.
        """

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[LogBatch]:
        """Whole committed batches from the one that contains ``offset`` on; empty at the high watermark.

        A batch may begin below ``offset``: the caller skips what it has applied. When a batch cannot be
        decoded, the batches before it are returned first and the next call raises.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the start (trimmed) or beyond the end (truncated).
            DecodeError: the batch at ``offset`` cannot be decoded (I7).
        """

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        """Whether the log's history has ``epoch`` just below ``end_offset``, which is not beyond its end.

        ``empty_tail``: how many offsets just below ``end_offset`` hold no record that counts, and may be of
        later epochs; the record before them is of that epoch.

        False: it was truncated there and written on. None: the log does not show it. Where it starts at
        ``end_offset`` or later, nothing is left that could contradict: True. To be asked before a ``read``
        that goes on from a stored state.

        Raises:
            LogError: the log cannot be read.
        """

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Block until the high watermark is beyond ``offset``; False on timeout or close."""

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        """Append one atomic batch; returns the end offset once it is durable and committed.

        ``after``: only if the log ends there: nothing comes between what was read and what is written.

        Raises:
            LogMovedError: something stands at ``after`` or behind it; nothing was written.
            LogReadOnlyError: this log was not opened for writing.
            EncodeError: a record that the format cannot hold; nothing was written.
        """

    def close(self) -> None:
        """Release files, sockets and locks. Idempotent."""


class BatchLog(MetadataLog, Protocol):
    """A log whose batches can be read as they were written: a directory's, and a quorum's."""

    def read_raw(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[RecordBatch]:
        """As ``read``, with the records of each batch still encoded: what is wrong inside is not met here."""

    def position_hint(self, offset: int) -> BatchPosition | None:
        """Where a batch at or below ``offset`` begins, for ``use_position_hint`` of another reader.

        None: no reader needs it.
        """

    def use_position_hint(self, place: BatchPosition) -> None:
        """Look for offsets from there on: it was met by a reader of the same log."""
