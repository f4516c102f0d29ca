"""Storage: its guarantees on local disks, and with client libraries."""

from __future__ import annotations

import errno
import os
import threading
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from snapshot.errors import SnapshotError, SnapshotStoreMissingError, SnapshotStoreUnavailableError
from snapshot.store.storage import Storage


class ObjectStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """An object store of one bucket, with a client library of its own exceptions."""

    protocol = ("abfs", "bucketed")
    cachable = False
    fails_with: Exception | None = None
    knows_conditions = True
    buckets_made = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + str(path).partition("://")[2].lstrip("/") if "://" in str(path) else str(path)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._check_path(path)
        return super().ls(path, detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        self._check_path(path)
        is_bucket = "/" not in path.strip("/")
        return {"name": path, "type": "directory", "size": 0} if is_bucket else super().info(path, **options)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._check_path(path)
        if mode == "create" and not ObjectStore.knows_conditions:
            raise OSError(
                errno.ENOSYS, "A header you provided implies functionality that is not implemented."
            )
        super().pipe_file(path, value, mode, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        ObjectStore.buckets_made += 1

    def _check_path(self, path: str) -> None:
        if ObjectStore.fails_with is not None:
            raise ObjectStore.fails_with
        if path.strip("/").partition("/")[0] != "bucket":
            raise FileNotFoundError("The specified bucket does not exist.")


class LibraryError(Exception):
    """Of a client library: no OSError."""


@pytest.fixture
def object_store() -> str:
    fsspec.register_implementation("bucketed", ObjectStore, clobber=True)
    ObjectStore.fails_with = None
    ObjectStore.knows_conditions = True
    ObjectStore.buckets_made = 0
    return f"bucketed://bucket/{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "memory", "object store"])
def url(request: pytest.FixtureRequest, tmp_path: Path, object_store: str) -> str:
    return {"local": str(tmp_path), "memory": f"memory://{uuid.uuid4().hex}", "object store": object_store}[
        request.param
    ]


def test_an_existing_file_is_not_overwritten(url: str) -> None:
    """By put_new; put does."""
    storage = Storage(url)
    assert storage.put_new("a/f", b"1") is True
    assert storage.put_new("a/f", b"2") is False
    assert storage.read("a/f") == b"1"
    storage.put("a/f", b"3")
    assert storage.read("a/f") == b"3"
    assert list(storage.files("a")) == ["f"]


def test_one_of_several_concurrent_puts_writes(tmp_path: Path) -> None:
    """Its content remains."""
    url = str(tmp_path)
    wrote: list[bytes] = []
    barrier = threading.Barrier(8)

    def put(data: bytes) -> None:
        barrier.wait()
        if Storage(url).put_new("a/f", data):
            wrote.append(data)

    threads = [threading.Thread(target=put, args=(b"%d" % number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrote == [Storage(url).read("a/f")]
    assert list(Storage(url).files("a")) == ["f"]


def test_disks_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network and removable disks have none: there the file is looked for."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    storage = Storage(str(tmp_path))
    assert storage.put_new("f", b"1") is True
    assert storage.put_new("f", b"2") is False
    assert storage.read("f") == b"1"
    assert list(storage.files("")) == ["f"]


def test_servers_that_know_no_conditions(object_store: str) -> None:
    """They refuse the header; there the file is looked for."""
    ObjectStore.knows_conditions = False
    storage = Storage(object_store)
    assert storage.put_new("a/f", b"1") is True
    assert storage.put_new("a/f", b"2") is False
    assert storage.read("a/f") == b"1"


def test_a_missing_bucket_is_no_empty_store(object_store: str) -> None:
    """Neither to readers nor to writers, and nobody makes one."""
    missing = Storage("bucketed://bukcet/x")
    for use in (
        missing.require,
        lambda: missing.files("a"),
        lambda: missing.directories(""),
        lambda: missing.put("a/f", b"1"),
        lambda: missing.put_new("a/f", b"1"),
    ):
        with pytest.raises(
            SnapshotStoreMissingError, match="bucketed://bukcet/x: bucket `bukcet` does not exist"
        ):
            use()
    assert ObjectStore.buckets_made == 0
    Storage(object_store).require()
    assert Storage(object_store).files("a") == {}


def test_a_missing_directory_is_no_store(tmp_path: Path) -> None:
    """A reader gets an error; the first put creates it."""
    storage = Storage(str(tmp_path / "x"))
    with pytest.raises(SnapshotStoreMissingError, match=f"snapshot store {tmp_path / 'x'} does not exist"):
        storage.require()
    storage.put("f", b"")
    storage.require()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LibraryError("Could not connect to the endpoint URL"), "Could not connect to the endpoint URL"),
        (PermissionError("The signature does not match"), "access denied: The signature does not match"),
        (OSError(errno.EIO, "An error occurred (Slow)"), "An error occurred"),
        (LibraryError(), "LibraryError"),
    ],
)
def test_errors_of_client_libraries_are_translated(object_store: str, error: Exception, message: str) -> None:
    """One class of errors, which names the store and what the library said."""
    storage = Storage(object_store)
    ObjectStore.fails_with = error
    for use in (
        lambda: storage.files("a"),
        lambda: storage.put("a/f", b""),
        lambda: storage.put_new("f", b""),
    ):
        with pytest.raises(SnapshotStoreUnavailableError, match=f"cannot .* {object_store}.*{message}"):
            use()
    if not isinstance(error, PermissionError):
        with pytest.raises(SnapshotStoreUnavailableError, match=message):
            storage.require()


def test_local_errors_keep_the_systems_words(tmp_path: Path) -> None:
    """Without a number, and without the name of a file that only we know."""
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(SnapshotError, match=rf"^cannot write {tmp_path}/f/x: Not a directory$"):
        Storage(str(tmp_path)).put("f/x", b"")
