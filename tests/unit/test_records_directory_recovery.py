"""Opening a managed log for writing after a crash or damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from records.errors import DecodeError, LogCorruptError
from records.log.directory import DirectoryLog
from records.log.directory.high_watermark import HighWatermarkRecorder, read_high_watermark
from support.directory_logs import (
    acl,
    acls,
    append_bytes,
    assert_holds_acls,
    batch_bytes,
    flip_bit,
    read_batches,
    read_path,
    read_until_error,
    segment_path,
)

FIRST, LAST = batch_bytes(0, 2), batch_bytes(2, 2)


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """A closed managed log with a batch of offsets 0 and 1."""
    with DirectoryLog.open(tmp_path / "log", mode="create") as log:
        log.append(acls(0, 2))
    return tmp_path / "log"


def tree(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != ".lock"}


def record_high_watermark(directory: Path, offset: int) -> None:
    recorder, _ = HighWatermarkRecorder.open(directory / "high-watermark")
    recorder.record(offset)
    recorder.close()


def test_a_truncated_append_is_removed(log_path: Path) -> None:
    """A crash in the middle of an append, at any byte: the append never was, and the log goes on."""
    segment = segment_path(log_path, 0)
    whole = segment.read_bytes()
    for length in range(len(LAST)):
        append_bytes(segment, LAST[:length])
        with DirectoryLog.open(log_path, mode="write") as log:
            assert log.high_watermark() == 2
        assert segment.read_bytes() == whole
    with DirectoryLog.open(log_path, mode="write") as log:
        log.append([acl(2)])
    assert_holds_acls(read_path(log_path), 0, 3)


def test_a_damaged_append_is_removed(log_path: Path, subtests: pytest.Subtests) -> None:
    """All bytes are there, but not all are right, and nothing was acknowledged: cut, with what follows."""
    for position in range(0, len(LAST), 16):
        with subtests.test(position=position):
            directory = log_path.with_name(f"log-{position}")
            shutil.copytree(log_path, directory)
            segment = segment_path(directory, 0)
            append_bytes(segment, LAST, batch_bytes(4))
            flip_bit(segment, len(FIRST) + position)
            with DirectoryLog.open(directory, mode="write") as log:
                assert log.append([acl(2)]) == 3
            assert_holds_acls(read_path(directory), 0, 3)


def test_a_complete_unacknowledged_append_is_retained(log_path: Path) -> None:
    """A crash between the sync and the high watermark: readers see it when a writer has committed it."""
    append_bytes(segment_path(log_path, 0), LAST, batch_bytes(4), batch_bytes(5)[:-1])
    assert_holds_acls(read_path(log_path), 0, 2)
    with DirectoryLog.open(log_path, mode="write") as log:
        assert log.high_watermark() == 5
        assert_holds_acls(read_path(log_path), 0, 5)
        log.append([acl(5)])
    assert_holds_acls(read_path(log_path), 0, 6)


def test_the_next_epoch_is_beyond_all_that_was_written(log_path: Path) -> None:
    """Also where the epoch file fell behind the batches."""
    append_bytes(segment_path(log_path, 0), batch_bytes(2, epoch=9))
    with DirectoryLog.open(log_path, mode="write") as log:
        log.append([acl(3)])
    assert [batch.epoch for batch in read_path(log_path)] == [1, 9, 10]
    assert (log_path / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n10 3\n"


def test_acknowledged_records_are_never_removed(log_path: Path) -> None:
    """A segment shorter than the high watermark: not opened for writing, no byte changed, and what to do."""
    segment = segment_path(log_path, 0)
    for length in reversed(range(len(FIRST))):
        os.truncate(segment, length)
        before = tree(log_path)
        with pytest.raises(LogCorruptError) as caught:
            DirectoryLog.open(log_path, mode="write")
        assert str(caught.value).startswith(f"{segment}: byte 0: damaged at offset 0")
        assert "aclog log dump" in str(caught.value)
        assert tree(log_path) == before


def test_damage_below_the_high_watermark_is_not_repaired(log_path: Path, subtests: pytest.Subtests) -> None:
    """A flipped bit in what was acknowledged: not opened for writing; what precedes it can be read."""
    with DirectoryLog.open(log_path, mode="write") as log:
        log.append(acls(2, 4))
        log.append(acls(4, 5))
    segment = segment_path(log_path, 0)
    whole = segment.read_bytes()
    for position in range(0, len(LAST), 16):
        with subtests.test(position=position):
            segment.write_bytes(whole)
            flip_bit(segment, len(FIRST) + position)
            before = tree(log_path)
            with pytest.raises(LogCorruptError, match="damaged at offset 2"):
                DirectoryLog.open(log_path, mode="write")
            assert tree(log_path) == before
            batches, error = read_until_error(DirectoryLog.open(log_path))
            assert_holds_acls(batches, 0, 2)
            assert isinstance(error, (DecodeError, LogCorruptError))


def test_lost_segments_are_corrupt(log_path: Path) -> None:
    """All segments are gone, or the last one begins beyond what was acknowledged."""
    segment = segment_path(log_path, 0)
    segment.rename(segment_path(log_path, 7))
    with pytest.raises(LogCorruptError, match="damaged at offset 7"):
        DirectoryLog.open(log_path, mode="write")
    segment_path(log_path, 7).unlink()
    with pytest.raises(LogCorruptError, match="no segments, but offsets up to 2 were acknowledged"):
        DirectoryLog.open(log_path, mode="write")


def test_a_crash_right_after_a_roll_leaves_an_empty_segment(tmp_path: Path) -> None:
    """The next writer goes on in it."""
    with DirectoryLog.open(tmp_path, mode="create", segment_bytes=1) as log:
        log.append(acls(0, 2))
    segment_path(tmp_path, 2).touch()
    with DirectoryLog.open(tmp_path, mode="write") as log:
        assert (log.start_offset(), log.high_watermark()) == (0, 2)
        log.append([acl(2)])
    assert_holds_acls(read_path(tmp_path), 0, 3)
    assert segment_path(tmp_path, 2).stat().st_size == len(batch_bytes(2))


@pytest.mark.parametrize("line", [0, 1])
def test_one_spoiled_line_of_the_high_watermark_is_the_one_not_acknowledged(
    log_path: Path, line: int
) -> None:
    """Whichever line a crash spoils, the other one counts, and the next commit mends it."""
    path = log_path / "high-watermark"
    with path.open("r+b") as file:
        file.seek(30 * line + 12)
        file.write(b"\x00\x00\x00")
    counted = read_high_watermark(path)
    assert counted in (0, 2)
    with DirectoryLog.open(log_path, mode="write") as log:
        assert log.high_watermark() == 2  # the batch behind the older line was complete
        log.append([acl(2)])
    lines = path.read_bytes().splitlines()
    assert {bytes(text[:20]) for text in lines} <= {b"%020d" % offset for offset in (0, 2, 3)}
    assert read_high_watermark(path) == 3
    assert_holds_acls(read_path(log_path), 0, 3)


def test_a_recorder_never_overwrites_the_line_that_counts(tmp_path: Path) -> None:
    """However often it is closed and opened again."""
    path = tmp_path / "high-watermark"
    DirectoryLog.open(tmp_path, mode="create").close()
    for offset in range(1, 6):
        before = path.read_bytes()
        record_high_watermark(tmp_path, offset)
        after = path.read_bytes()
        retained = [line for line in before.splitlines() if line in after.splitlines()]
        assert retained
        assert max(int(line[:20]) for line in retained) == offset - 1


@pytest.mark.parametrize("content", [b"", b"\n", b"7\n", b"0" * 60, "x" * 60, "²" * 30])
def test_a_high_watermark_that_makes_no_sense_is_corrupt(log_path: Path, content: bytes | str) -> None:
    """The committed end is not guessed: reading and writing name the file."""
    path = log_path / "high-watermark"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LogCorruptError, match="high-watermark: neither line"):
        DirectoryLog.open(log_path, mode="write")
    with DirectoryLog.open(log_path) as log, pytest.raises(LogCorruptError, match="high-watermark"):
        read_batches(log)


@pytest.mark.parametrize(
    "lost",
    [
        ("leader-epoch-checkpoint",),
        ("leader-epoch-checkpoint", f"{0:020}.log"),
        ("leader-epoch-checkpoint", f"{0:020}.log", "high-watermark"),
        ("leader-epoch-checkpoint", f"{0:020}.log", "high-watermark", "partition.metadata"),
    ],
)
def test_a_creation_that_crashed_is_completed(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """After any step of a creation: readers see an empty log, the next writer gets a complete one."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        identity = log.identity
    for name in lost:
        (tmp_path / name).unlink()
    with DirectoryLog.open(tmp_path) as reader:
        assert (reader.start_offset(), reader.high_watermark(), reader.read(0)) == (0, 0, [])
        assert reader.uncommitted_from is None
        with DirectoryLog.open(tmp_path, mode="write") as log:
            assert log.identity == identity
            log.append([acl(0)])
            assert_holds_acls(reader.read(0), 0, 1)


