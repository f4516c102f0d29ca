"""The fold of one shard of one log: DECODED rows onto the state of its ACLs. Runs on executors.

What becomes of an id does not depend on any other id, so shards are folded apart, and their digests add up to
the log's (I12). Many records are folded at once (snapshot.fold); where each change is to be noted, one by one
(AclsDelta). Imports no pyspark: it takes and gives Arrow batches.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import COLUMNS, TEXTS, AclTable, AppliedAcl
from records.columns.arrow import encoded, number_array, number_column
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid, uuid_to_string
from records.log_batch import LogRecord
from snapshot.code_names import code_to_name
from snapshot.columns import AclColumns, heads_of
from snapshot.delta import AclsDelta
from snapshot.digest import DIGEST_MASK, digest_to_string
from snapshot.errors import SparkJobError
from snapshot.fold import DeltaCounts, Fold
from snapshot.image import AclsImage
from snapshot.jobs.engine.job import AclCount, AclCountDelta, LogPlan, ShardSummary
from snapshot.jobs.engine.schema import (
    CHANGE_ADDED,
    CHANGE_REMOVED,
    CHANGE_REPLACED,
    CHANGES_ARROW,
    KIND_ACL,
    KIND_FEATURE,
    KIND_REMOVAL,
)
from snapshot.jobs.engine.shard_state import ShardState
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from snapshot.store.manifest import SnapshotManifest

#: Of DECODED, what a record is made of.
_RECORD: Final = ("timestamp_ms", "id", *COLUMNS)

_MINUTE_MS: Final = 60_000


class ShardFold:
    """One shard's fold on its way."""

    def __init__(self, plan: LogPlan, shard: int) -> None:
        """Reads what the plan's base has of the shard.

        Raises:
            SnapshotError: the base is damaged, or the store cannot be read.
        """
        self._plan = plan
        self._shard = shard
        self._storage = Storage(plan.store_url)
        self._state = self._stored(plan.base)
        self._features = {} if plan.base is None or shard else dict(plan.base.features)
        self._fold = Fold(self._state.held)
        self._counts = DeltaCounts()
        self._count_deltas: Counter[tuple[int, int, int, int, int]] = Counter()
        self._changes: list[pa.RecordBatch] = []
        # Changes are noted one by one; against `before`, the difference at the end.
        self._notes_each = (plan.wants_changes or plan.wants_count_deltas) and plan.before is None
        self._noted: list[dict[str, Any]] = []

    def _stored(self, manifest: SnapshotManifest | None) -> ShardState:
        if manifest is None:
            return ShardState.empty()
        return ShardState.read(self._storage, manifest, self._shard, self._plan.shards)

    def fold(self, rows: pa.Table) -> None:
        """Fold DECODED rows of this shard, in the order of (applied_offset, offset).

        Raises:
            SnapshotCorruptError: the base holds an id twice.
        """
        kinds = number_column(rows.column("kind"))
        if not np.isin(kinds, (KIND_ACL, KIND_REMOVAL, KIND_FEATURE)).all():
            raise SparkJobError(f"decoded rows of other kinds than there are: {np.unique(kinds)}")
        is_feature = kinds == KIND_FEATURE
        if is_feature.any():
            self._take_features(rows.take(number_array(np.flatnonzero(is_feature))))
            rows, kinds = rows.take(number_array(np.flatnonzero(~is_feature))), kinds[~is_feature]
        if self._notes_each:
            self._fold_noting(rows)
            return
        acls, removals = np.flatnonzero(kinds == KIND_ACL), np.flatnonzero(kinds == KIND_REMOVAL)
        removal_ids = b"".join(rows.column("id").take(number_array(removals)).to_pylist())
        table = _table_of(rows.take(number_array(acls)), self._offset)
        self._fold.take_acls(table, acls, removal_ids, removals, len(rows))

    def _take_features(self, rows: pa.Table) -> None:
        names, levels = (rows.column(name).to_pylist() for name in ("resource_name", "feature_level"))
        for name, level in zip(names, levels, strict=True):
            self._features[name] = level
            if level == 0:
                del self._features[name]

    @property
    def _offset(self) -> str:
        """Which offset is stored with an ACL."""
        return "applied_offset" if self._plan.wants_changes else "offset"

    def _fold_noting(self, rows: pa.Table) -> None:
        """Fold ACLs and removals one by one, and note what each of them changes."""
        plan, state = self._plan, self._state
        ids = b"".join(rows.column("id").to_pylist())
        held = state.held(np.unique(heads_of(ids)))
        delta = AclsDelta(
            AclsImage.restored(held, digest=state.digest, features={}, provenance=plan.provenance)
        )
        columns = (
            rows.column(name).to_pylist() for name in ("kind", "applied_offset", self._offset, *_RECORD)
        )
        for kind, applied_offset, offset, timestamp_ms, *fields in zip(*columns, strict=True):
            acl_id = Uuid(fields[0])
            if kind == KIND_ACL:
                logged = LogRecord(offset, timestamp_ms, AccessControlEntryRecord(acl_id, *fields[1:]))
            else:
                logged = LogRecord(offset, timestamp_ms, RemoveAccessControlEntryRecord(acl_id))
            before = delta.get(acl_id)
            delta.replay(logged)
            if applied_offset >= plan.start:
                self._note(before, delta.get(acl_id), applied_offset, timestamp_ms)
        changed = delta.changes
        state.apply(changed, AclTable.of([acl for acl in changed.values() if acl is not None]))
        state.digest = delta.apply(plan.provenance).digest
        self._counts.add(delta.counts)
        self._keep_changes()

    def finish(self) -> tuple[ShardSummary, list[pa.RecordBatch]]:
        """Write the shard's files; its summary, and its changes as rows of CHANGES_ARROW.

        Raises:
            SnapshotError: the store cannot be written.
        """
        plan, state = self._plan, self._state
        self._fold.settle()
        state.apply(self._fold.gone, self._fold.rows)
        state.digest = (state.digest + self._fold.digest) & DIGEST_MASK
        self._counts.add(self._fold.counts)
        if plan.before is not None:
            self._note_difference(plan.before)
        by_kind = self._state.count_by_kind()
        by_type: Counter[int] = Counter()
        for kind, count in by_kind.items():
            by_type[kind[0]] += count
        summary = ShardSummary(
            shard=self._shard,
            part=self._state.put(
                self._storage, plan.ref, shard=self._shard, shards=plan.shards, attempt=plan.attempt
            ),
            digest=digest_to_string(self._state.digest),
            count_by_resource_type=dict(by_type),
            features=self._features,
            counts=self._counts,
            acl_counts=[AclCount(*kind, count) for kind, count in sorted(by_kind.items())],
            count_deltas=[
                AclCountDelta(*key, change) for key, change in sorted(self._count_deltas.items()) if change
            ],
        )
        return summary, self._changes

    def _keep_changes(self) -> None:
        if self._noted:
            self._changes.append(pa.RecordBatch.from_pylist(self._noted, schema=CHANGES_ARROW))
            self._noted = []

    def _note_difference(self, before: SnapshotManifest) -> None:
        """Note what is another than it was; the log has forgotten when an ACL went.

        The state becomes the one that was noted: where nothing is noted of an ACL its place stays as well,
        though the log may have only a later writing of it, and nothing is noted of the time before the batch.
        """
        plan = self._plan
        was_there, there = (
            AclsImage.restored(
                AclColumns.joined([state.rows()]),
                digest=state.digest,
                features={},
                provenance=plan.provenance,
            )
            for state in (self._stored(before), self._state)
        )
        noted: dict[Uuid, AppliedAcl | None] = {}
        for was, is_now in AclsDelta.between(was_there, there).changed():
            if is_now is None:
                self._note(was, None, plan.end - 1, plan.provenance.timestamp_ms)
            elif was is not None and was.record == is_now.record:
                noted[is_now.record.id] = was
            else:
                offset = plan.start if is_now.offset is None else max(is_now.offset, plan.start)
                placed = AppliedAcl(is_now.record, offset, is_now.timestamp_ms)
                self._note(was, placed, offset, is_now.timestamp_ms)
                noted[is_now.record.id] = placed
        self._keep_changes()
        if plan.wants_changes:
            columns = there.columns.with_changes(noted)
            self._state = ShardState(None, columns, self._state.digest)

    def _note(
        self, before: AppliedAcl | None, after: AppliedAcl | None, offset: int, timestamp_ms: int
    ) -> None:
        """One change, if it is one: the same content written again is none."""
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
            self._noted.append(
                {
                    "topic_id": uuid_to_string(self._plan.identity.topic_id),
                    "offset": offset,
                    "timestamp_ms": timestamp_ms,
                    "change": change,
                    "id": acl_id,
                    "before": None if before is None else _readable(before),
                    "after": None if after is None else _readable(after),
                }
            )


def _table_of(rows: pa.Table, offset: str) -> AclTable:
    """Of DECODED rows that are ACLs; ``offset``: the column that is stored."""
    columns: dict[str, Any] = {}
    for field, name in COLUMNS.items():
        column = rows.column(field)
        columns[name] = encoded([column.combine_chunks()]) if name in TEXTS else number_column(column)
    return AclTable(
        ids=b"".join(rows.column("id").to_pylist()),
        offsets=number_column(rows.column(offset)),
        timestamps_ms=number_column(rows.column("timestamp_ms")),
        **columns,
    )


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
