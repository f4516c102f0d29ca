"""Following a log that another process writes: truncated tails, damage, rolls, trims and truncations."""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.errors import (
    ChecksumMismatchError,
    DecodeError,
    LogCorruptError,
    LogNotFoundError,
    OffsetOutOfRangeError,
    TruncatedRecordError,
    UnsupportedVersionError,
)
from records.log.directory import DirectoryLog
from records.log.directory.files import LOCK_FILE
from records.log.directory.segments import Segments
from records.log.directory.tail import SETTLE_S, LastCompleteBatch
from records.log.directory.writer import has_writer
from support.directory_logs import (
    TIMESTAMP_MS,
    acls,
    append_bytes,
    assert_holds_acls,
    batch_bytes,
    flip_bit,
    offsets_of,
    read_batches,
    read_until_error,
    segment_path,
    write_segment,
)

#: Bytes of a batch that its CRC does not cover: base offset, length, leader epoch, magic, CRC itself.
EPOCH_BYTES = range(12, 16)


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between two reads of an unchanged file."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


def settle(*paths: Path) -> None:
    """Make files look as if nobody had written to them for a minute."""
    for path in paths:
        then = time.time() - 60
        os.utime(path, (then, then))


def test_a_last_batch_is_seen_when_all_of_it_is_there(tmp_path: Path) -> None:
    """At every shorter length of the last batch, the log ends before it, without an error."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2))
    last = batch_bytes(2, 2)
    with DirectoryLog.open(tmp_path) as log:
        for byte in last[:-1]:
            append_bytes(path, bytes([byte]))
            assert log.high_watermark() == 2
            assert log.read(2) == []
        settle(path)
        assert log.high_watermark() == 2
        append_bytes(path, last[-1:])
        assert log.high_watermark() == 4
        assert_holds_acls(log.read(2), 2, 4)


def test_a_truncated_tail_of_an_idle_log_is_ignored(tmp_path: Path) -> None:
    """A new reader of an old directory ignores a truncated tail of any length, as Kafka does."""
    complete, last = batch_bytes(0, 2), batch_bytes(2, 2)
    for length in range(len(last)):
        path = write_segment(tmp_path, 0, complete, last[:length])
        settle(path)
        batches, error = read_until_error(DirectoryLog.open(tmp_path))
        assert error is None
        assert_holds_acls(batches, 0, 2)


@pytest.mark.parametrize("complete", [b"", batch_bytes(0, 2)], ids=["alone", "behind a batch"])
@pytest.mark.parametrize("junk", [b"hello", b"\xff", b"x" * 60, b"{}\n" * 100, bytes(range(256)) * 20])
def test_bytes_that_begin_no_batch_are_an_error(tmp_path: Path, complete: bytes, junk: bytes) -> None:
    """However short it is: no writer leaves that, so the log is not taken for one that ends before it."""
    path = write_segment(tmp_path, 0, complete, junk)
    settle(path)
    with DirectoryLog.open(tmp_path) as log:
        batches, error = read_until_error(log)
    assert_holds_acls(batches, 0, 2 if complete else 0)
    assert isinstance(error, DecodeError)
    assert not isinstance(error, UnsupportedVersionError)
    assert (error.source, error.position) == (str(path), len(complete))


@pytest.mark.parametrize("size_bytes", [12, 61, 500])
def test_a_log_of_zeros_is_no_empty_log(tmp_path: Path, size_bytes: int) -> None:
    """Behind batches a crash leaves zeros; a file of nothing else is no log at all."""
    settle(write_segment(tmp_path, 0, bytes(size_bytes)))
    with DirectoryLog.open(tmp_path) as log:
        assert isinstance(read_until_error(log)[1], DecodeError)


def test_trailing_bytes_are_named(tmp_path: Path) -> None:
    """At every length of a truncated batch: their position, their number, and that no process writes them."""
    complete, last = batch_bytes(0, 2), batch_bytes(2, 2)
    for length in range(len(last)):
        path = write_segment(tmp_path, 0, complete, last[:length])
        settle(path)
        with DirectoryLog.open(tmp_path) as log:
            found = log.trailing_bytes()
        if not length:
            assert found is None
            continue
        assert found is not None
        assert (found.path, found.position, found.size_bytes, found.offset) == (
            path,
            len(complete),
            length,
            2,
        )
        assert not found.is_being_written


def test_trailing_bytes_that_change_are_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a broker's directory that is all that shows; what stands still for long enough is not."""
    complete, last = batch_bytes(0, 2), batch_bytes(2, 2)
    path = write_segment(tmp_path, 0, complete, last[:100])
    later = time.time() + 3600
    os.utime(path, (later, later))
    with DirectoryLog.open(tmp_path) as log:
        found = log.trailing_bytes(settle_s=0.01)
        assert found is not None
        assert not found.is_being_written
        monkeypatch.setattr(time, "sleep", lambda _: append_bytes(path, last[100:101]))
        found = log.trailing_bytes(settle_s=60)
        assert found is not None
        assert found.is_being_written
        assert found.size_bytes == 101
        monkeypatch.setattr(time, "sleep", lambda _: append_bytes(path, last[101:]))
        assert log.trailing_bytes(settle_s=60) is None


