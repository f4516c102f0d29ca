"""QuorumLog: a cluster's metadata log as a MetadataLog; its controllers carry out ACL changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

from records.batch import RecordBatch
from records.columns.batches import to_log_batches
from records.entries import MetadataRecord
from records.errors import DecodeError, LogError, LogUnreachableError, OffsetOutOfRangeError
from records.ids import METADATA_TOPIC_ID, Uuid
from records.log.base import READ_BYTES_MAX, BatchLog, BatchPosition, CheckpointId, LogIdentity, Mode
from records.log.protocol.cluster_errors import ClusterErrors
from records.log.protocol.settings import ProtocolSettings, protocol_settings
from records.log.quorum.replica import Replica
from records.log.quorum.session import LEADER_TIMEOUT_S, Session
from records.log.quorum.writer import QuorumWriter
from records.log.url import Address, parse_quorum_url
from records.log_batch import LogBatch

#: How long the leader's last report is used without a new request.
_FRESH_S: Final = 0.2
#: Between two fetches of a leader that does not report commits by itself (before 4.1).
_COMMIT_WAIT_MS: Final = 10
#: Between two requests to a leader that does not know its high watermark yet.
_POLL_INTERVAL_S: Final = 0.05
#: After so many empty responses in a row, although more is committed, the fetch fails.
_EMPTY_FETCHES_MAX: Final = 3
#: Far above any metadata snapshot: 10 million ACLs have 2 GB.
SNAPSHOT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024


class QuorumLog(BatchLog):
    """A log in a quorum; created by ``open``. One thread reads; the other methods are thread-safe."""

    def __init__(
        self, url: str, controllers: Sequence[Address], settings: ProtocolSettings, *, writes: bool
    ) -> None:
        """Send nothing yet: see ``connect``. Responses name controllers besides the given ones."""
        self._url = url
        self._errors = ClusterErrors(url, settings)
        self._closing = threading.Event()
        self._session = Session(controllers, settings, self._errors, self._closing)
        self._writer: QuorumWriter | None = None
        if writes:
            # A separate connection: the reader's waits for new records.
            session = Session(controllers, settings, self._errors, self._closing)
            self._writer = QuorumWriter(session, self._errors, self._closing)
        self._replica = Replica()
        self._last_answer_s: float | None = None
        self._has_just_read = False
        self._refreshed_s: float | None = None
        # Guards everything above but the event.
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Mode = "read",
        client: Mapping[str, str] | None = None,
        lazily: bool = False,
    ) -> Self:
        """Open the log of a quorum.

        Args:
            url: ``kraft://HOST:PORT[,HOST:PORT...]``, of the controllers' listener.
            mode: ``read``; with ``write`` or ``create`` there is a ``cluster_writer``.
            client: ``aclog.kafka.*`` without that prefix, see records.log.protocol.settings.
            lazily: send the first request in ``connect``, or in the first other call.

        Raises:
            LogUnreachableError: no controller answers, or no leader was found in time.
            LogRefusedError: authentication failed, or a right is missing, which the text names.
            LogError: an invalid URL or setting, or no controller's listener.
        """
        log = cls(url, parse_quorum_url(url), protocol_settings(client or {}), writes=mode != "read")
        return log if lazily else log.connect_or_close()

    @property
    def url(self) -> str:
        return self._url

    @property
    def identity(self) -> LogIdentity:
        """Of the first cluster that answered; raises LogUnreachableError before."""
        if self._session.cluster_id is None or self._refreshed_s is None:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")
        return LogIdentity(self._session.cluster_id, METADATA_TOPIC_ID)

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def is_cluster_metadata_log(self) -> bool:
        return True

    @property
    def cluster_writer(self) -> QuorumWriter | None:
        return self._writer

    def connect(self) -> None:
        """Check that a leader lets us follow; from any thread. Raises as ``open``."""
        with self._lock:
            if self._refreshed_s is None:
                self._refresh()
            if self._writer is not None:
                self._writer.require_cluster(self._session.cluster_id)

    def start_offset(self) -> int:
        """First offset that can be read: the end of the newest snapshot, once there is one.

        Raises as ``open``. The leader may hold some offsets before it, and sends them only to those that have
        read up to there.
        """
        with self._lock:
            self._refresh()
            snapshot = self._replica.snapshot
            return 0 if snapshot is None else snapshot.end_offset

    def high_watermark(self) -> int:
        """As the leader reports it now; directly after a read, at most 0.2 s ago. Raises as ``open``."""
        with self._lock:
            has_just_read, self._has_just_read = self._has_just_read, False
            return self._reported_end(max_age_s=_FRESH_S if has_just_read else 0)

    def verified_high_watermark(self) -> int | None:
        """As the leader reports it now, if opened to write; else the last report, None before."""
        return self._replica.high_watermark if self._writer is None else self._writer.end_offset()

    def current_topic_id(self) -> Uuid:
        return METADATA_TOPIC_ID

    def checkpoints(self) -> Sequence[CheckpointId]:
        """The leader's newest snapshot, if the log begins with one. Raises as ``open``."""
        with self._lock:
            self._refresh()
            snapshot = self._replica.snapshot
            return () if snapshot is None else (snapshot,)

    def checkpoint_bytes(self, checkpoint: CheckpointId) -> bytes:
        """The complete snapshot, fetched in parts; never on disk: it holds secrets. Raises as ``open``."""
        data = bytearray()
        with self._lock:
            while True:
                part = self._session.snapshot_part(checkpoint, len(data))
                size_bytes = part.size_bytes
                left_bytes = size_bytes - len(data)
                if part.position != len(data) or not 0 < len(part.data) <= left_bytes:
                    raise LogUnreachableError(
                        f"{self.url}: snapshot {checkpoint.name}: of its {size_bytes} bytes {len(part.data)} "
                        f"came from byte {part.position} on, but those from {len(data)} on were requested"
                    )
                if size_bytes > SNAPSHOT_BYTES_MAX:
                    raise LogError(f"{self.url}: snapshot {checkpoint.name} has {size_bytes} bytes")
                data += part.data
                if len(data) == size_bytes:
                    return bytes(data)

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        """As MetadataLog.read. Raises as ``open``, too.

        OffsetOutOfRangeError is also raised if the log was truncated and written on since the last read.
        """
        return self._decoded(self.read_raw(offset, max_bytes=max_bytes))

    def read_raw(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[RecordBatch]:
        with self._lock:
            replica = self._replica
            replica.seek(offset)
            if not replica.has_committed:
                end = self._reported_end(max_age_s=_FRESH_S)
                if offset > end:
                    raise OffsetOutOfRangeError(offset, start=min(self.start_offset(), end), end=end)
                self._fetch_to(end)
            self._has_just_read = True
            return replica.committed(max_bytes)

    def end_reading(self) -> None:
        """The next ``high_watermark`` is not that of a read."""
        with self._lock:
            self._has_just_read = False

    def use_position_hint(self, position: BatchPosition) -> None:
        """No effect: the leader finds offsets itself."""

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Block until there is something to read at ``offset``, or it is no longer in the log.

        False on timeout or close. The leader responds when there are new records. Raises as ``open``.
        """
        with self._lock:
            deadline_s = time.monotonic() + timeout_s
            replica = self._replica
            replica.seek(offset)
            try:
                while not replica.has_committed:
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0 or self._closing.is_set():
                        return False
                    if replica.is_full:
                        self._closing.wait(min(left_s, _POLL_INTERVAL_S))
                        self._refresh(age_s=0)
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
        raise self._errors.read_only()

    def close(self) -> None:
        """Close the connection and end pending requests. Idempotent, from any thread."""
        self._closing.set()
        self._session.abort()
        if self._writer is not None:
            self._writer.abort()

    def _reported_end(self, *, max_age_s: float) -> int:
        deadline_s = time.monotonic() + LEADER_TIMEOUT_S
        while True:
            if self._replica.high_watermark is None or not _is_younger(self._last_answer_s, max_age_s):
                self._refresh(age_s=0)
            if self._replica.high_watermark is not None:
                return self._replica.high_watermark
            if time.monotonic() > deadline_s or self._closing.wait(_POLL_INTERVAL_S):
                raise self._errors.no_committed_end()

    def _refresh(self, *, age_s: float = _FRESH_S) -> None:
        """Update the log's start and end unless they are younger than ``age_s``, wherever the reader is."""
        if _is_younger(self._refreshed_s, age_s):
            return
        self._session.connect()
        self._replica.observe(self._session.fetch(0, 0, None, bytes_max=1))
        self._record_response()
        self._refreshed_s = self._last_answer_s

    def _fetch_to(self, end: int) -> None:
        """Fetch until something can be read, or everything below ``end`` was fetched."""
        replica, empty = self._replica, 0
        while not replica.has_committed and replica.fetch_offset < end:
            before = replica.fetch_offset
            self._fetch()
            empty = empty + 1 if replica.fetch_offset <= before else 0
            if empty == _EMPTY_FETCHES_MAX:
                raise LogUnreachableError(
                    f"{self.url}: the leader sends nothing at offset {before}, and says that the log is "
                    f"committed to {end}"
                )

    def _fetch(self, *, wait_ms: int = 0) -> None:
        """Fetch once, after the buffer. Raises OffsetOutOfRangeError, DecodeError and as ``open``."""
        self._session.connect()
        replica = self._replica
        fetched = self._session.fetch(
            replica.fetch_offset, replica.fetch_epoch, replica.high_watermark, wait_ms=wait_ms
        )
        try:
            replica.apply(fetched)
        except DecodeError as error:
            raise error.located(source=self.url) from error
        self._record_response()

    def _record_response(self) -> None:
        self._last_answer_s = time.monotonic()
        if self._writer is not None:
            self._writer.confirm_leader(self._session.epoch)

    def _wait_ms(self, left_s: float) -> int:
        left_ms = max(1, int(left_s * 1000))
        if self._replica.fetch_offset > self._replica.position and not self._session.notifies_commits:
            return min(left_ms, _COMMIT_WAIT_MS)
        return left_ms

    def _decoded(self, batches: Sequence[RecordBatch]) -> list[LogBatch]:
        decoded, error = to_log_batches(batches)
        if error is not None and not decoded:
            raise error.located(source=self.url) from error
        return decoded


def _is_younger(at_s: float | None, age_s: float) -> bool:
    return at_s is not None and time.monotonic() - at_s < age_s
