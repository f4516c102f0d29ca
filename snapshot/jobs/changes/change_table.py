"""The changes of a batch as one Arrow table, the intervals that they end, and their messages for a topic.

An ACL is in force, under one id with one content, from the offset of the change that adds it until that of
the change that removes or replaces it. The second one has both offsets: ``before`` has that of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import IntEnum
from itertools import groupby
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_from_name
from records.entries import AccessControlEntryRecord
from records.ids import Uuid, uuid_to_string
from snapshot.jobs.folding.schema import CHANGE_ADDED, CHANGE_REMOVED, CHANGE_REPLACED, CHANGES_ARROW

#: The fields of an ACL that are its content.
CONTENT: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
#: The enum of each field that has names in place of codes.
CODES: Final[Mapping[str, type[IntEnum]]] = {
    "resource_type": ResourceType,
    "pattern_type": PatternType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
}
TIME: Final = pa.timestamp("ms", "UTC")

_ORDER: Final = [("offset", "ascending"), ("id", "ascending")]


def record_from_row(acl_id: bytes, row: Mapping[str, Any]) -> AccessControlEntryRecord:
    """The ACL of a change's side or of an interval."""
    content: list[Any] = [
        code_from_name(CODES[name], row[name]) if name in CODES else row[name] for name in CONTENT
    ]
    return AccessControlEntryRecord(Uuid(acl_id), *content)


def net_changes(changes: pa.Table) -> pa.Table:
    """The changes of one log sorted by (offset, id), one for each.

    Args:
        changes: rows of CHANGES_ARROW, in any order. All records of a metadata transaction take effect at one
            offset; intermediate contents of an id were never in force, and are left out.
    """
    changes = changes.sort_by(_ORDER)
    is_shared = _is_shared(changes)
    if not pc.any(is_shared).as_py():
        return changes
    net = pa.Table.from_pylist([*_net_rows(changes.filter(is_shared).to_pylist())], CHANGES_ARROW)
    return pa.concat_tables([changes.filter(pc.invert(is_shared)), net]).sort_by(_ORDER)


def ended_intervals(changes: pa.Table) -> pa.Table:
    """The intervals that these changes end: one for each content in force before a change."""
    ended = changes.filter(pc.not_equal(changes.column("change"), CHANGE_ADDED))
    before = ended.column("before")
    columns: dict[str, Any] = {
        "topic_id": ended.column("topic_id"),
        "id": ended.column("id"),
        **{name: pc.struct_field(before, name) for name in CONTENT},
        "valid_from_offset": pc.struct_field(before, "offset"),
        "valid_to_offset": ended.column("offset"),
        "valid_from_time": pc.struct_field(before, "timestamp_ms").cast(TIME),
        "valid_to_time": ended.column("timestamp_ms").cast(TIME),
    }
    return pa.table(columns)


def _is_shared(changes: pa.Table) -> pa.Array:
    """Mask of the sorted rows that share their (offset, id) with a neighbour."""
    keys = [changes.column(name).combine_chunks() for name, _ in _ORDER]
    same: Any = pa.array([], pa.bool_())
    if len(changes) > 1:
        same = pc.and_(*(pc.equal(key[1:], key[:-1]) for key in keys))
    none = pa.array([False] * min(1, len(changes)), pa.bool_())
    return pc.or_(pa.concat_arrays([none, same]), pa.concat_arrays([same, none]))


def _net_rows(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Reduce all rows with one (offset, id) to one row, or none.

    Each row's ``after`` is the ``before`` of the next row. So, in any order of the rows, the content that is
    a ``before`` more often than an ``after`` is the first one, and vice versa for the last one.
    """
    for _, group in groupby(rows, key=lambda row: (row["offset"], row["id"])):
        same = list(group)
        before_counts = Counter(_hashable(row["before"]) for row in same)
        after_counts = Counter(_hashable(row["after"]) for row in same)
        (first,) = before_counts - after_counts or (None,)
        (last,) = after_counts - before_counts or (None,)
        if first == last:
            continue
        change = CHANGE_REPLACED
        if first is None:
            change = CHANGE_ADDED
        elif last is None:
            change = CHANGE_REMOVED
        yield {
            **same[0],
            "timestamp_ms": max(row["timestamp_ms"] for row in same if _hashable(row["after"]) == last),
            "change": change,
            "before": None if first is None else dict(first),
            "after": None if last is None else dict(last),
        }


def _hashable(acl: dict[str, Any] | None) -> tuple[tuple[str, Any], ...] | None:
    return None if acl is None else tuple(acl.items())


# --- messages ----------------------------------------------------------------------------------------------

_ROWS: Final = 4096
_ACL: Final = {
    "resource_type": "resourceType",
    "resource_name": "resourceName",
    "pattern_type": "patternType",
    "principal": "principal",
    "host": "host",
    "operation": "operation",
    "permission_type": "permissionType",
    "offset": "offset",
    "timestamp_ms": "timestampMs",
}


def messages_of(cluster_id: str, changes: pa.Table) -> Iterator[tuple[int, bytes, bytes]]:
    """(offset, key, value) of net changes, in order: one JSON message for each.

        key     <cluster id>/<id>
        value   {"clusterId", "topicId", "offset", "timestampMs", "change": "added" | "replaced" | "removed",
                 "id", "before": ACL | null, "after": ACL | null}
        ACL     {"resourceType", "resourceName", "patternType", "principal", "host", "operation",
                 "permissionType", "offset", "timestampMs"}

    Ids are Kafka's 22 characters, codes their names. (clusterId, offset, id) is unique. It is the JSON form
    of the history's rows (schema.CHANGE) in camel case.
    """
    for batch in changes.to_batches(max_chunksize=_ROWS):
        for row in batch.to_pylist():
            yield _message(cluster_id, row)


def _message(cluster_id: str, row: dict[str, Any]) -> tuple[int, bytes, bytes]:
    acl_id = uuid_to_string(row["id"])
    value = {
        "clusterId": cluster_id,
        "topicId": row["topic_id"],
        "offset": row["offset"],
        "timestampMs": row["timestamp_ms"],
        "change": row["change"],
        "id": acl_id,
        "before": _acl(row["before"]),
        "after": _acl(row["after"]),
    }
    return row["offset"], f"{cluster_id}/{acl_id}".encode(), msgspec.json.encode(value)


def _acl(acl: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if acl is None else {name: acl[field] for field, name in _ACL.items()}