def test_trailing_bytes_of_a_managed_log_belong_to_its_open_writer(tmp_path: Path) -> None:
    """The lock says so; the next writer cuts them."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        log.append(acls(0, 3))
        append_bytes(segment_path(tmp_path, 0), b"being written")
        with DirectoryLog.open(tmp_path) as reader:
            found = reader.trailing_bytes()
        assert found is not None
        assert found.is_being_written
    with DirectoryLog.open(tmp_path) as reader:
        found = reader.trailing_bytes()
        assert found is not None
        assert not found.is_being_written
        assert (found.size_bytes, found.offset) == (len(b"being written"), 3)
        DirectoryLog.open(tmp_path, mode="write").close()
        assert reader.trailing_bytes() is None


def test_a_check_of_the_lock_does_not_block_a_writer(tmp_path: Path) -> None:
    """A reader looks whether there is a writer just when one comes: that one gets the log."""
    DirectoryLog.open(tmp_path, mode="create").close()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            has_writer(tmp_path)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(50):
            DirectoryLog.open(tmp_path, mode="write").close()
    finally:
        stop.set()
        asking.join()


def test_a_writer_waits_for_a_check_that_takes_long(tmp_path: Path) -> None:
    """The process that checks may be stopped meanwhile."""
    DirectoryLog.open(tmp_path, mode="create").close()
    with (tmp_path / LOCK_FILE).open("rb") as checking:
        fcntl.flock(checking, fcntl.LOCK_SH)
        end_of_check = threading.Timer(0.2, fcntl.flock, [checking, fcntl.LOCK_UN])
        end_of_check.start()
        DirectoryLog.open(tmp_path, mode="write").close()
        end_of_check.join()


def test_zeros_at_the_end_are_not_there(tmp_path: Path) -> None:
    """A crash of the machine may leave a file longer than what was written to it."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2), bytes(500))
    settle(path)
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(read_batches(log), 0, 2)
        assert log.high_watermark() == 2


def test_a_wrong_last_batch_of_a_live_log_is_given_time(tmp_path: Path) -> None:
    """Its bytes may still be coming: it is not there until SETTLE_S, and then it is an error."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2))
    flip_bit(path, len(batch_bytes(0, 2)) + 70)
    now_s = [1000.0]
    segments = Segments(tmp_path)
    tail = LastCompleteBatch(segments, wall_clock_s=time.time, monotonic_s=lambda: now_s[0])
    os.utime(path, (time.time() + 3600, time.time() + 3600))  # written to all the time
    segments.refresh()
    assert tail.end_offset() == 2
    now_s[0] += SETTLE_S / 2
    assert tail.end_offset() == 2
    now_s[0] += SETTLE_S / 2
    assert tail.end_offset() == 3
    flip_bit(path, len(batch_bytes(0, 2)) + 70)
    segments.refresh()
    assert tail.end_offset() == 3
    append_bytes(path, batch_bytes(3))
    assert tail.end_offset() == 4


def test_a_last_batch_that_remains_wrong_is_reported(tmp_path: Path) -> None:
    """Who follows a live log meets the error when its time is over; what precedes is read."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2))
    flip_bit(path, len(batch_bytes(0, 2)) + 70)
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 2)
        assert log.wait(2, 30)
        with pytest.raises(ChecksumMismatchError) as caught:
            log.read(2)
        assert (caught.value.source, caught.value.offset) == (str(path), 2)
        assert caught.value.position == len(batch_bytes(0, 2))


