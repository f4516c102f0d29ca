"""PollStore: the log of aclog's own that holds what brokers answered, and when they last did.

A directory log, and beside its segments the file ``last-poll``: when the last answer was asked for, in
milliseconds since the epoch of Unix. One opening writes it; the others read what that one keeps.

Ids are UUIDv5 of the content, as brokers do not say theirs. The cluster's metadata.version, and what the
binaries of its brokers support of it, are kept as the records that a cluster's own log has of them: so the
release whose rules are followed is known after a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from records.codecs.kraft import encode_frame
from records.entries import (
    METADATA_VERSION_FEATURE,
    REGISTER_BROKER_API_KEY,
    UNREGISTER_BROKER_API_KEY,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import LogError, LogLockedError, LogStorageError
from records.ids import content_uuid
from records.log.directory import DirectoryLog
from records.log.directory.files import storage_errors, write_file
from records.log.directory.identity import is_own
from records.log.protocol.answers import ClusterLevels
from records.transactions import Marker, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from records.entries import AclContent, MetadataRecord, SupportedLevels
    from records.ids import Uuid
    from records.log.protocol.answers import DescribedAcls

LAST_POLL_FILE: Final = "last-poll"

#: Above this the changes of one poll are a transaction of several batches; a batch has 8 MiB at most.
_BATCH_BYTES: Final = 4 * 1024 * 1024
#: What a record takes in a batch besides its value.
_RECORD_BYTES: Final = 32


class PollStore:
    """One thread takes answers; the rest is for all.

    Attributes:
        log: to read.
        is_written_here: whether this opening is the one that takes answers.
        digest: of the answer that was taken last.
    """

    def __init__(self, directory: Path, log: DirectoryLog, *, is_written_here: bool) -> None:
        """An open log; one to be written is read once, for what is in force."""
        self.log = log
        self.is_written_here = is_written_here
        self.digest = b""
        self._directory = directory
        self._acls: set[AclContent] = set()
        self._metadata = ClusterLevels(None, {})
        if is_written_here:
            self._replay()

    @classmethod
    def find(cls, directory: Path) -> PollStore | None:
        """What is kept there, to write it if nobody else does; None if nothing is.

        Raises:
            LogError: something else is there, it is damaged, or the operating system refused.
        """
        with storage_errors(directory):
            if not is_own(directory):
                return None
        try:
            return cls.make(directory, None)
        except (LogLockedError, LogStorageError):  # another opening writes it, or this user may not
            log = DirectoryLog.open(directory)
            _require_polls(directory, log)
            return cls(directory, log, is_written_here=False)

    @classmethod
    def make(cls, directory: Path, cluster_id: str | None) -> PollStore:
        """The log there, new or not, to write it; ``cluster_id``: of the cluster that is asked.

        Raises:
            LogLockedError: another opening writes it.
            LogError: it is another cluster's, or another kind of log.
        """
        log = DirectoryLog.open(directory, mode="create", cluster_id=cluster_id)
        try:
            _require_polls(directory, log)
            kept = cls(directory, log, is_written_here=True)
            if kept.answered_at_ms() is None:
                kept._say(0)  # by this file a log of polls is known
        except BaseException:
            log.close()
            raise
        return kept

    @property
    def brokers(self) -> Mapping[int, SupportedLevels]:
        """What the brokers' binaries support, by broker id."""
        return self._metadata.brokers

    def take(self, answer: DescribedAcls, levels: ClusterLevels | None, asked_ms: int) -> None:
        """A broker's whole answer: append what differs from what is kept, and when it was asked for it.

        ``levels``: of the cluster's metadata.version; None: they were not asked for this time.

        Raises:
            LogError: it could not be written; the log is to be opened anew, and shows nothing or all of it.
        """
        acls = self._acls if answer.acls is None else set(answer.acls)
        gone, new = self._acls - acls, acls - self._acls
        removed = [RemoveAccessControlEntryRecord(content_uuid(acl)) for acl in sorted(gone)]
        added = [AccessControlEntryRecord(content_uuid(acl), *acl) for acl in sorted(new)]
        metadata = self._metadata if levels is None else levels
        differing = list(_level_records(self._metadata, metadata))
        if differing or removed or added:
            self.log.append_batches((batch, None) for batch in _batches([*differing, *removed, *added]))
        self._acls, self._metadata, self.digest = acls, metadata, answer.digest
        self._say(asked_ms)

    def answered_at_ms(self) -> int | None:
        """When a broker was asked that answered last, by the machine's clock; None: never.

        Raises:
            LogStorageError: that cannot be read.
        """
        path = self._directory / LAST_POLL_FILE
        with storage_errors(path):
            try:
                text = path.read_text(encoding="utf-8").strip()
            except FileNotFoundError:
                return None
        return int(text) or None if text.isascii() and text.isdigit() else None

    def close(self) -> None:
        """Idempotent."""
        self.log.close()

    def _say(self, at_ms: int) -> None:
        with storage_errors(self._directory):
            write_file(self._directory / LAST_POLL_FILE, f"{at_ms}\n")

    def _replay(self) -> None:
        """Know which ACLs are in force; a transaction that a crash left open is ended."""
        log, offset = self.log, self.log.start_offset()
        there = _Replayed()
        transaction: Transaction[object] = Transaction()
        while batches := log.read(offset):
            for batch in batches:
                for logged in batch.records:
                    record = logged.record
                    if isinstance(record, Marker):
                        for hidden in transaction.mark(record):
                            there.apply(hidden)
                    elif transaction.is_open:
                        transaction.hide([record])
                    else:
                        there.apply(record)
            offset = batches[-1].end_offset
        self._acls = set(there.acls.values())
        self._metadata = ClusterLevels(there.metadata_version, there.brokers)
        if transaction.is_open:
            log.append([AbortTransactionRecord("the answer was not written whole")])


class _Replayed:
    """What the records of a kept log add up to."""

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
    """What leads from the one to the other."""
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
            f"{directory}: a log that no polls are kept in (there is no {LAST_POLL_FILE}); name another "
            "directory"
        )


def _batches(records: Sequence[MetadataRecord]) -> Iterator[Sequence[MetadataRecord]]:
    """One batch, or a transaction of as many as it takes."""
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
