"""The files of a history: their paths, and the writer of one batch's files on executors.

    OUTPUT/changes/cluster_id=<id>/date=YYYY-MM-DD/<start>-<end>.parquet     a row for each change
    OUTPUT/intervals/cluster_id=<id>/date=YYYY-MM-DD/<start>-<end>.parquet   a row for each ended interval

The layout is Hive's, so that readers of Parquet get the columns ``cluster_id`` (encoded as in a snapshot
store) and ``date`` (UTC, of the change's record). ``start`` and ``end`` are the batch's, 20 digits each: a
repeated batch writes the same rows in the same order into the same files. A row counts once the state of its
batch is
stored: readers take offsets below the end of the newest stored state.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from snapshot.jobs.changes.change_table import TIME, ended_intervals
from snapshot.store.layout import cluster_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshot.store.storage import Storage

CHANGES: Final = "changes"
INTERVALS: Final = "intervals"
TABLES: Final = (CHANGES, INTERVALS)
#: The job's snapshot store.
STATE: Final = "state"

_CLUSTER: Final = "cluster_id="
_DATE: Final = "date="
_FILE: Final = re.compile(r"([0-9]{20})-([0-9]{20})\.parquet")


class HistoryFile(NamedTuple):
    """One file: its path below OUTPUT, and the offsets of its batch, end exclusive."""

    path: str
    start: int
    end: int
    size_bytes: int

    @property
    def date(self) -> str:
        """The date of its changes in UTC: YYYY-MM-DD."""
        return self.path.rsplit("/", 2)[1].removeprefix(_DATE)


def state_url(output: str) -> str:
    """The store of a history's states."""
    return f"{output.rstrip('/')}/{STATE}"


def cluster_path(table: str, cluster_id: str) -> str:
    """The directory of one cluster's files, below OUTPUT."""
    return f"{table}/{_CLUSTER}{cluster_directory(cluster_id)}"


def history_files(storage: Storage, cluster_id: str) -> Iterator[HistoryFile]:
    """All files of one cluster, committed or not. Lists the directory of every date."""
    for directory in date_directories(storage, cluster_id):
        for name, size_bytes in storage.files(directory).items():
            if found := _FILE.fullmatch(name):
                yield HistoryFile(f"{directory}/{name}", int(found[1]), int(found[2]), size_bytes)


def date_directories(storage: Storage, cluster_id: str) -> Iterator[str]:
    """The directories of all dates of one cluster's files, of both tables."""
    for table in TABLES:
        directory = cluster_path(table, cluster_id)
        for date in storage.directories(directory):
            yield f"{directory}/{date}"


def write_changes(storage: Storage, cluster_id: str, start: int, end: int, changes: pa.Table) -> None:
    """Write the files of a batch, replacing those of an earlier attempt.

    Raises:
        SnapshotError: a file cannot be written.
    """
    dates = changes.column("timestamp_ms").cast(TIME).cast(pa.date32()).cast(pa.string())
    for date in pc.unique(dates).to_pylist():
        of_date = changes.filter(pc.equal(dates, date))
        _put(storage, CHANGES, cluster_id, date, start, end, of_date)
        intervals = ended_intervals(of_date)
        if len(intervals):
            _put(storage, INTERVALS, cluster_id, date, start, end, intervals)


def _put(
    storage: Storage, table: str, cluster_id: str, date: str, start: int, end: int, rows: pa.Table
) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    name = f"{start:020d}-{end:020d}.parquet"
    path = f"{cluster_path(table, cluster_id)}/{_DATE}{date}/{name}"
    storage.put(path, bytes(sink.getvalue()))
