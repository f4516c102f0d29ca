"""The schemas of the jobs: what a source gives, what decoding and folding make of it. Spark's as its DDL.

``topic_id`` is Kafka's 22 characters everywhere. Offsets are inclusive, ends exclusive.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

#: Rows of a log, of whatever kind. ``key`` is null for directory logs. ``value`` is the KRaft frame of a
#: directory log, the message's value in a topic (null: a tombstone). Control records are no rows.
SOURCE: Final = (
    "cluster_id string, topic_id string, partition int, offset long, timestamp timestamp, "
    "key binary, value binary"
)

#: ``kind`` of a decoded row.
KIND_ACL: Final = 1
#: Of the columns for ACLs only ``id`` is set.
KIND_REMOVAL: Final = 2
#: ``resource_name`` is the feature's name. All of them go to shard 0.
KIND_FEATURE: Final = 3

#: Decoded records. ``applied_offset`` is the offset from which the record counts: its own; of one in a KRaft
#: metadata transaction that of its EndTransactionRecord. Records of an aborted one are no rows.
DECODED_ARROW: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic_id", pa.string()),
        ("shard", pa.int32()),
        ("kind", pa.int8()),
        ("offset", pa.int64()),
        ("applied_offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("id", pa.binary()),
        ("resource_type", pa.int8()),
        ("resource_name", pa.string()),
        ("pattern_type", pa.int8()),
        ("principal", pa.string()),
        ("host", pa.string()),
        ("operation", pa.int8()),
        ("permission_type", pa.int8()),
        ("feature_level", pa.int32()),
    ]
)

#: An ACL as people read it: names as snapshot.code_names gives them.
ACL: Final = (
    "resource_type: string, resource_name: string, pattern_type: string, principal: string, host: string, "
    "operation: string, permission_type: string, offset: long, timestamp_ms: long"
)

CHANGE_ADDED: Final = "added"
CHANGE_REPLACED: Final = "replaced"
CHANGE_REMOVED: Final = "removed"

#: One change: ``before`` is null for one added, ``after`` for one removed. ``offset`` is the applied one.
CHANGE: Final = (
    "topic_id: string, offset: long, timestamp_ms: long, change: string, id: binary, "
    f"before: struct<{ACL}>, after: struct<{ACL}>"
)

_ACL_ARROW: Final = pa.struct(
    [
        ("resource_type", pa.string()),
        ("resource_name", pa.string()),
        ("pattern_type", pa.string()),
        ("principal", pa.string()),
        ("host", pa.string()),
        ("operation", pa.string()),
        ("permission_type", pa.string()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
    ]
)
#: CHANGE in Arrow.
CHANGES_ARROW: Final = pa.schema(
    [
        ("topic_id", pa.string()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("change", pa.string()),
        ("id", pa.binary()),
        ("before", _ACL_ARROW),
        ("after", _ACL_ARROW),
    ]
)

#: What folding gives: one row for each log, with the summaries of its shards (JSON of job.ShardSummary).
FOLDED: Final = "cluster_id string, summaries string"
