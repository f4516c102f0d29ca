"""Loader, generator and sources over real files: a directory log and a snapshot store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from records.entries import RemoveAccessControlEntryRecord
from records.errors import ChecksumMismatchError, LogError
from records.log.base import LogIdentity, MetadataLog
from records.log.directory import DirectoryLog
from replay.core import Phase
from replay.load_image import load_image
from replay.loader import Loader
from replay.manifest import ReloadManifest
from replay.snapshot_generator import SnapshotGenerator
from replay.snapshot_source import CheckpointFiles, StoredSnapshots
from snapshot.files.kraft_checkpoint import write_checkpoint
from snapshot.store.snapshot_store import SnapshotStore
from support.directory_logs import acl, acls, batch_bytes, flip_bit, segment_path, write_segment
from support.sim_history import state_of
from support.sim_publisher import Witness
from support.waiting import wait_until

TIMEOUT_S = 30.0


@contextmanager
def following(
    log: MetadataLog, witness: Witness, *sources: StoredSnapshots | CheckpointFiles
) -> Iterator[Loader]:
    with closing(Loader(log, sources, [witness])) as loader:
        loader.start()
        yield loader


@pytest.fixture
def managed_log(tmp_path: Path) -> Iterator[DirectoryLog]:
    with DirectoryLog.open(tmp_path / "log", mode="create") as log:
        yield log


def test_a_loader_follows_the_appends_of_another_writer(managed_log: DirectoryLog, tmp_path: Path) -> None:
    """Batch by batch, each committed before it is seen."""
    witness = Witness()
    with DirectoryLog.open(tmp_path / "log") as reader, following(reader, witness) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        for number in range(0, 30, 3):
            end_offset = managed_log.append(acls(number, number + 3))
            assert loader.wait_for(end_offset, TIMEOUT_S)
        managed_log.append([RemoveAccessControlEntryRecord(acl(7).id)])
        assert loader.wait_for(managed_log.high_watermark(), TIMEOUT_S)
        expected = load_image(managed_log).image
        assert loader.status().digest == expected.digest
    assert state_of(witness.image) == state_of(expected)
    assert len(witness.image) == 29
    # Every update ended with a batch.
    assert {end_offset % 3 for end_offset, _ in witness.updates[:-1]} <= {managed_log.start_offset() % 3, 0}


def test_the_writer_follows_its_own_log(managed_log: DirectoryLog) -> None:
    """One object, appended to by one thread and read by the loader's."""
    witness = Witness()
    with following(managed_log, witness) as loader:
        for number in range(50):
            assert loader.wait_for(managed_log.append([acl(number)]), TIMEOUT_S)
        assert len(witness.image) == 50


def test_a_node_continues_from_its_snapshot(managed_log: DirectoryLog, tmp_path: Path) -> None:
    """Generator, store, recovery: the second start replays only the tail, to the same digest."""
    store = SnapshotStore(tmp_path / "store")
    managed_log.append(acls(0, 10))
    generator = SnapshotGenerator(store, keep=2, bytes_between=1)
    with closing(Loader(managed_log, [StoredSnapshots(store)], [generator])) as loader:
        loader.start()
        wait_until(lambda: generator.metrics.written == 1)
    (ref,) = store.list(managed_log.identity)
    assert store.verify(ref, managed_log.identity) == ()
    managed_log.append(acls(10, 15))
    witness = Witness()
    with following(managed_log, witness, StoredSnapshots(store)) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        assert loader.status().digest == load_image(managed_log).image.digest
    (manifest,) = witness.manifests
    assert isinstance(manifest, ReloadManifest)
    assert (manifest.origin, manifest.records) == (f"snapshot {ref.name}", 5)


def test_a_damaged_snapshot_costs_only_the_replay(managed_log: DirectoryLog, tmp_path: Path) -> None:
    """The one before is taken, and the report names the damaged one."""
    store = SnapshotStore(tmp_path / "store")
    managed_log.append(acls(0, 10))
    store.write(load_image(managed_log).image, managed_log.identity, log_end_time_ms=0)
    managed_log.append(acls(10, 20))
    newer = store.write(load_image(managed_log).image, managed_log.identity, log_end_time_ms=0)
    (part,) = (tmp_path / "store").glob(f"*/{newer.name}/part-*.parquet")
    flip_bit(part, 100)
    result = load_image(managed_log, [StoredSnapshots(store)])
    assert result.manifest.records == 10
    assert len(result.image) == 20
    (refused,) = result.refused
    assert refused.startswith(f"snapshot {newer.name}: ")


def test_another_logs_snapshots_are_not_used(managed_log: DirectoryLog, tmp_path: Path) -> None:
    """I9: the same cluster id, another topic id: the log was deleted and created again."""
    store = SnapshotStore(tmp_path / "store")
    managed_log.append(acls(0, 3))
    image = load_image(managed_log).image
    former = LogIdentity(managed_log.identity.cluster_id, acl(99).id)
    ref = store.write(image, former, log_end_time_ms=0)
    result = load_image(managed_log, [StoredSnapshots(store)])
    assert result.origin == "the log's start"
    (refused,) = result.refused
    assert refused.startswith(f"snapshot {ref.name}: ")
    assert "another topic" in refused


