"""The fold of one shard of one log: DECODED rows onto the shard's part, to the next part. Runs on executors.

What becomes of an id does not depend on any other id, so shards are folded apart, by the rules of AclsDelta,
and their digests add up to the log's (I12). Imports no pyspark: it takes and gives Arrow batches.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, FeatureLevelRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid, uuid_to_string
from records.log_batch import LogRecord
from snapshot.code_names import code_to_name
from snapshot.columns import AclColumns
from snapshot.delta import AclsDelta
from snapshot.digest import digest_to_string
from snapshot.errors import SparkJobError
from snapshot.image import AclsImage
from snapshot.jobs.engine.job import AclCount, AclCountDelta, LogPlan, ShardSummary
from snapshot.jobs.engine.schema import (
    CHANGE_ADDED,
    CHANGE_REMOVED,
    CHANGE_REPLACED,
    KIND_ACL,
    KIND_FEATURE,
    KIND_PLAN,
    KIND_REMOVAL,
)
from snapshot.jobs.engine.stored_shard import StoredShard, read_shard
from snapshot.store.layout import shard_part_name
from snapshot.store.manifest import SnapshotPart
from snapshot.store.parquet import encode_part
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.entries import MetadataRecord
    from snapshot.store.manifest import SnapshotManifest

_ACL: Final = pa.struct(
    [
        *(
            pa.field(name, pa.string())
            for name in (
                "resource_type",
                "resource_name",
                "pattern_type",
                "principal",
                "host",
                "operation",
                "permission_type",
            )
        ),
        pa.field("offset", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
    ]
)
_CHANGE: Final = pa.struct(
    [
        pa.field("topic_id", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("change", pa.string()),
        pa.field("id", pa.binary()),
        pa.field("before", _ACL),
        pa.field("after", _ACL),
    ]
)
#: schema.FOLDED.
FOLDED_ROWS: Final = pa.schema(
    [
        pa.field("cluster_id", pa.string()),
        pa.field("shard", pa.int32()),
        pa.field("summary", pa.string()),
        pa.field("output", pa.string()),
        pa.field("change", _CHANGE),
    ]
)
_ROW: Final = (
    "kind",
    "offset",
    "applied_offset",
    "timestamp_ms",
    "id",
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
    "feature_level",
)

# Rows with changes that are handed on at once.
_CHANGES_MAX: Final = 1000
_MINUTE_MS: Final = 60_000


def fold_shard(plan: LogPlan, shard: int, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fold the shard's rows, put its part, and give FOLDED rows: changes if wanted, its summary at last.

    Args:
        plan: of the log.
        shard: which of its shards.
        rows: DECODED rows of this shard in the order of (applied_offset, offset); those below
            ``plan.rows_from`` are passed over.

    Raises:
        SnapshotError: the base is damaged, or the store cannot be read or written.
        SparkJobError: rows out of order or beyond the plan's end.
    """
    fold = _ShardFold(plan, shard)
    for batch in rows:
        fold.take(batch)
        if len(fold.changes) >= _CHANGES_MAX:
            yield fold.take_changes()
    summary = fold.finish()
    if fold.changes:
        yield fold.take_changes()
    yield _folded(plan, shard, [{"summary": msgspec.json.encode(summary).decode()}])


