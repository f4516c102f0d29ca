"""The core on batches that were decoded by column: where they cannot be folded as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from records.batch import RecordBatch
from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from replay.core import Core
from replay.events import BatchesRead, GapSeen, LoadedSnapshot, Publish, Recovered
from snapshot.image import AclsImage
from support.column_logs import by_column, one_by_one, raw_batches
from support.sim_log import identity
from support.snapshots import acl, acl_id, replayed


def read(core: Core, batches: Sequence[RecordBatch], high_watermark: int) -> list[Any]:
    decoded, error = by_column(batches)
    assert error is None
    return core.step(BatchesRead(batches=decoded, high_watermark=high_watermark, now_ms=0))


def begun(image: AclsImage | None = None, target: int = 0) -> Core:
    core = Core()
    snapshot = None if image is None else LoadedSnapshot(image=image, log_end_time_ms=None, origin="snapshot")
    core.step(
        Recovered(
            identity=identity(),
            snapshot=snapshot,
            log_start=0,
            high_watermark=target,
            now_ms=0,
            removal_retention_ms=None,
        )
    )
    return core


def test_a_batch_that_begins_below_the_position_counts_from_there() -> None:
    """I5: a snapshot may end within a batch; its first records are not applied again."""
    snapshot = replayed([acl(1), acl(2)])
    core = begun(snapshot, target=4)
    # Were the first record applied, it would replace what the snapshot holds.
    batches = raw_batches([[acl(1, host="h"), acl(2, host="h"), acl(3), acl(4)]])
    (publish,) = (effect for effect in read(core, batches, 4) if isinstance(effect, Publish))
    assert {found.record for found in publish.image} == {acl(1), acl(2), acl(3), acl(4)}
    assert (publish.manifest.records, core.position) == (2, 4)


@pytest.mark.parametrize(
    ("end", "expected"), [(EndTransactionRecord(), [acl(1)]), (AbortTransactionRecord(), [])]
)
def test_a_batch_within_an_open_transaction_waits_for_its_end(
    end: MetadataRecord, expected: list[MetadataRecord]
) -> None:
    """KIP-868: its records become visible with the transaction, or not at all."""
    core = begun()
    batches = raw_batches([[BeginTransactionRecord()], [acl(1)], [end]])
    assert not read(core, batches[:2], 2)
    (publish,) = read(core, batches[2:], 3)
    assert [found.record for found in publish.image] == expected


def test_a_batch_behind_a_gap() -> None:
    """I6: offsets that are missing before it are a gap as ever."""
    core = begun()
    effects = read(core, raw_batches([[acl(1)]], start=3), 4)
    assert effects[0] == GapSeen(offset=0, next_offset=3, until=4)
    assert isinstance(effects[1], Publish)


def test_counts_of_a_batch_of_all_kinds() -> None:
    """Added, repeated, replaced, removed, unknown and ignored records are counted in the publication."""
    remove = RemoveAccessControlEntryRecord
    records: list[MetadataRecord] = [acl(1), acl(1), acl(2), acl(2, host="h"), OtherRecord(20, 0), acl(3)]
    records += [remove(acl_id(1)), remove(acl_id(9)), remove(acl_id(9))]
    core = begun()
    (publish,) = read(core, raw_batches([records]), len(records))
    counts = publish.manifest.counts
    assert (counts.added, counts.repeated, counts.replaced, counts.ignored) == (3, 1, 1, 1)
    assert (counts.removed, counts.unknown_removals, publish.manifest.records) == (1, 2, 9)


def test_repeated_content_keeps_the_offset_of_its_first_record() -> None:
    """I8: the ACL's offset is that of the record which put it in force."""
    core = begun()
    (publish,) = read(core, raw_batches([[acl(1)], [acl(1)], [acl(2), acl(1)]]), 4)
    found = publish.image.get(acl_id(1))
    assert (found.offset, found.timestamp_ms) == (0, 0)


def test_batches_are_equal_however_they_were_decoded() -> None:
    """A batch by column is the batch, with equal hash and text; its records are made when looked at."""
    raw = raw_batches([[acl(1), acl(2)]])
    (by_columns,), (by_records,) = by_column(raw)[0], one_by_one(raw)[0]
    assert by_columns == by_records
    assert hash(by_columns) == hash(by_records)
    assert repr(by_columns) == repr(by_records)
    assert by_columns.records[1] == by_records.records[1]
    assert (len(by_columns.records), isinstance(by_columns.records, tuple)) == (2, False)
    assert by_columns != by_column(raw_batches([[acl(1), acl(3)]]))[0][0]


def test_many_plain_records_become_columns_directly() -> None:
    """Above the limit of a large step, the image has them in its columns, and no changes beside them."""
    records = [acl(number) for number in range(3000)]
    core = begun()
    (publish,) = read(core, raw_batches([records]), len(records))
    assert (len(publish.image.columns), len(publish.image.changes)) == (3000, 0)
    assert {found.record for found in publish.image} == set(records)
