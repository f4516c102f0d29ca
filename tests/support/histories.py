"""Histories of changes, in a form that tests compare with logs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from records.columns.acl_table import AppliedAcl
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from snapshot.jobs.changes.change_table import record_from_row
from snapshot.jobs.folding.change_recorder import _readable
from support.snapshots import acl, acl_id


def as_record(row: Mapping[str, Any]) -> AccessControlEntryRecord:
    """The ACL of an interval, or of a change with its id."""
    return record_from_row(bytes(row["id"]), row)


def open_intervals(acls: Iterable[AppliedAcl]) -> Iterator[dict[str, Any]]:
    """The open intervals of a stored state."""
    for applied in acls:
        yield _readable(applied) | {
            "id": applied.record.id,
            "valid_from_offset": applied.offset,
            "valid_to_offset": None,
        }


def random_batches(seed: int, offsets: int) -> Iterator[list[MetadataRecord]]:
    """ACLs of a few ids and kinds, added, replaced, repeated and removed; transactions, some aborted."""
    draw = random.Random(seed)

    def change() -> MetadataRecord:
        number = draw.randrange(20)
        if draw.random() < 0.3:
            return RemoveAccessControlEntryRecord(acl_id(number))
        return acl(number, host=draw.choice(["*", "10.0.0.1"]), operation=draw.choice([3, 4]))

    while offsets > 0:
        records = [change() for _ in range(1 + draw.randrange(6))]
        if draw.random() < 0.4:
            ended = EndTransactionRecord() if draw.random() < 0.6 else AbortTransactionRecord("no")
            records = [BeginTransactionRecord("t"), *records, ended]
        offsets -= len(records)
        yield records
