"""SOURCE rows to DECODED rows, in Arrow: the one place where records are decoded.

Columns of plain values are decoded whole (records.columns), other rows one by one. Nothing is dropped:
a record that cannot be decoded ends the query. Rows of one log come in offset order, in one task.

KRaft metadata transactions (KIP-868) are resolved here: what one holds is kept until its end, and counts from
there; what an aborted one held makes no row. A task holds whole transactions: the sources see to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from records.errors import DecodeError
from records.transactions import Transaction, misplaced
from snapshot.jobs.engine.decoded_rows import DecodedRows
from snapshot.jobs.engine.schema import DECODED_ARROW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.transactions import Marker

_APPLIED_OFFSET: Final = DECODED_ARROW.get_field_index("applied_offset")


def decode_batches(batches: Iterable[pa.RecordBatch], *, shards: int) -> Iterator[pa.RecordBatch]:
    """DECODED of SOURCE, of what one task has; each batch is of one log. ``shards``: how many there are.

    Raises:
        DecodeError: a record that cannot be decoded, with log and offset; a row without a cluster id.
    """
    logs: dict[tuple[str, str], _LogDecoder] = {}
    for batch in batches:
        for whose, part in _by_log(batch):
            if whose not in logs:
                logs[whose] = _LogDecoder(*whose, shards)
            yield from logs[whose].decode(part)
    for log in logs.values():
        log.finish()


def _by_log(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, str], pa.RecordBatch]]:
    """The rows of each log, in their order."""
    cluster_ids, topic_ids = batch.column("cluster_id"), batch.column("topic_id")
    if cluster_ids.null_count or topic_ids.null_count:
        row = pc.index(pc.or_(cluster_ids.is_null(), topic_ids.is_null()), True).as_py()
        raise DecodeError(
            f"nobody knows which cluster's log topic id {topic_ids[row].as_py()} is: it appeared after the "
            "job's start, so start the job again",
            offset=batch.column("offset")[row].as_py(),
        )
    if batch.num_rows == 0:
        return
    keys = cluster_ids.value_counts(), topic_ids.value_counts()
    if len(keys[0]) == len(keys[1]) == 1:
        yield (cluster_ids[0].as_py(), topic_ids[0].as_py()), batch
        return
    whose = pc.binary_join_element_wise(cluster_ids, topic_ids, "\0")
    for log in whose.unique():
        cluster_id, _, topic_id = log.as_py().rpartition("\0")
        yield (cluster_id, topic_id), batch.filter(pc.equal(whose, log))


class _LogDecoder:
    """One log's records in one task.

    Rows that a metadata transaction hides have no applied offset yet.
    """

    def __init__(self, cluster_id: str, topic_id: str, shards: int) -> None:
        self._cluster_id = cluster_id
        self._topic_id = topic_id
        self._shards = shards
        self._transaction = Transaction[pa.RecordBatch]()
        # Offset of the last marker: where a transaction is open, of its beginning.
        self._marker = -1

    def decode(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that are settled with these."""
        decoded = DecodedRows(batch, self._shards, self._source())
        at = 0
        for offset, marker in decoded.markers:
            upto = int(np.searchsorted(decoded.offsets, offset))
            yield from self._settled(decoded.rows.slice(at, upto - at))
            at = upto
            yield from self._marked(offset, marker)
        yield from self._settled(decoded.rows.slice(at))

    def finish(self) -> None:
        """All rows of the task have come."""
        if self._transaction.is_open:
            raise DecodeError(
                "a metadata transaction begins here that has no end in this batch of the query",
                source=self._source(),
                offset=self._marker,
            )

    def _settled(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.num_rows == 0:
            return
        if self._transaction.is_open:
            self._transaction.hide((rows,))
        else:
            yield rows

    def _marked(self, offset: int, marker: Marker) -> Iterator[pa.RecordBatch]:
        if (problem := misplaced(marker, is_open=self._transaction.is_open)) is not None:
            raise DecodeError(f"a metadata transaction {problem}", source=self._source(), offset=offset)
        self._marker = offset
        for rows in self._transaction.mark(marker):
            applied = pa.repeat(pa.scalar(offset, pa.int64()), rows.num_rows)
            yield rows.set_column(_APPLIED_OFFSET, DECODED_ARROW.field(_APPLIED_OFFSET), applied)

    def _source(self) -> str:
        return f"the log of cluster {self._cluster_id}, topic id {self._topic_id}"
