"""Steps: what became visible in a log, one change after another, of selected ACLs.

The rules are the core's, for callers that need each state that a log went through: a batch, or a metadata
transaction (KIP-868), becomes visible atomically (I2); after a gap (I6) nothing is known before the high
watermark. Records that are not selected are not made into objects: a long log is scanned as fast as it is
decoded.
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
from records.log.base import read_with_retry
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


class RecordFilter(Protocol):
    """Selects ACLs.

    ``needs_broker_records``: whether registrations of brokers and levels of features are selected, too.
    """

    @property
    def needs_broker_records(self) -> bool: ...

    def is_related(self, record: AccessControlEntryRecord) -> bool:
        """Whether this ACL is selected."""

    def rows(self, table: AclTable) -> npt.NDArray[np.bool_]:
        """Whether each row is selected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A change that became visible atomically.

    Attributes:
        end_offset: one past the last offset of the batch that made it visible.
        records: of selected ACLs, in order: those that create, replace or remove them; and
            of brokers, if selected.
        unknown_from: offset of the first missing record before it (I6): what was visible
            between there and here is unknown.
    """

    end_offset: int
    records: tuple[LogRecord, ...]
    unknown_from: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The first known state of a log.

    Attributes:
        image: the state; empty at the log's start.
        origin: a snapshot's name, or ``the log's start``.
    """

    image: AclsImage
    origin: str
    end: int

    @property
    def is_whole(self) -> bool:
        """Whether it is the log's start."""
        return self.origin == LOG_START


def first_state(log: MetadataLog, snapshots: Sequence[SnapshotSource], clock: Clock) -> Beginning:
    """A log's start, or the oldest snapshot from which the log is complete.

    Raises:
        LogGapError: the log does not start at 0, and no snapshot covers what is missing.
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
    record_filter: RecordFilter | None,
    ids: Iterable[Uuid],
    on_progress: Callable[[int, int], None],
) -> Iterator[Step]:
    """Iterate over the changes after the first state, up to its end.

    Args:
        log: to read.
        beginning: the first state.
        record_filter: selects ACLs; None: all of them, and brokers.
        ids: of the selected ACLs in force at the beginning; ignored if all are selected.
        on_progress: called after each read with the next offset and the end.

    Raises:
        DecodeError: a record cannot be decoded (I7).
        InvariantError: the log contradicts itself.
        LogChangedError: it was trimmed or truncated while it was read.
        LogError, OSError: it cannot be read.
    """
    scan = _Scan(beginning, record_filter, ids)
    try:
        while scan.position < beginning.end and (batches := read_with_retry(log, scan.position)):
            for batch in batches:
                if batch.base_offset >= beginning.end:
                    break
                if (step := scan.step(batch)) is not None:
                    yield step
            on_progress(scan.position, beginning.end)
    except OffsetOutOfRangeError as error:
        raise LogChangedError(f"{log.url} was trimmed or truncated while it was read: {error}") from error
    if scan.unknown_from is not None:
        raise ReplayError(
            f"records of {log.url} from offset {scan.unknown_from} on are missing, and a metadata "
            "transaction is open at its end: its state is unknown"
        )


class _Scan:
    """Position in the log, and records that are not visible yet; ``unknown_from`` as in `Step`."""

    def __init__(self, beginning: Beginning, record_filter: RecordFilter | None, ids: Iterable[Uuid]) -> None:
        self.position = beginning.image.provenance.end_offset
        self._end = beginning.end
        self._filter = record_filter
        # Ids of all ACLs that ever were selected: later records with these ids may replace or remove them.
        self._ids = set(ids)
        self._transaction = Transaction[LogRecord]()
        self._waiting: list[LogRecord] = []
        self.unknown_from: int | None = None
        # The last table, and its selected rows.
        self._table: RecordTable | None = None
        self._rows: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def step(self, batch: LogBatch) -> Step | None:
        """Take a batch; return the change that it makes visible, if any."""
        if batch.end_offset <= self.position:
            return None
        missing = batch.end_offset - self.position - self._count(batch)
        if missing and self.unknown_from is None:
            self.unknown_from = self.position
        for logged in self._select(batch):
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
        """Number of new records."""
        if batch.base_offset >= self.position:
            return len(batch.records)
        return sum(logged.offset >= self.position for logged in batch.records)

    def _select(self, batch: LogBatch) -> Iterable[LogRecord]:
        """Selected records, and markers of transactions."""
        records = batch.records
        if isinstance(records, tuple) or records.has_markers:
            return [logged for logged in records if self._is_selected(logged.record)]
        return self._selected_records(cast("TableRecords", records))  # there is no other kind

    def _is_selected(self, record: object) -> bool:
        match record:
            case AccessControlEntryRecord():
                if self._filter is not None and self._filter.is_related(record):
                    self._ids.add(record.id)
                return self._filter is None or record.id in self._ids
            case RemoveAccessControlEntryRecord():
                return self._filter is None or record.id in self._ids
            case BrokerRecord() | FeatureLevelRecord():
                return self._filter is None or self._filter.needs_broker_records
            case _:
                return type(record) in TRANSACTION_MARKERS

    def _selected_records(self, records: TableRecords) -> Iterator[LogRecord]:
        for table, first, end in records.parts:
            if table is not self._table:
                self._select_rows(table)
            begin, stop = np.searchsorted(self._rows, (first, end)).tolist()
            for row in self._rows[begin:stop].tolist():
                (record,) = table.records(row, row + 1)
                yield LogRecord(table.offsets.item(row), table.timestamps_ms.item(row), record)

    def _select_rows(self, table: RecordTable) -> None:
        """Select the rows of a table: mostly none."""
        self._table = table
        rows = [np.empty(0, np.int64), *self._acls_of(table)]
        if self._filter is None or self._filter.needs_broker_records:
            kinds = BrokerRecord, FeatureLevelRecord
            found = [row for row, record in table.other_records.items() if isinstance(record, kinds)]
            rows.append(np.array(found, np.int64))
        self._rows = np.sort(np.concatenate(rows))

    def _acls_of(self, table: RecordTable) -> list[npt.NDArray[np.int64]]:
        """Selected rows of ACLs, and of removals."""
        if self._filter is None:
            return [table.acls, table.removals]
        acls = table.table
        is_wanted = self._filter.rows(acls)
        self._ids.update(acls.id_array[is_wanted].tolist())
        if not self._ids:
            return []
        ids = b"".join(self._ids)
        return [table.acls[has_id(acls.ids, ids)], table.removals[has_id(table.removal_ids, ids)]]
