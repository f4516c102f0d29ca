"""Ranges of a directory log that a query reads, and the detection of a replaced or truncated log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.compression import Compression
from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    MetadataRecord,
)
from records.errors import AclogError, ChecksumMismatchError, DecodeError, LogError
from records.ids import Uuid
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from records.log_batch import LogBatch
from snapshot.errors import CheckpointForeignError, SparkJobError
from snapshot.jobs.sources.log_range import LogRange, read_ranges
from snapshot.jobs.sources.log_ranges import LogRanges, OffsetAndEpoch
from support.directory_logs import TIMESTAMP_MS, acl, append_bytes, batch_bytes, flip_bit, write_segment

BEGIN, END, ABORT = BeginTransactionRecord("t"), EndTransactionRecord(), AbortTransactionRecord()


def raw(base_offset: int, *records: MetadataRecord, **changes: Any) -> bytes:
    values = [encode_frame(record) for record in records]
    settings = {"base_offset": base_offset, "epoch": 1, "timestamp_ms": TIMESTAMP_MS} | changes
    return encode_batch(values, **settings)


def ends(
    path: Path, start: int = 0, *, below: int | None = None, max_offsets: int | None = None
) -> list[int]:
    """Ends of all batches of a query that begins there."""
    ranges = LogRanges(str(path), None, {})
    try:
        below = ranges.high_watermark() if below is None else below
        place, found = OffsetAndEpoch(start, None), []
        while (following := ranges.next_end(place, below=below, max_offsets=max_offsets)) != place:
            found.append(following.offset)
            place = following
        return found
    finally:
        ranges.close()


def planned_range(path: Path, start: int, end: int, end_epoch: int | None = 1) -> LogRange:
    with DirectoryLog.open(path) as log:
        identity = log.identity
    return LogRange(url=str(path), identity=identity, start=start, end=end, end_epoch=end_epoch)


def batches(planned: LogRange) -> Iterator[LogBatch]:
    """The batches that a task reads."""
    ((cluster_id, found),) = read_ranges([planned])
    assert cluster_id == planned.identity.cluster_id
    yield from found


def test_a_limit_counts_offsets_and_does_not_split_batches(tmp_path: Path) -> None:
    """As many batches as fit; one at least, though it is longer."""
    write_segment(tmp_path, 0, *(batch_bytes(at, 4) for at in range(0, 40, 4)))
    assert ends(tmp_path) == [40]
    assert ends(tmp_path, max_offsets=10) == [8, 16, 24, 32, 40]
    assert ends(tmp_path, max_offsets=4) == ends(tmp_path, max_offsets=1) == list(range(4, 41, 4))
    assert ends(tmp_path, 12, max_offsets=12) == [24, 36, 40]
    assert ends(tmp_path, 40) == []


def test_records_appended_during_a_query_are_not_read(tmp_path: Path) -> None:
    """With Trigger.AvailableNow what comes later is for the next query."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 4), batch_bytes(4, 4))
    append_bytes(path, batch_bytes(8, 4))
    assert ends(tmp_path, below=8) == [8]
    assert ends(tmp_path, 8, below=8) == []