class _ShardFold:
    """One fold on its way.

    Attributes:
        changes: rows of them, not handed on yet.
    """

    def __init__(self, plan: LogPlan, shard: int) -> None:
        self.changes: list[dict[str, Any]] = []
        self._plan = plan
        self._shard = shard
        self._storage = Storage(plan.store_url)
        base = plan.base
        self._stored = None if base is None else read_shard(self._storage, base, shard, plan.shards)
        self._delta = AclsDelta(self._image_of(base, self._stored))
        self._count_deltas: Counter[tuple[int, int, int, int, int]] = Counter()
        # What is told one by one; against `before` the difference is told at the end.
        self._tells = (plan.wants_changes or plan.wants_count_deltas) and plan.before is None
        self._last = (-1, -1)

    def _image_of(self, manifest: SnapshotManifest | None, stored: StoredShard | None) -> AclsImage:
        if manifest is None or stored is None:
            return AclsImage.EMPTY
        features = {} if self._shard else manifest.features
        return stored.image(manifest.provenance, features)

    def take(self, batch: pa.RecordBatch) -> None:
        """Fold some rows."""
        plan, delta, last = self._plan, self._delta, self._last
        rows_from, end, takes_applied = plan.rows_from, plan.end, plan.wants_changes
        for row in zip(*(batch.column(name).to_pylist() for name in _ROW), strict=True):
            kind, offset, applied_offset, timestamp_ms = row[:4]
            if kind == KIND_PLAN or applied_offset < rows_from:
                continue
            if applied_offset >= end or (applied_offset, offset) <= last:
                raise SparkJobError(
                    f"cluster {plan.identity.cluster_id}: a record of offset {offset}, which counts from "
                    f"{applied_offset} on, after {last} in a batch that ends at {end}"
                )
            last = applied_offset, offset
            logged = LogRecord(applied_offset if takes_applied else offset, timestamp_ms, _record(kind, row))
            if self._tells and applied_offset >= plan.start and kind != KIND_FEATURE:
                self._tell_replay(logged, Uuid(row[4]), applied_offset)
            else:
                delta.replay(logged)
        self._last = last

    def _tell_replay(self, logged: LogRecord, acl_id: Uuid, applied_offset: int) -> None:
        before = self._delta.get(acl_id)
        self._delta.replay(logged)
        self._tell(before, self._delta.get(acl_id), applied_offset, logged.timestamp_ms)

    def _tell(
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
            self.changes.append(
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

    def take_changes(self) -> pa.RecordBatch:
        """The changes so far, as FOLDED rows."""
        changes, self.changes = self.changes, []
        return _folded(self._plan, self._shard, [{"change": change} for change in changes])

    def finish(self) -> ShardSummary:
        """Put the part."""
        plan, delta, stored = self._plan, self._delta, self._stored
        is_unchanged = not delta.changes
        image = delta.apply(plan.provenance).merged()
        if plan.before is not None:
            image = self._told_difference(plan.before, image)
        columns = image.columns
        part = None
        if len(columns):
            data = stored.part if is_unchanged and stored is not None else None
            part = self._put(data or encode_part(columns, digest=image.digest), len(columns))
        return ShardSummary(
            shard=self._shard,
            part=part,
            digest=digest_to_string(image.digest),
            count_by_resource_type=columns.count_by_resource_type(),
            features=dict(image.features),
            counts=delta.counts,
            acl_counts=_acl_counts(columns),
            count_deltas=[
                AclCountDelta(*key, change) for key, change in sorted(self._count_deltas.items()) if change
            ],
        )

    def _told_difference(self, before: SnapshotManifest, after: AclsImage) -> AclsImage:
        """Tell what is another than it was; the log has forgotten when an ACL went.

        Returns the state as it was told: where nothing is told of an ACL its place stays as well, though the
        log may have only a later writing of it, and nothing is told of the time before the batch.
        """
        plan = self._plan
        stored = read_shard(self._storage, before, self._shard, plan.shards)
        told: dict[Uuid, AppliedAcl | None] = {}
        for was, is_now in AclsDelta.between(self._image_of(before, stored), after).changed():
            if is_now is None:
                self._tell(was, None, plan.end - 1, plan.provenance.timestamp_ms)
            elif was is not None and was.record == is_now.record:
                told[is_now.record.id] = was
            else:
                offset = plan.start if is_now.offset is None else max(is_now.offset, plan.start)
                placed = AppliedAcl(is_now.record, offset, is_now.timestamp_ms)
                self._tell(was, placed, offset, is_now.timestamp_ms)
                told[is_now.record.id] = placed
        if not plan.wants_changes:
            return after
        return after.with_changes(
            told,
            count=len(after),
            digest=after.digest,
            features=after.features,
            provenance=after.provenance,
        ).merged()

    def _put(self, data: bytes, rows: int) -> SnapshotPart:
        plan = self._plan
        # Spark may run a task twice: each run has names of its own.
        name = shard_part_name(self._shard, plan.shards, f"{plan.attempt}-{uuid4().hex[:8]}")
        self._storage.put(plan.ref.file(name), data)
        return SnapshotPart(name, rows, len(data), hashlib.sha256(data).hexdigest())


def _record(kind: int, row: tuple[Any, ...]) -> MetadataRecord:
    if kind == KIND_ACL:
        return AccessControlEntryRecord(Uuid(row[4]), *row[5:12])
    if kind == KIND_REMOVAL:
        return RemoveAccessControlEntryRecord(Uuid(row[4]))
    if kind == KIND_FEATURE:
        return FeatureLevelRecord(row[6], row[12])
    raise SparkJobError(f"there is no kind {kind} of decoded rows")


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


def _acl_counts(columns: AclColumns) -> list[AclCount]:
    # Four codes of one byte as one number: numpy sorts numbers many times faster than rows.
    kinds = np.stack(
        [columns.resource_types, columns.pattern_types, columns.operations, columns.permission_types], axis=1
    )
    found, counts = np.unique(kinds.view(np.int32), return_counts=True)
    codes = found.view(np.int8).reshape(-1, 4).tolist()
    return [
        AclCount(resource_type, pattern_type, operation, permission_type, count)
        for (resource_type, pattern_type, operation, permission_type), count in sorted(
            zip(codes, counts.tolist(), strict=True)
        )
    ]


def _folded(plan: LogPlan, shard: int, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    place = {"cluster_id": plan.identity.cluster_id, "shard": shard}
    return pa.RecordBatch.from_pylist([place | row for row in rows], schema=FOLDED_ROWS)
