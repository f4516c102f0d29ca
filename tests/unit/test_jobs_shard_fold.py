"""The fold of a log: refused inputs, and parts that it does not rewrite."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from records.entries import (
    ControlRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.log_batch import LogBatch, LogRecord
from snapshot.columns import AclColumns
from snapshot.errors import SnapshotCorruptError, SparkJobError
from snapshot.image import Provenance
from snapshot.jobs.folding.log_fold import LogFold
from snapshot.jobs.folding.log_plan import shards_of_size
from snapshot.store.layout import shard_part_name
from snapshot.store.manifest import SnapshotManifest, SnapshotPart
from snapshot.store.parquet import encode_part
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage
from support.shard_folds import batch_of, folded, plan
from support.snapshots import IDENTITY, acl, acl_id, contents, logged, replayed


@pytest.fixture
def store() -> SnapshotStore:
    return SnapshotStore(f"memory://{uuid.uuid4().hex}")


def committed(
    store: SnapshotStore, records: list[MetadataRecord], base: SnapshotManifest | None = None, shards: int = 2
) -> SnapshotManifest:
    start = 0 if base is None else base.provenance.end_offset
    of = plan(store, start + len(records), base=base, shards=shards)
    result, _ = folded(of, logged(records, start=start))
    return store.commit(result.manifest, attempts="job", keep=9)


def test_a_shard_that_did_not_change_is_copied(store: SnapshotStore) -> None:
    """Byte by byte, into the new snapshot's own directory; records that change nothing change nothing."""
    base = committed(store, [acl(number) for number in range(20)])
    same = committed(store, [acl(3), RemoveAccessControlEntryRecord(acl_id(77))], base)
    assert (same.parts, same.digest) == (base.parts, base.digest)
    assert store.verify(same.ref) == ()
    changed = committed(store, [RemoveAccessControlEntryRecord(acl_id(0))], same)
    assert len({*changed.parts} - {*base.parts}) == 1


def test_a_small_change_is_stored_as_changes(store: SnapshotStore) -> None:
    """Added, replaced, removed and restored ACLs; the next batch and a node continue from it."""
    base = committed(store, [acl(number) for number in range(40)], shards=1)
    (part,) = base.parts
    removals: list[MetadataRecord] = [RemoveAccessControlEntryRecord(acl_id(number)) for number in (3, 4)]
    first = committed(store, [acl(1, host="h"), acl(99), *removals], base, shards=1)
    (changed,) = first.parts
    assert (changed.name, changed.sha256, changed.rows) == (part.name, part.sha256, 40)
    assert changed.changes is not None
    assert (changed.changes.rows, changed.changes.count) == (4, first.count)
    again: list[MetadataRecord] = [
        RemoveAccessControlEntryRecord(acl_id(99)),
        acl(3),
        RemoveAccessControlEntryRecord(acl_id(5)),
    ]
    second = committed(store, again, first, shards=1)
    expected = replayed(
        [*(acl(number) for number in range(40)), acl(1, host="h"), acl(99), *removals, *again]
    )
    for manifest in (first, second):
        assert store.verify(manifest.ref, IDENTITY) == ()
    assert contents(store.read(second.ref).image) == contents(expected)
    assert (second.digest, second.count) == (expected.digest, len(expected))
    # 1 and 3 have other rows, 4 and 5 are gone; 99 came and went.
    assert second.parts[0].changes is not None
    assert second.parts[0].changes.rows == 4


def test_a_large_change_rewrites_the_part(store: SnapshotStore) -> None:
    """More than an eighth of its rows; what an old aclog cannot read stays rare."""
    base = committed(store, [acl(number) for number in range(40)], shards=1)
    few = committed(store, [acl(number, host="h") for number in range(5)], base, shards=1)
    assert few.parts[0].changes is not None
    many = committed(store, [acl(5, host="h")], few, shards=1)
    assert [(part.rows, part.changes) for part in many.parts] == [(40, None)]
    assert b'"formatVersion": 2' in few.to_json()
    assert b'"formatVersion": 1' in many.to_json()


def test_a_shard_without_acls_has_no_part(store: SnapshotStore) -> None:
    """Nor is one missed when the next batch goes on from it."""
    base = committed(store, [acl(1)], shards=4)
    assert len(base.parts) == 1
    assert committed(store, [RemoveAccessControlEntryRecord(acl_id(1))], base, shards=4).parts == ()