def test_a_creation_that_never_began_is_none(tmp_path: Path) -> None:
    """Only a lock and an unfinished first file: the directory still counts as empty."""
    (tmp_path / ".lock").touch()
    (tmp_path / "aclog.properties.tmp").write_text("half a fi")
    with DirectoryLog.open(tmp_path, mode="create") as log:
        log.append([acl(0)])
    assert_holds_acls(read_path(tmp_path), 0, 1)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (
            lambda text: text.replace("version=1", "version=2"),
            "version=2; this build of aclog knows version 1",
        ),
        (lambda text: text.replace("cluster.id", "cluster.idea"), "cluster.id is missing"),
        (lambda text: text.replace("topic.id=", "topic.id=x"), "topic.id"),
        (lambda _: "", "version=None"),
    ],
)
@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_a_damaged_owner_file_is_corrupt(
    log_path: Path, mode: str, damage: Callable[[str], str], match: str
) -> None:
    """Whose log it is must be known, to read and to write."""
    path = log_path / "aclog.properties"
    path.write_text(damage(path.read_text()))
    with pytest.raises(LogCorruptError, match=match):
        DirectoryLog.open(log_path, mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "1\n1\n1 0\n",
        "0\n2\n1 0\n",
        "0\n2\n2 0\n1 5\n",
        "0\n1\n1\n",
        "0\n1\na b\n",
        "0\n1\n1 2 3\n",
    ],
)
def test_damaged_epochs_are_corrupt(log_path: Path, text: str) -> None:
    """A writer does not begin an epoch that may have been there before."""
    (log_path / "leader-epoch-checkpoint").write_text(text)
    with pytest.raises(LogCorruptError, match="leader epoch checkpoint"):
        DirectoryLog.open(log_path, mode="write")


def test_a_copied_log_is_the_same_log(log_path: Path, tmp_path: Path) -> None:
    """A backup, put back elsewhere, reads and writes on."""
    copy = shutil.copytree(log_path, tmp_path / "copy")
    with DirectoryLog.open(copy, mode="write") as log, DirectoryLog.open(log_path) as original:
        assert log.identity == original.identity
        log.append([acl(2)])
        assert_holds_acls(read_batches(log), 0, 3)
