"""Logs of a real broker through the directory log: every load gives the ACLs that the broker listed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from records.codecs.json import from_json
from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    SupportedLevels,
)
from records.log.directory import DirectoryLog
from replay.errors import LogGapError, OffsetUnavailableError
from replay.load_image import LoadResult, load_image
from replay.loader import Loader
from replay.snapshot_source import CheckpointFiles, SnapshotSource, StoredSnapshots
from snapshot.files.kraft_checkpoint import read_checkpoint
from snapshot.image import AclsImage
from snapshot.metadata_image import MetadataImage
from snapshot.persistent_map import PersistentMap
from snapshot.store.snapshot_store import SnapshotStore
from support.data import real_log, real_log_home
from support.digests import digest_of
from support.sim_history import EMPTY_STATE, State, fold, state_of
from support.sim_publisher import Witness

REAL_LOGS = {"kraft-small": 281, "kraft-trimmed": 2054, "kraft-large": 71029}
#: The registration of Kafka 4.3.1.
BROKERS = {1: SupportedLevels(7, 30)}
#: Logs that still start at offset 0.
WHOLE_LOGS = ["kraft-small", "kraft-large"]
TRIMMED_START = 1675
TRIMMED_CHECKPOINT_END = 1890
READY_TIMEOUT_S = 60.0


def load(name: str, *, checkpoints: bool = False, at_offset: int | None = None) -> LoadResult:
    with DirectoryLog.open(real_log(name), mode="read") as log:
        return load_image(log, [CheckpointFiles(log)] if checkpoints else [], at_offset=at_offset)


def dumped(name: str) -> Iterator[tuple[int, MetadataRecord | None]]:
    """Offset and record as kafka-dump-log printed them; None for control records."""
    with (real_log_home(name) / "dump.jsonl").open(encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            yield line["offset"], None if "control" in line else from_json(line)


def states_of(name: str, state: State, start: int) -> Iterator[tuple[int, int, State]]:
    """After each record from ``start`` on: its offset, the end offset of what counts, and the naive fold."""
    transaction: list[MetadataRecord] | None = None
    settled = start
    for offset, record in dumped(name):
        if offset < start:
            continue
        match record:
            case BeginTransactionRecord():
                transaction = []
            case EndTransactionRecord():
                state = fold(transaction or [], state)
                transaction = None
            case AbortTransactionRecord():
                transaction = None
            case None:
                pass
            case _ if transaction is None:
                state = fold([record], state)
            case _:
                transaction.append(record)
        settled = offset + 1 if transaction is None else settled
        yield offset, settled, state


def listed(name: str) -> Counter[tuple[str, ...]]:
    """The last result of describeAcls."""
    found: Counter[tuple[str, ...]] = Counter()
    with (real_log_home(name) / "acls.jsonl").open(encoding="utf-8") as lines:
        for acl in map(json.loads, lines):
            found[binding_key(**acl)] += 1
    return found


def binding_key(**acl: Any) -> tuple[str, ...]:
    fields = ["resourceType", "resourceName", "patternType", "principal", "host", "operation"]
    return tuple(acl[field] for field in [*fields, "permissionType"])


def bindings(image: AclsImage) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for acl in image:
        binding = acl.record.binding()
        found[
            (
                binding.pattern.resource_type.name,
                binding.pattern.name,
                binding.pattern.pattern_type.name,
                binding.entry.principal,
                binding.entry.host,
                binding.entry.operation.name,
                binding.entry.permission_type.name,
            )
        ] += 1
    return found


@pytest.mark.parametrize("name", REAL_LOGS)
def test_the_final_acls_are_those_that_the_broker_listed(name: str) -> None:
    """From the newest checkpoint on, by content and number; without gaps, unknown or refused records."""
    result = load(name, checkpoints=True)
    assert bindings(result.image) == listed(name)
    assert result.image.provenance.end_offset == REAL_LOGS[name]
    assert result.origin.startswith("checkpoint ")
    assert result.refused == ()
    assert result.uncommitted_from is not None
    counts = result.manifest.counts
    assert (counts.replaced, counts.repeated, counts.unknown_removals) == (0, 0, 0)


@pytest.mark.parametrize("name", WHOLE_LOGS)
def test_a_load_from_the_start_equals_a_load_from_the_checkpoint(name: str) -> None:
    """I12: digests, contents and features agree, and the digest is that of the content."""
    whole, continued = load(name).image, load(name, checkpoints=True).image
    assert whole.digest == continued.digest == digest_of(acl.record for acl in whole)
    assert state_of(whole) == state_of(continued)
    assert whole.provenance == continued.provenance


@pytest.mark.parametrize("name", WHOLE_LOGS)
def test_other_metadata_of_the_log_equals_the_dump(name: str) -> None:
    """Topics, features and brokers, from the log and from the newest checkpoint with its tail."""
    expected = MetadataImage.EMPTY
    for _, record in dumped(name):
        if isinstance(record, FeatureLevelRecord | OtherRecord):
            expected = expected.with_record(record)
    whole, continued = load(name).image.metadata, load(name, checkpoints=True).image.metadata
    assert whole == continued == expected
    assert ("orders.0" in whole.topics) == (name == "kraft-small")
    assert (whole.unread, whole.is_complete) == (PersistentMap(), True)


@pytest.mark.parametrize("name", WHOLE_LOGS)
def test_the_state_at_a_checkpoints_end_is_the_checkpoint(name: str) -> None:
    """For each checkpoint that the broker wrote."""
    with DirectoryLog.open(real_log(name), mode="read") as log:
        checkpoints = log.checkpoints()
    assert checkpoints
    for checkpoint in checkpoints:
        image = load(name, at_offset=checkpoint.end_offset - 1).image
        assert checkpoint.path is not None
        assert state_of(image) == state_of(read_checkpoint(checkpoint.path))
        assert image.provenance.end_offset == checkpoint.end_offset


@pytest.mark.slow
def test_every_offset_of_the_small_log_has_the_state_of_the_dump() -> None:
    """Without checkpoints and with them, compared with a naive fold of the records in the dump."""
    for offset, settled, state in states_of("kraft-small", EMPTY_STATE, 0):
        for checkpoints in (False, True):
            image = load("kraft-small", checkpoints=checkpoints, at_offset=offset).image
            assert state_of(image) == state, offset
            assert image.provenance.end_offset == settled


def test_offsets_of_the_trimmed_log_have_the_state_of_the_dump() -> None:
    """From its checkpoint's end on; records below it, removals of unknown ids among them, are skipped."""
    with DirectoryLog.open(real_log("kraft-trimmed"), mode="read") as log:
        (checkpoint,) = log.checkpoints()
    assert checkpoint.path is not None
    state = state_of(read_checkpoint(checkpoint.path))
    for offset, _settled, expected in states_of("kraft-trimmed", state, TRIMMED_CHECKPOINT_END):
        if offset % 7 == 0:
            assert state_of(load("kraft-trimmed", checkpoints=True, at_offset=offset).image) == expected


