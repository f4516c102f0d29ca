"""Retention: N complete snapshots are kept, abandoned leftovers are removed, nothing else is touched."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from records.ids import Uuid
from records.log.base import LogIdentity
from snapshot.errors import SnapshotError, SnapshotMissingError
from snapshot.store.layout import MANIFEST_NAME, snapshot_name
from snapshot.store.retention import GRACE_S, WRITING_S
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage
from support.snapshots import CLUSTER, IDENTITY, contents, edit_manifest, image_of


def later(seconds: float) -> float:
    """The time so long after the files of this test were written."""
    return time.time() + seconds


def store_now(url: str | Path) -> SnapshotStore:
    return SnapshotStore(url, rows_per_part=2)


def store_minutes_later(url: str | Path) -> SnapshotStore:
    return SnapshotStore(url, rows_per_part=2, clock_s=lambda: later(WRITING_S + 60))


def store_next_day(url: str | Path) -> SnapshotStore:
    return SnapshotStore(url, rows_per_part=2, clock_s=lambda: later(GRACE_S + 60))


def write(store: SnapshotStore, count: int, *, keep: int = 2, epoch: int = 1) -> None:
    store.write(image_of(*range(count), epoch=epoch), IDENTITY, log_end_time_ms=1, keep=keep)


def stored(tmp_path: Path) -> list[int]:
    """End offsets of all directories that are there."""
    return sorted(int(path.name[:20]) for path in (tmp_path / CLUSTER).iterdir())


def directory(tmp_path: Path, count: int, epoch: int = 1) -> Path:
    return tmp_path / CLUSTER / snapshot_name(count, epoch)


def test_the_newest_n_are_kept(tmp_path: Path) -> None:
    """Older ones are gone, directories and all."""
    for count in (1, 2, 3, 4):
        write(store_now(tmp_path), count, keep=2)
    assert stored(tmp_path) == [3, 4]
    write(store_now(tmp_path), 5, keep=1)
    assert stored(tmp_path) == [5]


def test_the_newest_n_are_kept_on_other_stores() -> None:
    """The same where directories are only names."""
    url = f"memory://{uuid.uuid4().hex}"
    for count in (1, 2, 3, 4):
        write(store_now(url), count, keep=2)
    fs, root = fsspec.url_to_fs(url)
    assert len(fs.ls(f"{root}/{CLUSTER}")) == 2
    assert [ref.end_offset for ref in store_now(url).list(IDENTITY)] == [3, 4]


def test_the_snapshot_just_written_is_kept_at_any_offset(tmp_path: Path) -> None:
    """A node that lags must not write in vain: it knows that this snapshot is complete."""
    for count in (4, 5):
        write(store_now(tmp_path), count, keep=2)
    write(store_now(tmp_path), 3, keep=2)
    assert stored(tmp_path) == [3, 4, 5]
    write(store_now(tmp_path), 6, keep=2)
    assert stored(tmp_path) == [5, 6]


def test_newest_is_by_epoch(tmp_path: Path) -> None:
    """After a truncation, longer snapshots of the old epoch are the old ones."""
    for count in (8, 9):
        write(store_now(tmp_path), count, keep=2, epoch=1)
    for count in (3, 4):
        write(store_now(tmp_path), count, keep=2, epoch=2)
    assert stored(tmp_path) == [3, 4]


@pytest.mark.parametrize("damage", ["part", "manifest"])
def test_a_damaged_one_does_not_count(tmp_path: Path, damage: str) -> None:
    """N complete snapshots are kept: a damaged newer one never evicts a complete one."""
    for count in (1, 2):
        write(store_now(tmp_path), count, keep=2)
    write(store_now(tmp_path), 4, keep=3)
    pattern = "part-*" if damage == "part" else MANIFEST_NAME
    for path in directory(tmp_path, 4).glob(pattern):
        path.write_bytes(b"x")
    write(store_now(tmp_path), 3, keep=3)
    assert stored(tmp_path) == [1, 2, 3, 4]
    found = store_now(tmp_path).latest(IDENTITY)
    assert found is not None
    assert found.ref.end_offset == 3


def test_the_only_complete_snapshot_is_never_deleted(tmp_path: Path) -> None:
    """Whatever else is there and however old it is, one that can be loaded stays."""
    write(store_now(tmp_path), 1)
    for count in (2, 3, 4):
        directory(tmp_path, count).mkdir()
        (directory(tmp_path, count) / "part-00000-x.parquet").write_bytes(b"")
    write(store_next_day(tmp_path), 1, keep=1)
    assert stored(tmp_path) == [1]
    assert store_now(tmp_path).latest(IDENTITY) is not None


def test_an_unfinished_one_is_left_to_its_writer(tmp_path: Path) -> None:
    """Another node may be filling it now: it goes minutes after its last file, not before."""
    write(store_now(tmp_path), 1)
    unfinished = directory(tmp_path, 2)
    shutil.copytree(directory(tmp_path, 1), unfinished)
    (unfinished / MANIFEST_NAME).unlink()
    (unfinished / ".aclog-writing-1").write_bytes(b"")
    write(store_now(tmp_path), 3)
    assert stored(tmp_path) == [1, 2, 3]
    write(store_minutes_later(tmp_path), 3)
    assert stored(tmp_path) == [1, 3]


def test_one_young_file_keeps_an_unfinished_one(tmp_path: Path) -> None:
    """A writer that is slow, but alive, is not disturbed."""
    write(store_now(tmp_path), 1)
    unfinished = directory(tmp_path, 2)
    unfinished.mkdir()
    for name, age_s in (("part-00000-x.parquet", 10 * GRACE_S), ("part-00001-x.parquet", WRITING_S - 60)):
        (unfinished / name).write_bytes(b"")
        os.utime(unfinished / name, (later(-age_s), later(-age_s)))
    write(store_now(tmp_path), 3)
    assert stored(tmp_path) == [1, 2, 3]
    os.utime(unfinished / "part-00001-x.parquet", (later(-WRITING_S - 60), later(-WRITING_S - 60)))
    write(store_now(tmp_path), 3)
    assert stored(tmp_path) == [1, 3]


def test_the_tasks_of_a_job_have_a_day(tmp_path: Path) -> None:
    """The parts of a batch's shards may be hours apart, and the manifest comes after the last."""
    write(store_now(tmp_path), 1)
    unfinished = directory(tmp_path, 2)
    unfinished.mkdir()
    (unfinished / "part-00000-of-00002-job.parquet").write_bytes(b"")
    write(store_minutes_later(tmp_path), 3)
    assert stored(tmp_path) == [1, 2, 3]
    write(store_next_day(tmp_path), 3)
    assert stored(tmp_path) == [1, 3]


