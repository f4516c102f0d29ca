"""SnapshotStore: what is written is read, put once, found again, refused where it is not ours (I9, I12)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from records.entries import METADATA_VERSION_FEATURE, FeatureLevelRecord, RemoveAccessControlEntryRecord
from records.errors import EncodeError
from records.ids import Uuid
from records.log.base import LogIdentity
from snapshot.errors import (
    SnapshotError,
    SnapshotForeignError,
    SnapshotMissingError,
    SnapshotRefusedError,
)
from snapshot.image import NOWHERE, AclsImage, Provenance
from snapshot.metadata_image import MetadataImage
from snapshot.store.layout import SnapshotRef
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SkippedSnapshot, SnapshotState
from support.snapshots import CLUSTER, IDENTITY, acl, acl_id, contents, image_of, replayed

OTHER_TOPIC = LogIdentity(CLUSTER, Uuid(b"o" * 16))


@pytest.fixture(params=["local", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid.uuid4().hex}" if request.param == "memory" else str(tmp_path / "store")


@pytest.fixture
def store(url: str) -> SnapshotStore:
    return SnapshotStore(url, rows_per_part=3)


def write(store: SnapshotStore, image: AclsImage, **options: Any) -> SnapshotRef:
    return store.write(
        image, options.pop("identity", IDENTITY), **{"log_end_time_ms": 7, "keep": 9} | options
    )


def test_a_stored_image_is_read_back(store: SnapshotStore) -> None:
    """Everything comes back: ACLs with offsets and times, digest, features, provenance; in several parts."""
    image = replayed(
        [FeatureLevelRecord(METADATA_VERSION_FEATURE, 30), *(acl(n) for n in range(8)), acl(3, host="h")]
    )
    stored = store.read(write(store, image), IDENTITY)
    assert contents(stored.image) == contents(image)
    assert (len(stored.image), stored.image.digest) == (len(image), image.digest)
    assert stored.image.provenance == image.provenance
    assert stored.image.metadata.features == {METADATA_VERSION_FEATURE: 30}
    assert [part.rows for part in stored.manifest.parts] == [3, 3, 2]
    assert (stored.manifest.count, stored.manifest.count_by_resource_type) == (8, {2: 8})
    assert stored.manifest.log_end_time_ms == 7
    assert store.verify(stored.ref, IDENTITY) == ()


def test_layout_is_as_documented(store: SnapshotStore, url: str) -> None:
    """<store>/<cluster id>/<end offset>-<epoch>/part-*.parquet and manifest.json, and nothing else."""
    write(store, image_of(1, 2, 3, 4))
    fs, root = fsspec.url_to_fs(url)
    names = sorted(path.removeprefix(root).lstrip("/") for path in fs.find(root))
    assert [name.rpartition("/")[0] for name in names] == [f"{CLUSTER}/00000000000000000004-0000000001"] * 3
    assert [name.rpartition("/")[2][:11] for name in names] == ["manifest.js", "part-00000-", "part-00001-"]


@pytest.mark.parametrize(
    "empty", [AclsImage.EMPTY, replayed([acl(1), RemoveAccessControlEntryRecord(acl_id(1))])]
)
def test_a_state_without_acls_is_a_state(store: SnapshotStore, empty: AclsImage) -> None:
    """No ACLs in force is worth a snapshot: it says from where on to read."""
    stored = store.read(write(store, empty))
    assert (len(stored.image), stored.image.digest, stored.manifest.parts) == (0, 0, ())
    assert stored.image.provenance == empty.provenance
    assert store.verify(stored.ref) == ()


def test_nothing_there_is_none(store: SnapshotStore) -> None:
    """A store that does not exist yet has no snapshots, and that is no error."""
    assert store.latest(IDENTITY) is None
    assert store.list(IDENTITY) == ()
    assert store.clusters() == ()
    with pytest.raises(SnapshotMissingError, match="does not exist"):
        store.read(SnapshotRef(cluster_id=CLUSTER, epoch=1, end_offset=5))
    with pytest.raises(SnapshotMissingError):
        store.verify(SnapshotRef(cluster_id=CLUSTER, epoch=1, end_offset=5))


def test_latest_is_the_newest(store: SnapshotStore) -> None:
    """The newest of several, in whatever order they were written; listed newest last."""
    images = [image_of(*range(count)) for count in (5, 2, 4)]
    refs = [write(store, image) for image in images]
    found = store.latest(IDENTITY)
    assert found is not None
    assert (found.ref, found.skipped) == (refs[0], ())
    assert contents(found.image) == contents(images[0])
    assert [ref.end_offset for ref in store.list(IDENTITY)] == [2, 4, 5]


def test_a_later_epoch_is_newer_than_a_larger_offset(store: SnapshotStore) -> None:
    """After a truncation the log is shorter than what the old leader wrote."""
    write(store, image_of(1, 2, 3, epoch=1))
    shorter = write(store, image_of(1, 2, epoch=2))
    found = store.latest(IDENTITY)
    assert found is not None
    assert found.ref == shorter


def test_beyond_the_logs_end_is_refused(store: SnapshotStore) -> None:
    """I9: a snapshot that ends beyond the log's end is of another history; the one before is taken."""
    before, beyond = write(store, image_of(1, 2)), write(store, image_of(1, 2, 3))
    found = store.latest(IDENTITY, max_end_offset=2)
    assert found is not None
    assert found.ref == before
    assert [(skipped.ref, type(skipped.error)) for skipped in found.skipped] == [
        (beyond, SnapshotForeignError)
    ]
    assert "ends at offset 3, beyond 2" in str(found.skipped[0].error)
    skipped_snapshots: list[SkippedSnapshot] = []
    assert store.latest(IDENTITY, max_end_offset=1, on_skipped=skipped_snapshots.append) is None
    assert [skipped.ref for skipped in skipped_snapshots] == [beyond, before]