def test_a_managed_log_is_read_to_its_high_watermark(tmp_path: Path) -> None:
    """Also one without any record."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        assert ends(tmp_path) == []
        log.append([acl(0), acl(1)])
        log.append([acl(2)])
        assert ends(tmp_path) == [3]
        assert ends(tmp_path, max_offsets=1) == [2, 3]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_no_end_is_within_a_metadata_transaction(tmp_path: Path, compression: Compression) -> None:
    """KIP-868: only complete transactions, for any limit; one may begin in the batch where another ends."""
    write_segment(
        tmp_path,
        0,
        raw(0, acl(0)),
        raw(1, acl(1), BEGIN, compression=compression),
        raw(3, acl(3)),
        raw(4, acl(4), END, BEGIN, compression=compression),
        raw(7, ABORT, compression=compression),
        raw(8, BEGIN, acl(9), END, compression=compression),
        raw(11, acl(11)),
    )
    assert ends(tmp_path) == [12]
    assert ends(tmp_path, max_offsets=1) == [1, 8, 11, 12]
    assert ends(tmp_path, max_offsets=10) == [8, 12]


def test_an_open_transaction_waits_for_its_end(tmp_path: Path) -> None:
    """At the high watermark the end stays before the batch in which it begins."""
    path = write_segment(tmp_path, 0, raw(0, acl(0)), raw(1, acl(1), BEGIN), raw(3, acl(3)))
    assert ends(tmp_path) == [1]
    assert ends(tmp_path, 1) == []
    append_bytes(path, raw(4, END))
    assert ends(tmp_path, 1) == [5]


def test_bytes_that_look_like_a_marker_are_none(tmp_path: Path) -> None:
    """An id may hold any bytes."""
    looks_so = acl(0)
    looks_so = type(looks_so)(Uuid(b"\x01\x17\x00" + bytes(13)), *looks_so.content)
    write_segment(tmp_path, 0, raw(0, looks_so), raw(1, acl(1)))
    assert ends(tmp_path, max_offsets=1) == [1, 2]


def test_records_before_a_damaged_batch_are_read_first(tmp_path: Path) -> None:
    """I7: then the query fails, naming file and offset; also where the range was planned before."""
    path = write_segment(tmp_path, 0, *(batch_bytes(at, 2) for at in range(0, 8, 2)))
    flip_bit(path, 2 * len(batch_bytes(0, 2)) + 100)
    place = OffsetAndEpoch(4, 1)
    with pytest.raises(ChecksumMismatchError) as caught:
        ends(tmp_path)
    assert (caught.value.source, caught.value.offset) == (str(path), 4)
    ranges = LogRanges(str(tmp_path), None, {})
    assert ranges.next_end(OffsetAndEpoch(0, None), below=8, max_offsets=None) == place
    with pytest.raises(ChecksumMismatchError):
        ranges.next_end(place, below=8, max_offsets=None)
    ranges.close()
    with pytest.raises(ChecksumMismatchError) as caught:
        offsets(planned_range(tmp_path, 2, 8))
    assert (caught.value.source, caught.value.offset) == (str(path), 4)


def test_a_decreasing_epoch_is_refused(tmp_path: Path) -> None:
    """As nodes refuse it: the checksum does not cover the epoch. What stands before it is read first."""
    write_segment(
        tmp_path, 0, *(batch_bytes(at, 4, epoch=epoch) for at, epoch in ((0, 1), (4, 65281), (8, 1)))
    )
    with pytest.raises(LogError, match=r"epoch 1 at offset 8 follows epoch 65281.*aclog log verify"):
        ends(tmp_path)
    assert ends(tmp_path, below=8) == [8]
    ranges = LogRanges(str(tmp_path), None, {})
    with pytest.raises(LogError, match="follows epoch 65281"):
        ranges.next_end(OffsetAndEpoch(8, 65281), below=12, max_offsets=None)
    ranges.close()


def test_a_record_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    """I7: its CRC is right, its content is not. The error has log and offset, after the earlier records."""
    write_segment(
        tmp_path, 0, batch_bytes(0, 2), encode_batch([b"x"], base_offset=2, epoch=1, timestamp_ms=5)
    )
    found: list[int] = []
    with pytest.raises(DecodeError) as caught:
        found += (batch.base_offset for batch in batches(planned_range(tmp_path, 0, 3)))
    assert (caught.value.source, caught.value.offset) == (str(tmp_path), 2)


def offsets(planned: LogRange) -> list[int]:
    """Of the records that are read."""
    return [
        logged.offset
        for batch in batches(planned)
        for logged in batch.records
        if not isinstance(logged.record, ControlRecord)
    ]


def failure(path: Path, start: OffsetAndEpoch) -> AclogError:
    ranges = LogRanges(str(path), None, {})
    try:
        with pytest.raises(AclogError) as caught:
            ranges.next_end(start, below=ranges.high_watermark(), max_offsets=None)
    finally:
        ranges.close()
    return caught.value


def test_a_trimmed_log_fails_loudly(tmp_path: Path) -> None:
    """Records between the checkpoint and the log's start are gone: the message says so, and the way out."""
    write_segment(tmp_path, 10, batch_bytes(10, 2))
    error = failure(tmp_path, OffsetAndEpoch(5, 1))
    assert isinstance(error, SparkJobError)
    assert str(error).startswith(
        f"{tmp_path}: the log was trimmed: it starts at offset 10, but the next one to read is 5"
    )
    assert "another checkpoint" in str(error)
    with pytest.raises(SparkJobError, match="the log was trimmed: it starts at offset 10"):
        offsets(planned_range(tmp_path, 5, 12))


