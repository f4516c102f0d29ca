"""Changes as JSON messages of a topic, one for each.

    key     <cluster id>/<id>
    value   {"clusterId", "topicId", "offset", "timestampMs", "change": "added" | "replaced" | "removed",
             "id", "before": ACL | null, "after": ACL | null}
    ACL     {"resourceType", "resourceName", "patternType", "principal", "host", "operation",
             "permissionType", "offset", "timestampMs"}

Ids are Kafka's 22 characters, codes their names. (clusterId, offset, id) is unique. It is the JSON form of
the history's rows (schema.CHANGE) in camel case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

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
    """(offset, key, value) of changes, in order; see change_table.net_changes."""
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
