"""The count tables as Parquet files, which the driver writes.

    OUTPUT/counts/cluster_id=<id>/date=YYYY-MM-DD/<end offset>.parquet
    OUTPUT/counts_by_time/cluster_id=<id>/date=YYYY-MM-DD/<end offset>.parquet

The layout is Hive's; the id is encoded as in a snapshot store, the offset has 20 digits. A repeated batch
writes the same names. A file counts once the state of its batch is stored: readers take end offsets up to
that of the newest stored state. Files of an uncommitted batch are removed before the next batch with the
same offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from snapshot.errors import SnapshotError, SparkJobError
from snapshot.jobs.counts.count_rows import AclKind, CountRows, counts_by_kind
from snapshot.store.layout import cluster_directory
from snapshot.store.storage import Storage

COUNTS: Final = "counts"
COUNTS_BY_TIME: Final = "counts_by_time"

_FILE: Final = re.compile(r"([0-9]{20})\.parquet")


def state_store(output: str) -> str:
    """The store of the tables' states, whose newest one is the tables' commit."""
    return f"{output.rstrip('/')}/state"


class CountFiles:
    """Both tables below ``output``, a URL for fsspec or a path. One job writes to them.

    Raises:
        SnapshotError: an unknown scheme, or its package is not installed.
    """

    def __init__(self, output: str) -> None:
        self._storage = Storage(output)
        self._swept: set[str] = set()

    def counts_at(self, cluster_id: str, end: int) -> Mapping[AclKind, int]:
        """The counts of the last batch that ended at ``end`` or before; empty if there is none.

        Raises:
            SparkJobError: a file is damaged.
            SnapshotError: the files cannot be read.
        """
        found = [(offset, path) for offset, path in self._files(COUNTS, cluster_id) if offset <= end]
        if not found:
            return {}
        _, path = max(found)
        return counts_by_kind(self._read(path, ["count", *AclKind._fields]))

    def deltas_by_end(self, cluster_id: str) -> dict[int, str]:
        """Paths for ``deltas`` by end offset, of all batches that changed a count, committed or not.

        Raises:
            SnapshotError: the files cannot be listed, or the tables are Delta Lake's.
        """
        if "_delta_log" in self._storage.directories(COUNTS_BY_TIME):
            raise SnapshotError(
                f"{self._storage.shown(COUNTS_BY_TIME)} is a table of Delta Lake, which only Spark can read: "
                "write the counts as Parquet (aclog spark counts --format parquet)"
            )
        return dict(self._files(COUNTS_BY_TIME, cluster_id))

    def deltas(self, path: str) -> dict[int, int]:
        """The change of the number of all ACLs by minute (ms since the epoch).

        Raises:
            SparkJobError: it is damaged.
            SnapshotError: it cannot be read.
        """
        rows = self._read(path, ["minute", "delta"]).group_by("minute").aggregate([("delta", "sum")])
        minutes = rows.column("minute").cast(pa.int64()).to_pylist()
        return dict(zip(minutes, rows.column("delta_sum").to_pylist(), strict=True))

    def _read(self, path: str, columns: list[str]) -> pa.Table:
        try:
            rows = pq.read_table(pa.BufferReader(self._storage.read(path)), columns=columns)
            return rows.select(columns)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise SparkJobError(
                f"{self._storage.shown(path)} is not a table of counts: {error}. Start with another --output "
                "and --checkpoint"
            ) from error

    def ends(self, cluster_id: str) -> set[int]:
        """The end offsets of all batches, committed or not.

        Raises:
            SnapshotError: the files cannot be listed.
        """
        return {end for end, _ in self._files(COUNTS, cluster_id)}

    def append(self, batch: Sequence[CountRows]) -> None:
        """Write the rows of one batch. Raises SnapshotError: a file cannot be written."""
        for rows in batch:
            if rows.cluster_id not in self._swept:
                self._sweep(rows)
                self._swept.add(rows.cluster_id)
            name = f"date={rows.date.isoformat()}/{rows.end:020d}.parquet"
            if len(rows.deltas):
                self._put(f"{_directory(COUNTS_BY_TIME, rows.cluster_id)}/{name}", rows.deltas)
            self._put(f"{_directory(COUNTS, rows.cluster_id)}/{name}", rows.counts)

    def _sweep(self, rows: CountRows) -> None:
        """Remove files of uncommitted batches, which end beyond the start of this one."""
        for table in (COUNTS, COUNTS_BY_TIME):
            for end, path in list(self._files(table, rows.cluster_id)):
                if end > rows.start:
                    self._storage.remove(path)

    def _files(self, table: str, cluster_id: str) -> Iterator[tuple[int, str]]:
        """(end offset, path) of every file, committed or not."""
        directory = _directory(table, cluster_id)
        for of_date in self._storage.directories(directory):
            for name in self._storage.files(f"{directory}/{of_date}"):
                if found := _FILE.fullmatch(name):
                    yield int(found[1]), f"{directory}/{of_date}/{name}"

    def _put(self, path: str, rows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        self._storage.put(path, bytes(sink.getvalue()))


def _directory(table: str, cluster_id: str) -> str:
    return f"{table}/cluster_id={cluster_directory(cluster_id)}"
