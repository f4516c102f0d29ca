"""Errors of the operating system or the disk: they name the path, and no change is left incomplete."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from records.errors import LogStorageError
from records.log.directory import DirectoryLog
from support.directory_logs import acl, acls, assert_holds_acls, read_path, segment_path, write_segment
from support.waiting import wait_until

NOBODY = 65534


@contextmanager
def disk_full_beyond(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond ``size_bytes``: writes are cut short there, then fail."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def replace_descriptor(path: Path, by: str) -> None:
    """Let this process's open descriptor of ``path`` lead to another file: a disk that answers otherwise."""
    for link in Path("/proc/self/fd").iterdir():
        if os.path.realpath(link) == str(path):
            other = os.open(by, os.O_WRONLY)
            os.dup2(other, int(link.name))
            os.close(other)
            return
    pytest.fail(f"{path} is not open")


@pytest.mark.parametrize("spare_bytes", [0, 1, 60, 61, 100, 5_000])
def test_an_append_that_does_not_fit_is_undone(tmp_path: Path, spare_bytes: int) -> None:
    """A full disk, met after some bytes or none: nothing is appended; with room, the log goes on."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        log.append(acls(0, 3))
        segment = segment_path(tmp_path, 0)
        size_bytes = segment.stat().st_size
        with disk_full_beyond(size_bytes + spare_bytes):
            with pytest.raises(LogStorageError) as caught:
                log.append(acls(3, 503))
            assert str(caught.value) == f"{segment}: File too large; nothing was appended"
            assert segment.stat().st_size == size_bytes
        assert log.high_watermark() == 3
        assert log.append(acls(3, 10)) == 10
    assert_holds_acls(read_path(tmp_path), 0, 10)


def test_an_import_that_does_not_fit_keeps_whole_segments(tmp_path: Path) -> None:
    """What was committed before the disk was full stays, batch by batch, and the high watermark tells."""
    batches = [(acls(number, number + 1), None) for number in range(100)]
    with DirectoryLog.open(tmp_path, mode="create", segment_bytes=4_000) as log:
        with disk_full_beyond(4_000), pytest.raises(LogStorageError):
            log.append_batches([*batches, (acls(100, 300), None)])
        end = log.high_watermark()
        assert end == 100
    assert_holds_acls(read_path(tmp_path), 0, end)


def test_only_the_failed_appends_of_a_shared_sync_fail(tmp_path: Path) -> None:
    """Two threads' appends are committed together; the disk has room for the first one's segment only."""
    answers: dict[str, object] = {}
    with DirectoryLog.open(tmp_path, mode="create", segment_bytes=1) as log:
        writer = log._writer
        assert writer is not None

        def append(name: str, start: int, end: int) -> None:
            try:
                answers[name] = log.append(acls(start, end))
            except LogStorageError as error:
                answers[name] = error

        threads = []
        with disk_full_beyond(1_000), writer._committing:
            for name, start, end in (("small", 0, 1), ("large", 1, 500)):
                threads.append(threading.Thread(target=append, args=(name, start, end)))
                threads[-1].start()
                wait_until(lambda: len(writer._requests) == len(threads))
            writer._commit_waiting()
        for thread in threads:
            thread.join(30)
    assert answers["small"] == 1
    assert isinstance(answers["large"], LogStorageError)
    assert_holds_acls(read_path(tmp_path), 0, 1)


def test_a_disk_that_refuses_the_undoing_ends_the_writing(tmp_path: Path) -> None:
    """Neither the bytes nor their removal went through: no more appends until the log was opened again."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        log.append([acl(0)])
        replace_descriptor(segment_path(tmp_path, 0), "/dev/full")
        with pytest.raises(LogStorageError, match="No space left on device"):
            log.append([acl(1)])
        with pytest.raises(LogStorageError, match="could not be cut back"):
            log.append([acl(1)])
        assert log.high_watermark() == 1
    with DirectoryLog.open(tmp_path, mode="write") as log:
        assert log.append([acl(1)]) == 2
    assert_holds_acls(read_path(tmp_path), 0, 2)


