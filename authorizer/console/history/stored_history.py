"""Moments that the log has forgotten and ``aclog spark changes`` has kept (``aclog.console.history``).

They are found from a state that is known, backwards: each change that the history tells is undone, and must
be one that leads to the state that is there. So only what fits is believed, and no more is read than is held.
The history's Parquet files are read by themselves, without Spark.

Where the history is coarse (``coverage``), only the states at the bounds of such a span are moments; and the
history knows records, not batches, so a batch of several may be as many moments here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from authorizer.console.history.history_states import EARLIER_ROWS_MAXIMUM, Change, HistoryState, StoredStates
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.code_names import code_from_name
from snapshot.delta import AclsDelta
from snapshot.errors import HistoryMissingError, SnapshotCorruptError
from snapshot.image import Provenance
from snapshot.jobs.changes.change_files import CHANGES, history_files, state_url
from snapshot.jobs.changes.coverage import read_coverage
from snapshot.store.committed import committed_state
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from records.log.base import LogIdentity
    from snapshot.image import AclsImage
    from snapshot.jobs.changes.change_files import HistoryFile
    from snapshot.jobs.changes.coverage import Coverage

#: Moments and changes that are held at most; the largest batch's files that are read; and for how long.
STATES_MAXIMUM: Final = 20_000
CHANGES_MAXIMUM: Final = 200_000
BATCH_BYTES_MAXIMUM: Final = 32 * 1024 * 1024
READ_S: Final = 20.0
_ROWS_AT_ONCE: Final = 1_000


class _Row(NamedTuple):
    """One change."""

    offset: int
    timestamp_ms: int
    id: Uuid
    before: AppliedAcl | None
    after: AppliedAcl | None


def read_stored_states(output: str, identity: LogIdentity, joined: HistoryState) -> StoredStates:
    """What the history of a log tells of the time before a moment.

    Args:
        output: of the job, a path or a URL that fsspec knows.
        identity: the log.
        joined: a state that is known to be the log's.

    Raises:
        HistoryMissingError: there is none of this log.
        SnapshotError: it cannot be read, or is damaged.
    """
    storage = Storage(output)
    coverage = read_coverage(storage, identity.cluster_id)
    state = None
    if coverage is not None and coverage.identity == identity:
        state = committed_state(state_url(output), identity)
    if coverage is None or state is None:
        raise HistoryMissingError(f"{storage.shown('')} holds no history of this log")
    if coverage.begin_offset >= joined.end_offset:
        raise HistoryMissingError(
            f"Spark's history begins at offset {coverage.begin_offset}, after what the log tells by itself"
        )
    end = state.provenance.end_offset
    if end >= joined.end_offset:
        return _UndoChanges(coverage, joined.image, joined).all(_rows(storage, coverage, joined.end_offset))
    known = SnapshotStore(state_url(output)).read(state.ref, identity).image
    return _UndoChanges(coverage, known, joined).all(_rows(storage, coverage, end))


class _UndoChanges:
    """The way back from a state, moment by moment."""

    def __init__(self, coverage: Coverage, known: AclsImage, joined: HistoryState) -> None:
        self._coverage = coverage
        self._joined = joined
        self._image = known
        self._moments: list[HistoryState] = []  # the newest first
        self._changes = 0
        self._rows = 0  # of columns that were made on the way
        self._undo = AclsDelta(known)
        self._offsets: dict[Uuid, int] = {}  # of the last record of each ACL in the moment that is undone
        #: Of the moment that is being undone: its end and time, and where it is unknown from.
        self._end = known.provenance.end_offset
        self._time_ms = known.provenance.timestamp_ms
        self._unknown_from: int | None = None

    def all(self, rows: Iterator[_Row | str]) -> StoredStates:
        """Undo what they tell, the newest first; a text says why there are no more."""
        why, begin = "", self._coverage.begin_offset
        ends_s = time.monotonic() + READ_S
        for row in rows:
            if isinstance(row, str):
                why = row
                break
            end, unknown_from = self._place(row.offset + 1)
            if end != self._end:
                self._close(end, row.timestamp_ms)
                if self._is_full() or time.monotonic() >= ends_s:
                    why = "no more of Spark's history is read here"
                    break
            self._unknown_from = unknown_from if unknown_from is not None else self._unknown_from
            now = self._undo.get(row.id)
            if (now and now.record) != (row.after and row.after.record):
                why = f"Spark's history tells something else of offset {row.offset} than the log"
                break
            self._offsets.setdefault(row.id, row.offset)
            if row.before is None:
                gone = RemoveAccessControlEntryRecord(row.id)
                self._undo.replay(LogRecord(row.offset, row.timestamp_ms, gone))
            else:
                self._undo.put(row.before)
        else:
            self._close(begin, self._coverage.begin_time_ms)
        return self._kept(why, is_whole=not why and begin == 0)

    def _is_full(self) -> bool:
        return (
            len(self._moments) >= STATES_MAXIMUM
            or self._changes >= CHANGES_MAXIMUM
            or self._rows > EARLIER_ROWS_MAXIMUM
        )

    def _place(self, end: int) -> tuple[int, int | None]:
        """Where a state is a moment: at the end of a coarse span if it lies within one."""
        for start, until in self._coverage.coarse:
            if start < end < until:
                return min(until, self._joined.end_offset), start
        return end, None

    def _close(self, end: int, time_ms: int) -> None:
        """All of a moment is undone: the one before it ends at ``end``."""
        pairs = tuple(
            Change(was, now, self._offsets.get(acl.record.id))
            for now, was in self._undo.changed()
            if now != was and (acl := now or was) is not None
        )
        self._moments.append(self._moment(pairs))
        self._changes += len(pairs)
        last, self._image = self._image, self._undo.apply(Provenance(end, 0, time_ms))
        if self._image.columns is not last.columns:
            self._rows += len(self._image.columns)
        self._undo, self._offsets = AclsDelta(self._image), {}
        self._end, self._time_ms, self._unknown_from = end, time_ms, None

    def _moment(self, changes: tuple[Change, ...]) -> HistoryState:
        image = msgspec.structs.replace(self._image, provenance=Provenance(self._end, 0, self._time_ms))
        added = sum(each.after is not None for each in changes)
        return HistoryState(image, self._time_ms, changes, added, len(changes) - added, self._unknown_from)

    def _kept(self, why: str, *, is_whole: bool) -> StoredStates:
        # The first state is known, and what led to it is not.
        moments = [self._moment(())._replace(unknown_from=None), *reversed(self._moments)]
        joined = self._joined
        if moments[-1].end_offset == joined.end_offset:
            last = moments.pop()
            joined = joined._replace(
                changes=last.changes,
                added=last.added,
                removed=last.removed,
                unknown_from=last.unknown_from,
                first_record=None,  # the history knows records, and not which became visible at once
            )
        else:
            delta = AclsDelta.between(moments[-1].image, joined.image)
            changes = tuple(
                Change(was, now, None if now is None else now.offset)
                for was, now in delta.changed()
                if was != now
            )
            added = sum(each.after is not None for each in changes)
            joined = joined._replace(
                changes=changes if len(changes) <= CHANGES_MAXIMUM else None,
                added=added,
                removed=len(changes) - added,
                unknown_from=moments[-1].end_offset,
                first_record=None,
            )
        return StoredStates(tuple(moments), joined, why or "Spark's history begins there", is_whole)


def _rows(storage: Storage, coverage: Coverage, end: int) -> Iterator[_Row | str]:
    """All changes below an offset, the newest first; a text instead where one cannot be read here."""
    batches: dict[tuple[int, int], list[HistoryFile]] = {}
    for file in history_files(storage, coverage.cluster_id):
        if file.path.startswith(f"{CHANGES}/") and file.start < end:
            batches.setdefault((file.start, file.end), []).append(file)
    for place in sorted(batches, reverse=True):
        files = batches[place]
        if sum(file.size_bytes for file in files) > BATCH_BYTES_MAXIMUM:
            yield (
                "no more of Spark's history is read here: the files of one batch are too large "
                "(aclog spark history reads them)"
            )
            return
        for row in _rows_of(storage, files):
            if row["offset"] < end and row["topic_id"] == coverage.topic_id:
                yield _row(row)


def _rows_of(storage: Storage, files: Sequence[HistoryFile]) -> Iterator[Mapping[str, Any]]:
    """Raises SnapshotError: one cannot be read, or is damaged."""
    tables = []
    for file in files:
        try:
            tables.append(pq.read_table(pa.BufferReader(storage.read(file.path))))
        except (pa.ArrowException, OSError) as error:
            raise SnapshotCorruptError(
                f"{storage.shown(file.path)} is no table of changes: {error}"
            ) from error
    try:
        rows = pa.concat_tables(tables).sort_by([("offset", "descending"), ("id", "descending")])
    except (pa.ArrowException, KeyError) as error:
        shown = storage.shown(files[0].path)
        raise SnapshotCorruptError(f"{shown} is no table of changes: {error}") from error
    for at in range(0, len(rows), _ROWS_AT_ONCE):
        yield from rows.slice(at, _ROWS_AT_ONCE).to_pylist()


def _row(row: Mapping[str, Any]) -> _Row:
    acl_id = Uuid(row["id"])
    before, after = (None if row[side] is None else _acl(acl_id, row[side]) for side in ("before", "after"))
    return _Row(row["offset"], row["timestamp_ms"], acl_id, before, after)


def _acl(acl_id: Uuid, content: Mapping[str, Any]) -> AppliedAcl:
    record = AccessControlEntryRecord(
        acl_id,
        code_from_name(ResourceType, content["resource_type"]),
        content["resource_name"],
        code_from_name(PatternType, content["pattern_type"]),
        content["principal"],
        content["host"],
        code_from_name(AclOperation, content["operation"]),
        code_from_name(AclPermissionType, content["permission_type"]),
    )
    return AppliedAcl(record, content["offset"], content["timestamp_ms"])
