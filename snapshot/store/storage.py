"""The files of a snapshot store, through fsspec: list, read, put and remove complete files.

- A put is atomic: a rename on a local disk, one put on an object store. Local files are synced before they
  become visible.
- Listings bypass fsspec's cache: another node may write to the same store.
- All errors of fsspec and the client libraries become SnapshotError here, except FileNotFoundError, which
  callers handle.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from snapshot.errors import SnapshotError, SnapshotStoreMissingError
from snapshot.files.atomic_file import atomic_write, make_directories
from snapshot.store.object_store import client_options, failure, is_object_store, require_bucket

#: Another node's retention may remove a new directory before the first file is in it.
_PUT_TRIES: Final = 3

#: Name of the object of ``probe``; neither a store nor Spark reads names that begin with a dot.
PROBE_PREFIX: Final = ".aclog-doctor-"

_CREDENTIALS: Final = re.compile(r"//[^/@]*@")


class Storage:
    """A directory tree at an fsspec URL or a local path; all paths are relative to that root."""

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
        """Check that the directory or bucket exists; SnapshotStoreMissingError: it does not."""
        if self._is_object_store:
            self._require_bucket()
            return
        with self._translated("access", ""):
            if self._fs.exists(self._absolute("")):
                return
        raise SnapshotStoreMissingError(f"snapshot store {self._shown} does not exist")

    def files(self, directory: str) -> dict[str, int]:
        """Size in bytes by name of the files directly in a directory; empty if it does not exist."""
        return {name: info["size"] for name, info in self._list(directory) if info["type"] == "file"}

    def directories(self, directory: str) -> list[str]:
        """Names of the directories directly in a directory; empty if it does not exist."""
        return [name for name, info in self._list(directory) if info["type"] == "directory"]

    def read(self, path: str) -> bytes:
        with self._translated("read", path):
            data: bytes = self._fs.cat_file(self._absolute(path))
            return data

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the file; readers see the old content or the new one."""
        self._put(path, data, only_new=False)

    def put_new(self, path: str, data: bytes) -> bool:
        """Create the file unless it exists, and return whether; of several concurrent calls one succeeds.

        On a server that ignores the condition the last one wins. If the server's response was lost, the
        existing file may be this one.
        """
        return self._put(path, data, only_new=True)

    def remove(self, path: str) -> None:
        with self._translated("remove", path), suppress(FileNotFoundError):
            self._fs.rm_file(self._absolute(path))

    def remove_directory(self, directory: str) -> None:
        """Remove a directory if it is empty. Object stores have no directories."""
        if self._is_object_store:
            return
        with suppress(OSError, NotImplementedError):
            self._fs.rmdir(self._absolute(directory))

    def remove_tree(self, directory: str) -> None:
        """Remove a directory with all that is below it, if it exists."""
        with self._translated("remove", directory), suppress(FileNotFoundError):
            self._fs.rm(self._absolute(directory), recursive=True)

    def modified_s(self, path: str) -> float | None:
        """When the file was last written, in seconds since the epoch; None if missing or unknown."""
        return self._modified_s(self._absolute(path), path)

    def probe(self) -> float | None:
        """Write, read and remove one new object, and change nothing else.

        If the directory does not exist, its nearest existing parent is used. Returned is when the object was
        written by the store's clock, in seconds since the epoch; None if unknown.
        """
        target = self._probe_target()
        content = target.encode()
        try:
            with self._translated("write", ""):
                self._fs.pipe_file(target, content)
            try:
                with self._translated("read", ""):
                    if self._fs.cat_file(target) != content:
                        raise SnapshotError(f"{self._shown} returns other bytes than were written")
                return self._modified_s(target, "")
            finally:
                with self._translated("remove", ""):
                    self._fs.rm_file(target)
        except FileNotFoundError as error:
            raise SnapshotError(f"cannot write and read {self._shown}: {error}") from error

    @contextmanager
    def shared_file(self) -> Iterator[Path | None]:
        """Create an empty file until the end of the block, where ``probe`` creates its object.

        Another machine that does not see the file has another directory there. None: the file system is not
        a local one.
        """
        if not self._is_local:
            yield None
            return
        path = Path(self._probe_target())
        with self._translated("write", ""):
            path.touch(exist_ok=False)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _probe_target(self) -> str:
        """A new name in the directory, or in its nearest existing parent."""
        if self._is_object_store:
            self._require_bucket()
        directory = self._root
        with self._translated("access", ""):
            while directory and not self._is_object_store and not self._fs.exists(directory):
                directory = directory.rpartition("/")[0]
        return f"{directory}/{PROBE_PREFIX}{uuid4().hex}"

    def local_path(self, path: str) -> Path | None:
        """The path on the local disk; None for another file system."""
        return Path(self._absolute(path)) if self._is_local else None

    def _modified_s(self, target: str, path: str) -> float | None:
        try:
            with self._translated("access", path):
                modified = self._fs.modified(target)
        except (FileNotFoundError, NotImplementedError):
            return None
        if modified.tzinfo is None:
            modified = modified.replace(tzinfo=UTC)
        return float(modified.timestamp())

    def shown(self, path: str) -> str:
        """The path for messages, without secrets of the URL."""
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
            # The server does not support conditions: of two concurrent puts the later one wins.
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
        # An object store may list the marker object of the directory.
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