def test_records_out_of_order_are_refused(store: SnapshotStore) -> None:
    """And records that the batch cannot have: the state would be wrong, without an error."""
    records = logged([acl(1), acl(1, host="h")])
    for size, offsets in ((1, "0 to 0 after 1"), (2, "1 to 0 after -1")):
        with pytest.raises(SparkJobError, match=f"records of offsets {offsets}, in a batch"):
            folded(plan(store, 2, base=None), records[::-1], size)
    with pytest.raises(SparkJobError, match=r"records of offsets 1 to 1 after 0, in a batch that ends at 1"):
        folded(plan(store, 1, base=None), records, 1)


def test_the_position_is_that_of_the_last_record(store: SnapshotStore) -> None:
    """Transaction markers and compacted records may follow it; a control record counts, as for a node."""

    def provenance(end: int, *found: LogBatch, base: SnapshotManifest | None = None) -> Provenance:
        fold = LogFold(plan(store, end, base=base))
        for each in found:
            fold.take(each)
        return fold.finish(None).provenance

    records = logged([acl(1), acl(2)])
    last_ms = records[1].timestamp_ms
    assert provenance(5, batch_of(records, epoch=3)) == Provenance(5, 3, last_ms, 3)
    control = LogBatch(2, 3, 4, 77, 0, (LogRecord(2, 77, ControlRecord(2, 0, b"")),))
    assert provenance(5, batch_of(records, epoch=3), control) == Provenance(5, 4, 77, 2)
    assert provenance(7) == Provenance(7, 0, 0, 7)
    base = committed(store, [acl(1)])
    before = base.provenance
    assert provenance(9, base=base) == Provenance(9, before.epoch, before.timestamp_ms, 8)


def test_features_are_part_of_the_state(store: SnapshotStore) -> None:
    """As a node has them: level 0 takes one away. Records of other kinds pass by."""
    levels = [FeatureLevelRecord(*level) for level in (("a", 1), ("b", 2), ("b", 0))]
    base = committed(store, [levels[0], acl(1), OtherRecord(20, 0), *levels[1:]])
    assert (base.features, base.count) == ({"a": 1}, 1)
    assert committed(store, [FeatureLevelRecord("a", 3)], base).features == {"a": 3}


def test_a_damaged_base_is_refused(tmp_path: Path) -> None:
    """By its bytes, as a node refuses it."""
    store = SnapshotStore(tmp_path)
    base = committed(store, [acl(number) for number in range(20)])
    path = tmp_path / base.ref.file(base.parts[0].name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(SnapshotCorruptError, match="SHA-256"):
        committed(store, [acl(1)], base)


def with_part(
    store: SnapshotStore, manifest: SnapshotManifest, data: bytes, rows: int | None = None
) -> SnapshotManifest:
    """The manifest with other bytes as its only part."""
    (part,) = manifest.parts
    Storage(store.url).put(manifest.ref.file(part.name), data)
    sha256 = hashlib.sha256(data).hexdigest()
    return replace(
        manifest, parts=(SnapshotPart(part.name, part.rows if rows is None else rows, len(data), sha256),)
    )


def test_a_shards_part_has_each_id_once(store: SnapshotStore) -> None:
    """What no job wrote under a shard's name is no shard."""
    manifest = committed(store, [acl(1), acl(2)], shards=1)
    columns = store.read(manifest.ref).image.columns
    twice = with_part(store, manifest, encode_part(AclColumns.concat([columns, columns])), rows=4)
    with pytest.raises(SnapshotCorruptError, match="holds an ACL id twice"):
        committed(store, [acl(1)], twice, shards=1)


def test_a_shards_part_is_named_for_its_shard() -> None:
    """A job with the same number of shards reads only that part."""
    assert shard_part_name(3, 8, "job-1") == "part-00003-of-00008-job-1.parquet"


def test_a_small_state_is_one_part_and_a_large_one_eight(store: SnapshotStore) -> None:
    """By the ACLs that it has at most; eight parts become one at half the size."""
    assert (shards_of_size(None, 10_000), shards_of_size(None, 10_001)) == (1, 8)
    one, eight = (
        committed(store, [acl(number) for number in range(shards * 9)], shards=shards) for shards in (1, 8)
    )
    assert (shards_of_size(one, 10_000), shards_of_size(one, 10_001)) == (1, 8)
    assert (shards_of_size(eight, 5_000), shards_of_size(eight, 5_001)) == (1, 8)
