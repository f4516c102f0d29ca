"""Own logs among processes: killed writers, readers beside them, and Kafka's own tools and broker."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from records.codecs.json import to_json
from records.entries import AccessControlEntryRecord
from records.errors import LogError
from records.log.base import LogBatch
from records.log.directory import DirectoryLog
from support.directory_logs import acls, append_bytes, assert_holds_acls, batch_bytes, read_batches, read_path
from support.kafka_broker import Broker
from support.kafka_tools import ACLS, dump_batches, dump_log, run_java

TESTS = Path(__file__).resolve().parents[1]
KILLS = 15


@contextmanager
def writing(directory: Path, *args: object) -> Iterator[subprocess.Popen[str]]:
    """A process that appends until the block ends; then it is killed with SIGKILL."""
    command = [sys.executable, "-m", "support.directory_writer", str(directory), *map(str, args)]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(process: subprocess.Popen[str]) -> list[int]:
    """The end offsets that the process printed and that were not read yet; it has ended."""
    assert process.stdout is not None
    return [int(line) for line in process.stdout.read().split()]


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


@pytest.mark.slow
@pytest.mark.integration
def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    """kill -9 at random moments: all that was acknowledged is there, and what is there is whole.

    In the end Kafka's own kafka-dump-log reads the same records, and finds every CRC right.
    """
    directory = tmp_path / "log"
    choice = random.Random(20)
    end = 0
    for turn in range(KILLS):
        with writing(directory, turn, choice.choice([3, 50, 1_000]), choice.choice([5_000, 200_000])) as process:
            assert process.stdout is not None
            end = int(process.stdout.readline())
            time.sleep(choice.random() * 0.15)
        end = max([end, *acknowledged(process)])
        found = read_path(directory)
        assert_holds_acls(found, 0, found[-1].end_offset if found else 0)
        assert sum(len(batch.records) for batch in found) >= end
    torn = batch_bytes(found[-1].end_offset, 3)[:-1]
    append_bytes(segments(directory)[-1], torn)  # what a kill seldom leaves
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
        to_json(record.record) for record in records_of(batches) if not isinstance(record.record, ControlRecord)
    ]
    headers = dump_batches(*files)
    assert all(header["isvalid"] for header in headers)
    assert [(header["baseOffset"], header["partitionLeaderEpoch"], header["size"]) for header in headers] == [
        (batch.base_offset, batch.epoch, batch.size_bytes) for batch in batches
    ]


@pytest.mark.slow
@pytest.mark.integration
def test_kafka_reads_whatever_is_appended(tmp_path: Path) -> None:
    """Adds, removals, features, transaction markers, odd codes and texts, over several segments and epochs."""
    records: list[MetadataRecord] = [
        FeatureLevelRecord("metadata.version", 30),
        BeginTransactionRecord("a transaction"),
        AccessControlEntryRecord(Uuid(bytes(range(16))), 2, "ünï \u2028 \U0001f511", 4, "User:*", "::1", 127, -128),
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
def test_a_reader_beside_a_writer_sees_whole_committed_batches(tmp_path: Path) -> None:
    """Another process appends: what it acknowledged can be read at once, and nothing is ever torn or missing."""
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
def test_a_reader_that_waits_misses_no_append(tmp_path: Path) -> None:
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
def test_threads_read_what_another_thread_appends(tmp_path: Path) -> None:
    """One log object, a writing thread and two that wait and read: whole batches, in order, all of them."""
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


@pytest.mark.integration
def test_a_live_brokers_log_is_followed(broker: Broker) -> None:
    """ACLs added to and removed from a running broker arrive, and the log equals Kafka's own dump of it."""
    if broker.metadata_dir is None:
        pytest.fail("this test needs a broker on this machine: unset ACLOG_TEST_BOOTSTRAP")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    names = [f"followed-{number}" for number in range(20)]
    acl = [
        AclBinding(
            ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:followed", "*",
            AclOperation.READ, AclPermissionType.ALLOW,
        )
        for name in names
    ]  # fmt: skip
    removals = [
        AclBindingFilter(
            ResourceType.TOPIC, name, ResourcePatternType.LITERAL, None, None,
            AclOperation.ANY, AclPermissionType.ANY,
        )
        for name in names
    ]  # fmt: skip
    with DirectoryLog.open(broker.metadata_dir) as log:
        start = position = log.high_watermark()
        changes: list[object] = []
        for futures in (admin.create_acls(acl), admin.delete_acls(removals)):
            for future in futures.values():
                future.result(timeout=30)
            while len(changes) % len(names) or not changes or futures is None:
                pass
