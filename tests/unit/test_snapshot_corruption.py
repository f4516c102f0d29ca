"""Every kind of damage has its error, and the snapshot before is taken (I9)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from records.ids import Uuid
from records.log.base import LogIdentity
from snapshot.errors import (
    SnapshotCorruptError,
    SnapshotError,
    SnapshotForeignError,
    SnapshotUnsupportedError,
)
from snapshot.store.layout import MANIFEST_NAME
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SkippedSnapshot, SnapshotState
from support.snapshots import CLUSTER, IDENTITY, contents, edit_manifest, image_of


@dataclass(frozen=True)
class Damage:
    """What happens to a snapshot's directory, and what is then said."""

    id: str
    inflict: Callable[[Path], object]
    error: type[SnapshotError]
    message: str
    state: SnapshotState = SnapshotState.CORRUPT


def part(snapshot: Path) -> Path:
    return sorted(snapshot.glob("part-*"))[1]


def truncate(snapshot: Path) -> None:
    part(snapshot).write_bytes(part(snapshot).read_bytes()[:-1])


def flip(snapshot: Path) -> None:
    data = bytearray(part(snapshot).read_bytes())
    data[len(data) // 2] ^= 1
    part(snapshot).write_bytes(data)


def swap_parts(snapshot: Path) -> None:
    """The same part of the snapshot before, renamed."""
    other = min(snapshot.parent.iterdir())
    part(snapshot).write_bytes(part(other).read_bytes())


def edited(**changes: object) -> Callable[[Path], None]:
    return lambda snapshot: edit_manifest(snapshot / MANIFEST_NAME, **changes)


def resealed(change: Callable[[SnapshotManifest], SnapshotManifest]) -> Callable[[Path], object]:
    """A manifest that some program wrote well, and wrong."""

    def inflict(snapshot: Path) -> None:
        path = snapshot / MANIFEST_NAME
        path.write_bytes(change(SnapshotManifest.from_json(path.read_bytes(), source="m")).to_json())

    return inflict


def repeat_part(snapshot: Path) -> None:
    """The first part in the place of the second."""

    def repeat(manifest: SnapshotManifest) -> SnapshotManifest:
        first = manifest.parts[0]
        parts = (first, replace(first, name=manifest.parts[1].name))
        return replace(manifest, parts=parts, count=6, count_by_resource_type={2: 6})

    part(snapshot).write_bytes(min(snapshot.glob("part-*")).read_bytes())
    resealed(repeat)(snapshot)


def block_manifest(snapshot: Path) -> None:
    (snapshot / MANIFEST_NAME).unlink()
    (snapshot / MANIFEST_NAME).mkdir()


def move_to(epoch: int) -> Callable[[Path], object]:
    return lambda snapshot: snapshot.rename(snapshot.with_name(snapshot.name[:-10] + f"{epoch:010d}"))


DAMAGES = [
    Damage("truncated part", truncate, SnapshotCorruptError, "its manifest says"),
    Damage(
        "flipped bit",
        flip,
        SnapshotCorruptError,
        "is damaged: its SHA-256",
        SnapshotState.COMPLETE,
    ),
    Damage("missing part", lambda snapshot: part(snapshot).unlink(), SnapshotCorruptError, "is missing"),
    Damage("another snapshot's part", swap_parts, SnapshotCorruptError, "its manifest says"),
    Damage(
        "missing manifest",
        lambda snapshot: (snapshot / MANIFEST_NAME).unlink(),
        SnapshotCorruptError,
        "manifest.json is missing: the snapshot is unfinished",
        SnapshotState.UNFINISHED,
    ),
    Damage(
        "empty manifest",
        lambda snapshot: (snapshot / MANIFEST_NAME).write_bytes(b""),
        SnapshotCorruptError,
        "is not a snapshot manifest",
    ),
    Damage("wrong digest", edited(digest="0" * 32), SnapshotCorruptError, "its checksum does not match"),
    Damage("wrong count", edited(count=99), SnapshotCorruptError, "its checksum does not match"),
    Damage("wrong features", edited(features={"x": 1}), SnapshotCorruptError, "its checksum does not match"),
    Damage(
        "wrong counts by type, resealed",
        resealed(lambda manifest: replace(manifest, count_by_resource_type={3: 5})),
        SnapshotCorruptError,
        "other counts by resource type",
        SnapshotState.COMPLETE,
    ),
    Damage(
        "rows moved between parts, resealed",
        resealed(
            lambda manifest: replace(
                manifest,
                parts=(replace(manifest.parts[0], rows=2), replace(manifest.parts[1], rows=3)),
            )
        ),
        SnapshotCorruptError,
        "rows, its manifest says",
        SnapshotState.COMPLETE,
    ),
    Damage(
        "an id twice, resealed", repeat_part, SnapshotCorruptError, "6 rows but 3 ids", SnapshotState.COMPLETE
    ),
    Damage(
        "another end offset, resealed",
        resealed(
            lambda manifest: replace(
                manifest, provenance=msgspec.structs.replace(manifest.provenance, end_offset=4)
            )
        ),
        SnapshotCorruptError,
        "has end offset 4 and epoch 1, which are not those of its directory",
    ),
    Damage("moved to another epoch", move_to(2), SnapshotCorruptError, "has end offset 5 and epoch 1"),
    Damage(
        "another cluster's",
        resealed(lambda manifest: replace(manifest, identity=LogIdentity("other", IDENTITY.topic_id))),
        SnapshotForeignError,
        f"belongs to cluster `other`, not to `{CLUSTER}`",
        SnapshotState.FOREIGN,
    ),
    Damage(
        "another topic's",
        resealed(lambda manifest: replace(manifest, identity=LogIdentity(CLUSTER, Uuid(bytes(16))))),
        SnapshotForeignError,
        "topic id AAAAAAAAAAAAAAAAAAAAAA",
        SnapshotState.FOREIGN,
    ),
    Damage(
        "a newer format",
        edited(formatVersion=3),
        SnapshotUnsupportedError,
        "has format version 3",
        SnapshotState.UNSUPPORTED,
    ),
    Damage(
        "a manifest that is a directory",
        block_manifest,
        SnapshotError,
        "cannot read",
        SnapshotState.UNREADABLE,
    ),
]


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path, rows_per_part=3)


