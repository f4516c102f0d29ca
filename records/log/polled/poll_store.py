"""PollStore: the aclog-managed log of polled ACLs, and the time of the last poll.

A directory log with one more file, ``last-poll``: when the last answer was requested, in milliseconds since
the Unix epoch. One process writes it; the others read.

Ids are UUIDv5 of the content, as brokers do not report their own. The cluster's metadata.version, and the
levels that the binaries of its brokers support, are stored as the records of a cluster's metadata log. So the
release whose rules apply is known after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from records.codecs.kraft import encode_frame
from records.entries import (
    METADATA_VERSION_FEATURE,
    REGISTER_BROKER_API_KEY,
    UNREGISTER_BROKER_API_KEY,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    AclContent,
    BeginTransactionRecord,
    BrokerRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    SupportedLevels,
)
from records.errors import LogError, LogLockedError, LogStorageError
from records.ids import Uuid, content_uuid
from records.log.directory import DirectoryLog
from records.log.directory.files import storage_errors, write_file
from records.log.directory.identity import is_managed
from records.log.protocol.response_values import ClusterLevels, DescribedAcls
from records.transactions import Transaction

LAST_POLL_FILE: Final = "last-poll"

#: Above this the changes of one poll are a metadata transaction; a batch has 8 MiB at most.
_BATCH_BYTES: Final = 4 * 1024 * 1024
#: Overhead of a record in a batch.
_RECORD_BYTES: Final = 32


class PollStore:
    """One thread saves; the other methods are thread-safe."""

    def __init__(self, directory: Path, log: DirectoryLog, *, is_writable: bool) -> None:
        """Take an open log; a writable one is replayed once."""
        self.log = log
        self.is_writable = is_writable
        self.digest = b""
        self._directory = directory
        self._acls: set[AclContent] = set()
        self._metadata = ClusterLevels(None, {})
        if is_writable:
            self._replay()

    @classmethod
    def open_existing(cls, directory: Path) -> PollStore | None:
        """Open the store there, writable unless another process writes it; None if there is none.

        Raises:
            LogError: something else is there, it is damaged, or the operating system denied access.
        """
        with storage_errors(directory):
            if not is_managed(directory):
                return None
        try:
            return cls.open_or_create(directory, None)
        except (LogLockedError, LogStorageError):  # another process writes it, or this user may not
            log = DirectoryLog.open(directory)
            _require_polls(directory, log)
            return cls(directory, log, is_writable=False)

    @classmethod
    def open_or_create(cls, directory: Path, cluster_id: str | None) -> PollStore:
        """Open the store there to write it, or create one, for this cluster.

        Raises:
            LogLockedError: another process writes it.
            LogError: it belongs to another cluster, or is another kind of log.
        """
        log = DirectoryLog.open(directory, mode="create", cluster_id=cluster_id)
        try:
            _require_polls(directory, log)
            store = cls(directory, log, is_writable=True)
            if store.last_poll_ms() is None:
                store._write_poll_time(0)  # this file identifies a log of polls
        except BaseException:
            log.close()
            raise
        return store

    @property
    def brokers(self) -> Mapping[int, SupportedLevels]:
        return self._metadata.brokers

    def save(self, answer: DescribedAcls, levels: ClusterLevels | None, requested_ms: int) -> None:
        """Append the differences to the stored ACLs, and record when they were requested.

        ``levels``: of the cluster's metadata.version; None: not requested this time.

        Raises:
            LogError: the write failed. Open the store again: it has all of the poll, or nothing.
        """
        acls = self._acls if answer.acls is None else set(answer.acls)
        removed_acls, added_acls = self._acls - acls, acls - self._acls
        removed = [RemoveAccessControlEntryRecord(content_uuid(acl)) for acl in sorted(removed_acls)]
        added = [AccessControlEntryRecord(content_uuid(acl), *acl) for acl in sorted(added_acls)]
        metadata = self._metadata if levels is None else levels
        differing = list(_level_records(self._metadata, metadata))
        if differing or removed or added:
            self.log.append_batches((batch, None) for batch in _batches([*differing, *removed, *added]))
        self._acls, self._metadata, self.digest = acls, metadata, answer.digest
        self._write_poll_time(requested_ms)

    def last_poll_ms(self) -> int | None:
        """Time of the last answered request, by the wall clock; None: never."""
        path = self._directory / LAST_POLL_FILE
        with storage_errors(path):
            try:
                text = path.read_text(encoding="utf-8").strip()
            except FileNotFoundError:
                return None
        return int(text) or None if text.isascii() and text.isdigit() else None

    def close(self) -> None:
        self.log.close()

    def _write_poll_time(self, at_ms: int) -> None:
        with storage_errors(self._directory):
            write_file(self._directory / LAST_POLL_FILE, f"{at_ms}\n")

    def _replay(self) -> None:
        """Compute the ACLs in force; abort a transaction that a crash left open."""
        log, offset = self.log, self.log.start_offset()
        there = _Replayed()
        transaction: Transaction[object] = Transaction()
        while batches := log.read(offset):
            for batch in batches:
                for logged in batch.records:
                    for record in transaction.take(logged.record, logged.record):
                        there.apply(record)
            offset = batches[-1].end_offset
        self._acls = set(there.acls.values())
        self._metadata = ClusterLevels(there.metadata_version, there.brokers)
        if transaction.is_open:
            log.append([AbortTransactionRecord("the poll was not written completely")])


class _Replayed:
    """State of a store, from its records. No record replaces an ACL (I8), as ids are of the content."""

    def __init__(self) -> None:
        self.acls: dict[Uuid, AclContent] = {}
        self.brokers: dict[int, SupportedLevels] = {}
        self.metadata_version: int | None = None

    def apply(self, record: object) -> None:
        match record:
            case AccessControlEntryRecord():
                self.acls[record.id] = record.content
            case RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case BrokerRecord(broker_id=broker_id, levels=levels):
                self.brokers.pop(broker_id, None)
                if levels is not None:
                    self.brokers[broker_id] = levels
            case FeatureLevelRecord(name="metadata.version", level=level):
                self.metadata_version = level or None


def _level_records(before: ClusterLevels, after: ClusterLevels) -> Iterator[MetadataRecord]:
    """Records that lead from one state to the other."""
    if before.metadata_version != after.metadata_version:
        yield FeatureLevelRecord(METADATA_VERSION_FEATURE, after.metadata_version or 0)
    for broker_id in sorted(before.brokers.keys() | after.brokers.keys()):
        levels = after.brokers.get(broker_id)
        if levels != before.brokers.get(broker_id):
            api_key = UNREGISTER_BROKER_API_KEY if levels is None else REGISTER_BROKER_API_KEY
            yield BrokerRecord(api_key, 0, broker_id, levels)


def _require_polls(directory: Path, log: DirectoryLog) -> None:
    if log.high_watermark() and not (directory / LAST_POLL_FILE).exists():
        raise LogError(
            f"{directory}: the log there holds no polls ({LAST_POLL_FILE} is missing): name another directory"
        )


def _batches(records: Sequence[MetadataRecord]) -> Iterator[Sequence[MetadataRecord]]:
    """One batch, or a metadata transaction of several."""
    sizes = [len(encode_frame(record)) + _RECORD_BYTES for record in records]
    if sum(sizes) <= _BATCH_BYTES:
        yield records
        return
    yield [BeginTransactionRecord("a poll")]
    piece: list[MetadataRecord] = []
    size_bytes = 0
    for record, size in zip(records, sizes, strict=True):
        if piece and size_bytes + size > _BATCH_BYTES:
            yield piece
            piece, size_bytes = [], 0
        piece.append(record)
        size_bytes += size
    yield piece
    yield [EndTransactionRecord()]