def test_a_truncated_log_fails_loudly(tmp_path: Path) -> None:
    """It ends before what was read from it."""
    write_segment(tmp_path, 0, batch_bytes(0, 2))
    error = failure(tmp_path, OffsetAndEpoch(5, 1))
    assert str(error).startswith(
        f"{tmp_path}: the log was truncated: it ends at offset 2, but the next one to read is 5"
    )
    with pytest.raises(
        SparkJobError, match="the log was truncated: it ends at offset 2, but the next one to read is 5"
    ):
        offsets(planned_range(tmp_path, 0, 5))


def test_a_lost_end_offset_is_not_awaited(tmp_path: Path) -> None:
    """A broker's directory: what the query saw at its start may never have been committed."""
    write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2, 2))
    assert ends(tmp_path, below=9) == [4]
    assert ends(tmp_path, 4, below=9) == []


def test_a_rewritten_log_fails_loudly(tmp_path: Path) -> None:
    """A new leader's records are where those were that the query has read: the epoch tells."""
    write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2, 2, epoch=2), batch_bytes(4, 2, epoch=2))
    assert "epoch 1 no longer ends there" in str(failure(tmp_path, OffsetAndEpoch(4, 1)))
    with pytest.raises(LogError, match=r"was truncated and rewritten: .* now a batch of epoch 2 ends at 4"):
        offsets(planned_range(tmp_path, 0, 4, 1))
    assert offsets(planned_range(tmp_path, 0, 4, 2)) == [0, 1, 2, 3]


def test_another_log_in_its_place_is_refused(tmp_path: Path) -> None:
    """Deleted and created again: another topic id (I9)."""
    path = tmp_path / "log"
    with DirectoryLog.open(path, mode="create", cluster_id="c") as log:
        log.append([acl(0)])
        identity = log.identity
    planned = planned_range(path, 0, 1)
    shutil.rmtree(path)
    with DirectoryLog.open(path, mode="create", cluster_id="c") as log:
        log.append([acl(0)])
    for failing in (
        lambda: LogRanges(str(path), identity, {}),
        lambda: offsets(planned),
        lambda: LogRanges(str(path), LogIdentity("d", log.identity.topic_id), {}),
    ):
        with pytest.raises(CheckpointForeignError, match="the log was replaced"):
            failing()


def test_readers_use_position_hints(tmp_path: Path) -> None:
    """They read the same as readers without a hint; an outdated hint is an error."""
    batches = [batch_bytes(at, 50) for at in range(0, 3000, 50)]
    path = write_segment(tmp_path, 0, *batches)
    ranges = LogRanges(str(tmp_path), None, {})
    place = ranges.next_end(OffsetAndEpoch(0, None), below=3000, max_offsets=2500)
    hint = ranges._log.position_hint(place.offset)
    ranges.close()
    assert hint is not None
    assert 0 < hint.position == sum(map(len, batches[: hint.base_offset // 50]))
    planned = planned_range(tmp_path, place.offset, 3000)
    with_hint = replace(planned, position_hint=hint)
    assert offsets(with_hint) == offsets(planned) == [*range(place.offset, 3000)]
    with DirectoryLog.open(tmp_path) as log:
        log.use_position_hint(hint)
        assert log.high_watermark() == 3000
        assert log.read(7, max_bytes=1)[0].base_offset == 0
    path.write_bytes(batch_bytes(0, 2999) + batch_bytes(2999, 1))
    with pytest.raises(AclogError):
        offsets(with_hint)


def test_a_range_within_batches(tmp_path: Path) -> None:
    """A read of some offsets gives these only, and no control records; over several segments."""
    control = encode_batch(
        [b"\0\0\0\0\0\0"], keys=[b"\0\0\0\2"], base_offset=4, epoch=1, timestamp_ms=5, is_control=True
    )
    write_segment(tmp_path, 0, batch_bytes(0, 4), control)
    write_segment(tmp_path, 5, batch_bytes(5, 5))
    planned = planned_range(tmp_path, 0, 10)
    assert offsets(planned) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    later = [logged.record for batch in batches(replace(planned, start=5)) for logged in batch.records]
    assert later == [acl(at) for at in range(5, 10)]
