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
from records.log.base import READ_BYTES_MAX, LogIdentity
from records.log.defaults import LogDefaults
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.open_transaction import OpenTransactions
from records.log.topic.reader import TopicReader
from records.log.topic.topic_admin import (
    TopicAdmin,
    TopicSettings,
    check_topic,
    describe_topic,
    make_topic,
    topic_exists,
)
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.url import TopicUrl, parse_topic_url
from records.log.topic.writer import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from records.entries import MetadataRecord
    from records.ids import Uuid
    from records.log_batch import LogBatch

#: ``create`` makes the topic if it is not there, and is ``write`` otherwise.
Mode = Literal["read", "write", "create"]

# A topic that was deleted and created again is noticed this late where nothing is read or written.
_IDENTITY_AGE_S_MAX: Final = 1.0
#: What writers write at once is whole within milliseconds; after this time a reader hears what it waits for.
_HELD_BACK_S_MAX: Final = 5.0


class TopicLog(LogDefaults):
    """A log in a topic; made by ``open``.

    One thread reads (``read``, ``wait``, ``high_watermark``, ``start_offset``, ``is_history``), any may
    append; the rest is for all.
    """

    # Known from ``connect`` on.
    _identity: LogIdentity
    _checked_at_s: float
    _retention_ms: int
    _writer: TopicWriter

    def __init__(
        self, where: TopicUrl, client: Mapping[str, str] | None, settings: TopicSettings | None, *, mode: Mode
    ) -> None:
        """Clients for the topic; nothing was looked at, which ``connect`` does."""
        self._where = where
        self._mode = mode
        self._topic_settings = settings or TopicSettings()
        self._connecting = threading.Lock()
        self._is_connected = False
        self._closing = threading.Event()
        errors = ClientErrors(client)
        is_closed = self._closing.is_set
        self._topic_errors = TopicErrors(where, errors)
        self._settings = ClientSettings(where, client or {}, errors)
        self._admin = TopicAdmin(self._settings.admin(), where.topic, self._topic_errors, is_closed)
        self._reader = TopicReader(where, self._settings, self._admin, self._topic_errors, is_closed)
        self._transactions = OpenTransactions(
            where, self._settings, self._admin, self._topic_errors, is_closed
        )
        # Since when reads return nothing because something is held back.
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
    ) -> Self:
        """Look at the topic, and refuse what cannot be a log.

        The producer is made with the first append: who never writes needs no right to.

        Args:
            url: ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``.
            mode: ``read``; ``write``; or ``create``, which is ``write`` where there is a topic already.
            client: settings for the Kafka clients: ``aclog.kafka.*`` without that prefix.
            settings: what ``create`` gives a new topic.
            lazily: leave the look to ``connect``, or to whatever is called first; then ``identity`` and
                ``removal_retention_ms`` raise LogUnreachableError until it went well.

        Raises:
            LogNotFoundError: there is no such topic.
            LogError: the URL or a client setting makes no sense; the topic has several partitions, or is not
                compacted; the text says what would mend it.
            LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
        """
        log = cls(parse_topic_url(url), client, settings, mode=mode)
        return log if lazily else log.connect_or_close()

    def connect(self) -> None:
        """Look at the topic, unless that went well before; from any thread. Raises as ``open``."""
        with self._connecting:
            if not self._is_connected:
                if self._mode == "create" and not topic_exists(self._admin):
                    make_topic(self._where, self._admin, self._topic_settings)
                self._load_topic()
                self._is_connected = True

    def _load_topic(self) -> None:
        topic = describe_topic(self._admin)
        check_topic(self._where, topic)
        self._retention_ms = topic.delete_retention_ms
        # What was read and handed on is of this log.
        self._identity = LogIdentity(self._admin.cluster_id(), self._admin.topic_id())
        self._checked_at_s = time.monotonic()
        self._writer = TopicWriter(
            self._where, self._settings, self._topic_errors, topic.message_bytes_max, self._closing.is_set
        )

    @property
    def url(self) -> str:
        """As given."""
        return self._where.text

    @property
    def topic(self) -> str:
        """Its name."""
        return self._where.topic

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT[,HOST:PORT...]``, as in the URL."""
        return self._where.bootstrap_servers

    @property
    def identity(self) -> LogIdentity:
        """As last looked up, which each ``read`` does; asks no broker."""
        self._require_connected()
        return self._identity

    @property
    def removal_retention_ms(self) -> int | None:
        """``delete.retention.ms``, as it was when this topic was looked at first."""
        self._require_connected()
        return self._retention_ms

    @property
    def is_shared(self) -> bool:
        """Any node may append to a topic."""
        return True

    def start_offset(self) -> int:
        """First offset that the topic still holds."""
        with self._reading:
            self._check_open()
            return self._admin.start()

    def high_watermark(self) -> int:
        """The last stable offset, as it is now; directly after a read that reached it, as it was then."""
        with self._reading:
            self._check_open()
            self._check_identity(_IDENTITY_AGE_S_MAX)
            return self._reader.high_watermark()

    def verified_high_watermark(self) -> int | None:
        """The last stable offset, asked of the cluster now; from any thread. Raises as ``read``.

        None as long as what was read has not been compared with the present leader's log, which after an
        unclean election may be another history. A ``read`` that goes to the end compares.
        """
        self._check_open()
        end = self._admin.end()
        return end.offset if end.leader_epoch == self._reader.compared_epoch else None

    def current_topic_id(self) -> Uuid:
        """Id of the topic with this name now, asked of the cluster; from any thread. Raises as ``read``."""
        self._check_open()
        return self._admin.topic_id()

    def log_end_offset(self) -> int:
        """The end of everything, open transactions too, asked of the cluster now. Raises as ``read``."""
        self._check_open()
        return self._admin.uncommitted_end()

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        """As MetadataLog.read: below the last stable offset, and nothing of an incomplete transaction.

        When another topic was created in its place, ``identity`` says so after the read.

        Raises:
            LogHeldUpError: nothing was returned for some time, as a transaction is open (``blocks_readers``).
            OffsetOutOfRangeError: also where another history was written there (an unclean leader election);
                then ``end`` is at most where it begins.
            DecodeError: as MetadataLog.read.
            LogNotFoundError: the topic is gone.
            LogError: another topic was created in its place that cannot hold a log; as ``open``.
            LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
        """
        with self._reading:
            self._check_open()
            batches = self._reader.read(offset, max_bytes)
            try:
                # What was read may be of a topic that was created in this one's place just before.
                self._check_identity(0 if batches else _IDENTITY_AGE_S_MAX)
            except LogError:
                self._reader.rewind()
                raise
            self._check_held_up(batches)
            return batches

    @property
    def blocks_readers(self) -> bool:
        """As MetadataLog."""
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
        """Block until there is something new to read at ``offset``; False on timeout or close.

        ``close`` ends it within 0.2 s. An error of the cluster's counts as news: ``read`` says what it is.
        """
        if self._closing.is_set():
            return False
        with self._reading:
            return not self._closing.is_set() and self._reader.wait(offset, timeout_s)

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        """As MetadataLog.append: one transaction, its end offset once it is committed.

        Raises:
            LogMovedError: something stands at ``after`` or behind it; nothing was written.
            LogReadOnlyError: opened to read.
            EncodeError: a record that a topic log cannot hold; nothing was written.
            LogOutcomeUnknownError: no answer came to the commit, or another topic was created in this one's
                place meanwhile.
            LogUnreachableError, LogRefusedError: Kafka did not take it; nothing was written.
            LogNotFoundError: the topic is gone, or another one was created in its place; nothing was written.
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
                # So the client may also speak of a topic that is gone; the cluster knows.
                with suppress(LogStorageError):
                    self._require(identity, "nothing was written", age_s=0)
            raise
        try:
            self._require(identity, "the records may be in the new one", age_s=0)
        except LogNotFoundError as error:
            raise LogOutcomeUnknownError(str(error)) from error
        except LogStorageError:
            pass  # it is committed; up to where, is not known while the cluster is out of reach
        return end_offset

    def close(self) -> None:
        """Close the clients, end a ``wait``. Idempotent."""
        self._closing.set()
        with self._reading:
            self._reader.close()

    def _check_held_up(self, batches: Sequence[LogBatch]) -> None:
        """Say why nothing is returned, once that has been so for some time."""
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
                f"{self.url}: what is committed below offset {held_back_at} cannot be read to its end: "
                + found.described(self._where)
            )

    def _check_identity(self, age_s: float) -> None:
        """Know which log it is, at most so old. Another one is looked at, and read, from scratch."""
        if age_s and time.monotonic() - self._checked_at_s < age_s:
            return
        if self._admin.topic_id() == self._identity.topic_id:
            self._checked_at_s = time.monotonic()
        else:
            self._checked_at_s = -math.inf  # until the look went well
            self._reader.reset()
            self._load_topic()

    def _require(self, identity: LogIdentity, outcome: str, age_s: float = _IDENTITY_AGE_S_MAX) -> None:
        """Refuse to write into another topic than ``identity``, as far as that can be known."""
        if age_s and self._identity == identity and time.monotonic() - self._checked_at_s < age_s:
            return
        topic_id = self._admin.topic_id()
        if topic_id != identity.topic_id:
            self._checked_at_s = -math.inf  # the next append asks again
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
