"""Records decoded in Arrow, as a task of the Spark jobs does it; without Spark."""

from __future__ import annotations

import pytest

from records.codecs.avro import encode
from records.codecs.kraft import encode_frame
from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError, UnsupportedVersionError
from records.ids import uuid_to_string
from records.log.directory import DirectoryLog
from snapshot.jobs.engine.decode import decode_batches
from snapshot.jobs.sources.directory_ranges import DirectoryRanges, OffsetAndEpoch
from snapshot.jobs.sources.directory_rows import DirectoryRange, read_rows
from support.column_logs import frame_of
from support.data import REAL_LOGS, real_log
from support.directory_logs import read_batches, records_of
from support.snapshots import acl, acl_id
from support.source_rows import CLUSTER_ID, SHARDS, TOPIC_ID, Row, expected_rows, rows_of, source_batch

BEGIN, END, ABORT = (
    encode_frame(marker)
    for marker in (BeginTransactionRecord("t"), EndTransactionRecord(), AbortTransactionRecord())
)
FRAMES = [encode_frame(acl(number)) for number in range(6)]
NAME = f"the log of cluster {CLUSTER_ID}, topic id {TOPIC_ID}"


def frames(*values: bytes | None, start: int = 0) -> list[Row]:
    return [Row(start + at, 1000 + at, None, value) for at, value in enumerate(values)]


def decoded(*batches: list[Row]) -> list[tuple[int, int]]:
    """Offset and applied offset of each row."""
    rows = rows_of(decode_batches(map(source_batch, batches), shards=SHARDS))
    return [(row["offset"], row["applied_offset"]) for row in rows]


@pytest.mark.parametrize("name", REAL_LOGS)
def test_a_real_log_is_decoded_as_its_reader_decodes_it(name: str) -> None:
    """Record by record, from the files to the rows: control records are no rows, everything else is right."""
    with DirectoryLog.open(real_log(name)) as log:
        identity, start, end = log.identity, log.start_offset(), log.high_watermark()
        records = records_of(read_batches(log))
    topic_id = uuid_to_string(identity.topic_id)
    wanted = DirectoryRange(str(real_log(name)), identity.cluster_id, topic_id, start, end, None)
    source = list(read_rows(wanted))
    logged = [
        (logged.offset, logged.timestamp_ms, logged.record)
        for logged in records
        if not isinstance(logged.record, ControlRecord)
    ]
    assert [row["offset"] for row in rows_of(source)] == [offset for offset, _, _ in logged]
    expected = expected_rows(logged, cluster_id=identity.cluster_id, topic_id=topic_id)
    assert rows_of(decode_batches(source, shards=SHARDS)) == expected
    assert len(expected) > 50


