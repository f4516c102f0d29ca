"""PolledLog: the ACLs that a cluster's brokers return for DescribeAcls, as a MetadataLog."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from records.errors import (
    LogError,
    LogLockedError,
    LogNotFoundError,
    LogReadOnlyError,
    LogStorageError,
    LogUnreachableError,
)
from records.log.base import READ_BYTES_MAX, Freshness, MetadataLog
from records.log.directory.writer import now_ms
from records.log.polled.poll_store import PollStore
from records.log.protocol.brokers import Brokers
from records.log.protocol.settings import ProtocolSettings, protocol_settings
from records.log.url import POLLED_FORM, PolledUrl, parse_polled_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from records.entries import MetadataRecord
    from records.log.base import LogIdentity, Mode
    from records.log.protocol.response_values import ClusterLevels, DescribedAcls
    from records.log_batch import LogBatch

#: Time of the request by the wall clock (ms) and the monotonic clock (s); the ACLs; and the levels of
#: metadata.version, if they were requested, too.
_Answer = tuple[tuple[int, float], "DescribedAcls", "ClusterLevels | None"]

#: Between two polls of a store that another process writes, at most.
_POLL_INTERVAL_S: Final = 1.0
#: Between two requests for the levels of all brokers: each takes a connection.
_LEVELS_S: Final = 30.0
#: Before the first retry of a failed poll; never longer than between two polls.
_RETRY_INTERVAL_S: Final = 0.5
_RETRY_DOUBLINGS_MAX: Final = 20


class PolledLog(MetadataLog):
    """A log of polls; created by ``open``. One thread reads and waits, and polls while it does."""

    def __init__(self, where: PolledUrl, settings: ProtocolSettings) -> None:
        """Send nothing yet: see ``connect``."""
        self._where = where
        self._settings = settings
        self._closing = threading.Event()
        self._brokers = Brokers(where.text, where.brokers, settings, self._closing)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._store: PollStore | None = None
        # Guards the fields below, and the brokers' connection.
        self._polling = threading.RLock()
        self._due_s = self._levels_due_s = 0.0
        self._polls = self._failures = self._failed_in_a_row = 0
        self._error: LogError | None = None
        # Age of the last answer (ms) when it was loaded, and that time by the monotonic clock.
        self._answered: tuple[int, float] | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Mode = "read",
        client: Mapping[str, str] | None = None,
        lazily: bool = False,
    ) -> Self:
        """Open a log of the cluster's ACLs.

        If another process polls into the same directory, its stored polls are read.

        Args:
            url: ``describe://HOST:PORT[,HOST:PORT...][/DIR]``, of the brokers' listener. Without DIR,
                ``close`` removes the stored polls.
            mode: ``read``.
            client: ``aclog.kafka.*`` without that prefix, see records.log.protocol.settings.
            lazily: send the first request in ``connect``, or in the first other call; for a node, which
                needs a directory.

        Raises:
            LogReadOnlyError: another mode: only the cluster changes its ACLs.
            LogUnreachableError: no broker answers, and nothing is stored.
            LogRefusedError: access denied, and nothing is stored; the text names the right.
            LogNotFoundError: the stored polls are of another cluster.
            LogError: an invalid URL or setting, or the directory holds something else.
        """
        where, settings = parse_polled_url(url), protocol_settings(client or {})
        log = cls(where, settings)
        if mode != "read":
            raise log._read_only()
        if lazily and where.directory is None:
            raise LogError(
                f"`{url}`: a node keeps what brokers answer, for its offsets and for the time when they are "
                f"away: name a directory for it, {POLLED_FORM}"
            )
        return log if lazily else log.connect_or_close()

    @property
    def url(self) -> str:
        return self._where.text

    @property
    def identity(self) -> LogIdentity:
        """Cluster id, and topic id of the store's log; raises LogUnreachableError before there is one."""
        if self._store is None:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")
        return self._store.log.identity

    @property
    def is_cluster_metadata_log(self) -> bool:
        return True

    @property
    def is_read_only(self) -> bool:
        return True

    def freshness(self) -> Freshness:
        return Freshness(
            age_ms=self._age_ms(),
            refresh_ms=round(self._settings.refresh_s * 1000),
            polls=self._polls,
            failures=self._failures,
            error=None if self._error is None else str(self._error),
        )

    def connect(self) -> None:
        """Open the stored polls, or poll for the first time. Raises as ``open``."""
        with self._polling:
            if self._store is not None:
                return
            directory = self._directory()
            found = PollStore.open_existing(directory)
            if found is None:
                answer = self._first_answer()
                made = PollStore.open_or_create(directory, self._brokers.cluster_id)
                self._store = self._save(made, answer)
                return
            try:
                self._resume(found)
            except BaseException:
                self._store = None
                found.close()
                raise

    def start_offset(self) -> int:
        return self._connected_store().log.start_offset()

    def high_watermark(self) -> int:
        return self._connected_store().log.high_watermark()

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[LogBatch]:
        return self._connected_store().log.read(offset, max_bytes=max_bytes)

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        return self._connected_store().log.is_history(end_offset, epoch, empty_tail=empty_tail)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """As MetadataLog, and poll the brokers when it is due. Raises as ``open``."""
        deadline_s = time.monotonic() + timeout_s
        while not self._closing.is_set():
            with self._polling:
                store = self._connected_store()
                if time.monotonic() >= self._due_s:
                    store = self._poll(store)
            left_s = min(deadline_s, self._due_s) - time.monotonic()
            if store.log.wait(offset, max(0.0, left_s)):
                return True
            if time.monotonic() >= deadline_s:
                return False
        return False

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        raise self._read_only()

    def close(self) -> None:
        """Close the connection, pending requests and the store. Idempotent, from any thread."""
        self._closing.set()
        self._brokers.abort()
        with self._polling:
            if self._store is not None:
                self._store.close()
            if self._temporary is not None:
                self._temporary.cleanup()

    def _read_only(self) -> LogReadOnlyError:
        return LogReadOnlyError(
            f"{self.url}: a describe:// log is read-only. Change the ACLs on the cluster, with "
            "kafka-acls.sh --bootstrap-server HOST:PORT or any AdminClient"
        )

    def _directory(self) -> Path:
        if self._where.directory is not None:
            return self._where.directory
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="aclog-describe-")
        return Path(self._temporary.name)

    def _connected_store(self) -> PollStore:
        if self._store is None:
            self.connect()
        if self._store is None:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")
        return self._store

    def _age_ms(self) -> int | None:
        if self._answered is None:
            return None
        before_ms, seen_s = self._answered
        return before_ms + round((time.monotonic() - seen_s) * 1000)

    def _first_answer(self) -> _Answer:
        try:
            return self._answer()
        except LogError as error:
            self._record_failure(error)
            raise

    def _answer(self, store: PollStore | None = None) -> _Answer:
        """Poll a broker; the time is that of the request, so that the answer is not older than it."""
        requested = now_ms(), time.monotonic()
        acls = self._brokers.acls(b"" if store is None else store.digest)
        if requested[1] < self._levels_due_s:
            return requested, acls, None
        levels = self._brokers.levels({} if store is None else store.brokers)
        self._levels_due_s = requested[1] + _LEVELS_S
        return requested, acls, levels

    def _resume(self, found: PollStore) -> None:
        """Continue from the stored polls, after one attempt to poll."""
        stored_id, expected_id = found.log.identity.cluster_id, self._settings.cluster_id
        if expected_id not in (None, stored_id):
            raise LogNotFoundError(
                f"{self.url}: the directory stores ACLs of cluster {stored_id}, not of {expected_id}"
            )
        self._brokers.cluster_id = stored_id
        self._store = found
        self._poll(found)
        if isinstance(self._error, LogNotFoundError):
            raise self._error

    def _poll(self, store: PollStore) -> PollStore:
        """Poll and store the answer, or read another process's store. A failed poll is counted."""
        if not store.is_writable:
            store = self._take_over(store)
        if not store.is_writable:
            self._load_age(store)
            self._due_s = time.monotonic() + min(self._settings.refresh_s, _POLL_INTERVAL_S)
            return store
        try:
            answer = self._answer(store)
        except LogError as error:
            if self._closing.is_set():
                raise
            self._record_failure(error)
            if self._answered is None:
                self._load_age(store)
            return store
        return self._save(store, answer)

    def _save(self, store: PollStore, answer: _Answer) -> PollStore:
        (at_ms, requested_s), acls, levels = answer
        try:
            store.save(acls, levels, at_ms)
        except LogError as error:
            self._record_failure(error)
            store.close()
            self._store = None  # a new opening recovers it
            self._levels_due_s = 0.0
            raise
        self._answered = 0, requested_s
        self._polls += 1
        self._failed_in_a_row, self._error = 0, None
        self._due_s = time.monotonic() + self._settings.refresh_s
        return store

    def _record_failure(self, error: LogError) -> None:
        """Count a failed poll, and schedule the retry, with growing pauses."""
        self._failures += 1
        self._failed_in_a_row += 1
        self._error = error
        pause_s = _RETRY_INTERVAL_S * 2 ** min(self._failed_in_a_row - 1, _RETRY_DOUBLINGS_MAX)
        self._due_s = time.monotonic() + min(self._settings.refresh_s, pause_s)

    def _load_age(self, store: PollStore) -> None:
        at_ms = store.last_poll_ms()
        self._answered = None if at_ms is None else (max(0, now_ms() - at_ms), time.monotonic())

    def _take_over(self, store: PollStore) -> PollStore:
        """Open the store to write it, if the process that wrote it has ended."""
        try:
            own_store = PollStore.open_or_create(self._directory(), store.log.identity.cluster_id)
        except (LogLockedError, LogStorageError):
            return store
        self._store = own_store
        store.close()
        return own_store
