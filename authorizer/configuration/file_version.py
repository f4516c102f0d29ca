"""FileVersion: differs once a file was written or replaced."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Self


class FileVersion(NamedTuple):
    """What changes with a file's content, through links: Kubernetes swaps secrets by a link."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Raises OSError."""
        found = path.stat()
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    @classmethod
    def of_existing(cls, path: Path) -> Self | None:
        """None: there is no such file, or it is not accessible."""
        try:
            return cls.of(path)
        except OSError:
            return None
