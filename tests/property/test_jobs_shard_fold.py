"""Folding by shards is the plain fold, whatever the batches and the shards, and whoever wrote the base."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from records.entries import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import uuid_to_string
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.folding.change_recorder import _kind_of, _readable
from snapshot.jobs.folding.log_plan import LogResult
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.example_counts import examples
from support.shard_folds import Counted, counted, folded, plan
from support.snapshots import IDENTITY, contents, logged
from support.strategies import record_lists, strange_acl_records


@st.composite
def logs(draw: st.DrawFn) -> list[list[LogRecord]]:
    """A log in batches; none ends within a transaction, some are empty of what counts."""
    batches = draw(st.lists(record_lists(max_size=10, with_transactions=True), min_size=1, max_size=4))
    found, start = [], 0
    for records in batches:
        found.append(logged(records, start=start))
        start += max(1, len(records))  # an offset without a record, at least
    return found


def memory_store() -> SnapshotStore:
    return SnapshotStore(f"memory://{uuid.uuid4().hex}")


def replayed(image: AclsImage, records: list[Counted], end: int, *, applied: bool = False) -> AclsImage:
    """The plain fold of what counts."""
    delta = AclsDelta(image)
    for found in records:
        offset = found.applied_offset if applied else found.logged.offset
        delta.replay(LogRecord(offset, found.logged.timestamp_ms, found.logged.record))
    return delta.apply(Provenance(end, 1, 1_000 * (end - 1)))


def changes_of(image: AclsImage, records: list[Counted]) -> list[Any]:
    """What the plain fold changes, one by one."""
    told = []
    delta = AclsDelta(image)
    for found in records:
        record = found.logged.record
        if not isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord):
            continue
        before = delta.get(record.id)
        delta.replay(LogRecord(found.applied_offset, found.logged.timestamp_ms, record))
        after = delta.get(record.id)
        if before == after:
            continue
        change = "added" if before is None else "removed" if after is None else "replaced"
        told.append(
            {
                "topic_id": uuid_to_string(IDENTITY.topic_id),
                "offset": found.applied_offset,
                "timestamp_ms": found.logged.timestamp_ms,
                "change": change,
                "id": record.id,
                "before": None if before is None else _readable(before),
                "after": None if after is None else _readable(after),
            }
        )
    return sorted(told, key=lambda row: (row["offset"], row["id"]))


def kinds(image: AclsImage) -> Counter[tuple[int, ...]]:
    return Counter(_kind_of(acl.record) for acl in image)


def told_kinds(result: LogResult) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for row in result.summary.acl_counts:
        found[row.resource_type, row.pattern_type, row.operation, row.permission_type] += row.count
    return found


@given(logs(), st.data())
@settings(max_examples=examples(gate=30, deep=150))
def test_every_batch_ends_in_the_state_of_the_plain_fold(
    batches: list[list[LogRecord]], data: st.DataObject
) -> None:
    """Rows, digest, counts and features; the number of shards may change, and a node may write a base."""
    store = memory_store()
    image, base, end = AclsImage.EMPTY, None, 0
    for batch in batches:
        end += max(1, len(batch))
        records = counted(batch)
        before, image = image, replayed(image, records, end)
        if data.draw(st.booleans(), label="a node writes this one"):
            ref = SnapshotStore(store.url, rows_per_part=2).write(image, IDENTITY, log_end_time_ms=5)
            base = store.read(ref).manifest
            continue
        of = plan(store, end, base=base, shards=data.draw(st.integers(1, 5), label="shards"))
        result, changes = folded(of, batch)
        base = store.commit(result.manifest, attempts="job")
        stored = store.read(base.ref, IDENTITY)
        assert contents(stored.image) == contents(image)
        assert (stored.image.digest, len(stored.image)) == (image.digest, len(image))
        assert stored.image.metadata.features == image.metadata.features
        assert store.verify(base.ref, IDENTITY) == ()
        assert told_kinds(result) == kinds(image)
        assert changes == []
        assert result.summary.counts.added - result.summary.counts.removed == len(image) - len(before)


@given(logs(), st.integers(1, 5))
@settings(max_examples=examples(gate=30, deep=150))
def test_the_changes_are_those_of_the_plain_fold(batches: list[list[LogRecord]], shards: int) -> None:
    """One by one, each from the offset on from which it counts; and by so much the counts change."""
    store = memory_store()
    image, base, end = AclsImage.EMPTY, None, 0
    for batch in batches:
        end += max(1, len(batch))
        records = counted(batch)
        of = plan(store, end, base=base, shards=shards, wants_changes=True, wants_count_deltas=True)
        result, changes = folded(of, batch)
        assert in_order(changes) == in_order(changes_of(image, records))
        before, image = image, replayed(image, records, end, applied=True)
        base = store.commit(result.manifest, attempts="job")
        assert contents(store.read(base.ref).image) == contents(image)
        moved = kinds(before)
        for row in result.summary.count_deltas:
            assert row.delta
            assert row.minute_ms % 60_000 == 0
            moved[row.resource_type, row.pattern_type, row.operation, row.permission_type] += row.delta
        assert +moved == kinds(image)


def in_order(changes: list[Any]) -> list[Any]:
    """By id, and of one id as they were told."""
    return sorted(changes, key=lambda change: bytes(change["id"]))


@given(logs(), st.integers(1, 4), st.data())
@settings(max_examples=examples(gate=30, deep=150))
def test_what_was_told_before_is_not_told_again(
    batches: list[list[LogRecord]], shards: int, data: st.DataObject
) -> None:
    """A state was lost: the log is read again from an older one, and changes are told from the batch on."""
    store = memory_store()
    ends = [0]
    for batch in batches:
        ends.append(ends[-1] + max(1, len(batch)))
    at = data.draw(st.integers(0, len(batches) - 1), label="batches before")
    everything = [found for batch in batches for found in counted(batch)]
    told = [found for found in everything if found.applied_offset >= ends[at]]
    untold = [found for found in everything if found.applied_offset < ends[at]]
    image = replayed(AclsImage.EMPTY, untold, ends[at], applied=True)
    of = plan(store, ends[-1], base=None, shards=shards, start=ends[at], wants_changes=True)
    result, changes = folded(of, [logged for batch in batches for logged in batch])
    assert in_order(changes) == in_order(changes_of(image, told))
    base = store.commit(result.manifest, attempts="job")
    assert store.read(base.ref).image.digest == replayed(image, told, ends[-1]).digest


@given(logs(), logs(), st.integers(1, 4))
@settings(max_examples=examples(gate=30, deep=150))
def test_a_state_built_anew_tells_the_difference(
    before: list[list[LogRecord]], after: list[list[LogRecord]], shards: int
) -> None:
    """I10: against the state that could not be continued; applied to that one, it gives the other one."""
    store = memory_store()
    old = replayed(AclsImage.EMPTY, [found for batch in before for found in counted(batch)], 500)
    ref = store.write(old, IDENTITY, log_end_time_ms=5)
    stale = store.read(ref).manifest
    records = [found for batch in after for found in counted(batch)]
    of = plan(store, 1_000, base=None, shards=shards, start=500, before=stale, wants_changes=True)
    result, changes = folded(of, [logged for batch in after for logged in batch])
    image = replayed(AclsImage.EMPTY, records, 1_000, applied=True)
    rows = {acl.record.id: _readable(acl) for acl in old}
    for change in changes:
        assert rows.pop(change["id"], None) == change["before"]
        if change["after"] is not None:
            rows[change["id"]] = change["after"]
        if change["change"] == "removed":
            assert change["offset"] == 999
    assert {key: _place_free(row) for key, row in rows.items()} == {
        acl.record.id: _place_free(_readable(acl)) for acl in image
    }
    assert result.manifest.digest == image.digest


def _place_free(row: dict[str, Any]) -> dict[str, Any]:
    """The ACL alone: one that is the same is not told, also where it was written again."""
    return {name: value for name, value in row.items() if name not in {"offset", "timestamp_ms"}}


@given(st.lists(strange_acl_records(), max_size=12), st.integers(1, 5))
def test_any_content_is_folded(records: list[MetadataRecord], shards: int) -> None:
    """Any codes, texts and ids."""
    store = memory_store()
    result, _ = folded(plan(store, 20, base=None, shards=shards), logged(records))
    image = replayed(AclsImage.EMPTY, counted(logged(records)), 20)
    base: SnapshotManifest = store.commit(result.manifest, attempts="job")
    assert contents(store.read(base.ref).image) == contents(image)
    assert base.digest == image.digest