def test_another_topic_is_another_log(store: SnapshotStore) -> None:
    """I9: a topic deleted and created again is refused, with both ids; ours is found among them."""
    ours = write(store, image_of(1))
    theirs = write(store, image_of(1, 2), identity=OTHER_TOPIC)
    with pytest.raises(SnapshotForeignError, match=r"b29vb29vb29vb29vb29vbw.*dHR0dHR0dHR0dHR0dHR0dA"):
        store.read(theirs, IDENTITY)
    found = store.latest(IDENTITY)
    assert found is not None
    assert found.ref == ours
    assert isinstance(found.skipped[0].error, SnapshotForeignError)
    assert store.list(IDENTITY) == (ours,)
    assert [status.state for status in store.survey(IDENTITY)] == [
        SnapshotState.COMPLETE,
        SnapshotState.FOREIGN,
    ]
    assert [status.state for status in store.survey(CLUSTER)] == [SnapshotState.COMPLETE] * 2


def test_another_log_in_the_same_place_is_not_overwritten(store: SnapshotStore) -> None:
    """Two logs of one cluster need two stores: the second writer gets an error, the first loses nothing."""
    ref = write(store, image_of(1))
    with pytest.raises(SnapshotForeignError, match="topic id"):
        write(store, image_of(2), identity=OTHER_TOPIC)
    assert store.verify(ref, IDENTITY) == ()


def test_clusters_do_not_see_each_other(store: SnapshotStore) -> None:
    """Snapshots are found by cluster id, odd ids too."""
    odd = LogIdentity("../odd id", IDENTITY.topic_id)
    write(store, image_of(1))
    write(store, image_of(1, 2), identity=odd)
    assert store.clusters() == ("../odd id", CLUSTER)
    assert [ref.end_offset for ref in store.list(IDENTITY)] == [1]
    found = store.latest(odd)
    assert found is not None
    assert found.ref.end_offset == 2


def test_writing_again_is_a_success_and_changes_nothing(store: SnapshotStore, url: str) -> None:
    """Put once: the second node finds complete files of the first and leaves every byte as it is."""
    ref = write(store, image_of(1, 2))
    fs, root = fsspec.url_to_fs(url)
    before = {path: fs.cat_file(path) for path in fs.find(root)}
    assert write(SnapshotStore(url), image_of(1, 2), log_end_time_ms=7) == ref
    assert write(SnapshotStore(url), image_of(1, 2), log_end_time_ms=3) == ref
    assert {path: fs.cat_file(path) for path in fs.find(root)} == before


