"""Recorder of the single changes in a batch, for the jobs that write a history or counts over time."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow as pa

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_to_name
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid, uuid_to_string
from snapshot.columns import AclColumns
from snapshot.delta import AclsDelta
from snapshot.image import NOWHERE, AclsImage
from snapshot.jobs.folding.log_plan import AclCountDelta, LogPlan
from snapshot.jobs.folding.schema import CHANGE_ADDED, CHANGE_REMOVED, CHANGE_REPLACED, CHANGES_ARROW

_MINUTE_MS: Final = 60_000
# Changes that are buffered as objects before they become Arrow rows, which take less memory.
_BUFFERED_MAX: Final = 1 << 16


class ChangeRecorder:
    """Records the changes of one log's batch that its plan wants."""

    def __init__(self, plan: LogPlan) -> None:
        self._plan = plan
        self._topic_id = uuid_to_string(plan.identity.topic_id)
        self._count_deltas: Counter[tuple[int, int, int, int, int]] = Counter()
        self._recorded: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def changes(self) -> pa.Table:
        """Rows of CHANGES_ARROW; none if the plan wants no changes."""
        self._to_arrow()
        return pa.Table.from_batches(self._batches, CHANGES_ARROW)

    def count_deltas(self) -> list[AclCountDelta]:
        """The sorted deltas that are not zero; none if the plan wants none."""
        return [AclCountDelta(*key, change) for key, change in sorted(self._count_deltas.items()) if change]

    def record_change(
        self, before: AppliedAcl | None, after: AppliedAcl | None, offset: int, timestamp_ms: int
    ) -> None:
        """Record one change; equal content is no change."""
        if before is None:
            if after is None:
                return
            change, acl_id = CHANGE_ADDED, after.record.id
        else:
            if after is not None and after.record == before.record:
                return
            change = CHANGE_REMOVED if after is None else CHANGE_REPLACED
            acl_id = before.record.id
        if self._plan.wants_count_deltas:
            minute_ms = timestamp_ms - timestamp_ms % _MINUTE_MS
            if before is not None:
                self._count_deltas[(minute_ms, *_kind_of(before.record))] -= 1
            if after is not None:
                self._count_deltas[(minute_ms, *_kind_of(after.record))] += 1
        if self._plan.wants_changes:
            self._recorded.append(
                {
                    "topic_id": self._topic_id,
                    "offset": offset,
                    "timestamp_ms": timestamp_ms,
                    "change": change,
                    "id": acl_id,
                    "before": None if before is None else _readable(before),
                    "after": None if after is None else _readable(after),
                }
            )
            if len(self._recorded) >= _BUFFERED_MAX:
                self._to_arrow()

    def record_difference(self, before: AclTable, after: AclTable, timestamp_ms: int) -> AclTable:
        """Record the difference of two states, because the log no longer has the removals in between.

        ``timestamp_ms``: of the new state, for removals.

        Returns the new state with offsets that agree with the recorded changes: an unchanged ACL retains its
        old offset, though the log may only have a later record of it; a changed one has no offset before the
        batch's start.
        """
        plan = self._plan
        old_image, new_image = (
            AclsImage.restored(AclColumns.concat([rows]), digest=0, provenance=NOWHERE)
            for rows in (before, after)
        )
        relocated: dict[Uuid, AppliedAcl | None] = {}
        for old, new in AclsDelta.between(old_image, new_image).changed():
            if new is None:
                self.record_change(old, None, plan.end - 1, timestamp_ms)
            elif old is not None and old.record == new.record:
                relocated[new.record.id] = old
            else:
                offset = plan.start if new.offset is None else max(new.offset, plan.start)
                applied = AppliedAcl(new.record, offset, new.timestamp_ms)
                self.record_change(old, applied, offset, new.timestamp_ms)
                relocated[new.record.id] = applied
        return new_image.columns.with_changes(relocated)

    def _to_arrow(self) -> None:
        if self._recorded:
            self._batches.append(pa.RecordBatch.from_pylist(self._recorded, schema=CHANGES_ARROW))
            self._recorded = []


def _kind_of(record: AccessControlEntryRecord) -> tuple[int, int, int, int]:
    return record.resource_type, record.pattern_type, record.operation, record.permission_type


def _readable(acl: AppliedAcl) -> dict[str, Any]:
    record = acl.record
    return {
        "resource_type": code_to_name(ResourceType, record.resource_type),
        "resource_name": record.resource_name,
        "pattern_type": code_to_name(PatternType, record.pattern_type),
        "principal": record.principal,
        "host": record.host,
        "operation": code_to_name(AclOperation, record.operation),
        "permission_type": code_to_name(AclPermissionType, record.permission_type),
        "offset": acl.offset,
        "timestamp_ms": acl.timestamp_ms,
    }
