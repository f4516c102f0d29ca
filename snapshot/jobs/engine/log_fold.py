"""The fold of logs, each by the one Spark task that reads it: SOURCE rows onto the log's shards.

A log is one sequence, read in order by one task, and folding its records costs less than handing them to
others would. Side by side are logs, and the shards of one log where files are read and written.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapshot.errors import SparkJobError
from snapshot.jobs.engine.decode import decode_batches
from snapshot.jobs.engine.schema import CHANGES_ARROW, DECODED_ARROW
from snapshot.jobs.engine.shard_fold import ShardFold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from snapshot.jobs.engine.job import LogPlan, ShardSummary

#: Rows that are folded at once: of a long batch no more than these are kept beside the state.
_ROWS_AT_ONCE: Final = 1 << 18
# Shards whose files are read and written at once: an object store answers many as quickly as one.
_SHARDS_AT_ONCE: Final = 4


def fold_logs(
    batches: Iterable[pa.RecordBatch],
    *,
    plans: Mapping[str, LogPlan],
    write_changes: Callable[[LogPlan, pa.Table], None] | None,
) -> Iterator[pa.RecordBatch]:
    """FOLDED of SOURCE: what one task does.

    Args:
        batches: rows of one or more logs, each in offset order.
        plans: by cluster id.
        write_changes: called once for each log that had changes, with these as rows of CHANGES_ARROW, in any
            order; see JobSink.

    Raises:
        DecodeError: as decode_batches.
        SnapshotError: a base is damaged, or a store cannot be read or written.
        SparkJobError: rows out of order or beyond a plan's end.
    """
    folds: dict[str, LogFold] = {}
    # All plans of a job have as many shards.
    shards = next(iter(plans.values())).shards
    for rows in decode_batches(batches, shards=shards):
        cluster_id = rows.column("cluster_id")[0].as_py()
        if cluster_id not in folds:
            folds[cluster_id] = LogFold(plans[cluster_id])
        folds[cluster_id].take(rows)
    for cluster_id, fold in folds.items():
        summaries = fold.finish(write_changes)
        yield pa.RecordBatch.from_pydict(
            {"cluster_id": [cluster_id], "summaries": [msgspec.json.encode(summaries).decode()]}
        )


class LogFold:
    """One log's fold on its way."""

    def __init__(self, plan: LogPlan) -> None:
        self._plan = plan
        self._shards: dict[int, ShardFold] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._last = (-1, -1)

    def take(self, rows: pa.RecordBatch) -> None:
        """DECODED rows in the order of (applied_offset, offset); those below ``rows_from`` pass by."""
        applied = np.asarray(rows.column("applied_offset").to_numpy())
        rows = rows.slice(int(np.searchsorted(applied, self._plan.rows_from)))
        if rows.num_rows == 0:
            return
        self._check_order(rows)
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        if self._waiting_rows >= _ROWS_AT_ONCE:
            self._each_shard(self._fold)
            self._waiting, self._waiting_rows = [], 0

    def _check_order(self, rows: pa.RecordBatch) -> None:
        plan, (last_applied, last_offset) = self._plan, self._last
        applied, offsets = (
            np.concatenate([[last], np.asarray(rows.column(name).to_numpy())])
            for name, last in (("applied_offset", last_applied), ("offset", last_offset))
        )
        is_wrong = (applied[1:] < applied[:-1]) | (
            (applied[1:] == applied[:-1]) & (offsets[1:] <= offsets[:-1])
        )
        is_wrong |= applied[1:] >= plan.end
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            raise SparkJobError(
                f"cluster {plan.identity.cluster_id}: a record of offset {offsets[row + 1]}, which counts "
                f"from {applied[row + 1]} on, after {offsets[row]} in a batch that ends at {plan.end}"
            )
        self._last = int(applied[-1]), int(offsets[-1])

    def finish(self, write_changes: Callable[[LogPlan, pa.Table], None] | None) -> list[ShardSummary]:
        """Write the files of all shards, and the changes; see ``fold_logs``."""
        finished = self._each_shard(self._finish)
        changes = [batch for _, of_shard in finished for batch in of_shard]
        if changes and write_changes is not None:
            write_changes(self._plan, pa.Table.from_batches(changes, CHANGES_ARROW))
        return [summary for summary, _ in finished]

    def _each_shard(self, do: Callable[[int], Any]) -> list[Any]:
        with ThreadPoolExecutor(_SHARDS_AT_ONCE) as pool:
            return list(pool.map(do, range(self._plan.shards)))

    def _finish(self, shard: int) -> Any:
        self._fold(shard)
        return self._shards.pop(shard).finish()

    def _fold(self, shard: int) -> None:
        if shard not in self._shards:
            self._shards[shard] = ShardFold(self._plan, shard)
        waiting = pa.Table.from_batches(self._waiting, DECODED_ARROW)
        rows = waiting.filter(pc.equal(waiting.column("shard"), shard))
        if len(rows):
            self._shards[shard].fold(rows)
