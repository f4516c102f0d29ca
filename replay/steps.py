"""Steps: what became visible of a log, one after another, of the ACLs that are looked for.

The same rules as the core's, for who wants each state that a log went through and not the last one alone: a
batch, or a metadata transaction (KIP-868), becomes visible whole (I2); behind a gap (I6) nothing is known
before the high watermark. Records that have nothing to do with the ACLs that are looked for are not made
into objects: a long log is walked as fast as it is decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from records.entries import (
    TRANSACTION_MARKERS,
    AccessControlEntryRecord,
    BrokerRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import OffsetOutOfRangeError
from records.log.read_with_retry import read_with_retry
from records.log_batch import LogRecord
from records.transactions import MisplacedMarkerError, Transaction
from replay.core import LOG_START
from replay.errors import InvariantError, LogChangedError, LogGapError, ReplayError
from replay.recovery import recover
from snapshot.columns import has_id
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from records.columns.acl_table import AclTable
    from records.columns.record_table import RecordTable, TableRecords
    from records.ids import Uuid
    from records.log.base import MetadataLog
    from records.log_batch import LogBatch
    from replay.clock import Clock
    from replay.snapshot_source import SnapshotSource


class Wanted(Protocol):
    """Which ACLs are looked for.

    Attributes:
        wants_brokers: whether registrations of brokers and levels of features are, too.
    """

    @property
    def wants_brokers(self) -> bool: ...

    def is_wanted(self, record: AccessControlEntryRecord) -> bool:
        """Whether this is one."""

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        """The same of each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became visible at once.

    Attributes:
        end_offset: one past the last offset of the batch with which it did.
        records: of ACLs that are wanted, in order: those that put them in force, replace or remove them; and
            of brokers, where these are wanted.
        unknown_from: where records are missing before it (I6), the offset of the first one: what was visible
            between there and here is not known.
    """

    end_offset: int
    records: tuple[LogRecord, ...]
    unknown_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The first state of a log that is known.

    Attributes:
        image: the state; empty at the log's start.
        origin: a snapshot's name, or ``the log's start``.
        end: the log's high watermark, where its steps end.
    """

    image: AclsImage
    origin: str
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether there was nothing before it."""
        return self.origin == LOG_START


def first_state(log: MetadataLog, snapshots: Sequence[SnapshotSource], clock: Clock) -> Beginning:
    """A log's start, or the oldest snapshot from which on the log has everything.

    Raises:
        LogGapError: the log starts beyond everything that is left of its beginning.
        LogError, OSError: the log cannot be read.
    """
    sources = () if log.start_offset() == 0 else snapshots
    found = recover(log, sources, clock, oldest=True)
    if found.snapshot is None:
        if found.log_start:
            raise LogGapError(found.log_start, found.refused)
        return Beginning(image=AclsImage.EMPTY, origin=LOG_START, end=found.high_watermark)
    return Beginning(image=found.snapshot.image, origin=found.snapshot.origin, end=found.high_watermark)


def steps(
    log: MetadataLog,
    beginning: Beginning,
    wanted: Wanted | None,
    ids: Iterable[Uuid],
    on_progress: Callable[[int, int], None],
) -> Iterator[Step]:
    """What became visible after the beginning, up to its end.

    Args:
        log: to read.
        beginning: of it.
        wanted: which ACLs are looked for; None: all of them, and brokers.
        ids: of those of them that are in force at the beginning; of no account where all are wanted.
        on_progress: called after each read with the next offset and the end.

    Raises:
        DecodeError: a record cannot be decoded (I7).
        InvariantError: the log contradicts itself.
        LogChangedError: it was trimmed or truncated while it was read.
        LogError, OSError: it cannot be read.
    """
    walk = _Walk(beginning, wanted, ids)
    try:
        while walk.position < beginning.end and (batches := read_with_retry(log, walk.position)):
            for batch in batches:
                if batch.base_offset >= beginning.end:
                    break
                if (step := walk.step(batch)) is not None:
                    yield step
            on_progress(walk.position, beginning.end)
    except OffsetOutOfRangeError as error:
        raise LogChangedError(f"{log.url} was trimmed or truncated while it was read: {error}") from error
    if walk.unknown_from is not None:
        raise ReplayError(
            f"records of {log.url} from offset {walk.unknown_from} on are not there any more, and a metadata "
            "transaction is open at its end: its state is not known"
        )


class _Walk:
    """Where in the log, and what is not visible yet; ``unknown_from`` as in `Step`."""

    def __init__(self, beginning: Beginning, wanted: Wanted | None, ids: Iterable[Uuid]) -> None:
        self.position = beginning.image.provenance.end_offset
        self._end = beginning.end
        self._wanted = wanted
        # Of every ACL that ever was a wanted one: what is written under its id later on may take it away.
        self._ids = set(ids)
        self._transaction = Transaction[LogRecord]()
        self._waiting: list[LogRecord] = []
        self.unknown_from: int | None = None
        # Of the table that was looked at last: its rows that count, and what they are.
        self._table: RecordTable | None = None
        self._rows: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def step(self, batch: LogBatch) -> Step | None:
        """Pass a batch; what it makes visible, if that is anything."""
        if batch.end_offset <= self.position:
            return None
        missing = batch.end_offset - self.position - self._count(batch)
        if missing and self.unknown_from is None:
            self.unknown_from = self.position
        for logged in self._chosen(batch):
            if logged.offset < self.position:
                continue
            try:
                self._waiting += self._transaction.take(logged, logged.record)
            except MisplacedMarkerError as error:
                raise InvariantError(f"a {error}", offset=logged.offset) from error
        self.position = batch.end_offset
        if self._transaction.is_open or (self.unknown_from is not None and self.position < self._end):
            return None
        if not self._waiting and self.unknown_from is None:
            return None
        step = Step(end_offset=self.position, records=tuple(self._waiting), unknown_from=self.unknown_from)
        self._waiting, self.unknown_from = [], None
        return step

    def _count(self, batch: LogBatch) -> int:
        """How many of its records are new."""
        if batch.base_offset >= self.position:
            return len(batch.records)
        return sum(logged.offset >= self.position for logged in batch.records)

    def _chosen(self, batch: LogBatch) -> Iterable[LogRecord]:
        """Its records that have to do with what is wanted, and markers of transactions."""
        records = batch.records
        if isinstance(records, tuple) or records.has_markers:
            return [logged for logged in records if self._counts(logged.record)]
        return self._of_tables(cast("TableRecords", records))  # there is no other kind

    def _counts(self, record: object) -> bool:
        match record:
            case AccessControlEntryRecord():
                if self._wanted is not None and self._wanted.is_wanted(record):
                    self._ids.add(record.id)
                return self._wanted is None or record.id in self._ids
            case RemoveAccessControlEntryRecord():
                return self._wanted is None or record.id in self._ids
            case BrokerRecord() | FeatureLevelRecord():
                return self._wanted is None or self._wanted.wants_brokers
            case _:
                return type(record) in TRANSACTION_MARKERS

    def _of_tables(self, records: TableRecords) -> Iterator[LogRecord]:
        for table, first, end in records.parts:
            if table is not self._table:
                self._look_at(table)
            begin, stop = np.searchsorted(self._rows, (first, end)).tolist()
            for row in self._rows[begin:stop].tolist():
                (record,) = table.records(row, row + 1)
                yield LogRecord(table.offsets.item(row), table.timestamps_ms.item(row), record)

    def _look_at(self, table: RecordTable) -> None:
        """Which rows of a table count: mostly none, and so for a whole read."""
        self._table = table
        rows = [np.empty(0, np.int64), *self._acls_of(table)]
        if self._wanted is None or self._wanted.wants_brokers:
            kinds = BrokerRecord, FeatureLevelRecord
            found = [row for row, record in table.others.items() if isinstance(record, kinds)]
            rows.append(np.array(found, np.int64))
        self._rows = np.sort(np.concatenate(rows))

    def _acls_of(self, table: RecordTable) -> list[npt.NDArray[np.int64]]:
        """The rows of ACLs that count, and those of removals."""
        if self._wanted is None:
            return [table.acls, table.removals]
        acls = table.table
        is_wanted = self._wanted.rows(acls)
        self._ids.update(acls.id_array[is_wanted].tolist())
        if not self._ids:
            return []
        ids = b"".join(self._ids)
        return [table.acls[has_id(acls.ids, ids)], table.removals[has_id(table.removal_ids, ids)]]