def test_a_manifest_rewritten_by_another_node_is_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention removes manifest and parts; a node that freshened the manifest in between put it back."""
    write(store_now(tmp_path), 1)
    old = directory(tmp_path, 1) / MANIFEST_NAME
    manifest = old.read_bytes()
    remove = Storage.remove

    def removed(self: Storage, path: str) -> None:
        remove(self, path)
        if path.endswith(f"{snapshot_name(1, 1)}/{MANIFEST_NAME}") and manifests:
            old.write_bytes(manifests.pop())

    manifests = [manifest]
    monkeypatch.setattr(Storage, "remove", removed)
    write(store_now(tmp_path), 2, keep=1)
    assert manifests == []
    assert stored(tmp_path) == [2]


def test_a_snapshot_removed_while_it_is_freshened_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other side of the same race: a manifest without its parts is never left."""
    write(store_now(tmp_path), 2)
    manifest = store_now(tmp_path).survey(IDENTITY)[0].manifest
    assert manifest is not None
    put = Storage.put

    def put_late(self: Storage, path: str, data: bytes) -> None:
        shutil.rmtree(directory(tmp_path, 2))
        monkeypatch.setattr(Storage, "put", put)
        put(self, path, data)

    monkeypatch.setattr(Storage, "put", put_late)
    with pytest.raises(SnapshotMissingError, match="is being removed"):
        store_now(tmp_path).freshen(manifest, log_end_time_ms=5)
    assert not (directory(tmp_path, 2) / MANIFEST_NAME).exists()
    write(store_now(tmp_path), 2)
    monkeypatch.setattr(Storage, "put", put_late)
    store_now(tmp_path).write(image_of(0, 1), IDENTITY, log_end_time_ms=7)
    (status,) = store_now(tmp_path).survey(IDENTITY)
    assert status.problem is None
    assert store_now(tmp_path).verify(status.ref) == ()


