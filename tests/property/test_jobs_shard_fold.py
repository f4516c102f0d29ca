"""The fold by shards, compared with a naive fold, for any batches, any shards and any writer of the base."""

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
    """A log in batches; none ends within a transaction, some contain no ACL record."""
    batches = draw(st.lists(record_lists(max_size=10, with_transactions=True), min_size=1, max_size=4))
    found, start = [], 0
    for records in batches:
        found.append(logged(records, start=start))
        start += max(1, len(records))  # an offset without a record, at least
    return found


def memory_store() -> SnapshotStore:
    return SnapshotStore(f"memory://{uuid.uuid4().hex}")


def folded_image(image: AclsImage, records: list[Counted], end: int, *, applied: bool = False) -> AclsImage:
    """The naive fold of the applied records."""
    delta = AclsDelta(image)
    for found in records:
        offset = found.applied_offset if applied else found.logged.offset
        delta.replay(LogRecord(offset, found.logged.timestamp_ms, found.logged.record))
    return delta.apply(Provenance(end, 1, 1_000 * (end - 1)))


def changes_of(image: AclsImage, records: list[Counted]) -> list[Any]:
    """The changes of the naive fold, one by one."""
    changes = []
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
        changes.append(
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
    return sorted(changes, key=lambda row: (row["offset"], row["id"]))


def kinds(image: AclsImage) -> Counter[tuple[int, ...]]:
    return Counter(_kind_of(acl.record) for acl in image)


def counted_kinds(result: LogResult) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    for row in result.summary.acl_counts:
        found[row.resource_type, row.pattern_type, row.operation, row.permission_type] += row.count
    return found


@given(logs(), st.data())
@settings(max_examples=examples(gate=30, deep=80))
def test_every_batch_gives_the_state_of_the_naive_fold(
    batches: list[list[LogRecord]], data: st.DataObject
) -> None:
    """Rows, digest, counts and features agree for any number of shards and any writer of the base."""
    store = memory_store()
    image, base, end = AclsImage.EMPTY, None, 0
    for batch in batches:
        end += max(1, len(batch))
        records = counted(batch)
        before, image = image, folded_image(image, records, end)
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
        assert counted_kinds(result) == kinds(image)
        assert changes == []
        assert result.summary.counts.added - result.summary.counts.removed == len(image) - len(before)


@given(logs(), st.integers(1, 5))
@settings(max_examples=examples(gate=30, deep=80))
def test_the_changes_are_those_of_the_naive_fold(batches: list[list[LogRecord]], shards: int) -> None:
    """Each change has the offset from which it is in force, and the counts change accordingly."""
    store = memory_store()
    image, base, end = AclsImage.EMPTY, None, 0
    for batch in batches:
        end += max(1, len(batch))
        records = counted(batch)
        of = plan(store, end, base=base, shards=shards, wants_changes=True, wants_count_deltas=True)
        result, changes = folded(of, batch)
        assert in_order(changes) == in_order(changes_of(image, records))
        before, image = image, folded_image(image, records, end, applied=True)
        base = store.commit(result.manifest, attempts="job")
        assert contents(store.read(base.ref).image) == contents(image)
        moved = kinds(before)
        for row in result.summary.count_deltas:
            assert row.delta
            assert row.minute_ms % 60_000 == 0
            moved[row.resource_type, row.pattern_type, row.operation, row.permission_type] += row.delta
        assert +moved == kinds(image)


def in_order(changes: list[Any]) -> list[Any]:
    """The changes by id; those of one id in their order."""
    return sorted(changes, key=lambda change: bytes(change["id"]))


@given(logs(), st.integers(1, 4), st.data())
@settings(max_examples=examples(gate=30, deep=80))
def test_changes_of_earlier_batches_are_not_repeated(
    batches: list[list[LogRecord]], shards: int, data: st.DataObject
) -> None:
    """A state was lost: the job reads older records again, and reports only the batch's changes."""
    store = memory_store()
    ends = [0]
    for batch in batches:
        ends.append(ends[-1] + max(1, len(batch)))
    at = data.draw(st.integers(0, len(batches) - 1), label="batches before")
    everything = [found for batch in batches for found in counted(batch)]
    new = [found for found in everything if found.applied_offset >= ends[at]]
    old = [found for found in everything if found.applied_offset < ends[at]]
    image = folded_image(AclsImage.EMPTY, old, ends[at], applied=True)
    of = plan(store, ends[-1], base=None, shards=shards, start=ends[at], wants_changes=True)
    result, changes = folded(of, [logged for batch in batches for logged in batch])
    assert in_order(changes) == in_order(changes_of(image, new))
    base = store.commit(result.manifest, attempts="job")
    assert store.read(base.ref).image.digest == folded_image(image, new, ends[-1]).digest


@given(logs(), logs(), st.integers(1, 4))
@settings(max_examples=examples(gate=30, deep=80))
def test_a_rebuilt_state_reports_the_difference(
    before: list[list[LogRecord]], after: list[list[LogRecord]], shards: int
) -> None:
    """I10: the changes lead from the state that could not be continued to the rebuilt one."""
    store = memory_store()
    old = folded_image(AclsImage.EMPTY, [found for batch in before for found in counted(batch)], 500)
    ref = store.write(old, IDENTITY, log_end_time_ms=5)
    stale = store.read(ref).manifest
    records = [found for batch in after for found in counted(batch)]
    of = plan(store, 1_000, base=None, shards=shards, start=500, before=stale, wants_changes=True)
    result, changes = folded(of, [logged for batch in after for logged in batch])
    image = folded_image(AclsImage.EMPTY, records, 1_000, applied=True)
    rows = {acl.record.id: _readable(acl) for acl in old}
    for change in changes:
        assert rows.pop(change["id"], None) == change["before"]
        if change["after"] is not None:
            rows[change["id"]] = change["after"]
        if change["change"] == "removed":
            assert change["offset"] == 999
    assert {key: _without_offset(row) for key, row in rows.items()} == {
        acl.record.id: _without_offset(_readable(acl)) for acl in image
    }
    assert result.manifest.digest == image.digest


def _without_offset(row: dict[str, Any]) -> dict[str, Any]:
    """The ACL alone: an equal ACL that was written again is no change."""
    return {name: value for name, value in row.items() if name not in {"offset", "timestamp_ms"}}


@given(st.lists(strange_acl_records(), max_size=12), st.integers(1, 5))
def test_any_codes_texts_and_ids_are_folded(records: list[MetadataRecord], shards: int) -> None:
    store = memory_store()
    result, _ = folded(plan(store, 20, base=None, shards=shards), logged(records))
    image = folded_image(AclsImage.EMPTY, counted(logged(records)), 20)
    base: SnapshotManifest = store.commit(result.manifest, attempts="job")
    assert contents(store.read(base.ref).image) == contents(image)
    assert base.digest == image.digest
