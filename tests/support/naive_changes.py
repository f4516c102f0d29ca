"""The changes of a log, computed record by record.

It is deliberately slow and simple: it shares only the records with the jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from support.naive_transactions import effective_records


class NaiveChange(NamedTuple):
    """One change: the ACLs in force before and after it; ``since`` is the offset of the former ACL."""

    offset: int
    id: Uuid
    change: str
    before: AccessControlEntryRecord | None
    since: int | None
    after: AccessControlEntryRecord | None


def naive_changes(records: Iterable[LogRecord]) -> list[NaiveChange]:
    """All changes, by (offset, id); a metadata transaction changes an id at most once, at its end."""
    in_force: dict[Uuid, tuple[AccessControlEntryRecord, int]] = {}
    found: list[NaiveChange] = []
    for logged, effective in effective_records(records):
        before = dict(in_force)
        for each in effective:
            record = each.record
            if isinstance(record, RemoveAccessControlEntryRecord):
                in_force.pop(record.id, None)
            elif isinstance(record, AccessControlEntryRecord):
                former = in_force.get(record.id)
                if former is None or former[0] != record:
                    in_force[record.id] = record, logged.offset
        for acl_id in sorted(before.keys() | in_force.keys()):
            former, now = before.get(acl_id), in_force.get(acl_id)
            if former != now:
                change = "added" if former is None else "removed" if now is None else "replaced"
                before_acl, since = former or (None, None)
                after_acl = None if now is None else now[0]
                found.append(NaiveChange(logged.offset, acl_id, change, before_acl, since, after_acl))
    return found
