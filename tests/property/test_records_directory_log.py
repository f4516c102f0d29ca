"""The directory log, compared with a list of batches under appends, crashes and concurrent readers."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import AclRecord
from records.errors import OffsetOutOfRangeError
from records.log.directory import DirectoryLog
from records.log_batch import LogBatch
from support.directory_logs import (
    append_bytes,
    assert_holds_acls,
    batch_bytes,
    read_batches,
    write_segment,
)
from support.strategies import acl_records, strange_acl_records

RECORDS = st.lists(acl_records() | strange_acl_records(), min_size=1, max_size=4)


class ManagedLog(RuleBasedStateMachine):
    """The writer, a reader that follows, and short-lived readers, compared with a list of batches."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="aclog-property-"))
        self.directory = self.home / "log"
        self.expected: list[list[AclRecord]] = []
        self.followed = 0

    @initialize(segment_bytes=st.sampled_from([1, 300, 1_000, 1 << 20]))
    def begin(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.log = self.open_to_write()
        self.follower = DirectoryLog.open(self.directory)

    def teardown(self) -> None:
        self.log.close()
        self.follower.close()
        shutil.rmtree(self.home)

    def open_to_write(self) -> DirectoryLog:
        return DirectoryLog.open(self.directory, mode="create", segment_bytes=self.segment_bytes)

    @property
    def end(self) -> int:
        return sum(map(len, self.expected))

    def batches_from(self, offset: int) -> list[list[AclRecord]]:
        """The expected result of a read at ``offset``: the batches from the one that contains it."""
        at, start = 0, 0
        while start + len(self.expected[at]) <= offset:
            start += len(self.expected[at])
            at += 1
        return self.expected[at:]

    @rule(records=RECORDS)
    def append(self, records: list[AclRecord]) -> None:
        end = self.log.append(records)
        self.expected.append(records)
        assert end == self.end

    @rule(batches=st.lists(RECORDS, max_size=5))
    def append_batches(self, batches: list[list[AclRecord]]) -> None:
        end = self.log.append_batches([(records, 5) for records in batches])
        self.expected += batches
        assert end == self.end

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = self.open_to_write()

    @rule(data=st.data(), complete=st.lists(RECORDS, max_size=2), truncated=RECORDS)
    def crash(self, data: st.DataObject, complete: list[list[AclRecord]], truncated: list[AclRecord]) -> None:
        """The writer dies before an acknowledgement: complete batches and a truncated one remain."""
        self.log.close()
        last = max(self.directory.glob("*.log"))
        offset = self.end
        for records in complete:
            append_bytes(last, self.encoded(records, offset))
            offset += len(records)
        encoded_end = self.encoded(truncated, offset)
        append_bytes(last, encoded_end[: data.draw(st.integers(0, len(encoded_end) - 1))])
        self.log = self.open_to_write()
        self.expected += complete  # stored: see records/log/directory/recovery.py

    def encoded(self, records: list[AclRecord], offset: int) -> bytes:
        values = [encode_frame(record) for record in records]
        return encode_batch(values, base_offset=offset, epoch=1, timestamp_ms=1)

    @precondition(lambda self: self.end > 0)
    @rule(data=st.data(), max_bytes=st.sampled_from([1, 500, 1 << 20]), is_new_reader=st.booleans())
    def read_anywhere(self, data: st.DataObject, max_bytes: int, is_new_reader: bool) -> None:
        offset = data.draw(st.integers(0, self.end - 1))
        expected = self.batches_from(offset)
        if is_new_reader:
            with DirectoryLog.open(self.directory) as reader:
                found = reader.read(offset, max_bytes=max_bytes)
        else:
            found = self.log.read(offset, max_bytes=max_bytes)
        assert found
        assert contents(found) == expected[: len(found)]

    @rule(max_bytes=st.sampled_from([1, 500, 1 << 20]))
    def follow(self, max_bytes: int) -> None:
        assert self.follower.wait(self.followed, 0) == (self.followed < self.end)
        if self.followed < self.end:
            found = self.follower.read(self.followed, max_bytes=max_bytes)
            assert contents(found) == self.batches_from(self.followed)[: len(found)]
            self.followed = found[-1].end_offset

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.high_watermark() == self.follower.high_watermark() == self.end


def contents(batches: list[LogBatch]) -> list[list[object]]:
    return [[record.record for record in batch.records] for batch in batches]


TestOwnLog = ManagedLog.TestCase
TestOwnLog.settings = settings(
    stateful_step_count=25, max_examples=max(10, settings().max_examples // 2), deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    cuts=st.lists(st.floats(0, 1), max_size=12),
    max_bytes=st.sampled_from([1, 200, 1 << 20]),
)
def test_a_follower_reads_a_broker_log_that_grows_in_any_pieces(
    counts: list[int], cuts: list[float], max_bytes: int
) -> None:
    """A follower reads only complete batches, in order, and finally all of them."""
    data, offset = b"", 0
    for count in counts:
        data += batch_bytes(offset, count)
        offset += count
    ends = sorted({*(int(cut * len(data)) for cut in cuts), len(data)})
    with tempfile.TemporaryDirectory() as home:
        path = write_segment(Path(home), 0)
        with DirectoryLog.open(home) as log:
            read: list[LogBatch] = []
            written = 0
            for end in ends:
                append_bytes(path, data[written:end])
                written = end
                position = read[-1].end_offset if read else 0
                read += read_batches(log, position, max_bytes=max_bytes)
                assert sum(batch.size_bytes for batch in read) <= end
            assert_holds_acls(read, 0, offset)


@given(
    counts=st.lists(st.integers(1, 4), min_size=2, max_size=6),
    uncut=st.integers(0, 5),
    again=st.lists(st.integers(1, 4), max_size=6),
    read_before=st.booleans(),
)
def test_a_truncated_log_is_never_mixed_with_what_follows(
    counts: list[int], uncut: int, again: list[int], read_before: bool
) -> None:
    """A follower cuts its log at any batch and writes another history.

    A reader of the removed batches gets an error, and a new reader reads one history.
    """
    ends = [sum(counts[:at]) for at in range(len(counts) + 1)]
    uncut = min(uncut, len(counts))
    data = [batch_bytes(start, count) for start, count in zip(ends, counts, strict=False)]
    with tempfile.TemporaryDirectory() as home:
        path = write_segment(Path(home), 0, *data)
        with DirectoryLog.open(home) as log:
            if read_before:
                read_batches(log)
            os.truncate(path, sum(map(len, data[:uncut])))
            offset = ends[uncut]
            for count in again:
                append_bytes(path, batch_bytes(offset, count, epoch=2))
                offset += count
            if read_before and uncut < len(counts):
                assert log.wait(ends[-1], 0)
                with pytest.raises(OffsetOutOfRangeError):
                    log.read(ends[-1])
            batches = read_batches(log)
            assert_holds_acls(batches, 0, offset)
            assert [batch.epoch for batch in batches] == [1] * uncut + [2] * len(again)
