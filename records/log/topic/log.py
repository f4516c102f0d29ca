"""TopicLog: a compacted topic as a MetadataLog, to read or to write."""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, Self

from records.errors import (
    LogError,
    LogHeldUpError,
    LogNotFoundError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogStorageError,
    LogUnreachableError,
)
from records.ids import uuid_to_string
from records.log.base import READ_BYTES_MAX, LogIdentity, MetadataLog
from records.log.shared_clients import SharedClients
from records.log.topic.client import ClientSettings
from records.log.topic.open_transaction import OpenTransactions
from records.log.topic.reader import TopicReader
from records.log.topic.topic_admin import (
    ClusterClient,
    TopicAdmin,
    TopicConnection,
    TopicSettings,
    check_topic,
    describe_topic,
    make_topic,
    topic_exists,
)
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.writer import TopicWriter
from records.log.url import TopicUrl, parse_topic_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from records.entries import MetadataRecord
    from records.ids import Uuid
    from records.log_batch import LogBatch

#: ``create`` makes the topic if it is not there, and is ``write`` otherwise.
Mode = Literal["read", "write", "create"]

# Maximum delay of detecting that the topic was deleted and created again, if nothing is read or written.
_IDENTITY_AGE_S_MAX: Final = 1.0
#: Concurrent transactions are complete within milliseconds; after this time a reader gets the reason.
_HELD_BACK_S_MAX: Final = 5.0