@pytest.mark.slow
def test_offsets_of_the_large_log_have_the_state_of_the_dump() -> None:
    """Only some offsets, because the naive fold copies the state for each record."""
    offsets = [1, 20_000, 54_577, 71_028]
    records: list[MetadataRecord] = []
    for offset, record in dumped("kraft-large"):
        # Its only transaction, the bootstrap records, ends immediately.
        if record is not None:
            records.append(record)
        if offset in offsets[1:]:
            assert state_of(load("kraft-large", at_offset=offset).image) == fold(records)


def test_a_trimmed_log_without_its_checkpoint_is_refused() -> None:
    """I11: an error, not a partial state."""
    with pytest.raises(LogGapError, match="log starts at 1675 and no snapshot covers it"):
        load("kraft-trimmed")


def test_an_offset_before_the_checkpoint_of_a_trimmed_log_is_refused() -> None:
    """The error names the earliest one."""
    with pytest.raises(OffsetUnavailableError, match=f"the earliest offset is {TRIMMED_CHECKPOINT_END - 1}"):
        load("kraft-trimmed", checkpoints=True, at_offset=TRIMMED_START + 10)
    load("kraft-trimmed", checkpoints=True, at_offset=TRIMMED_CHECKPOINT_END - 1)


@pytest.mark.parametrize("name", REAL_LOGS)
def test_the_loader_gives_the_same_state(name: str, tmp_path: Path) -> None:
    """With its thread, and again from a stored snapshot of that state."""
    store = SnapshotStore(tmp_path)
    expected = load(name, checkpoints=True).image
    for number in range(2):
        with DirectoryLog.open(real_log(name), mode="read") as log:
            witness = Witness()
            sources: list[SnapshotSource] = [StoredSnapshots(store), CheckpointFiles(log)]
            with closing(Loader(log, sources, [witness])) as loader:
                loader.start()
                assert loader.wait_until_ready(READY_TIMEOUT_S)
                assert loader.status().digest == expected.digest
            assert witness.image.metadata == expected.metadata
            assert expected.metadata.brokers == BROKERS
            assert state_of(witness.image) == state_of(expected)
            assert witness.updates == [(REAL_LOGS[name], True)]
            assert (witness.manifests[0].records == 0) == (number == 1)
            store.write(witness.image, log.identity, log_end_time_ms=0)
