"""What changed in a log, told record by record.

Slow and plain on purpose: it shares nothing with the jobs but the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid
from records.log_batch import LogRecord


class PlainChange(NamedTuple):
    """One change: what was in force before it and after it, and the offset from which on the former was."""

    offset: int
    id: Uuid
    change: str
    before: AccessControlEntryRecord | None
    since: int | None
    after: AccessControlEntryRecord | None


def plain_changes(records: Iterable[LogRecord]) -> list[PlainChange]:
    """All of them, by (offset, id); a metadata transaction changes an id at most once, at its end."""
    in_force: dict[Uuid, tuple[AccessControlEntryRecord, int]] = {}
    pending: list[LogRecord] | None = None
    found: list[PlainChange] = []
    for logged in records:
        counts: list[LogRecord] = []
        match logged.record:
            case BeginTransactionRecord():
                pending = []
            case EndTransactionRecord():
                counts, pending = pending or [], None
            case AbortTransactionRecord():
                pending = None
            case _ if pending is not None:
                pending.append(logged)
            case _:
                counts = [logged]
        before = dict(in_force)
        for counted in counts:
            record = counted.record
            if isinstance(record, RemoveAccessControlEntryRecord):
                in_force.pop(record.id, None)
            elif isinstance(record, AccessControlEntryRecord):
                was = in_force.get(record.id)
                if was is None or was[0] != record:
                    in_force[record.id] = record, logged.offset
        for acl_id in sorted(before.keys() | in_force.keys()):
            was, now = before.get(acl_id), in_force.get(acl_id)
            if was != now:
                change = "added" if was is None else "removed" if now is None else "replaced"
                before_acl, since = was or (None, None)
                after_acl = None if now is None else now[0]
                found.append(PlainChange(logged.offset, acl_id, change, before_acl, since, after_acl))
    return found
