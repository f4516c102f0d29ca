"""Columnar decoder of a topic's SOURCE rows into records. A record that cannot be decoded ends the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from records.columns.values import Values
from records.errors import DecodeError
from records.log.topic.codec import decode_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.columns.record_table import TableRecords
    from records.columns.values import Ints


def rows_by_log(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield cluster id and rows of each log, in order; at least one row.

    Raises:
        DecodeError: a row without a cluster id.
    """
    for batch in batches:
        cluster_ids = batch.column("cluster_id")
        if cluster_ids.null_count:
            row = pc.index(cluster_ids.is_null(), True).as_py()
            raise DecodeError(
                f"topic {batch.column('topic_id')[row].as_py()} was created after the job's start, so its "
                "cluster id is unknown: start the job again",
                offset=batch.column("offset")[row].as_py(),
            )
        logs = cluster_ids.unique().to_pylist()
        for cluster_id in logs:
            yield cluster_id, batch if len(logs) == 1 else batch.filter(pc.equal(cluster_ids, cluster_id))


def decode_rows(rows: pa.RecordBatch, start: int, source: str) -> TableRecords | tuple[()]:
    """The records of one log's rows from offset ``start`` on; ``source`` names the log in errors.

    Raises:
        DecodeError: a record that cannot be decoded, with log and offset; rows out of order.
    """
    offsets = _ints(rows.column("offset"))
    if (offsets[1:] <= offsets[:-1]).any():
        raise DecodeError("rows out of order", source=source, offset=offsets.item(0))
    rows, offsets = rows.slice(first := int(np.searchsorted(offsets, start))), offsets[first:]
    timestamps_ms = _ints(rows.column("timestamp").cast(pa.int64())) // 1000
    keys, values = (Values.of_arrow(rows.column(name).cast(pa.binary())) for name in ("key", "value"))
    records, problem = decode_columns(keys, values, offsets, timestamps_ms)
    if problem is not None:
        raise problem.located(source=source)
    return records


def _ints(column: Any) -> Ints:
    """A column of int64 without nulls."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
