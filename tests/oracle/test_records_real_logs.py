"""Three logs of a real broker: every batch header, record and byte, compared with kafka-dump-log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from records.batch import RecordBatch, decode_batch, encode_batch
from records.codecs import avro
from records.codecs.json import from_json, loads, to_json
from records.codecs.kraft import encode_frame, record_type_name
from records.content import to_log_batch
from records.control import describe_control, encode_control_key
from records.entries import (
    AccessControlEntryRecord,
    ControlRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from support.data import CASES, REAL_LOGS, real_log, real_log_home
from support.raw_records import raw_records

CODEC_NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

real_logs = pytest.mark.parametrize("name", REAL_LOGS)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def batches(path: Path) -> Iterator[tuple[bytes, RecordBatch]]:
    """Every batch of a segment or checkpoint, and its bytes."""
    data = path.read_bytes()
    position = 0
    while position < len(data):
        batch = decode_batch(data, position)
        yield data[position : position + batch.size_bytes], batch
        position += batch.size_bytes


@cache
def files(name: str) -> list[Path]:
    """Segments, then checkpoints, in the order of the dumps."""
    return sorted(real_log(name).glob("*.log")) + sorted(real_log(name).glob("*.checkpoint"))


def dumped(name: str, what: str) -> list[dict[str, Any]]:
    home = real_log_home(name)
    return json_lines(home / f"{what}.jsonl") + json_lines(home / f"{what}-checkpoints.jsonl")


@real_logs
def test_every_batch_header_equals_the_dump(name: str) -> None:
    """All fields that kafka-dump-log prints, with CRC and position."""
    found = [
        {
            "file": path.name,
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.record_count,
            "baseSequence": batch.base_sequence,
            "lastSequence": -1,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.epoch,
            "isTransactional": batch.is_transactional,
            "isControl": batch.is_control,
            "deleteHorizonMs": "OptionalLong.empty",
            "position": batch.position,
            "CreateTime": batch.max_timestamp_ms,
            "size": batch.size_bytes,
            "magic": 2,
            "compresscodec": CODEC_NAMES[batch.compression],
            "crc": batch.crc,
            "isvalid": True,
        }
        for path in files(name)
        for _, batch in batches(path)
    ]
    assert found == dumped(name, "batches")


@real_logs
def test_every_record_equals_the_dump(name: str) -> None:
    """ACL, feature, transaction and control records in full; others by offset, type and version."""
    found = []
    for path in files(name):
        for _, batch in batches(path):
            for logged in to_log_batch(batch).records:
                line = {"file": path.name, "offset": logged.offset, "timestamp": logged.timestamp_ms}
                if isinstance(logged.record, ControlRecord):
                    control, value = describe_control(logged.record)
                    found.append(line | {"control": control, "value": value})
                else:
                    found.append(line | to_json(logged.record))
    expected = dumped(name, "dump")
    for line, ours in zip(expected, found, strict=True):
        if "data" not in ours:
            line.pop("data", None)
    assert found == expected


@real_logs
def test_encoding_restores_every_byte(name: str) -> None:
    """Decoded batches, encoded with the same parameters, have the broker's bytes."""
    for path in files(name):
        for data, batch in batches(path):
            keys: list[bytes | None] = []
            values: list[bytes | None] = []
            for raw, logged in zip(raw_records(batch), to_log_batch(batch).records, strict=True):
                record = logged.record
                if isinstance(record, ControlRecord):
                    keys.append(encode_control_key(record.type))
                    values.append(record.value)
                else:
                    keys.append(None)
                    values.append(raw.value if isinstance(record, OtherRecord) else encode_frame(record))
            assert data == encode_batch(
                values,
                keys=keys,
                base_offset=batch.base_offset,
                epoch=batch.epoch,
                timestamp_ms=batch.base_timestamp_ms,
                is_control=batch.is_control,
            )


@real_logs
def test_other_codecs_hold_every_acl_record(name: str) -> None:
    """JSON and Avro restore the records of the log."""
    for path in files(name):
        for _, batch in batches(path):
            for logged in to_log_batch(batch).records:
                if isinstance(logged.record, AccessControlEntryRecord | RemoveAccessControlEntryRecord):
                    assert from_json(to_json(logged.record)) == logged.record
                    assert avro.decode(avro.encode(logged.record)) == logged.record


@real_logs
def test_record_types_have_kafkas_names(name: str) -> None:
    """The name table has every type in the dumps."""
    names = {record_type_name(api_key) for api_key in range(64)}
    assert {line["type"] for line in dumped(name, "dump") if "type" in line} <= names


def test_the_records_of_every_oracle_case_are_read() -> None:
    """195 cases; encoded again they are the same, except for the key of the record's batch."""
    paths = sorted(CASES.glob("*/records.jsonl*"))
    assert len(paths) == 195
    for path in paths:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in text.splitlines():
            expected = json.loads(line)
            expected.pop("batch", None)
            record = loads(line)
            assert to_json(record) == expected
            assert not isinstance(record, OtherRecord)