def test_a_brokers_log_with_a_checkpoint_beside_it(tmp_path: Path) -> None:
    """A log that starts beyond zero is read from the checkpoint on; without it, it is not ready."""
    whole = tmp_path / "whole"
    write_segment(whole, 0, batch_bytes(0, 5), batch_bytes(5, 5))
    with DirectoryLog.open(whole) as log:
        image = load_image(log, at_offset=4).image
    trimmed = tmp_path / "trimmed"
    write_segment(trimmed, 5, batch_bytes(5, 5))
    with DirectoryLog.open(trimmed) as log:
        witness = Witness()
        with following(log, witness, CheckpointFiles(log)) as loader:
            with pytest.raises(Exception, match="log starts at 5 and no snapshot covers it"):
                loader.wait_until_ready(TIMEOUT_S)
            write_checkpoint(image, trimmed)
            # It retries, and finds the checkpoint as soon as it exists.
            assert loader.wait_for(10, TIMEOUT_S)
        assert min(witness.image, key=lambda found: found.record.id).record == acl(0)
        assert len(witness.image) == 10


def test_a_flipped_bit_stops_replay_before_its_batch(tmp_path: Path) -> None:
    """I7, with the file and the offset; and it goes on when the file is replaced by a good one."""
    directory = tmp_path / "log"
    segment = write_segment(directory, 0, batch_bytes(0), batch_bytes(1), batch_bytes(2))
    good = segment.read_bytes()
    flip_bit(segment, len(batch_bytes(0)) + 80)
    with DirectoryLog.open(directory) as log:
        witness = Witness()
        with following(log, witness) as loader:
            with pytest.raises(ChecksumMismatchError, match="offset 1"):
                loader.wait_until_ready(TIMEOUT_S)
            assert loader.status().position == 1
            segment.write_bytes(good)
            assert loader.wait_for(3, TIMEOUT_S)
            assert loader.wait_until_ready(TIMEOUT_S)


def test_a_truncated_and_continued_log_is_reloaded(tmp_path: Path) -> None:
    """I11: the uncommitted tail of a broker's log was replaced by its new leader's."""
    directory = tmp_path / "log"
    segment = write_segment(directory, 0, batch_bytes(0, 3), batch_bytes(3, 2))
    with DirectoryLog.open(directory) as log:
        witness = Witness()
        with following(log, witness) as loader:
            assert loader.wait_for(5, TIMEOUT_S)
            segment.write_bytes(batch_bytes(0, 3) + batch_bytes(3, 1, epoch=2))
            wait_until(lambda: loader.status().end_offset == 4)
            assert loader.wait_until_ready(TIMEOUT_S)
            assert loader.status().epoch == 2
            assert loader.metrics.offset_regressions == 1
        assert len(witness.image) == 4
        assert witness.calls[-4:] == ["on_not_ready", "on_update", "on_ready", "close"]


def test_a_missing_log_makes_the_node_not_ready(tmp_path: Path) -> None:
    """Its state is unknown; the node is ready again when the log is back."""
    directory = tmp_path / "log"
    write_segment(directory, 0, batch_bytes(0, 3))
    with DirectoryLog.open(directory) as log:
        witness = Witness()
        with following(log, witness) as loader:
            assert loader.wait_until_ready(TIMEOUT_S)
            directory.rename(tmp_path / "away")
            wait_until(lambda: not loader.status().ready)
            assert isinstance(loader.status().error, str)
            (tmp_path / "away").rename(directory)
            wait_until(lambda: loader.status().ready)
            assert loader.status().phase is Phase.FOLLOWING


def test_a_log_that_was_replaced_is_not_followed(tmp_path: Path) -> None:
    """I9: its directory holds another log now; this one has no state any more."""
    with DirectoryLog.open(tmp_path / "log", mode="create") as log:
        log.append(acls(0, 3))
    with DirectoryLog.open(tmp_path / "log") as log:
        witness = Witness()
        with following(log, witness) as loader:
            assert loader.wait_until_ready(TIMEOUT_S)
            shutil.rmtree(tmp_path / "log")
            with DirectoryLog.open(tmp_path / "log", mode="create") as other:
                other.append(acls(50, 60))
            wait_until(lambda: not loader.status().ready)
            with pytest.raises(LogError):
                loader.wait_until_ready(TIMEOUT_S)
        assert len(witness.image) == 3


def test_an_incomplete_batch_at_the_end_of_a_segment_is_ignored(tmp_path: Path) -> None:
    """A truncated batch is invisible until it is complete."""
    directory = tmp_path / "log"
    segment = write_segment(directory, 0, batch_bytes(0))
    second = batch_bytes(1)
    with DirectoryLog.open(directory) as log:
        witness = Witness()
        with following(log, witness) as loader:
            assert loader.wait_for(1, TIMEOUT_S)
            with segment.open("ab") as file:
                file.write(second[:-7])
                file.flush()
                assert not loader.wait_for(2, 0.3)
                assert loader.status().ready
                file.write(second[-7:])
            assert loader.wait_for(2, TIMEOUT_S)
    assert segment_path(directory, 0) == segment
