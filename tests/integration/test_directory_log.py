"""Directory logs of several processes: killed writers, concurrent readers, and Kafka's tools and broker."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as kafka_admin

from records.codecs.json import to_json
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    AclRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid
from records.log.directory import DirectoryLog
from records.log_batch import LogBatch
from support.directory_logs import (
    acls,
    append_bytes,
    assert_holds_acls,
    batch_bytes,
    offsets_of,
    read_batches,
    read_path,
    records_of,
)
from support.kafka_broker import jar_broker
from support.kafka_tools import dump_batches, dump_log
from support.seeds import seeded

TESTS = Path(__file__).resolve().parents[1]
KILLS = 24

admin: Any = kafka_admin  # its names are re-exported in a way that mypy does not see


@contextmanager
def writing(directory: Path, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A process that appends until the block ends; then it is killed with SIGKILL."""
    command = [sys.executable, "-m", "support.directory_writer", str(directory), *map(str, args)]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


@pytest.mark.slow
@pytest.mark.integration
@seeded(20)
def test_a_killed_writer_loses_no_acknowledged_record(tmp_path: Path, seed: int) -> None:
    """kill -9 at random times: all acknowledged records are there, in complete batches.

    In the end Kafka's own kafka-dump-log reads the same records, and finds every CRC right.
    """
    directory = tmp_path / "log"
    choice = random.Random(seed)
    found: list[LogBatch] = []
    for turn in range(KILLS):
        records_max, segment_bytes = choice.choice([3, 50, 1_000]), choice.choice([5_000, 200_000])
        with writing(directory, turn, records_max, segment_bytes) as process:
            assert process.stdout is not None
            ends = [int(process.stdout.readline())]
            time.sleep(choice.random() * 0.15)  # the kill comes at any point of the writer
            process.kill()
            ends += map(int, process.stdout.read().split())
        found = read_path(directory)
        assert_holds_acls(found, 0, sum(len(batch.records) for batch in found))
        assert found[-1].end_offset >= max(ends)
    truncated = batch_bytes(found[-1].end_offset, 3)[:-1]
    append_bytes(segments(directory)[-1], truncated)  # a kill rarely leaves such a tail
    with DirectoryLog.open(directory, mode="write") as log:
        end = log.high_watermark()
        log.append(acls(end, end + 1))
        found = read_batches(log)
    assert_holds_acls(found, 0, end + 1)
    assert_kafka_reads(directory, found)


def assert_kafka_reads(directory: Path, batches: list[LogBatch]) -> None:
    """Kafka's dump tool sees these very batches and records, and no others, in the segments."""
    files = segments(directory)
    dumped = dump_log(*files)
    assert [(line["offset"], line["timestamp"]) for line in dumped] == [
        (record.offset, record.timestamp_ms) for record in records_of(batches)
    ]
    fields = ("type", "version", "data")
    assert [{field: line[field] for field in fields} for line in dumped] == [
        to_json(record.record)
        for record in records_of(batches)
        if not isinstance(record.record, ControlRecord)
    ]
    headers = dump_batches(*files)
    assert all(header["isvalid"] for header in headers)
    assert [(header["baseOffset"], header["partitionLeaderEpoch"], header["size"]) for header in headers] == [
        (batch.base_offset, batch.epoch, batch.size_bytes) for batch in batches
    ]


@pytest.mark.slow
@pytest.mark.integration
def test_kafka_reads_appended_records(tmp_path: Path) -> None:
    """Adds, removals, features, transaction markers, odd codes and texts, over segments and epochs."""
    records: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 30),
        BeginTransactionRecord("a transaction"),
        AccessControlEntryRecord(
            Uuid(bytes(range(16))), 2, "ünï \u2028 \U0001f511", 4, "User:*", "::1", 127, -128
        ),
        EndTransactionRecord(),
        BeginTransactionRecord(None),
        RemoveAccessControlEntryRecord(Uuid(bytes(range(16)))),
        AbortTransactionRecord("no"),
        AbortTransactionRecord(None),
        *acls(8, 30),
    ]
    for turn in range(3):
        with DirectoryLog.open(tmp_path, mode="create", segment_bytes=1_500) as log:
            log.append_batches([(records[at : at + 3], None) for at in range(0, len(records), 3)])
            log.append(records, timestamp_ms=turn)
    assert len(segments(tmp_path)) > 3
    assert_kafka_reads(tmp_path, read_path(tmp_path))