def test_writing_again_moves_the_log_end_time_forward(store: SnapshotStore) -> None:
    """I10: on a log where nothing happens, a snapshot must not grow too old to be used."""
    ref = write(store, image_of(1, 2), log_end_time_ms=7)
    before = store.read(ref).manifest
    write(store, image_of(1, 2), log_end_time_ms=70)
    assert store.read(ref).manifest == replace(before, log_end_time_ms=70)


def test_another_state_at_the_same_place_is_refused(store: SnapshotStore) -> None:
    """I12: two replicas at one offset have one digest; neither overwrites the other when they do not."""
    ref = write(store, image_of(1))
    with pytest.raises(SnapshotRefusedError, match="holds another state: 1 ACLs with digest"):
        write(store, image_of(2))
    with pytest.raises(SnapshotRefusedError, match=r"features .*metadata\.version.* 30"):
        write(store, restored(image_of(1), metadata=MetadataImage({METADATA_VERSION_FEATURE: 30})))
    assert contents(store.read(ref).image) == contents(image_of(1))


def test_a_state_made_past_a_gap_gives_way_to_the_nodes_own(store: SnapshotStore) -> None:
    """I6: a job that read the log later cannot know what a node saw; the same state is known to be one."""
    ref = write(store, image_of(1, 2))
    exact = store.read(ref).manifest
    past_gap = replace(exact, digest=1, gap_until=9)
    store._storage.put(ref.file("manifest.json"), past_gap.to_json())
    write(store, image_of(1, 2))
    again = store.read(ref).manifest
    assert (again.digest, again.gap_until) == (exact.digest, 0)
    store._storage.put(ref.file("manifest.json"), replace(again, gap_until=9).to_json())
    write(store, image_of(1, 2))
    assert store.read(ref).manifest == again


def restored(image: AclsImage, **changes: Any) -> AclsImage:
    fields: dict[str, Any] = {"digest": image.digest, "provenance": image.provenance}
    return AclsImage.restored(image.merged().columns, **fields | changes)


def test_an_image_that_contradicts_itself_is_refused(store: SnapshotStore) -> None:
    """A digest or a count that lost its way in the fold never reaches a store."""
    good = image_of(1, 2)
    with pytest.raises(SnapshotRefusedError, match="is inconsistent: it claims 2 ACLs"):
        write(store, restored(good, digest=good.digest + 1))
    off_by_one = AclsImage(
        good.columns, good.changes, count=3, digest=good.digest, provenance=good.provenance
    )
    with pytest.raises(SnapshotRefusedError, match="it claims 3 ACLs"):
        write(store, off_by_one)
    assert store.latest(IDENTITY) is None


def test_a_failed_write_leaves_nothing_behind(store: SnapshotStore, url: str) -> None:
    """A failing write removes the parts that it had put."""
    image = replayed([*(acl(n) for n in range(5)), acl(6, host="\ud800")])
    with pytest.raises(EncodeError):
        write(store, image)
    fs, root = fsspec.url_to_fs(url)
    assert fs.find(root) == []


@pytest.mark.parametrize("keep", [0, -1])
def test_at_least_one_is_kept(store: SnapshotStore, keep: int) -> None:
    """A store that keeps nothing would be none."""
    with pytest.raises(ValueError, match="at least 1"):
        write(store, image_of(1), keep=keep)