def test_a_sync_that_fails_ends_the_writing(tmp_path: Path) -> None:
    """Nobody knows what is on the disk then: no append is acknowledged until the log was opened again."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        log.append([acl(0)])
        replace_descriptor(segment_path(tmp_path, 0), "/dev/null")  # takes all, and cannot be synced
        for _ in range(2):
            with pytest.raises(
                LogStorageError, match="whether it is there shows when the log is opened again"
            ):
                log.append([acl(1)])
        assert log.high_watermark() == 1
    with DirectoryLog.open(tmp_path, mode="write") as log:
        assert log.append([acl(1)]) == 2


def test_a_high_watermark_that_cannot_be_recorded_acknowledges_nothing(tmp_path: Path) -> None:
    """The batch is on the disk: readers do not see it, and the next writer commits it."""
    with DirectoryLog.open(tmp_path, mode="create") as log:
        log.append([acl(0)])
        replace_descriptor(tmp_path / "high-watermark", "/dev/full")
        with pytest.raises(LogStorageError, match="No space left on device"):
            log.append([acl(1)])
        with pytest.raises(LogStorageError, match="opened again"):
            log.append([acl(2)])
        assert log.high_watermark() == 1
    assert_holds_acls(read_path(tmp_path), 0, 1)
    with DirectoryLog.open(tmp_path, mode="write") as log:
        assert log.high_watermark() == 2
    assert_holds_acls(read_path(tmp_path), 0, 2)


def test_a_roll_that_fails_appends_nothing(tmp_path: Path) -> None:
    """The next segment cannot be created: the error names it, and the log goes on when it can be."""
    with DirectoryLog.open(tmp_path, mode="create", segment_bytes=1) as log:
        log.append([acl(0)])
        obstacle = segment_path(tmp_path, 1)
        obstacle.mkdir()
        with pytest.raises(LogStorageError) as caught:
            log.append([acl(1)])
        assert str(obstacle) in str(caught.value)
        obstacle.rmdir()
        assert log.append([acl(1)]) == 2
    assert_holds_acls(read_path(tmp_path), 0, 2)


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that other users can reach; tmp_path lies in private ones."""
    with tempfile.TemporaryDirectory(prefix="aclog-storage-") as home:
        path = Path(home)
        path.chmod(0o755)
        yield path


@pytest.mark.parametrize("mode", ["read", "write", "create"])
def test_a_directory_that_may_not_be_read_is_named(public_path: Path, mode: str) -> None:
    """No permission: LogStorageError with the path and the reason. Root may all, so another user tries."""
    directory = public_path / "log"
    write_segment(directory, 0)
    directory.chmod(0)
    script = (
        "import sys, os\n"
        "from records.errors import LogError\n"
        "from records.log.directory import DirectoryLog\n"
        "os.getuid() or os.setuid(int(sys.argv[3]))\n"
        "try:\n"
        "    DirectoryLog.open(sys.argv[1], mode=sys.argv[2])\n"
        "except LogError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(directory), mode, str(NOBODY)],
        capture_output=True,
        text=True,
        check=True,
    )
    directory.chmod(0o755)
    assert done.stdout.startswith(f"LogStorageError {directory}")
    assert done.stdout.endswith("Permission denied\n")


def test_a_segment_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A directory in the place of a segment, say."""
    segment_path(tmp_path, 0).mkdir()
    with pytest.raises(LogStorageError, match=f"{0:020}.log: Is a directory"):
        DirectoryLog.open(tmp_path)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "file").touch()
    with pytest.raises(LogStorageError, match="file") as caught:
        DirectoryLog.open(tmp_path / "file" / "log", mode="create")
    assert "Not a directory" in str(caught.value)
