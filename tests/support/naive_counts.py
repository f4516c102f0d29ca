"""The number of ACLs of each kind at each offset and in each minute, counted record by record.

It is deliberately slow and simple: it shares only the names of the codes with the jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from support.naive_transactions import effective_records

#: Resource type, pattern type, permission type, operation.
Kind = tuple[str, str, str, str]


def name_of(kind: type[IntEnum], code: int) -> str:
    return kind(code).name if code in set(kind) else str(code)


def kind_of(record: AccessControlEntryRecord) -> Kind:
    return (
        name_of(ResourceType, record.resource_type),
        name_of(PatternType, record.pattern_type),
        name_of(AclPermissionType, record.permission_type),
        name_of(AclOperation, record.operation),
    )


class NaiveCounts:
    """The counts of a log from its start.

    Attributes:
        at_end: by end offset, for each offset of the log: how many ACLs there are of each kind.
        changes: (offset, minute in ms, kind, +1 or -1), in log order.
    """

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self.at_end: dict[int, Counter[Kind]] = {}
        self.changes: list[tuple[int, int, Kind, int]] = []
        in_force: dict[bytes, Kind] = {}
        for logged, effective in effective_records(records):
            for each in effective:
                self._count(in_force, each, logged.offset)
            self.at_end[logged.offset + 1] = Counter(in_force.values())

    def _count(self, in_force: dict[bytes, Kind], logged: LogRecord, offset: int) -> None:
        record, minute_ms = logged.record, logged.timestamp_ms // 60_000 * 60_000
        match record:
            case AccessControlEntryRecord():
                after: Kind | None = kind_of(record)
            case RemoveAccessControlEntryRecord():
                after = None
            case _:
                return
        before = in_force.pop(record.id, None)
        for kind, delta in ((before, -1), (after, 1)):
            if kind is not None:
                self.changes.append((offset, minute_ms, kind, delta))
        if after is not None:
            in_force[record.id] = after

    def by_minute(self, end: int) -> dict[tuple[int, Kind], int]:
        """The deltas of the records below an end, by (minute in ms, kind), without those of 0."""
        found: Counter[tuple[int, Kind]] = Counter()
        for offset, minute_ms, kind, delta in self.changes:
            if offset < end:
                found[minute_ms, kind] += delta
        return {place: delta for place, delta in found.items() if delta}
