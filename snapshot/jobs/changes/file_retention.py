"""Retention of a history's Parquet files: removes the batches that only states before a time need.

The history then begins with the state after the last removed batch, like one that began late: its coverage
says so before the first file is removed, and readers leave out what is below it. So a killed retention leaves
only files that nobody reads, and the next one removes them.

A batch is removed when the dates of all its changes, and of those of all earlier batches, are before that of
the time.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from snapshot.errors import HistoryMissingError
from snapshot.jobs.changes.change_files import CHANGES, date_directories, history_files, state_url
from snapshot.jobs.changes.coverage import covered_clusters, put_coverage, read_coverage
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from snapshot.jobs.changes.change_files import HistoryFile
    from snapshot.jobs.changes.coverage import Coverage
    from snapshot.jobs.running.claim import CheckpointClaim


class FileRetention(NamedTuple):
    """The effect on one cluster's history.

    Attributes:
        removed: number of files.
        files: number of files that remain.
        begin: time of the history's first state afterwards; None: it has all states of the log.
    """

    cluster_id: str
    removed: int
    files: int
    begin: datetime | None


def remove_files(
    output: str,
    keep_from: datetime,
    published: Mapping[str, int] | None,
    *,
    claim: CheckpointClaim | None = None,
    is_dry_run: bool = False,
) -> Iterator[FileRetention]:
    """Remove the files that only states before a time need, of each cluster in turn.

    Args:
        output: directory of the history.
        keep_from: the first time whose states remain.
        published: the ends of the clusters' rows in the tables, which may need later files; None: no tables.
        claim: of the history, checked before it changes; no job may run.
        is_dry_run: only count the files.

    Raises:
        CheckpointClaimedError: a job has taken over the history.
        HistoryMissingError: there is no history.
        SnapshotError: the history cannot be read or written.
    """
    storage = Storage(output)
    clusters = covered_clusters(storage)
    if not clusters:
        raise HistoryMissingError(f"{storage.shown('')} holds no history: `aclog spark changes` writes one")
    ends = SnapshotStore(state_url(output)).newest_complete_ends()
    for cluster_id in clusters:
        coverage = read_coverage(storage, cluster_id)
        if coverage is None:
            continue
        files = list(history_files(storage, cluster_id))
        end = ends.get(cluster_id, 0)
        if published is not None:
            end = min(end, published.get(cluster_id, 0))
        later = _later(storage, coverage, files, keep_from, end)
        expired = [file for file in files if file.end <= later.begin_offset]
        if expired and not is_dry_run:
            if claim is not None:
                claim.check()
            if later != coverage:
                put_coverage(storage, later)
            for file in expired:
                storage.remove(file.path)
        if not is_dry_run:
            # All: a killed retention leaves empty ones.
            for directory in date_directories(storage, cluster_id):
                storage.remove_directory(directory)
        begin = datetime.fromtimestamp(later.begin_time_ms / 1000, UTC) if later.begin_offset else None
        yield FileRetention(cluster_id, len(expired), len(files) - len(expired), begin)


def _later(
    storage: Storage, coverage: Coverage, files: Sequence[HistoryFile], keep_from: datetime, end: int
) -> Coverage:
    """The coverage from the end of the last batch on that can be removed; no batch beyond ``end`` can."""
    first_date = keep_from.astimezone(UTC).date().isoformat()
    until = min([end, *(file.start for file in files if file.date >= first_date)])
    last = max((file.end for file in files if file.end <= until), default=0)
    if last <= coverage.begin_offset:
        return coverage
    times_ms = [
        pc.max(pq.read_table(pa.BufferReader(storage.read(file.path)), columns=["timestamp_ms"])[0]).as_py()
        for file in files
        if file.end == last and file.path.startswith(f"{CHANGES}/")
    ]
    return msgspec.structs.replace(coverage, begin_offset=last, begin_time_ms=max(times_ms))
