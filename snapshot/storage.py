"""The files of a snapshot store, through fsspec: listing, whole reads, whole puts, removal.

Rules of this file:

- A put is one operation that shows the whole file or none: rename on a local disk, one put on an object
  store. Local files are synced before they are seen.
- Listings never come from fsspec's cache: another node may write to the same store.
- fsspec's and the client libraries' OSErrors become SnapshotError here, and nowhere else; only
  FileNotFoundError stays, because it means something to the caller.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from snapshot.atomic_file import atomic_write, make_directories
from snapshot.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Another node's retention may remove a new directory while it is empty.
_PUT_TRIES: Final = 3

_CREDENTIALS: Final = re.compile(r"//[^/@]*@")


class Storage:
    """A directory tree at a URL that fsspec knows, or at a local path; all paths are below that root."""

    def __init__(self, url: str) -> None:
        self._shown = _CREDENTIALS.sub("//***@", url).rstrip("/")
        try:
            fs, root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            # ImportError: fsspec knows the scheme, but its package (s3fs, gcsfs, adlfs ...) is not installed.
            raise SnapshotError(f"cannot open the snapshot store {self._shown}: {error}") from error
        self._fs: Any = fs
        self._root: str = root.rstrip("/")

    def files(self, directory: str) -> dict[str, int]:
        """Name -> size in bytes of the files directly in it; empty when there is no such directory."""
        return {name: info["size"] for name, info in self._list(directory) if info["type"] == "file"}

    def directories(self, directory: str) -> list[str]:
        """Names of the directories directly in it; empty when there is no such directory."""
        return [name for name, info in self._list(directory) if info["type"] == "directory"]

    def read(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._translated("read", path):
            data: bytes = self._fs.cat_file(self._absolute(path))
            return data

    def put(self, path: str, data: bytes) -> None:
        """Write the whole file, over what may be there; readers see the old one or the new one."""
        target = self._absolute(path)
        directory = target.rpartition("/")[0]
        try:
            with self._translated("write", path):
                for tries_left in range(_PUT_TRIES - 1, -1, -1):
                    try:
                        self._put(target, data)
                        break
                    except FileNotFoundError:
                        if not tries_left:
                            raise
                        # Object stores have no directories and may refuse to make one; others need it.
                        if isinstance(self._fs, LocalFileSystem):
                            make_directories(Path(directory))
                        else:
                            self._fs.makedirs(directory, exist_ok=True)
        except FileNotFoundError as error:
            raise SnapshotError(f"cannot write {self.shown(path)}: {error}") from error

    def remove(self, path: str) -> None:
        """Remove one file; nothing happens when another node was faster."""
        with self._translated("remove", path), suppress(FileNotFoundError):
            self._fs.rm_file(self._absolute(path))

    def remove_directory(self, directory: str) -> None:
        """Remove a directory if it is empty. On an object store there is none, and that is fine too."""
        with suppress(OSError, NotImplementedError):
            self._fs.rmdir(self._absolute(directory))

    def modified_s(self, path: str) -> float | None:
        """When the file was last written, in seconds since the epoch; None when gone or when nobody knows."""
        try:
            with self._translated("look at", path):
                modified = self._fs.modified(self._absolute(path))
        except (FileNotFoundError, NotImplementedError):
            return None
        if modified.tzinfo is None:
            modified = modified.replace(tzinfo=UTC)
        return float(modified.timestamp())

    def shown(self, path: str) -> str:
        """The path as messages name it: whatever secret is in the URL stays out of logs."""
        return f"{self._shown}/{path}" if path else self._shown

    def _put(self, target: str, data: bytes) -> None:
        if isinstance(self._fs, LocalFileSystem):
            with atomic_write(Path(target)) as file:
                file.write(data)
        else:
            self._fs.pipe_file(target, data)

    def _list(self, directory: str) -> list[tuple[str, dict[str, Any]]]:
        path = self._absolute(directory)
        with self._translated("list", directory):
            self._fs.invalidate_cache(path)
            try:
                entries = self._fs.ls(path, detail=True)
            except FileNotFoundError:
                return []
        named = ((info["name"].rstrip("/").rpartition("/")[2], info) for info in entries)
        # An object store may list the directory's own marker.
        return [(name, info) for name, info in named if name and info["name"].rstrip("/") != path]

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root or "/"

    @contextmanager
    def _translated(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise SnapshotError(f"cannot {doing} {self.shown(path)}: {error}") from error
