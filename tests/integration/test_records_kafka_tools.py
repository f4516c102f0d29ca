"""Kafka's own code reads what records/ writes: kafka-dump-log over a segment; and the schemas in its jars."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from records.batch import decode_batch, encode_batch
from records.codecs.json import to_json
from records.codecs.kraft import RECORD_TYPE_NAMES, encode_frame
from records.compression import Compression
from records.content import to_log_batch
from records.control import ControlType, describe_control, encode_control_key, snapshot_header_value
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.ids import Uuid
from support.kafka_jars import KAFKA_VERSION, OTHER_VERSIONS, kafka_libs
from support.kafka_tools import dump_batches, dump_log

pytestmark = pytest.mark.integration

TIME_MS = 1_795_222_795_968


def acl(number: int, name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        Uuid(number.to_bytes(16, "big")), 2, name, 3 + number % 2, f"User:é{number}", "*", number % 128, -1
    )


def records() -> list[MetadataRecord]:
    """One of each kind, and 200 KB of ACLs: several blocks in every compression."""
    return [
        BeginTransactionRecord("Bootstrap é"),
        FeatureLevelRecord("metadata.version", 30),
        acl(1, 'orders.\u0001"本日'),
        RemoveAccessControlEntryRecord(Uuid(bytes(16))),
        BeginTransactionRecord(),
        AbortTransactionRecord("why"),
        AbortTransactionRecord(),
        EndTransactionRecord(),
        *(acl(number, f"{number:x}" * 40) for number in range(2000)),
    ]


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment with the same records in each compression, and control records."""
    data = bytearray()
    frames = [encode_frame(record) for record in records()]
    offset = 0
    for compression in Compression:
        data += encode_batch(
            frames, base_offset=offset, epoch=3, timestamp_ms=TIME_MS, compression=compression
        )
        offset += len(frames)
    for control_type, value in (
        (ControlType.SNAPSHOT_HEADER, snapshot_header_value(TIME_MS)),
        (ControlType.LEADER_CHANGE, bytes.fromhex("000000000bb90300000bb90000000bba000200000bba0000")),
        (ControlType.KRAFT_VERSION, bytes.fromhex("0000000100")),
        (ControlType.SNAPSHOT_FOOTER, bytes(3)),
    ):
        data += encode_batch(
            [value],
            keys=[encode_control_key(control_type)],
            base_offset=offset,
            epoch=3,
            timestamp_ms=TIME_MS,
            is_control=True,
        )
        offset += 1
    path = tmp_path_factory.mktemp("segment") / f"{0:020}.log"
    path.write_bytes(data)
    return path


def test_kafka_dump_log_reads_every_record(segment: Path) -> None:
    """In every compression: snappy in snappy-java's framing, LZ4 with independent blocks."""
    expected = [to_json(record) for record in records()] * len(Compression)
    dumped = dump_log(segment)
    found = [{key: line[key] for key in ("type", "version", "data")} for line in dumped if "type" in line]
    assert found == expected
    assert [line["offset"] for line in dumped] == list(range(len(expected) + 4))
    assert {line["timestamp"] for line in dumped} == {TIME_MS}


def test_kafka_dump_log_describes_control_records_like_aclog(segment: Path) -> None:
    data = segment.read_bytes()
    position = 0
    found: list[tuple[str, dict[str, Any]]] = []
    while position < len(data):
        batch = decode_batch(data, position)
        position += batch.size_bytes
        logged = [logged.record for logged in to_log_batch(batch).records]
        found += [describe_control(record) for record in logged if isinstance(record, ControlRecord)]
    assert found == [(line["control"], line["value"]) for line in dump_log(segment) if "control" in line]
    assert len(found) == 4


def test_kafka_finds_every_batch_valid(segment: Path) -> None:
    """The CRC, and the compression by its name."""
    found = dump_batches(segment)
    assert [batch["isvalid"] for batch in found] == [True] * 9
    assert [batch["compresscodec"] for batch in found[:5]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [batch["isControl"] for batch in found] == [False] * 5 + [True] * 4


def test_the_type_names_are_those_of_these_kafkas() -> None:
    """One JSON schema for each record is inside of kafka-metadata's jar."""
    names = {}
    for version in (KAFKA_VERSION, max(OTHER_VERSIONS)):
        with zipfile.ZipFile(kafka_libs(version) / f"kafka-metadata-{version}.jar") as jar:
            for member in jar.namelist():
                if member.startswith("common/metadata/") and member.endswith("Record.json"):
                    lines = jar.read(member).decode("utf-8").split("\n")
                    schema = json.loads(
                        "\n".join(line for line in lines if not line.strip().startswith("//"))
                    )
                    names[schema["apiKey"]] = shouted(schema["name"])
    assert names == RECORD_TYPE_NAMES


def shouted(name: str) -> str:
    """``AccessControlEntryRecord`` as Kafka's generator makes a constant of it."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).removeprefix("_")