def newest(tmp_path: Path) -> Path:
    return max((tmp_path / CLUSTER).iterdir())


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.id)
def test_damage_is_named_and_the_one_before_is_taken(
    store: SnapshotStore, tmp_path: Path, damage: Damage
) -> None:
    """Reading gives the named error, the listing shows the state, and `latest` falls back and says why."""
    before = store.write(image_of(*range(4)), IDENTITY, log_end_time_ms=1)
    store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1)
    damage.inflict(newest(tmp_path))

    found = store.latest(IDENTITY)
    assert found is not None
    assert found.ref == before
    assert contents(found.image) == contents(image_of(*range(4)))
    (skipped,) = found.skipped
    assert type(skipped.error) is damage.error
    assert damage.message in str(skipped.error)

    with pytest.raises(damage.error) as raised:
        store.read(skipped.ref, IDENTITY)
    assert str(raised.value) == str(skipped.error)
    assert str(skipped.error) in store.verify(skipped.ref, IDENTITY)

    complete, status = store.survey(IDENTITY)
    assert (complete.ref, complete.state, complete.problem) == (before, SnapshotState.COMPLETE, None)
    assert (status.ref, status.state) == (skipped.ref, damage.state)
    assert (status.problem is None) == (damage.state is SnapshotState.COMPLETE)
    assert store.list(IDENTITY) == tuple(
        row.ref for row in (complete, status) if row.state is SnapshotState.COMPLETE
    )


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.id)
def test_nothing_but_damage_is_none(store: SnapshotStore, tmp_path: Path, damage: Damage) -> None:
    """Without an earlier snapshot there is none, and the reason is reported."""
    store.write(image_of(*range(4)), IDENTITY, log_end_time_ms=1)
    store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1)
    damage.inflict(newest(tmp_path))
    shutil.rmtree(min((tmp_path / CLUSTER).iterdir()))
    skipped_snapshots: list[SkippedSnapshot] = []
    assert store.latest(IDENTITY, on_skipped=skipped_snapshots.append) is None
    assert [type(skipped.error) for skipped in skipped_snapshots] == [damage.error]


REPAIRED = [
    damage
    for damage in DAMAGES
    if damage.error is SnapshotCorruptError and "resealed" not in damage.id and "moved" not in damage.id
]


@pytest.mark.parametrize("damage", REPAIRED, ids=lambda damage: damage.id)
def test_writing_again_repairs_what_is_damaged(store: SnapshotStore, tmp_path: Path, damage: Damage) -> None:
    """On an idle log the next snapshot has the same offset, and must repair the damaged one."""
    store.write(image_of(*range(4)), IDENTITY, log_end_time_ms=1)
    ref = store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1)
    damage.inflict(newest(tmp_path))
    assert store.verify(ref, IDENTITY) != ()
    assert store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1) == ref
    assert store.verify(ref, IDENTITY) == ()


def test_a_newer_format_is_not_overwritten(store: SnapshotStore, tmp_path: Path) -> None:
    """A newer aclog wrote it; nothing says that it is damaged."""
    store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1)
    edit_manifest(newest(tmp_path) / MANIFEST_NAME, formatVersion=3)
    with pytest.raises(SnapshotUnsupportedError, match="format version 3"):
        store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1)


def test_a_wrong_digest_of_a_well_written_manifest_is_found_by_verify(
    store: SnapshotStore, tmp_path: Path
) -> None:
    """Loading believes the digest of an undamaged manifest; `verify` computes it anew (I12)."""
    ref = store.write(image_of(*range(5)), IDENTITY, log_end_time_ms=1)
    resealed(lambda manifest: replace(manifest, digest=manifest.digest ^ 1))(newest(tmp_path))
    (problem,) = store.verify(ref, IDENTITY)
    assert "has digest" in problem
    assert "its manifest says" in problem


def test_verify_names_every_damaged_part(store: SnapshotStore, tmp_path: Path) -> None:
    """All of them, not the first."""
    ref = store.write(image_of(*range(9)), IDENTITY, log_end_time_ms=1)
    for found in newest(tmp_path).glob("part-*"):
        found.unlink()
    assert len(store.verify(ref)) == 3
