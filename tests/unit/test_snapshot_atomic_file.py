"""Files that appear completely or not at all."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

import pytest

from snapshot.files.atomic_file import STALE_S, TEMPORARY_PREFIX, atomic_write, make_directories


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    """Not before, and then with all of it; what was there is replaced."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def fail(file: IO[bytes], error: type[BaseException] | BaseException) -> None:
    file.write(b"half")
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    """And no temporary file."""
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(error), atomic_write(path) as file:
        fail(file, error)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_directory_must_be_there(tmp_path: Path) -> None:
    """An OSError, for the caller to translate."""
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "no" / "f"):
        pass


def test_directories_are_made_with_their_parents(tmp_path: Path) -> None:
    """Also when they are there already; a file in the way is an OSError."""
    make_directories(tmp_path / "a" / "b")
    make_directories(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(OSError, match="f"):
        make_directories(tmp_path / "f" / "g")


def test_the_entries_of_new_directories_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all new ones; a directory that exists is not synced again."""
    synced = set[Path]()

    def fsync(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").resolve())

    monkeypatch.setattr(os, "fsync", fsync)
    make_directories(tmp_path / "a" / "b" / "c")
    assert synced == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    synced.clear()
    make_directories(tmp_path / "a" / "b")
    assert not synced


def test_a_link_is_followed(tmp_path: Path) -> None:
    """What it points to is replaced; a link to nothing makes what it points to."""
    (tmp_path / "real").mkdir()
    target, link, dangling = tmp_path / "real" / "f", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"old")
    link.symlink_to("real/f")
    dangling.symlink_to("real/g")
    for path in (link, dangling):
        with atomic_write(path) as file:
            file.write(b"new")
        assert path.is_symlink()
        assert path.read_bytes() == b"new"
    assert sorted(path.name for path in target.parent.iterdir()) == ["f", "g"]


def test_a_device_remains_a_device(tmp_path: Path) -> None:
    """It is written to, also through a link; as root it could be replaced."""
    before = Path("/dev/null").stat()
    (tmp_path / "null").symlink_to("/dev/null")
    node = tmp_path / "node"
    if os.geteuid() == 0:
        os.mknod(node, stat.S_IFCHR | 0o666, before.st_rdev)
    for path in (Path("/dev/null"), tmp_path / "null", *([node] if node.exists() else [])):
        with atomic_write(path) as file:
            file.write(b"gone")
        assert stat.S_ISCHR(path.stat().st_mode)
    assert Path("/dev/null").stat().st_ino == before.st_ino
    assert list(Path("/dev").glob(f"{TEMPORARY_PREFIX}*")) == []


def test_a_full_device_says_so() -> None:
    """With its own name."""
    with pytest.raises(OSError, match="/dev/full") as raised, atomic_write(Path("/dev/full")) as file:
        file.write(b"x")
    assert raised.value.errno == errno.ENOSPC


def test_a_fifo_gets_everything_at_once(tmp_path: Path) -> None:
    """Its reader sees the end; one that fails half way sends nothing."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    with atomic_write(fifo) as file:
        file.write(b"all")
    reader.join()
    assert read == [b"all"]
    with pytest.raises(ValueError, match="half"), atomic_write(fifo) as file:
        fail(file, ValueError("half"))
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert list(tmp_path.iterdir()) == [fifo]


WRITE_TO_STDOUT = """
from pathlib import Path
from snapshot.files.atomic_file import atomic_write
with atomic_write(Path("{path}")) as file:
    file.write(b"new")
"""


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("to", ["pipe", "file", "end of a file"])
def test_stdout_is_written_to(tmp_path: Path, path: str, to: str) -> None:
    """Wherever it leads, and where it stands: `>>` keeps what is there."""
    program = [sys.executable, "-c", WRITE_TO_STDOUT.format(path=path)]
    if to == "pipe":
        assert subprocess.run(program, check=True, capture_output=True).stdout == b"new"
        return
    target = tmp_path / "f"
    target.write_bytes(b"old ")
    with target.open("wb" if to == "file" else "ab") as stdout:
        subprocess.run(program, check=True, stdout=stdout)
    assert target.read_bytes() == (b"new" if to == "file" else b"old new")
    assert list(tmp_path.iterdir()) == [target]


def test_a_directory_or_a_socket_is_refused(tmp_path: Path) -> None:
    """By the name that was given."""
    with pytest.raises(IsADirectoryError, match=str(tmp_path)), atomic_write(tmp_path):
        pass
    name = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(name))
        with pytest.raises(OSError, match="neither a file nor a device"), atomic_write(name):
            pass


def test_errors_name_the_requested_file(tmp_path: Path) -> None:
    """And not the one that it is written under."""
    path = tmp_path / "no" / "f"
    with pytest.raises(FileNotFoundError) as raised, atomic_write(path):
        pass
    assert raised.value.filename == str(path)


def test_an_existing_file_is_kept_if_it_must_be_new(tmp_path: Path) -> None:
    """Also what came while the other was written."""
    path = tmp_path / "f"
    with pytest.raises(FileExistsError), atomic_write(path, only_new=True):
        path.write_bytes(b"first")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    """With the next file in the same directory, once it is surely nobody's."""
    old, young = (tmp_path / f"{TEMPORARY_PREFIX}{name}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    long_ago = time.time() - STALE_S - 1
    os.utime(old, (long_ago, long_ago))
    with atomic_write(tmp_path / "f"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [young.name, "f"]
