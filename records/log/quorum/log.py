"""QuorumLog: the metadata log of a cluster as a MetadataLog; its controllers are asked to change ACLs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Literal, Self

from records.columns.batches import to_log_batches
from records.errors import DecodeError, LogError, LogUnreachableError, OffsetOutOfRangeError
from records.ids import METADATA_TOPIC_ID
from records.log.base import READ_BYTES_MAX, CheckpointId, LogIdentity
from records.log.defaults import LogDefaults, has_epoch_at
from records.log.protocol.answers import SnapshotId
from records.log.protocol.failure import Failure
from records.log.protocol.settings import ProtocolSettings, protocol_settings
from records.log.quorum.replica import Replica
from records.log.quorum.session import PATIENCE_S, Session
from records.log.quorum.url import QuorumUrl, parse_quorum_url
from records.log.quorum.writer import QuorumWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from records.batch import RecordBatch
    from records.entries import MetadataRecord
    from records.ids import Uuid
    from records.log.base import BatchPosition
    from records.log_batch import LogBatch

Mode = Literal["read", "write", "create"]

#: What the leader said is taken for what it would say now.
_FRESH_S: Final = 0.2
#: Between two fetches of a leader that does not say by itself when something becomes committed (before 4.1).
_COMMIT_WAIT_MS: Final = 10
#: Between two looks at a leader that does not know yet what is committed.
_LOOK_S: Final = 0.05
#: A leader that says there is more, and sends nothing so often in a row, is not asked at once again.
_EMPTY_FETCHES_MAX: Final = 3
#: Far above any snapshot of metadata: 10 million ACLs have 2 GB.
SNAPSHOT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024


class QuorumLog(LogDefaults):
    """A log in a quorum; made by ``open``. One thread reads; the rest is for all."""

    def __init__(self, where: QuorumUrl, settings: ProtocolSettings, *, writes: bool = False) -> None:
        """A log that nobody was asked for yet, which ``reach`` does."""
        self._where = where
        self._failure = Failure(where.text, settings.principal)
        self._closing = threading.Event()
        self._session = Session(where.controllers, settings, self._failure, self._closing)
        self._writer: QuorumWriter | None = None
        if writes:
            # A connection of its own: the reader's waits for news.
            session = Session(where.controllers, settings, self._failure, self._closing)
            self._writer = QuorumWriter(session, self._failure, self._closing)
        self._replica = Replica()
        self._answered_at_s: float | None = None
        self._looked_at_s: float | None = None
        # Guards all of the above that is not an event.
        self._asking = threading.RLock()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Mode = "read",
        client: Mapping[str, str] | None = None,
        lazily: bool = False,
    ) -> Self:
        """Ask the quorum for its log.

        Args:
            url: ``kraft://HOST:PORT[,HOST:PORT...]``, of the controllers' listener.
            mode: ``read``; ``write`` or ``create``: ``cluster_writer`` is there.
            client: ``aclog.kafka.*`` without that prefix, see records.log.protocol.settings.
            lazily: leave the first question to ``reach``, or to whatever is called first.

        Raises:
            LogUnreachableError: nobody answers, or no leader could be found in time.
            LogRefusedError: it does not let us in, or not follow the log; the text has the ACL that does.
            LogError: the URL or a setting makes no sense, or that is no controller's listener.
        """
        where, settings = parse_quorum_url(url), protocol_settings(client or {})
        log = cls(where, settings, writes=mode != "read")
        return log if lazily else log.reached()

    @property
    def url(self) -> str:
        """As given."""
        return self._where.text

    @property
    def identity(self) -> LogIdentity:
        """Of the cluster that answered first; LogUnreachableError before."""
        if self._session.cluster_id is None or self._looked_at_s is None:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")
        return LogIdentity(self._session.cluster_id, METADATA_TOPIC_ID)

    @property
    def is_shared(self) -> bool:
        """The cluster writes it."""
        return True

    @property
    def is_cluster_metadata_log(self) -> bool:
        """As MetadataLog."""
        return True

    @property
    def cluster_writer(self) -> QuorumWriter | None:
        """None where it was opened to read."""
        return self._writer

    def reach(self) -> None:
        """See that there is a leader that lets us follow; from any thread. Raises as ``open``."""
        with self._asking:
            if self._looked_at_s is None:
                self._look()
            if self._writer is not None:
                self._writer.expect(self._session.cluster_id)

    def start_offset(self) -> int:
        """First offset that can be read: the end of the newest snapshot, once there is one.

        Raises as ``open``. The leader may hold some offsets before it, and gives them only to those who have
        read up to there.
        """
        with self._asking:
            self._look()
            snapshot = self._replica.snapshot
            return 0 if snapshot is None else snapshot.end_offset

    def high_watermark(self) -> int:
        """As the leader said within the last 0.2 s, or says now. Raises as ``open``."""
        with self._asking:
            deadline_s = time.monotonic() + PATIENCE_S
            while True:
                if self._replica.high_watermark is None or not _is_fresh(self._answered_at_s):
                    self._look(age_s=0)
                if self._replica.high_watermark is not None:
                    return self._replica.high_watermark
                if time.monotonic() > deadline_s or self._closing.wait(_LOOK_S):
                    raise self._failure.uncommitted()

    def verified_high_watermark(self) -> int | None:
        """As the leader says now, where the log was opened to write; else as it said last, None before."""
        return self._replica.high_watermark if self._writer is None else self._writer.end_offset()

    def current_topic_id(self) -> Uuid:
        """The same for every quorum."""
        return METADATA_TOPIC_ID

    def checkpoints(self) -> Sequence[CheckpointId]:
        """The leader's newest snapshot, if it has one that is needed to begin. Raises as ``open``."""
        with self._asking:
            self._look()
            snapshot = self._replica.snapshot
            return () if snapshot is None else (CheckpointId(snapshot.end_offset, snapshot.epoch),)

    def checkpoint_bytes(self, checkpoint: CheckpointId) -> bytes:
        """All of it, fetched in parts; never put on disk, for it holds secrets. Raises as ``open``."""
        snapshot = SnapshotId(checkpoint.end_offset, checkpoint.epoch)
        data = bytearray()
        with self._asking:
            while True:
                part = self._session.snapshot_part(snapshot, len(data))
                size_bytes = part.size_bytes
                left_bytes = size_bytes - len(data)
                if part.position != len(data) or not 0 < len(part.data) <= left_bytes:
                    raise LogUnreachableError(
                        f"{self.url}: snapshot {checkpoint.name}: of its {size_bytes} bytes {len(part.data)} "
                        f"came from byte {part.position} on, not what was asked for at {len(data)}"
                    )
                if size_bytes > SNAPSHOT_BYTES_MAX:
                    raise LogError(f"{self.url}: snapshot {checkpoint.name} has {size_bytes} bytes")
                data += part.data
                if len(data) == size_bytes:
                    return bytes(data)

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        """As MetadataLog.read. Raises as ``open``, too.

        OffsetOutOfRangeError comes too where the log was truncated and written on since the last read.
        """
        return self._decoded(self.read_raw(offset, max_bytes=max_bytes))

    def read_raw(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[RecordBatch]:
        """As BatchLog.read_raw. Raises as ``read``."""
        with self._asking:
            replica = self._replica
            replica.seek(offset)
            if not replica.has_news:
                end = self.high_watermark()
                if offset > end:
                    raise OffsetOutOfRangeError(offset, start=min(self.start_offset(), end), end=end)
                self._fetch_to(end)
            return replica.committed(max_bytes)

    def position_hint(self, offset: int) -> None:
        """None: the leader finds each offset."""

    def use_position_hint(self, place: BatchPosition) -> None:
        """As BatchLog: there is nothing to look for."""

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        """As MetadataLog.is_history: the batches there say it, control batches too. Raises as ``read``."""
        return has_epoch_at(self, end_offset, epoch)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Block until there is something to read at ``offset``, or it is not in the log any more.

        False on timeout or close. The leader is asked to answer when there is news. Raises as ``open``.
        """
        with self._asking:
            deadline_s = time.monotonic() + timeout_s
            replica = self._replica
            replica.seek(offset)
            try:
                while not replica.has_news:
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0 or self._closing.is_set():
                        return False
                    if replica.is_full:
                        self._closing.wait(min(left_s, _LOOK_S))
                        self._look(age_s=0)
                    else:
                        self._fetch(wait_ms=self._wait_ms(left_s))
            except OffsetOutOfRangeError:
                return True
            except LogError:
                if self._closing.is_set():
                    return False
                raise
            return True

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        """LogReadOnlyError, always: ``cluster_writer`` is the way."""
        raise self._failure.read_only()

    def close(self) -> None:
        """End the connection, and whatever waits for an answer. Idempotent, from any thread."""
        self._closing.set()
        self._session.abort()
        if self._writer is not None:
            self._writer.abort()

    def _look(self, *, age_s: float = _FRESH_S) -> None:
        """Know where the log begins and ends, at most so old; whatever the reader's place is."""
        if age_s and _is_fresh(self._looked_at_s):
            return
        self._session.reach()
        self._replica.look(self._session.fetch(0, 0, None, bytes_max=1))
        self._answered()
        self._looked_at_s = self._answered_at_s

    def _fetch_to(self, end: int) -> None:
        """Fetch until something can be read, or everything below ``end`` has been."""
        replica, empty = self._replica, 0
        while not replica.has_news and replica.fetch_offset < end:
            before = replica.fetch_offset
            self._fetch()
            empty = empty + 1 if replica.fetch_offset <= before else 0
            if empty == _EMPTY_FETCHES_MAX:
                raise LogUnreachableError(
                    f"{self.url}: the leader sends nothing at offset {before}, and says that the log is "
                    f"committed to {end}"
                )

    def _fetch(self, *, wait_ms: int = 0) -> None:
        """One fetch behind what is here. Raises OffsetOutOfRangeError, DecodeError and as ``open``."""
        self._session.reach()
        replica = self._replica
        fetched = self._session.fetch(
            replica.fetch_offset, replica.fetch_epoch, replica.high_watermark, wait_ms=wait_ms
        )
        try:
            replica.step(fetched)
        except DecodeError as error:
            raise error.located(source=self.url) from error
        self._answered()

    def _answered(self) -> None:
        self._answered_at_s = time.monotonic()
        if self._writer is not None:
            self._writer.seen_to_lead(self._session.epoch)

    def _wait_ms(self, left_s: float) -> int:
        left_ms = max(1, int(left_s * 1000))
        if self._replica.fetch_offset > self._replica.position and not self._session.hears_commits:
            return min(left_ms, _COMMIT_WAIT_MS)
        return left_ms

    def _decoded(self, batches: Sequence[RecordBatch]) -> list[LogBatch]:
        decoded, error = to_log_batches(batches)
        if error is not None and not decoded:
            raise error.located(source=self.url) from error
        return decoded


def _is_fresh(at_s: float | None) -> bool:
    return at_s is not None and time.monotonic() - at_s < _FRESH_S