@pytest.mark.parametrize("where", ["middle", "last", "closed"])
def test_a_flipped_bit_is_never_read(
    tmp_path: Path, where: str, subtests: pytest.Subtests, no_pauses: None
) -> None:
    """What precedes the batch is read, then an error comes; nothing is read wrong, nothing is skipped."""
    first, damaged, after = batch_bytes(0, 2), batch_bytes(2, 2), batch_bytes(4)
    if where == "closed":
        write_segment(tmp_path, 4, after)
    behind = after if where == "middle" else b""
    for position, bit in itertools.product(range(0, len(damaged), 16), (0, 7)):
        with subtests.test(position=position, bit=bit):
            path = write_segment(tmp_path, 0, first, damaged, behind)
            flip_bit(path, len(first) + position, bit)
            settle(path)
            batches, error = read_until_error(DirectoryLog.open(tmp_path))
            assert_holds_acls(batches, 0, 2)
            assert isinstance(error, (DecodeError, LogCorruptError))
            assert str(path) in str(error)


def test_a_flipped_bit_anywhere_in_a_middle_batch_is_met(
    tmp_path: Path, subtests: pytest.Subtests, no_pauses: None
) -> None:
    """Each byte but the leader epoch, which nothing covers: an error, and nothing from there on is read.

    Reading from inside the batch is an error too: its offsets are not taken for missing ones.
    """
    first, damaged = batch_bytes(0, 2), batch_bytes(2, 2)
    for position in range(len(damaged)):
        with subtests.test(position=position):
            path = write_segment(tmp_path, 0, first, damaged, batch_bytes(4), batch_bytes(5))
            flip_bit(path, len(first) + position, position % 8)
            log = DirectoryLog.open(tmp_path)
            batches, error = read_until_error(DirectoryLog.open(tmp_path))
            if position in EPOCH_BYTES:
                assert_holds_acls(batches, 0, 6)
                assert error is None
                assert offsets_of(log.read(3)) == [2, 3, 4, 5]
            else:
                assert_holds_acls(batches, 0, 2)
                assert isinstance(error, (DecodeError, LogCorruptError))
                with pytest.raises((DecodeError, LogCorruptError, OffsetOutOfRangeError)):
                    log.read(3)


def test_a_last_offset_that_is_too_small_is_no_hole(tmp_path: Path) -> None:
    """The header says that offset 3 is not in the batch: what holds it is checked before that is believed."""
    first = batch_bytes(0, 2)
    path = write_segment(tmp_path, 0, first, batch_bytes(2, 2), batch_bytes(4))
    flip_bit(path, len(first) + 26)  # the lowest bit of lastOffsetDelta: 1 becomes 0
    with DirectoryLog.open(tmp_path) as log, pytest.raises(ChecksumMismatchError):
        log.read(3)


def test_a_file_that_changes_during_a_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error may come from a concurrent truncation: it counts if the next read has it, too."""
    path = write_segment(tmp_path, 0, batch_bytes(0), batch_bytes(1), batch_bytes(2))
    complete = path.read_bytes()
    flip_bit(path, len(batch_bytes(0)) + 100)
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 1)
        pauses: list[float] = []

        def other_process(pause_s: float) -> None:
            pauses.append(pause_s)
            path.write_bytes(complete)

        monkeypatch.setattr(time, "sleep", other_process)
        assert_holds_acls(log.read(1), 1, 3)
        assert len(pauses) == 1


def test_a_length_beyond_the_end_is_damage_if_batches_follow(tmp_path: Path) -> None:
    """A damaged length may cover later batches; complete batches there prove the damage."""
    path = write_segment(tmp_path, 0, batch_bytes(0), batch_bytes(1), batch_bytes(2), batch_bytes(3))
    flip_bit(path, len(batch_bytes(0)) + 8, 4)
    batches, error = read_until_error(DirectoryLog.open(tmp_path))
    assert_holds_acls(batches, 0, 1)
    assert isinstance(error, TruncatedRecordError)
    assert error.offset == 1


def test_a_checkpoint_proves_the_earlier_end_of_the_log(tmp_path: Path) -> None:
    """A broker makes checkpoints of committed records: a log truncated below one is damaged."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2, 2)[:-1])
    settle(path)
    (tmp_path / f"{3:020}-{1:010}.checkpoint").touch()
    log = DirectoryLog.open(tmp_path)
    assert log.high_watermark() == 3
    batches, error = read_until_error(log)
    assert_holds_acls(batches, 0, 2)
    assert isinstance(error, TruncatedRecordError)


