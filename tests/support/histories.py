"""Histories of changes, in a form that tests compare with logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord
from snapshot.jobs.changes.change_table import record_from_row
from snapshot.jobs.folding.change_recorder import _readable


def as_record(row: Mapping[str, Any]) -> AccessControlEntryRecord:
    """The ACL of an interval, or of a change with its id."""
    return record_from_row(bytes(row["id"]), row)


def open_intervals(acls: Iterable[AppliedAcl]) -> Iterator[dict[str, Any]]:
    """The open intervals of a stored state."""
    for acl in acls:
        yield _readable(acl) | {
            "id": acl.record.id,
            "valid_from_offset": acl.offset,
            "valid_to_offset": None,
        }