def test_concurrent_nodes_write_one_complete_snapshot(url: str) -> None:
    """Two nodes share a store: no file mixes their contents, in any order."""
    image = image_of(*range(10))
    for _ in range(10):
        barrier = threading.Barrier(2)
        failed: list[BaseException] = []

        def node(start: Callable[[], Any] = barrier.wait, failed: list[BaseException] = failed) -> None:
            store = SnapshotStore(url, rows_per_part=4)
            start()
            try:
                write(store, image)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
                failed.append(error)

        threads = [threading.Thread(target=node) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        store = SnapshotStore(url)
        (ref,) = store.list(IDENTITY)
        assert store.verify(ref, IDENTITY) == ()
        fs, root = fsspec.url_to_fs(url)
        fs.rm(root, recursive=True)


class UnreliableStorage(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A remote store that fails after some puts, and one where directories must be made."""

    protocol = "unreliable"
    cachable = False
    puts_left = 0
    made: set[str] | None = None

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        if UnreliableStorage.made is not None and path.rpartition("/")[0] not in UnreliableStorage.made:
            raise FileNotFoundError(path)
        if not UnreliableStorage.puts_left:
            raise TimeoutError("the network is gone")
        UnreliableStorage.puts_left -= 1
        super().pipe_file(path, value, mode, **options)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        assert UnreliableStorage.made is not None
        UnreliableStorage.made.add(path)


@pytest.fixture
def unreliable() -> str:
    fsspec.register_implementation("unreliable", UnreliableStorage, clobber=True)
    UnreliableStorage.made = None
    UnreliableStorage.puts_left = 1_000
    return f"unreliable://{uuid.uuid4().hex}"


@pytest.mark.parametrize("puts", range(5))
def test_a_write_that_fails_half_way_is_no_snapshot(unreliable: str, puts: int) -> None:
    """Whichever put fails, the one before stays the latest; writing again then succeeds."""
    store = SnapshotStore(unreliable, rows_per_part=1)
    before = write(store, image_of(1))
    UnreliableStorage.puts_left = puts  # of three parts and a manifest
    image = image_of(1, 2, 3)
    if puts == 4:
        write(store, image)
    else:
        with pytest.raises(SnapshotError, match=r"cannot write .*the network is gone"):
            write(store, image)
        found = store.latest(IDENTITY)
        assert found is not None
        assert found.ref == before
    UnreliableStorage.puts_left = 1_000
    ref = write(store, image)
    assert store.verify(ref) == ()


def test_directories_are_made_where_a_store_has_them(unreliable: str) -> None:
    """Object stores take a put anywhere; others want the directory first."""
    UnreliableStorage.made = set()
    store = SnapshotStore(unreliable)
    assert store.verify(write(store, image_of(1))) == ()


@pytest.mark.parametrize("url", ["gopher://host/x", "nosuch://x"])
def test_unknown_schemes_are_refused(url: str) -> None:
    """With the URL, not with a traceback."""
    with pytest.raises(SnapshotError, match=f"cannot open the snapshot store {url}"):
        SnapshotStore(url)


def test_passwords_stay_out_of_messages() -> None:
    """sftp and its like take them in the URL."""
    with pytest.raises(SnapshotError) as raised:
        SnapshotStore("nosuch://user:secret@host/x")
    assert "nosuch://***@host/x" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_store_that_is_a_file_cannot_be_read_or_written(tmp_path: Path) -> None:
    """An unreadable path is an error that names it, not a store without snapshots."""
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(SnapshotError, match=f"cannot list {path}"):
        SnapshotStore(path).latest(IDENTITY)
    with pytest.raises(SnapshotError, match=f"cannot .* {path}"):
        write(SnapshotStore(path), image_of(1))


@pytest.mark.parametrize("spelling", ["{}", "file:{}", "file://{}", "{}/"])
def test_local_stores_have_many_spellings(tmp_path: Path, spelling: str) -> None:
    """A path, file: as logs are named, and file:// are one store."""
    ref = write(SnapshotStore(tmp_path / "s"), image_of(1))
    assert SnapshotStore(spelling.format(tmp_path / "s")).list(IDENTITY) == (ref,)


def test_a_relative_path_is_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to where the process runs."""
    monkeypatch.chdir(tmp_path)
    write(SnapshotStore("here"), image_of(1))
    assert SnapshotStore(tmp_path / "here").clusters() == (CLUSTER,)


def test_foreign_directories_are_passed_by(tmp_path: Path) -> None:
    """What is not named as a snapshot is none."""
    store = SnapshotStore(tmp_path)
    ref = write(store, image_of(1))
    (tmp_path / CLUSTER / "lost+found").mkdir()
    (tmp_path / CLUSTER / "00000000000000000009-0000000001").write_text("a file")
    (tmp_path / ".hidden").mkdir()
    assert store.list(IDENTITY) == (ref,)
    assert store.clusters() == (CLUSTER,)


def test_provenance_is_the_place(store: SnapshotStore) -> None:
    """End offset and epoch of the image are the snapshot's name."""
    ref = write(store, restored(image_of(1), provenance=Provenance(10**15, 7, 5)))
    assert (ref.end_offset, ref.epoch, ref.name) == (10**15, 7, "00001000000000000000-0000000007")
    assert store.read(ref).image.provenance == Provenance(10**15, 7, 5)
    assert AclsImage.EMPTY.provenance == NOWHERE