def test_a_log_that_ends_below_its_checkpoint_continues_there(tmp_path: Path) -> None:
    """A follower that fetched a snapshot has not begun its new segment yet: what was asked for is trimmed."""
    write_segment(tmp_path, 0, batch_bytes(0, 2))
    (tmp_path / f"{9:020}-{1:010}.checkpoint").touch()
    with DirectoryLog.open(tmp_path) as log:
        assert log.high_watermark() == 9
        assert_holds_acls(log.read(0), 0, 2)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(2)
        assert caught.value.start == 9
        assert log.read(9) == []


def test_new_batches_and_segments_are_followed(tmp_path: Path) -> None:
    """A reader at the end goes on with what is appended, rolled or not."""
    path = write_segment(tmp_path, 0, batch_bytes(0))
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 1)
        append_bytes(path, batch_bytes(1, 2))
        assert_holds_acls(log.read(1), 1, 3)
        write_segment(tmp_path, 3)
        assert log.high_watermark() == 3
        assert log.read(3) == []
        path = write_segment(tmp_path, 3, batch_bytes(3))
        write_segment(tmp_path, 4, batch_bytes(4), batch_bytes(5))
        batches = log.read(3)
        batches += log.read(batches[-1].end_offset)
        assert_holds_acls(batches, 3, 6)


def test_old_segments_may_be_removed(tmp_path: Path) -> None:
    """Trimming moves the start; a reader beyond it continues, one below it gets an error with the start."""
    for base in (0, 10, 20):
        write_segment(tmp_path, base, batch_bytes(base, 5), batch_bytes(base + 5, 5))
    with DirectoryLog.open(tmp_path) as behind, DirectoryLog.open(tmp_path) as later:
        assert_holds_acls(behind.read(0, max_bytes=1), 0, 5)
        assert_holds_acls(later.read(10), 10, 20)
        segment_path(tmp_path, 0).rename(tmp_path / "00000000000000000000.log.deleted")
        segment_path(tmp_path, 10).unlink()
        assert_holds_acls(later.read(20), 20, 30)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            behind.read(5)
        assert (caught.value.start, caught.value.end) == (20, 30)
        assert behind.start_offset() == 20
        assert_holds_acls(behind.read(20), 20, 30)


def test_a_truncated_log_is_out_of_range(tmp_path: Path) -> None:
    """A follower cut its tail: the reader beyond the end gets an error, and a wait ends immediately."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 2), batch_bytes(2, 2))
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 4)
        os.truncate(path, len(batch_bytes(0, 2)))
        assert log.wait(4, 30)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(4)
        assert (caught.value.offset, caught.value.start, caught.value.end) == (4, 0, 2)
        assert_holds_acls(log.read(0), 0, 2)


@pytest.mark.parametrize("counts", [(2,), (1, 1), (2, 3), (1, 2, 3)])
def test_a_rewritten_tail_is_out_of_range(tmp_path: Path, counts: tuple[int, ...]) -> None:
    """The log was truncated and has grown again: the reader does not go on in another history."""
    first = batch_bytes(0, 2)
    path = write_segment(tmp_path, 0, first, batch_bytes(2, 2))
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 4)
        os.truncate(path, len(first))
        offset = 2
        for count in counts:
            append_bytes(path, batch_bytes(offset, count, epoch=2))
            offset += count
        assert log.wait(4, 30)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(4)
        assert caught.value.end <= 3
        batches = read_batches(log)
        assert_holds_acls(batches, 0, offset)
        assert [batch.epoch for batch in batches] == [1] + [2] * len(counts)


def test_a_log_truncated_into_an_earlier_segment_is_noticed(tmp_path: Path) -> None:
    """The last segment is gone, and the one before is shorter, or was begun anew with other records."""
    first, second = batch_bytes(0, 2), batch_bytes(2, 2)
    path = write_segment(tmp_path, 0, first, second)
    later = write_segment(tmp_path, 4, batch_bytes(4, 2))
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(read_batches(log), 0, 6)
        later.unlink()
        os.truncate(path, len(first))
        append_bytes(path, batch_bytes(2, 2, epoch=2))
        write_segment(tmp_path, 4, batch_bytes(4, 4, epoch=2))
        with pytest.raises(OffsetOutOfRangeError):
            log.read(6)
        batches = read_batches(log)
        assert_holds_acls(batches, 0, 8)
        assert [batch.epoch for batch in batches] == [1, 2, 2]


def test_positions_of_another_history_are_forgotten(tmp_path: Path) -> None:
    """A truncated segment that has grown again is not searched by what stood there before."""
    old = [batch_bytes(offset, 700) for offset in range(0, 7_000, 700)]
    path = write_segment(tmp_path, 0, *old)
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(6_500), 6_300, 7_000)
        os.truncate(path, len(old[0]))
        append_bytes(path, *(batch_bytes(offset, 11, epoch=2) for offset in range(700, 8_400, 11)))
        for offset in (5_000, 8_000, 700, 7_007):
            batch = log.read(offset, max_bytes=1)[0]
            assert batch.base_offset <= offset < batch.end_offset
            assert batch.epoch == 2


def test_a_log_begun_anew_behind_a_snapshot_is_trimmed(tmp_path: Path) -> None:
    """A follower that fell too far behind drops all segments and goes on at the snapshot's end."""
    path = write_segment(tmp_path, 0, batch_bytes(0, 4))
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0), 0, 4)
        path.unlink()
        write_segment(tmp_path, 50)
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(4)
        assert (caught.value.start, caught.value.end) == (50, 50)
        append_bytes(segment_path(tmp_path, 50), batch_bytes(50))
        assert_holds_acls(log.read(50), 50, 51)


