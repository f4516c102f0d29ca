"""Schemas of changes of ACLs, as Spark's DDL and in Arrow.

``topic_id`` is Kafka's 22 characters. Offsets are inclusive, ends exclusive.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

#: An ACL with names in place of codes (records.acl).
ACL: Final = (
    "resource_type: string, resource_name: string, pattern_type: string, principal: string, host: string, "
    "operation: string, permission_type: string, offset: long, timestamp_ms: long"
)

CHANGE_ADDED: Final = "added"
CHANGE_REPLACED: Final = "replaced"
CHANGE_REMOVED: Final = "removed"

#: One change: ``before`` is null if it adds, ``after`` if it removes. ``offset`` is where it takes effect.
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
