"""Schema of the rows that a source of a job gives: as Spark's DDL and in Arrow."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

#: Rows of a log. For a topic: its messages without control records; a null ``value`` is a tombstone. For a
#: directory or a quorum: one row for each batch of the query, whose ``value`` is a LogRange (log_range.py).
SOURCE: Final = (
    "cluster_id string, topic_id string, partition int, offset long, timestamp timestamp, "
    "key binary, value binary"
)

#: SOURCE in Arrow.
SOURCE_ARROW: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