class TopicLog(MetadataLog):
    """A log in a topic; created by ``open``.

    One thread reads (``read``, ``wait``, ``high_watermark``, ``start_offset``, ``is_history``). The other
    methods are thread-safe.
    """

    # Known from ``connect`` on.
    _connection: TopicConnection
    _identity: LogIdentity
    _checked_at_s: float
    _retention_ms: int
    _writer: TopicWriter

    def __init__(
        self,
        where: TopicUrl,
        client: Mapping[str, str] | None,
        settings: TopicSettings | None,
        *,
        mode: Mode,
        shared: SharedClients | None = None,
    ) -> None:
        """Create the clients; does not connect."""
        self._where = where
        self._mode = mode
        self._topic_settings = settings or TopicSettings()
        self._connecting = threading.Lock()
        self._is_connected = False
        self._closing = threading.Event()
        is_closed = self._closing.is_set
        clients, key = shared or SharedClients(), (where.bootstrap_servers, frozenset((client or {}).items()))
        self._cluster = clients.get(key, lambda: ClusterClient(where, client))
        self._topic_errors = TopicErrors(where, self._cluster.errors)
        self._settings = ClientSettings(where, client or {}, self._cluster.errors)
        self._admin = TopicAdmin(self._cluster.client, where.topic, self._topic_errors, is_closed)
        self._reader = TopicReader(where, self._settings, self._admin, self._topic_errors, is_closed)
        self._transactions = OpenTransactions(
            where, self._settings, self._admin, self._topic_errors, is_closed
        )
        # Since when reads return nothing because records are held back.
        self._held_back_since_s: float | None = None
        self._reading = threading.Lock()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Mode = "read",
        client: Mapping[str, str] | None = None,
        settings: TopicSettings | None = None,
        lazily: bool = False,
        shared: SharedClients | None = None,
        connection: object | None = None,
    ) -> Self:
        """Check that the topic can be a log, and open it.

        The first append creates the producer, so readers need no right to write.

        Args:
            url: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``.
            mode: ``read``; ``write``; or ``create``, which is ``write`` if the topic exists.
            client: settings for the Kafka clients: ``aclog.kafka.*`` without that prefix.
            settings: of a new topic.
            lazily: connect at the first call, or in ``connect``. Until that succeeds, ``identity`` and
                ``removal_retention_ms`` raise LogUnreachableError.
            shared: clients of other logs, of which this one uses those of its cluster.
            connection: of another object of this log, in place of queries; only with ``lazily``.

        Raises:
            LogNotFoundError: there is no such topic.
            LogError: an invalid URL or client setting; or the topic has several partitions, or is not
                compacted; the text has the way out.
            LogUnreachableError, LogRefusedError: the cluster does not answer, or denies access.
        """
        log = cls(parse_topic_url(url), client, settings, mode=mode, shared=shared)
        if isinstance(connection, TopicConnection):
            log.use(connection)
        return log if lazily else log.connect_or_close()

    def connect(self) -> None:
        """Check the topic, unless that succeeded before. Thread-safe. Raises as ``open``."""
        with self._connecting:
            if not self._is_connected:
                if self._mode == "create" and not topic_exists(self._admin):
                    make_topic(self._where, self._admin, self._topic_settings)
                self._load_topic(age_s=_IDENTITY_AGE_S_MAX)

    def _load_topic(self, *, age_s: float = 0) -> None:
        """Check the topic, and take its identity; ``age_s``: how old the cluster's id may be."""
        topic = describe_topic(self._admin)
        self.use(TopicConnection(self._cluster.cluster_id(self._admin, age_s), topic))

    def use(self, connection: TopicConnection) -> None:
        """Connect with what was queried. Raises LogError: the topic cannot be a log."""
        topic = connection.topic
        check_topic(self._where, topic)
        self._connection = connection
        self._retention_ms = topic.delete_retention_ms
        # The identity of all records that are read from now on.
        self._identity = LogIdentity(connection.cluster_id, topic.topic_id)
        self._checked_at_s = time.monotonic()
        self._writer = TopicWriter(
            self._where, self._settings, self._topic_errors, topic.message_bytes_max, self._closing.is_set
        )
        self._is_connected = True

    @property
    def url(self) -> str:
        return self._where.text

    @property
    def topic(self) -> str:
        return self._where.topic

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT[,HOST:PORT...]``, as in the URL."""
        return self._where.bootstrap_servers

    @property
    def cluster(self) -> ClusterClient:
        """Clients of its cluster, which other logs may share."""
        return self._cluster

    @property
    def identity(self) -> LogIdentity:
        """As of the last ``read``; asks no broker."""
        self._require_connected()
        return self._identity

    @property
    def removal_retention_ms(self) -> int | None:
        """``delete.retention.ms``, as of opening this topic."""
        self._require_connected()
        return self._retention_ms

    @property
    def connection(self) -> TopicConnection:
        """As of the last time that the topic's settings were queried."""
        self._require_connected()
        return self._connection

    @property
    def is_shared(self) -> bool:
        """Any node may append to a topic."""
        return True

    def start_offset(self) -> int:
        with self._reading:
            self._check_open()
            return self._admin.start()

    def high_watermark(self) -> int:
        """The last stable offset now; directly after a read that reached it, the one of that read."""
        with self._reading:
            self._check_open()
            self._check_identity(_IDENTITY_AGE_S_MAX)
            return self._reader.high_watermark()

    def verified_high_watermark(self) -> int | None:
        """The last stable offset, queried from the cluster. Thread-safe. Raises as ``read``.

        None: the records read so far were not compared with the current leader's log, which has another
        history after an unclean election. A ``read`` up to the end compares them.
        """
        self._check_open()
        end = self._admin.end()
        return end.offset if end.leader_epoch == self._reader.compared_epoch else None

    def current_topic_id(self) -> Uuid:
        """Id of the topic with this name, queried from the cluster. Thread-safe. Raises as ``read``."""
        self._check_open()
        return self._admin.topic_id()

    def log_end_offset(self) -> int:
        """The end with open transactions, queried from the cluster. Raises as ``read``."""
        self._check_open()
        return self._admin.uncommitted_end()

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        """As MetadataLog.read: below the last stable offset, without incomplete transactions.

        If another topic was created in its place, ``identity`` has changed after the read.

        Raises:
            LogHeldUpError: reads have returned nothing for some time, as a transaction is open
                (``blocks_readers``).
            OffsetOutOfRangeError: also if another history was written there (unclean leader election); then
                its ``end`` is at or before the start of that history.
            DecodeError: as MetadataLog.read.
            LogNotFoundError: the topic was deleted.
            LogError: another topic was created in its place that cannot be a log; as ``open``.
            LogUnreachableError, LogRefusedError: the cluster does not answer, or denies access.
        """
        with self._reading:
            self._check_open()
            batches = self._reader.read(offset, max_bytes)
            try:
                # The records may be from a topic that was just created in place of this one.
                self._check_identity(0 if batches else _IDENTITY_AGE_S_MAX)
            except LogError:
                self._reader.rewind()
                raise
            self._check_held_up(batches)
            return batches

    @property
    def blocks_readers(self) -> bool:
        return self._reader.held_back_at is not None

    def open_transaction(self) -> str | None:
        """As MetadataLog; raises as ``read``."""
        with self._reading:
            self._check_open()
            found = self._transactions.at(self._admin.end().offset)
            return None if found is None else found.described(self._where)

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        """As MetadataLog.is_history; raises as ``read``."""
        with self._reading:
            self._check_open()
            return self._reader.is_history(end_offset, epoch, empty_tail)

    def wait(self, offset: int, timeout_s: float) -> bool:
        """Block until there are new records at ``offset``; False on timeout or close.

        ``close`` ends it within 0.2 s. An error of the cluster ends it with True, and ``read`` raises it.
        """
        if self._closing.is_set():
            return False
        with self._reading:
            return not self._closing.is_set() and self._reader.wait(offset, timeout_s)

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        """As MetadataLog.append: one transaction; returns its end offset once it is committed.

        Raises:
            LogMovedError: the log ends beyond ``after``; nothing was written.
            LogReadOnlyError: opened for reading.
            EncodeError: a record that a topic log cannot hold; nothing was written.
            LogOutcomeUnknownError: no answer to the commit, or another topic was created meanwhile.
            LogUnreachableError, LogRefusedError: Kafka did not accept it; nothing was written.
            LogNotFoundError: the topic was deleted or replaced; nothing was written.
        """
        self._check_open()
        if self._mode == "read":
            raise LogReadOnlyError(f"{self.url}: the log was opened to read")
        if not records:
            return self._admin.end().offset
        identity, is_checked = self._identity, False

        def check() -> None:
            nonlocal is_checked
            self._require(identity, "nothing was written")
            is_checked = True

        try:
            end_offset = self._writer.append(records, check, after)
        except LogUnreachableError:
            if is_checked and not self._closing.is_set():
                # The client may report a deleted topic like this, so ask the cluster.
                with suppress(LogStorageError):
                    self._require(identity, "nothing was written", age_s=0)
            raise
        try:
            self._require(identity, "the records may be in the new one", age_s=0)
        except LogNotFoundError as error:
            raise LogOutcomeUnknownError(str(error)) from error
        except LogStorageError:
            pass  # the append is committed; the cluster does not answer now
        return end_offset

    def end_reading(self) -> None:
        """As MetadataLog: a consumer fetches and asks for metadata also while nobody reads."""
        with self._reading:
            self._reader.close()

    def close(self) -> None:
        """Close the clients, end a ``wait``. Idempotent."""
        self._closing.set()
        with self._reading:
            self._reader.close()

    def _check_held_up(self, batches: Sequence[LogBatch]) -> None:
        """Raise the reason if reads have returned nothing for some time."""
        held_back_at, now_s = self._reader.held_back_at, time.monotonic()
        if batches or held_back_at is None:
            self._held_back_since_s = None
            return
        if self._held_back_since_s is None:
            self._held_back_since_s = now_s
        if now_s - self._held_back_since_s < _HELD_BACK_S_MAX:
            return
        found = self._transactions.at(held_back_at)
        if found is not None:
            raise LogHeldUpError(
                f"{self.url}: committed records below offset {held_back_at} cannot be read yet: "
                + found.described(self._where)
            )

    def _check_identity(self, age_s: float) -> None:
        """Check the topic's id unless it is recent enough; reset the reader if it is another topic."""
        if age_s and time.monotonic() - self._checked_at_s < age_s:
            return
        if self._admin.topic_id() == self._identity.topic_id:
            self._checked_at_s = time.monotonic()
        else:
            self._checked_at_s = -math.inf  # until loading succeeds
            self._reader.reset()
            self._load_topic()

    def _require(self, identity: LogIdentity, outcome: str, age_s: float = _IDENTITY_AGE_S_MAX) -> None:
        """Raise LogNotFoundError if the topic's id is not that of ``identity``."""
        if age_s and self._identity == identity and time.monotonic() - self._checked_at_s < age_s:
            return
        topic_id = self._admin.topic_id()
        if topic_id != identity.topic_id:
            self._checked_at_s = -math.inf  # the next append checks again
            raise LogNotFoundError(
                f"{self.url}: the topic was deleted, and another one was created in its place "
                f"({uuid_to_string(topic_id)}, not {uuid_to_string(identity.topic_id)}); {outcome}"
            )

    def _require_connected(self) -> None:
        if not self._is_connected:
            raise LogUnreachableError(f"{self.url}: the cluster has not answered yet")

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise LogError(f"{self.url}: the log is closed")
        if not self._is_connected:
            self.connect()
