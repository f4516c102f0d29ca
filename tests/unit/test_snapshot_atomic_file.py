"""Files that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pytest

from snapshot.atomic_file import atomic_write, make_directories


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


def fail(file: IO[bytes], error: type[BaseException]) -> None:
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