@pytest.mark.parametrize("name", REAL_LOGS)
def test_a_real_log_in_small_ranges(name: str) -> None:
    """Batches of a query: no row twice, none missing, whatever their size; each ends at a batch's end."""
    with DirectoryLog.open(real_log(name)) as log:
        identity, start, end = log.identity, log.start_offset(), log.high_watermark()
        ends = {batch.end_offset for batch in read_batches(log)}
    topic_id, path = uuid_to_string(identity.topic_id), str(real_log(name))
    whole = DirectoryRange(path, identity.cluster_id, topic_id, start, end, None)
    ranges, found = DirectoryRanges(path, identity), []
    place, size = OffsetAndEpoch(start, None), max((end - start) // 7, 1)
    while (following := ranges.next_end(place, below=end, max_offsets=size)) != place:
        assert following.offset in ends
        part = DirectoryRange(
            path, identity.cluster_id, topic_id, place.offset, following.offset, following.epoch
        )
        found += rows_of(decode_batches(read_rows(part), shards=SHARDS))
        place = following
    ranges.close()
    assert place.offset == end
    assert found == rows_of(decode_batches(read_rows(whole), shards=SHARDS))


def test_a_transaction_counts_from_its_end() -> None:
    """KIP-868: the records' own offsets stay, also where the transaction reaches over several batches."""
    assert decoded(frames(FRAMES[0], BEGIN, FRAMES[1], END, FRAMES[2])) == [(0, 0), (2, 3), (4, 4)]
    assert decoded(
        frames(FRAMES[0], BEGIN, FRAMES[1]),
        frames(FRAMES[2], FRAMES[3], start=3),
        frames(FRAMES[4], END, FRAMES[5], start=5),
    ) == [(0, 0), (2, 6), (3, 6), (4, 6), (5, 6), (7, 7)]


def test_an_aborted_transaction_is_no_row() -> None:
    """KIP-868: what it held never existed; what stands around it did."""
    assert decoded(frames(FRAMES[0], BEGIN, FRAMES[1]), frames(FRAMES[2], ABORT, FRAMES[3], start=3)) == [
        (0, 0),
        (5, 5),
    ]
    assert decoded(frames(BEGIN, ABORT), frames(BEGIN, END, start=2)) == []


@pytest.mark.parametrize(
    ("values", "offset", "reason"),
    [
        ([BEGIN, FRAMES[0]], 0, "has no end in this batch"),
        ([FRAMES[0], END], 1, "ends that never began"),
        ([BEGIN, END, ABORT], 2, "ends that never began"),
        ([BEGIN, FRAMES[0], BEGIN], 2, "begins within another"),
    ],
)
def test_a_transaction_in_pieces_ends_the_query(values: list[bytes], offset: int, reason: str) -> None:
    """Its other part is in another batch of the query, or nowhere: no state can be told."""
    with pytest.raises(DecodeError, match=reason) as caught:
        decoded(frames(*values))
    assert (caught.value.source, caught.value.offset) == (NAME, offset)


@pytest.mark.parametrize(
    ("key", "value", "cls"),
    [
        (None, b"\x01\x12\x01" + FRAMES[0][3:], UnsupportedVersionError),
        (None, FRAMES[0][:-1], DecodeError),
        (None, FRAMES[0].replace(b"t-0", b"t-\xff"), DecodeError),
        (None, None, DecodeError),
        (None, b"", DecodeError),
        (b"no key", encode(acl(0)), DecodeError),
        (uuid_to_string(acl_id(1)).encode(), encode(acl(0)), DecodeError),
        (uuid_to_string(acl_id(1)).encode(), FRAMES[0], DecodeError),
        (None, encode(acl(0)).replace(b"t-0", b"t-\xff"), DecodeError),
        (None, b"\xc3\x01" + bytes(8) + encode(acl(0))[10:], UnsupportedVersionError),
    ],
)
def test_a_record_that_cannot_be_decoded_ends_the_query(
    key: bytes | None, value: bytes | None, cls: type[DecodeError]
) -> None:
    """I7: with the log and the offset; what is right around it does not help."""
    rows = [*frames(*FRAMES[:2]), Row(2, 0, key, value), *frames(*FRAMES[3:], start=3)]
    with pytest.raises(cls) as caught:
        decoded(rows)
    assert (caught.value.source, caught.value.offset) == (NAME, 2)
    assert f"(in {NAME}, offset 2" in str(caught.value)


def test_a_log_that_nobody_knows_ends_the_query() -> None:
    """A topic that a pattern found after the start has no cluster id: the message names it."""
    rows = [*frames(FRAMES[0]), Row(1, 0, None, FRAMES[1], cluster_id=None, topic_id="new")]
    with pytest.raises(DecodeError, match="topic id new is: it appeared after the job's start") as caught:
        decoded(rows)
    assert caught.value.offset == 1


def test_other_records_pass_by() -> None:
    """They are known by their header; batches of nothing else, and no batch at all, give no rows."""
    others = [frame_of(OtherRecord(20, 0)), b"\x01\x80\x02\x09 an api key of two bytes"]
    assert decoded(frames(*others)) == decoded() == decoded([]) == []
    assert decoded(frames(others[0], FRAMES[0], others[1])) == [(1, 1)]


def test_features_go_to_shard_0() -> None:
    """Their levels are part of the state, and of no ACL."""
    rows = rows_of(
        decode_batches(
            [source_batch(frames(encode_frame(FeatureLevelRecord("group.version", 2))))], shards=SHARDS
        )
    )
    assert [(row["shard"], row["resource_name"], row["feature_level"], row["id"]) for row in rows] == [
        (0, "group.version", 2, None)
    ]


def test_a_tombstone_is_a_removal() -> None:
    """Its key is the id, as text or as bytes."""
    keys = [uuid_to_string(acl_id(1)).encode(), bytes(acl_id(2))]
    rows = [Row(at, 0, key, None) for at, key in enumerate(keys)]
    found = rows_of(decode_batches([source_batch(rows)], shards=SHARDS))
    assert found == expected_rows((at, 0, RemoveAccessControlEntryRecord(acl_id(at + 1))) for at in range(2))