@pytest.mark.slow
def test_a_concurrent_reader_sees_complete_committed_batches(tmp_path: Path) -> None:
    """Another process appends: acknowledged batches can be read immediately, complete and without gaps."""
    directory = tmp_path / "log"
    with writing(directory, 1, 40) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with DirectoryLog.open(directory) as reader:
            position = 0
            for _ in range(300):
                end = int(process.stdout.readline())
                assert reader.wait(end - 1, 0)
                while position < end:
                    batches = reader.read(position)
                    assert_holds_acls(batches, position, batches[-1].end_offset)
                    position = batches[-1].end_offset
    assert len(segments(directory)) > 3


@pytest.mark.slow
def test_a_waiting_reader_misses_no_append(tmp_path: Path) -> None:
    """Only ``wait`` and ``read``, against a writer in another process that is killed at last."""
    directory = tmp_path / "log"
    with writing(directory, 2, 5) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with DirectoryLog.open(directory) as reader:
            position = 0
            while position < 2_000:
                assert reader.wait(position, 60)
                batches = reader.read(position, max_bytes=1_000)
                assert_holds_acls(batches, position, batches[-1].end_offset)
                position = batches[-1].end_offset


@pytest.mark.slow
def test_threads_read_the_appends_of_another_thread(tmp_path: Path) -> None:
    """One log object, a writing thread and two readers: they read all batches, complete and in order."""
    last = 1_500
    failures: list[BaseException] = []
    with DirectoryLog.open(tmp_path, mode="create", segment_bytes=20_000) as log:

        def read() -> None:
            position = 0
            try:
                while position < last:
                    assert log.wait(position, 60)
                    batches = log.read(position)
                    assert_holds_acls(batches, position, batches[-1].end_offset)
                    position = batches[-1].end_offset
            except BaseException as error:  # noqa: BLE001 - a thread hands its failure to the test
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        end = 0
        while end < last:
            end = log.append(acls(end, min(last, end + 1 + end % 4)))
        for reader in readers:
            reader.join(60)
    assert not failures


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.integration
def test_a_live_brokers_log_is_followed() -> None:
    """What a broker writes is read while it is written, over rolls and checkpoints, as Kafka dumps it."""
    settings = {
        "internal.metadata.log.segment.bytes": "16384",
        "metadata.log.max.record.bytes.between.snapshots": "20000",
    }
    rounds, count = 8, 50
    with jar_broker(settings) as broker:
        assert broker.metadata_dir is not None
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        batches: list[LogBatch] = []
        with DirectoryLog.open(broker.metadata_dir) as log:
            assert log.uncommitted_from is not None

            def follow(kind: type[AclRecord], until: int) -> None:
                while sum(isinstance(record.record, kind) for record in records_of(batches)) < until:
                    position = batches[-1].end_offset if batches else log.start_offset()
                    assert log.wait(position, 30)
                    batches.extend(log.read(position, max_bytes=5_000))

            for turn in range(rounds):
                names = [f"followed-{turn}-{number}" for number in range(count)]
                for added in client.create_acls([binding(name) for name in names]).values():
                    added.result(timeout=30)
                follow(AccessControlEntryRecord, (turn + 1) * count)
                for removed in client.delete_acls([binding_filter(name) for name in names]).values():
                    removed.result(timeout=30)
                follow(RemoveAccessControlEntryRecord, (turn + 1) * count)
            assert len(segments(broker.metadata_dir)) > 1
            assert log.checkpoints()
        dumped = dump_log(*segments(broker.metadata_dir))
    start, end = batches[0].base_offset, batches[-1].end_offset
    assert offsets_of(batches) == list(range(start, end))
    read = [
        (record.offset, record.timestamp_ms, to_json(record.record))
        for record in records_of(batches)
        if isinstance(record.record, AclRecord)
    ]
    fields = ("type", "version", "data")
    assert read == [
        (line["offset"], line["timestamp"], {field: line[field] for field in fields})
        for line in dumped
        if start <= line["offset"] < end and "ACCESS_CONTROL_ENTRY" in line.get("type", "")
    ]


def binding(name: str) -> Any:
    return admin.AclBinding(
        admin.ResourceType.TOPIC,
        name,
        admin.ResourcePatternType.LITERAL,
        "User:followed",
        "*",
        admin.AclOperation.READ,
        admin.AclPermissionType.ALLOW,
    )


def binding_filter(name: str) -> Any:
    return admin.AclBindingFilter(
        admin.ResourceType.TOPIC,
        name,
        admin.ResourcePatternType.LITERAL,
        None,
        None,
        admin.AclOperation.ANY,
        admin.AclPermissionType.ANY,
    )
