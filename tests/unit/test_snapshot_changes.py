"""A stored snapshot whose part has changes: read, verified, kept and removed as one thing."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from records.columns.acl_table import AppliedAcl
from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from snapshot.columns import AclColumns
from snapshot.errors import SnapshotCorruptError
from snapshot.store.manifest import ChangePart, SnapshotManifest
from snapshot.store.parquet import encode_changes
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SnapshotState
from support.shard_folds import folded, plan
from support.snapshots import IDENTITY, acl, acl_id, contents, image_of, logged, replayed

BEFORE: list[MetadataRecord] = [acl(number) for number in range(20)]
BATCH: list[MetadataRecord] = [acl(1, host="h"), RemoveAccessControlEntryRecord(acl_id(2))]


def stored(store: SnapshotStore, *, keep: int = 9) -> SnapshotManifest:
    """A snapshot with changes, and the one before it."""
    base = None
    for records in (BEFORE, BATCH):
        start = 0 if base is None else base.provenance.end_offset
        result, _ = folded(plan(store, start + len(records), base=base), logged(records, start=start))
        base = store.commit(result.manifest, attempts="job", keep=keep)
    assert base is not None
    assert base.parts[0].changes is not None
    return base


def changes_path(store: Path, manifest: SnapshotManifest) -> Path:
    changes = manifest.parts[0].changes
    assert changes is not None
    return store / manifest.ref.file(changes.name)


def test_a_node_reads_the_part_with_its_changes(tmp_path: Path) -> None:
    """The newest is used, and needs no other snapshot."""
    manifest = stored(SnapshotStore(tmp_path), keep=1)
    (only,) = SnapshotStore(tmp_path).survey(IDENTITY)
    assert (only.ref, only.state) == (manifest.ref, SnapshotState.COMPLETE)
    found = SnapshotStore(tmp_path).latest(IDENTITY)
    assert found is not None
    assert contents(found.image) == contents(replayed([*BEFORE, *BATCH]))
    assert found.skipped == ()
    assert SnapshotStore(tmp_path).verify(manifest.ref, IDENTITY) == ()


def test_the_changes_are_removed_with_the_snapshot(tmp_path: Path) -> None:
    """Nothing is left of it, and nothing of another one is touched."""
    store = SnapshotStore(tmp_path)
    manifest = stored(store)
    store.write(image_of(*range(40)), IDENTITY, log_end_time_ms=1, keep=1)
    assert not (tmp_path / manifest.ref.directory).exists()
    assert len(store.survey(IDENTITY)) == 1


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (Path.unlink, "is missing"),
        (flip, "SHA-256"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "bytes, its manifest says"),
    ],
    ids=["missing", "flipped", "short"],
)
def test_damaged_changes_are_damage(tmp_path: Path, damage: Callable[[Path], object], problem: str) -> None:
    """The snapshot before it is used, and its part has nothing of the changes."""
    store = SnapshotStore(tmp_path)
    manifest = stored(store)
    damage(changes_path(tmp_path, manifest))
    assert problem in " ".join(store.verify(manifest.ref, IDENTITY))
    found = store.latest(IDENTITY)
    assert found is not None
    assert contents(found.image) == contents(replayed(BEFORE))
    with pytest.raises(SnapshotCorruptError, match=problem):
        folded(plan(store, 40, base=manifest), logged([acl(3)], start=22))


def test_changes_that_do_not_fit_their_part_are_damage(tmp_path: Path) -> None:
    """Complete and sealed files, whose result contradicts the manifest."""
    store = SnapshotStore(tmp_path)
    manifest = stored(store)
    path = changes_path(tmp_path, manifest)
    part = manifest.parts[0]
    assert part.changes is not None
    # The changes remove an id that the part does not have.
    data = encode_changes(AclColumns.of([AppliedAcl(acl(1, host="h"), 20, 1)]), acl_id(77))
    path.write_bytes(data)
    sealed = ChangePart(part.changes.name, 2, len(data), hashlib.sha256(data).hexdigest(), part.changes.count)
    wrong = replace(manifest, parts=(replace(part, changes=sealed),))
    (path.parent / "manifest.json").write_bytes(wrong.to_json())
    assert "leaves 20 ACLs, its manifest says 19" in " ".join(store.verify(manifest.ref, IDENTITY))
    with pytest.raises(SnapshotCorruptError, match="leaves 20 ACLs"):
        folded(plan(store, 40, base=wrong), logged([acl(3)], start=22))


def test_a_copy_of_the_directory_is_a_complete_snapshot(tmp_path: Path) -> None:
    """Into another store, by whatever copies files."""
    manifest = stored(SnapshotStore(tmp_path / "from"))
    shutil.copytree(tmp_path / "from" / manifest.ref.directory, tmp_path / "to" / manifest.ref.directory)
    copied = SnapshotStore(tmp_path / "to").read(manifest.ref, IDENTITY)
    assert contents(copied.image) == contents(replayed([*BEFORE, *BATCH]))