def test_a_removed_log_is_not_found(tmp_path: Path) -> None:
    """Its last segment, or its directory, is gone for good."""
    directory = tmp_path / "log"
    path = write_segment(directory, 0, batch_bytes(0))
    with DirectoryLog.open(directory) as log:
        path.unlink()
        with pytest.raises(LogNotFoundError):
            log.high_watermark()
        directory.rmdir()
        with pytest.raises(LogNotFoundError, match=str(directory)):
            log.read(0)


def test_a_writer_knows_its_high_watermark_without_the_files(tmp_path: Path) -> None:
    """A node asks after each read, which finds that the log is gone."""
    directory = tmp_path / "log"
    with DirectoryLog.open(directory, mode="create") as log:
        log.append(acls(0, 2))
        directory.rename(tmp_path / "moved")
        assert log.high_watermark() == 2
        with pytest.raises(LogNotFoundError):
            log.read(2)


def test_a_wait_sees_another_process_writing(tmp_path: Path) -> None:
    """The wait ends soon after a batch is complete, not after half of it; a wait for nothing times out."""
    path = write_segment(tmp_path, 0, batch_bytes(0))
    with DirectoryLog.open(tmp_path) as log:
        assert log.wait(0, 0)
        assert not log.wait(1, 0.02)
        more = batch_bytes(1)

        def write() -> None:
            append_bytes(path, more[:50])
            time.sleep(0.05)  # the reader meets the half of a batch
            append_bytes(path, more[50:])

        writer = threading.Thread(target=write)
        writer.start()
        assert log.wait(1, 30)
        writer.join()
        assert_holds_acls(log.read(1), 1, 2)


def test_a_close_ends_a_wait(tmp_path: Path) -> None:
    """A thread that waits for records is let go, with False, when another one closes the log."""
    write_segment(tmp_path, 0, batch_bytes(0))
    log = DirectoryLog.open(tmp_path)
    answers: list[bool] = []
    waiter = threading.Thread(target=lambda: answers.append(log.wait(1, 60)))
    waiter.start()
    time.sleep(0.02)  # the thread is waiting then
    log.close()
    waiter.join(30)
    assert answers == [False]


def test_a_large_batch_is_read_completely(tmp_path: Path) -> None:
    """A batch larger than a read asks for, and than one read of a file."""
    values = [encode_frame(record) for record in acls(0, 5_000)]
    large = encode_batch(values, base_offset=0, epoch=1, timestamp_ms=TIMESTAMP_MS)
    write_segment(tmp_path, 0, large, batch_bytes(5_000))
    with DirectoryLog.open(tmp_path) as log:
        assert_holds_acls(log.read(0, max_bytes=10), 0, 5_000)
        assert_holds_acls(log.read(5_000, max_bytes=10), 5_000, 5_001)