def test_a_writer_whose_parts_were_taken_for_leftovers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asleep for too long, or a clock is wrong: no manifest for parts that are gone."""
    put = Storage.put

    def put_and_lost(self: Storage, path: str, data: bytes) -> None:
        put(self, path, data)
        self.remove(path)

    monkeypatch.setattr(Storage, "put", put_and_lost)
    with pytest.raises(SnapshotError, match="was removed by another node"):
        write(store_now(tmp_path), 2)
    assert store_now(tmp_path).list(IDENTITY) == ()


def test_an_empty_directory_is_removed(tmp_path: Path) -> None:
    """What a crash between two deletions leaves behind; making it anew costs its writer nothing."""
    write(store_now(tmp_path), 1)
    directory(tmp_path, 2).mkdir()
    write(store_now(tmp_path), 1)
    assert stored(tmp_path) == [1]


def test_parts_of_other_attempts_are_removed_after_a_day(tmp_path: Path) -> None:
    """Parts that no manifest names may still be named by a writer that is not done yet."""
    write(store_now(tmp_path), 3)
    home = directory(tmp_path, 3)
    named = sorted(path.name for path in home.iterdir())
    for name in ("part-00000-other.parquet", ".aclog-writing-2"):
        (home / name).write_bytes(b"")
    write(store_now(tmp_path), 3)
    assert len(list(home.iterdir())) == len(named) + 2
    write(store_next_day(tmp_path), 3)
    assert sorted(path.name for path in home.iterdir()) == named
    assert store_now(tmp_path).verify(store_now(tmp_path).list(IDENTITY)[0]) == ()


def test_another_attempt_at_an_old_one_is_left_to_its_writer(tmp_path: Path) -> None:
    """A node that is behind writes in the directory whose snapshot goes: its own files stay for a while."""
    for count in (1, 2, 3):
        write(store_now(tmp_path), count, keep=3)
    theirs = [directory(tmp_path, 1) / name for name in ("part-00000-other.parquet", ".aclog-writing-x")]
    for path in theirs:
        path.write_bytes(b"")
    write(store_now(tmp_path), 4, keep=2)
    assert stored(tmp_path) == [1, 3, 4]
    assert sorted(directory(tmp_path, 1).iterdir()) == sorted(theirs)
    write(store_next_day(tmp_path), 4, keep=2)
    assert stored(tmp_path) == [3, 4]


def test_files_of_another_attempt_are_removed_with_an_old_snapshot(tmp_path: Path) -> None:
    """Two nodes have written one snapshot, hours ago: nothing of it is left behind."""
    for count in (1, 2):
        write(store_now(tmp_path), count, keep=2)
    (directory(tmp_path, 1) / "part-00000-other.parquet").write_bytes(b"")
    store = SnapshotStore(tmp_path, rows_per_part=2, clock_s=lambda: later(WRITING_S + 60))
    write(store, 3, keep=2)
    assert stored(tmp_path) == [2, 3]


def test_corrupt_snapshots_are_removed_after_a_day(tmp_path: Path) -> None:
    """They are unusable; until then a user can inspect them."""
    write(store_now(tmp_path), 1)
    write(store_now(tmp_path), 2)
    (directory(tmp_path, 2) / MANIFEST_NAME).write_bytes(b"{")
    write(store_now(tmp_path), 1)
    assert stored(tmp_path) == [1, 2]
    write(store_next_day(tmp_path), 1)
    assert stored(tmp_path) == [1]


def test_foreign_files_are_never_touched(tmp_path: Path) -> None:
    """Another topic's, a newer format's, files that aclog does not write: whatever their age."""
    other = LogIdentity(CLUSTER, Uuid(b"o" * 16))
    store_now(tmp_path).write(image_of(1), other, log_end_time_ms=1)
    write(store_now(tmp_path), 2)
    edit_manifest(directory(tmp_path, 2) / MANIFEST_NAME, formatVersion=3)
    strangers = directory(tmp_path, 3)
    strangers.mkdir()
    (strangers / "notes.txt").write_text("mine")
    elsewhere = tmp_path / CLUSTER / "notes"
    elsewhere.mkdir()
    for count in (4, 5):
        write(store_next_day(tmp_path), count, keep=1)
    assert {path.name for path in (tmp_path / CLUSTER).iterdir()} == {
        "notes",
        *(snapshot_name(count, 1) for count in (1, 2, 3, 5)),
    }
    assert (strangers / "notes.txt").read_text() == "mine"
    assert contents(store_now(tmp_path).read(store_now(tmp_path).list(other)[0]).image) == contents(
        image_of(1)
    )


class AgelessStorage(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store that does not tell when a file was written."""

    protocol = "ageless"
    cachable = False

    def modified(self, path: str) -> float:
        raise NotImplementedError


def test_leftovers_of_unknown_age_are_kept() -> None:
    """Without a time there is no telling whether their writer is at work."""
    fsspec.register_implementation("ageless", AgelessStorage, clobber=True)
    url = f"ageless://{uuid.uuid4().hex}"
    write(store_next_day(url), 1)
    fs, root = fsspec.url_to_fs(url)
    leftover = f"{root}/{CLUSTER}/{snapshot_name(2, 1)}/part-00000-x.parquet"
    fs.pipe_file(leftover, b"")
    write(store_next_day(url), 3)
    assert fs.exists(leftover)


class ReadonlyStorage(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store that lets nobody delete."""

    protocol = "worm"
    cachable = False

    def rm_file(self, path: str) -> None:
        raise PermissionError("write once, read many")


def test_a_store_that_lets_nobody_delete_says_so() -> None:
    """The new snapshot is there, and the error says what is wrong."""
    fsspec.register_implementation("worm", ReadonlyStorage, clobber=True)
    url = f"worm://{uuid.uuid4().hex}"
    write(store_now(url), 1, keep=1)
    with pytest.raises(SnapshotError, match=r"cannot remove .*: write once, read many"):
        write(store_now(url), 2, keep=1)
    found = store_now(url).latest(IDENTITY)
    assert found is not None
    assert found.ref.end_offset == 2
