"""The files of a snapshot store, through fsspec: listing, whole reads, whole puts, removal.

Rules of this file:

- A put is one operation that shows the whole file or none: rename on a local disk, one put on an object
  store. Local files are synced before they are seen.
- Listings never come from fsspec's cache: another node may write to the same store.
- Whatever fsspec and the client libraries raise becomes a SnapshotError here, and nowhere else; only
  FileNotFoundError stays, because it means something to the caller.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from snapshot.errors import SnapshotError, SnapshotStoreMissingError
from snapshot.files.atomic_file import atomic_write, make_directories
from snapshot.store.object_store import client_options, failure, is_object_store, require_bucket

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
            fs, root = url_to_fs(url, **client_options(url))
        except (ImportError, ValueError) as error:
            # ImportError: fsspec knows the scheme, but its package (s3fs, gcsfs, adlfs ...) is not installed.
            raise SnapshotError(f"cannot open the snapshot store {self._shown}: {error}") from error
        self._fs: Any = fs
        self._root: str = root.rstrip("/")
        self._is_local = isinstance(fs, LocalFileSystem)
        self._is_object_store = is_object_store(fs)
        self._has_bucket = False

    def require(self) -> None:
        """See that there is such a tree: a directory, or on an object store its bucket.

        Raises:
            SnapshotStoreMissingError: there is none.
            SnapshotError: it cannot be looked at.
        """
        if self._is_object_store:
            self._require_bucket()
            return
        with self._translated("look at", ""):
            if self._fs.exists(self._absolute("")):
                return
        raise SnapshotStoreMissingError(f"there is no snapshot store {self._shown}")

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
        self._put(path, data, only_new=False)

    def put_new(self, path: str, data: bytes) -> bool:
        """Write the whole file unless there is one; of several that do so at once, one writes.

        A store that cannot tell (a server that ignores the condition) lets the last one write.

        Returns:
            Whether it was written. After an answer that was lost on the way the file may be this one all the
            same.
        """
        return self._put(path, data, only_new=True)

    def remove(self, path: str) -> None:
        """Remove one file; nothing happens when another node was faster."""
        with self._translated("remove", path), suppress(FileNotFoundError):
            self._fs.rm_file(self._absolute(path))

    def remove_directory(self, directory: str) -> None:
        """Remove a directory if it is empty. On an object store there is none, and that is fine too."""
        if self._is_object_store:
            return
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

    def _put(self, path: str, data: bytes, *, only_new: bool) -> bool:
        target = self._absolute(path)
        missing: FileNotFoundError | None = None
        with self._translated("write", path):
            for _ in range(_PUT_TRIES):
                try:
                    return self._put_once(target, data, only_new=only_new)
                except FileNotFoundError as error:
                    missing = error
                    if self._is_object_store:
                        self._require_bucket()
                        break
                    self._make_directory(target.rpartition("/")[0])
        raise SnapshotError(f"cannot write {self.shown(path)}: {missing}") from missing

    def _make_directory(self, directory: str) -> None:
        if self._is_local:
            make_directories(Path(directory))
        else:
            self._fs.makedirs(directory, exist_ok=True)

    def _put_once(self, target: str, data: bytes, *, only_new: bool) -> bool:
        try:
            if self._is_local:
                with atomic_write(Path(target), only_new=only_new) as file:
                    file.write(data)
            elif only_new:
                self._fs.pipe_file(target, data, mode="create")
            else:
                self._fs.pipe_file(target, data)
        except FileExistsError:
            if only_new:
                return False
            raise
        except OSError as error:
            if not only_new or error.errno != errno.ENOSYS:
                raise
            # A server that knows no conditions: what two put at once is the later one's.
            if self._fs.exists(target):
                return False
            self._fs.pipe_file(target, data)
        return True

    def _list(self, directory: str) -> list[tuple[str, dict[str, Any]]]:
        path = self._absolute(directory)
        with self._translated("list", directory):
            self._fs.invalidate_cache(path)
            try:
                entries = self._fs.ls(path, detail=True)
            except FileNotFoundError:
                if self._is_object_store:
                    self._require_bucket()
                return []
        self._has_bucket = True
        named = ((info["name"].rstrip("/").rpartition("/")[2], info) for info in entries)
        # An object store may list the directory's own marker.
        return [(name, info) for name, info in named if name and info["name"].rstrip("/") != path]

    def _require_bucket(self) -> None:
        if not self._has_bucket:
            require_bucket(self._fs, self._root, self._shown)
            self._has_bucket = True

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root or "/"

    @contextmanager
    def _translated(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotImplementedError, SnapshotError):
            raise
        except Exception as error:
            if not self._is_local:
                raise failure(doing, self.shown(path), error) from error
            if isinstance(error, OSError):
                reason = error.strerror or error
                raise SnapshotError(f"cannot {doing} {self.shown(path)}: {reason}") from error
            raise
