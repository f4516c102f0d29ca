"""The schemas of the jobs, as Spark's DDL: what a source gives, what decoding and folding make of it.

``topic_id`` is Kafka's 22 characters everywhere. Offsets are inclusive, ends exclusive.
"""

from __future__ import annotations

from typing import Final

#: Rows of a log, of whatever kind. ``key`` is null for directory logs. ``value`` is the KRaft frame of a
#: directory log, the message's value in a topic (null: a tombstone). Control records are no rows.
SOURCE: Final = (
    "cluster_id string, topic_id string, partition int, offset long, timestamp timestamp, "
    "key binary, value binary"
)

#: ``kind`` of a decoded row.
#: A row that the engine adds: it sees to it that each shard of each log is folded, with or without records.
KIND_PLAN: Final = 0
KIND_ACL: Final = 1
#: Of the columns for ACLs only ``id`` is set.
KIND_REMOVAL: Final = 2
#: ``resource_name`` is the feature's name. All of them go to shard 0.
KIND_FEATURE: Final = 3

#: Decoded records. ``applied_offset`` is the offset from which the record counts: its own; of one in a KRaft
#: metadata transaction that of its EndTransactionRecord. Records of an aborted one are no rows.
DECODED: Final = (
    "cluster_id string, topic_id string, shard int, kind tinyint, offset long, applied_offset long, "
    "timestamp_ms long, id binary, resource_type tinyint, resource_name string, pattern_type tinyint, "
    "principal string, host string, operation tinyint, permission_type tinyint, feature_level int"
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

#: What folding gives: one row with ``summary`` (JSON of job.ShardSummary) for each shard; where changes are
#: wanted, rows with ``change``, and where a sink has written files, rows with ``output`` (the sink's text). A
#: row has one of the three.
FOLDED: Final = f"cluster_id string, shard int, summary string, output string, change struct<{CHANGE}>"
