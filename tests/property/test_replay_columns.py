"""Records by column, from bytes to image, compared with one record after another."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from itertools import chain
from unittest.mock import patch

import google_crc32c
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from records.batch import RecordBatch, decode_batch, encode_batch
from records.compression import Compression
from records.entries import MetadataRecord
from records.errors import DecodeError
from records.ids import Uuid
from records.log_batch import LogBatch
from replay.core import Core, Phase
from replay.events import BatchesRead, Effect, LoadedSnapshot, Publish, ReadFailed, Recovered
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.column_logs import by_column, frame_of, one_by_one, raw_batches
from support.digests import digest_of
from support.example_counts import examples
from support.sim_log import identity
from support.snapshots import contents, replayed
from support.strategies import (
    access_control_entry_records,
    plain_records,
    remove_access_control_entry_records,
    strange_acl_records,
    transactions,
)

BATCH_RECORDS_MAX = 5

#: Ids in pairs with the same first eight bytes; the fold by column first compares only these.
TWIN_IDS = [Uuid(bytes([head]) * 8 + bytes([tail]) * 8) for head in range(8) for tail in range(2)]


def with_twin_ids(record: MetadataRecord, acl_id: Uuid) -> MetadataRecord:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return type(record)(**fields | {"id": acl_id})


twins = st.builds(
    with_twin_ids,
    access_control_entry_records() | remove_access_control_entry_records(),
    st.sampled_from(TWIN_IDS),
)
#: Mostly plain records, so that complete batches are plain; and all other records of a log.
pieces = (
    st.lists(access_control_entry_records() | twins, min_size=1, max_size=BATCH_RECORDS_MAX)
    | st.lists(plain_records() | twins, min_size=1, max_size=BATCH_RECORDS_MAX)
    | st.lists(strange_acl_records(), min_size=1, max_size=BATCH_RECORDS_MAX)
    | transactions()
)


@st.composite
def batches(draw: st.DrawFn, start: int = 0, epoch: int = 1) -> list[RecordBatch]:
    """Consecutive batches; some compressed, some after a gap, with a transaction across two."""
    made = []
    for records in draw(st.lists(pieces, max_size=6)):
        cut = draw(st.integers(0, len(records)))
        for part in (records[:cut], records[cut:]):
            if not part:
                continue
            start += draw(st.sampled_from([0] * 9 + [2]))
            epoch += draw(st.sampled_from([0] * 4 + [1]))
            raw = encode_batch(
                [frame_of(record) for record in part],
                base_offset=start,
                epoch=epoch,
                timestamp_ms=start * 10,
                compression=draw(st.sampled_from([Compression.NONE] * 7 + [Compression.LZ4])),
            )
            made.append(decode_batch(raw))
            start += len(part)
    return made


def damaged(batch: RecordBatch, at: int, bit: int) -> RecordBatch:
    """The batch with one flipped bit after its header, and a matching CRC."""
    covered = bytearray(batch.covered)
    covered[40 + at % (len(covered) - 40)] ^= 1 << bit
    head = struct.pack(">qiib", batch.base_offset, 9 + len(covered), batch.epoch, 2)
    return decode_batch(head + struct.pack(">I", google_crc32c.value(bytes(covered))) + bytes(covered))


#: Few ids, so that nearly each of them occurs again.
crowded = st.lists(st.lists(twins, min_size=1, max_size=5), max_size=8)
few = st.lists(st.lists(twins, min_size=1, max_size=2), max_size=2)


@contextmanager
def small_steps() -> Iterator[None]:
    """Lower the limit above which changes become columns, for logs of a few records."""
    with patch("snapshot.image._MERGE_MINIMUM", 1):
        yield


def observed(effect: Effect) -> tuple[object, ...]:
    """All values of an effect; of a publication, all that a publisher may read."""
    if not isinstance(effect, Publish):
        values = [str(value) if isinstance(value, Exception) else value for value in astuple(effect)]
        return (type(effect), *values)
    image, delta = effect.image, effect.delta
    assert image.digest == digest_of(acl.record for acl in image)
    assert len(image) == len(list(image))
    held = contents(delta.image)
    changes = dict(delta.changes)
    for acl_id, acl in changes.items():
        assert delta.get(acl_id) == acl
        assert acl is not None or acl_id in held
    return (
        contents(image),
        image.digest,
        image.metadata,
        image.provenance,
        held,
        changes,
        msgspec.structs.astuple(delta.counts),
        effect.manifest,
    )


def effects_of(
    snapshot: AclsImage | None,
    reads: Sequence[tuple[list[LogBatch], DecodeError | None]],
    target: int,
    high_watermark: int,
) -> list[tuple[object, ...]]:
    """The effects of a core for these reads."""
    core = Core()
    loaded = None
    if snapshot is not None:
        loaded = LoadedSnapshot(image=snapshot, log_end_time_ms=None, origin="snapshot")
    effects = core.step(
        Recovered(
            identity=identity(),
            snapshot=loaded,
            log_start=0,
            high_watermark=target,
            now_ms=0,
            removal_retention_ms=None,
        )
    )
    for read, error in reads:
        if core.phase is Phase.RECOVERING:
            break
        effects += core.step(BatchesRead(batches=read, high_watermark=high_watermark, now_ms=0))
        if error is not None:
            effects += core.step(ReadFailed(error))
    return [observed(effect) for effect in effects]


@given(batches(), st.booleans(), st.integers(0), st.integers(0), st.integers(0, 7))
def test_any_bytes_are_decoded_as_by_record(
    log: list[RecordBatch], damage: bool, which: int, at: int, bit: int
) -> None:
    """Also damaged bytes give the same batches, and the same error with the same position."""
    if damage and log:
        which %= len(log)
        log[which] = damaged(log[which], at, bit)
    decoded, error = by_column(log)
    expected, problem = one_by_one(log)
    assert decoded == expected
    assert (type(error), str(error)) == (type(problem), str(problem))


@given(st.data())
@settings(max_examples=examples(gate=30, deep=150))
def test_a_log_read_by_column_has_the_same_effects(data: st.DataObject) -> None:
    """Reads of any size, from the start or from a snapshot, give identical effects."""
    before = data.draw(batches(), label="before the snapshot")
    with small_steps():
        snapshot, start = None, 0
        if before and data.draw(st.sampled_from([True, False]), label="with a snapshot"):
            core = Core()
            core.step(
                Recovered(
                    identity=identity(),
                    snapshot=None,
                    log_start=0,
                    high_watermark=0,
                    now_ms=0,
                    removal_retention_ms=None,
                )
            )
            end = before[-1].end_offset
            core.step(BatchesRead(batches=by_column(before)[0], high_watermark=end, now_ms=0))
            snapshot = core.published
            assert snapshot is not None
            start = snapshot.provenance.end_offset
        last = before[-1] if before else None
        after = batches() if last is None else batches(last.end_offset, last.epoch)
        log = [*before, *data.draw(after, label="log")]
        end_offset = log[-1].end_offset if log else 0
        log = [batch for batch in log if batch.end_offset > start]
        if log and data.draw(st.integers(0, 4), label="damage") == 0:
            log[-1] = damaged(log[-1], data.draw(st.integers(0)), data.draw(st.integers(0, 7)))
        target = data.draw(st.sampled_from([start, *(batch.end_offset for batch in log)]), label="target")
        columns: list[tuple[list[LogBatch], DecodeError | None]] = []
        records: list[tuple[list[LogBatch], DecodeError | None]] = []
        while log:
            size = data.draw(st.integers(1, 8), label="batches in a read")
            columns.append(by_column(log[:size]))
            records.append(one_by_one(log[:size]))
            log = log[size:]
        assert effects_of(snapshot, columns, target, end_offset) == effects_of(
            snapshot, records, target, end_offset
        )


@given(few, few, crowded, st.lists(st.sampled_from("ccccrrg"), min_size=8, max_size=8))
def test_a_fold_by_column_equals_the_fold_by_record(
    columns: list[list[MetadataRecord]],
    changes: list[list[MetadataRecord]],
    tail: list[list[MetadataRecord]],
    ways: list[str],
) -> None:
    """On any image, with rows and changes: folds by column (c), by record (r), and reads of the image (g)."""
    image = replayed(chain.from_iterable(columns)).merged()
    image = replayed(chain.from_iterable(changes), image)
    start = image.provenance.end_offset
    raw = raw_batches(tail, start=start)
    by_columns, by_records = AclsDelta(image, fold_at=4), AclsDelta(image)
    with small_steps():
        for way, column, record in zip(ways, by_column(raw)[0], one_by_one(raw)[0], strict=False):
            by_records.replay_batch(record)
            by_columns.replay_batch(record if way == "r" else column)
            if way == "g":
                assert [by_columns.get(acl_id) for acl_id in TWIN_IDS] == [
                    by_records.get(acl_id) for acl_id in TWIN_IDS
                ]
        provenance = Provenance(start + sum(map(len, tail)), 1, 0)
        folded, expected = by_columns.apply(provenance), by_records.apply(provenance)
    assert contents(folded) == contents(expected)
    assert (folded.digest, len(folded)) == (expected.digest, len(expected))
    assert folded.digest == digest_of(acl.record for acl in folded)
    assert [folded.get(acl_id) for acl_id in TWIN_IDS] == [expected.get(acl_id) for acl_id in TWIN_IDS]
    assert by_columns.counts == by_records.counts
    assert by_columns.changes == by_records.changes
