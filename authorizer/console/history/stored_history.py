"""Past states from the history that ``aclog spark changes`` stores (``aclog.console.history``).

Starting from a known state, the stored changes are undone backwards. Each must match the state that it is
undone on, so a history that does not fit the log is rejected. The Parquet files are read without Spark.

In a coarse span (``coverage``) only the states at its bounds are known. The history stores records, not
batches, so a batch of several records may give several states.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from authorizer.console.history.history_states import EARLIER_ROWS_MAXIMUM, Change, HistoryState, StoredStates
from records.columns.acl_table import AppliedAcl
from records.entries import RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log.base import LogIdentity
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.errors import HistoryMissingError, SnapshotCorruptError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.changes.change_files import CHANGES, HistoryFile, history_files, state_url
from snapshot.jobs.changes.change_table import record_from_row
from snapshot.jobs.changes.coverage import Coverage, read_coverage
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage

#: Limits: retained states and changes, bytes of one batch's files, and the time of a read.
STATES_MAXIMUM: Final = 20_000
CHANGES_MAXIMUM: Final = 200_000
BATCH_BYTES_MAXIMUM: Final = 32 * 1024 * 1024
READ_TIMEOUT_S: Final = 20.0
_ROWS_PER_SLICE: Final = 1_000


class _Row(NamedTuple):
    offset: int
    timestamp_ms: int
    id: Uuid
    before: AppliedAcl | None
    after: AppliedAcl | None


def read_stored_states(output: str, identity: LogIdentity, joined: HistoryState) -> StoredStates:
    """Return the stored states before a known state of the log; HistoryMissingError: none are stored."""
    storage = Storage(output)
    coverage = read_coverage(storage, identity.cluster_id)
    state = None
    if coverage is not None and coverage.identity == identity:
        state = SnapshotStore(state_url(output)).newest_complete(identity)
    if coverage is None or state is None:
        raise HistoryMissingError(f"{storage.shown('')} holds no history of this log")
    if coverage.begin_offset >= joined.end_offset:
        raise HistoryMissingError(
            f"Spark's history begins at offset {coverage.begin_offset}, after the log's first known state"
        )
    end = state.provenance.end_offset
    if end >= joined.end_offset:
        return _UndoChanges(coverage, joined.image, joined).undo_all(
            _rows(storage, coverage, joined.end_offset)
        )
    known = SnapshotStore(state_url(output)).read(state.ref, identity).image
    return _UndoChanges(coverage, known, joined).undo_all(_rows(storage, coverage, end))


class _UndoChanges:
    def __init__(self, coverage: Coverage, known: AclsImage, joined: HistoryState) -> None:
        self._coverage = coverage
        self._joined = joined
        self._image = known
        self._states: list[HistoryState] = []  # the newest first
        self._changes = 0
        self._rows = 0  # of columns created so far
        self._undo = AclsDelta(known)
        self._offsets: dict[Uuid, int] = {}  # of the last record of each ACL in the state that is undone
        #: Of the state that is being undone: its end, time and first missing record.
        self._end = known.provenance.end_offset
        self._time_ms = known.provenance.timestamp_ms
        self._unknown_from: int | None = None

    def undo_all(self, rows: Iterator[_Row | str]) -> StoredStates:
        """Undo the changes, the newest first; a text instead of a row says reason there are no more."""
        reason, begin = "", self._coverage.begin_offset
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        for row in rows:
            if isinstance(row, str):
                reason = row
                break
            end, unknown_from = self._state_end(row.offset + 1)
            if end != self._end:
                self._close(end, row.timestamp_ms)
                if self._is_full() or time.monotonic() >= deadline_s:
                    reason = "older parts of Spark's history are not read here"
                    break
            self._unknown_from = unknown_from if unknown_from is not None else self._unknown_from
            now = self._undo.get(row.id)
            if (now and now.record) != (row.after and row.after.record):
                reason = f"Spark's history and the log differ at offset {row.offset}"
                break
            self._offsets.setdefault(row.id, row.offset)
            if row.before is None:
                removal = RemoveAccessControlEntryRecord(row.id)
                self._undo.replay(LogRecord(row.offset, row.timestamp_ms, removal))
            else:
                self._undo.put(row.before)
        else:
            self._close(begin, self._coverage.begin_time_ms)
        return self._result(reason, is_complete=not reason and begin == 0)

    def _is_full(self) -> bool:
        return (
            len(self._states) >= STATES_MAXIMUM
            or self._changes >= CHANGES_MAXIMUM
            or self._rows > EARLIER_ROWS_MAXIMUM
        )

    def _state_end(self, end: int) -> tuple[int, int | None]:
        """The end of the coarse span that contains ``end``, with its start; else ``end`` itself."""
        for start, until in self._coverage.coarse:
            if start < end < until:
                return min(until, self._joined.end_offset), start
        return end, None

    def _close(self, end: int, time_ms: int) -> None:
        """Finish a state; the state before it ends at ``end``."""
        pairs = tuple(
            Change(old, new, self._offsets.get(acl.record.id))
            for new, old in self._undo.changed()
            if new != old and (acl := new or old) is not None
        )
        self._states.append(self._state(pairs))
        self._changes += len(pairs)
        last, self._image = self._image, self._undo.apply(Provenance(end, 0, time_ms))
        if self._image.columns is not last.columns:
            self._rows += len(self._image.columns)
        self._undo, self._offsets = AclsDelta(self._image), {}
        self._end, self._time_ms, self._unknown_from = end, time_ms, None

    def _state(self, changes: tuple[Change, ...]) -> HistoryState:
        image = msgspec.structs.replace(self._image, provenance=Provenance(self._end, 0, self._time_ms))
        added = sum(each.after is not None for each in changes)
        return HistoryState(image, self._time_ms, changes, added, len(changes) - added, self._unknown_from)

    def _result(self, reason: str, *, is_complete: bool) -> StoredStates:
        # The first state is known; the changes that led to it are not.
        states = [self._state(())._replace(unknown_from=None), *reversed(self._states)]
        joined = self._joined
        if states[-1].end_offset == joined.end_offset:
            last = states.pop()
            joined = joined._replace(
                changes=last.changes,
                added=last.added,
                removed=last.removed,
                unknown_from=last.unknown_from,
                first_record=None,  # the history does not store batches
            )
        else:
            delta = AclsDelta.between(states[-1].image, joined.image)
            changes = tuple(
                Change(old, new, None if new is None else new.offset)
                for old, new in delta.changed()
                if old != new
            )
            added = sum(each.after is not None for each in changes)
            joined = joined._replace(
                changes=changes if len(changes) <= CHANGES_MAXIMUM else None,
                added=added,
                removed=len(changes) - added,
                unknown_from=states[-1].end_offset,
                first_record=None,
            )
        return StoredStates(tuple(states), joined, reason or "Spark's history begins there", is_complete)


def _rows(storage: Storage, coverage: Coverage, end: int) -> Iterator[_Row | str]:
    """All changes below an offset, the newest first; a text if older ones are not read here."""
    batches: dict[tuple[int, int], list[HistoryFile]] = {}
    for file in history_files(storage, coverage.cluster_id):
        if file.path.startswith(f"{CHANGES}/") and file.start < end:
            batches.setdefault((file.start, file.end), []).append(file)
    for offsets in sorted(batches, reverse=True):
        files = batches[offsets]
        if sum(file.size_bytes for file in files) > BATCH_BYTES_MAXIMUM:
            yield (
                "older parts of Spark's history are not read here: the files of one batch are too large "
                "(`aclog spark history` reads them)"
            )
            return
        for row in _rows_of(storage, files):
            if row["offset"] < end and row["topic_id"] == coverage.topic_id:
                yield _row(row)


def _rows_of(storage: Storage, files: Sequence[HistoryFile]) -> Iterator[Mapping[str, Any]]:
    """Raises SnapshotError: a file cannot be read, or is damaged."""
    tables = []
    for file in files:
        try:
            tables.append(pq.read_table(pa.BufferReader(storage.read(file.path))))
        except (pa.ArrowException, OSError) as error:
            raise SnapshotCorruptError(
                f"{storage.shown(file.path)} is not a table of changes: {error}"
            ) from error
    try:
        rows = pa.concat_tables(tables).sort_by([("offset", "descending"), ("id", "descending")])
    except (pa.ArrowException, KeyError) as error:
        shown = storage.shown(files[0].path)
        raise SnapshotCorruptError(f"{shown} is not a table of changes: {error}") from error
    for start in range(0, len(rows), _ROWS_PER_SLICE):
        yield from rows.slice(start, _ROWS_PER_SLICE).to_pylist()


def _row(row: Mapping[str, Any]) -> _Row:
    acl_id = Uuid(row["id"])
    before, after = (None if row[side] is None else _acl(acl_id, row[side]) for side in ("before", "after"))
    return _Row(row["offset"], row["timestamp_ms"], acl_id, before, after)


def _acl(acl_id: Uuid, row: Mapping[str, Any]) -> AppliedAcl:
    return AppliedAcl(record_from_row(acl_id, row), row["offset"], row["timestamp_ms"])
