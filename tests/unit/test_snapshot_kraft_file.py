"""Kafka's .checkpoint files: the real broker's are read, ours are as Kafka's, damage is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.batch import RecordBatch, decode_batch, encode_batch
from records.codecs.kraft import encode_frame
from records.columns.acl_table import AppliedAcl
from records.control import ControlType, encode_control_key, snapshot_footer_value, snapshot_header_value
from records.entries import (
    METADATA_VERSION_FEATURE,
    BeginTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import EncodeError
from records.ids import uuid_from_string
from records.log.base import CheckpointId
from snapshot.errors import (
    SnapshotCorruptError,
    SnapshotError,
    SnapshotMissingError,
    SnapshotUnsupportedError,
)
from snapshot.files.kraft_checkpoint import (
    BATCH_BYTES_MAX,
    decode_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from snapshot.image import AclsImage, Provenance
from support.data import REAL_LOGS, real_log, real_log_home
from support.raw_records import raw_records
from support.snapshots import acl, acl_id, contents, image_of, payload_acl, replayed

CHECKPOINTS = [
    *(("kraft-small", CheckpointId(end_offset, 1).name) for end_offset in (99, 153, 208, 264)),
    ("kraft-trimmed", CheckpointId(1890, 1).name),
    ("kraft-large", CheckpointId(54_578, 1).name),
]


def lines(log: str, name: str) -> Iterator[dict[str, Any]]:
    with (real_log_home(log) / name).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def test_all_real_checkpoints_are_tested() -> None:
    """The list of this module is the files of the real logs."""
    found = [(log, path.name) for log in REAL_LOGS for path in sorted(real_log(log).glob("*.checkpoint"))]
    assert found == CHECKPOINTS


@pytest.mark.parametrize(("log", "name"), CHECKPOINTS)
def test_real_checkpoint_is_what_kafka_dumps(log: str, name: str) -> None:
    """ACLs, feature levels and times are those that kafka-dump-log prints of the file."""
    image = read_checkpoint(real_log(log) / name)
    dumped = [entry for entry in lines(log, "dump-checkpoints.jsonl") if entry["file"] == name]
    acls = {
        payload_acl(entry["data"]): entry["timestamp"]
        for entry in dumped
        if entry.get("type") == "ACCESS_CONTROL_ENTRY_RECORD"
    }
    assert {found.record: found.timestamp_ms for found in image} == acls
    assert all(found.offset is None for found in image)
    assert image.metadata.features == {
        entry["data"]["name"]: entry["data"]["featureLevel"]
        for entry in dumped
        if entry.get("type") == "FEATURE_LEVEL_RECORD"
    }
    assert image.metadata.features[METADATA_VERSION_FEATURE] == 30
    assert image.provenance == Provenance(
        int(name[:20]), int(name[21:31]), dumped[0]["value"]["lastContainedLogTimestamp"]
    )


@pytest.mark.parametrize(("log", "name"), CHECKPOINTS)
def test_real_checkpoint_is_the_log_below_it(log: str, name: str) -> None:
    """Replay of the log's records below the end offset gives the same ACLs and the same digest.

    kraft-trimmed no longer holds its beginning: there the checkpoint and the tail give the ACLs that the
    broker listed at last.
    """
    image = read_checkpoint(real_log(log) / name)
    end_offset = image.provenance.end_offset
    entries = list(lines(log, "dump.jsonl"))
    if entries[0]["offset"] == 0:
        below = [record for entry in entries if entry["offset"] < end_offset for record in acl_records(entry)]
        replay = replayed(below)
        assert (replay.digest, len(replay)) == (image.digest, len(image))
        times = {entry["offset"]: entry["timestamp"] for entry in entries}
        assert image.provenance.timestamp_ms == times[end_offset - 1]
    tail = [record for entry in entries if entry["offset"] >= end_offset for record in acl_records(entry)]
    last = replayed(tail, image)
    assert sorted(found.record.content for found in last) == sorted(map(described, lines(log, "acls.jsonl")))


def acl_records(entry: dict[str, Any]) -> Iterator[MetadataRecord]:
    match entry.get("type"):
        case "ACCESS_CONTROL_ENTRY_RECORD":
            yield payload_acl(entry["data"])
        case "REMOVE_ACCESS_CONTROL_ENTRY_RECORD":
            yield RemoveAccessControlEntryRecord(uuid_from_string(entry["data"]["id"]))


def described(listed: dict[str, str]) -> tuple[int, str, int, str, str, int, int]:
    """AccessControlEntryRecord.content of an ACL as the AdminClient describes it."""
    return (
        ResourceType[listed["resourceType"]],
        listed["resourceName"],
        PatternType[listed["patternType"]],
        listed["principal"],
        listed["host"],
        AclOperation[listed["operation"]],
        AclPermissionType[listed["permissionType"]],
    )


IMAGE = replayed(
    [
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord(METADATA_VERSION_FEATURE, 30),
        *(acl(n) for n in (3, 1, 2)),
        acl(4, resource_name="naïve-🚀", principal="User:\n", resource_type=-1, operation=99),
    ],
    epoch=3,
)


def test_checkpoint_names_are_kafkas() -> None:
    """And no other name is one."""
    assert CheckpointId(266, 1).name == "00000000000000000266-0000000001.checkpoint"
    assert CheckpointId.parse("00000000000000000266-0000000001.checkpoint") == CheckpointId(266, 1)
    for name in (
        "bootstrap.checkpoint",
        "00000000000000000266-0000000001",
        "00000000000000000266-0000000001.checkpoint.part",
        "00000000000000000266-0000000001.checkpoint.checkpoint",
        "00000000000000000266.snapshot",
    ):
        assert CheckpointId.parse(name) is None


@pytest.mark.parametrize("image", [IMAGE, AclsImage.EMPTY, image_of(1)], ids=repr)
def test_a_checkpoint_restores_acls_and_features(tmp_path: Path, image: AclsImage) -> None:
    """ACLs, features and provenance come back; offsets and times of the ACLs are not in the format."""
    path = write_checkpoint(image, tmp_path / "new" / "directory")
    assert path.name == CheckpointId(image.provenance.end_offset, image.provenance.epoch).name
    again = read_checkpoint(path)
    time_ms = image.provenance.timestamp_ms
    assert contents(again) == {found.record.id: AppliedAcl(found.record, None, time_ms) for found in image}
    assert (again.digest, len(again), again.metadata.features) == (
        image.digest,
        len(image),
        image.metadata.features,
    )
    assert again.provenance == image.provenance
    assert list(path.parent.iterdir()) == [path]


def test_real_checkpoints_are_written_as_they_were_read(tmp_path: Path) -> None:
    """Our file of a real checkpoint holds the same state."""
    image = read_checkpoint(real_log("kraft-trimmed") / "00000000000000001890-0000000001.checkpoint")
    again = read_checkpoint(write_checkpoint(image, tmp_path))
    assert (again.digest, again.metadata.features, again.provenance) == (
        image.digest,
        image.metadata.features,
        image.provenance,
    )


def test_header_first_metadata_version_next_footer_last(tmp_path: Path) -> None:
    """RecordsSnapshotWriter and FeaturesImage.write; offsets count from 0, the epoch is the snapshot's."""
    batches = batches_of(write_checkpoint(IMAGE, tmp_path).read_bytes())
    assert [(batch.base_offset, batch.is_control, batch.epoch) for batch in batches] == [
        (0, True, 3),
        (1, False, 3),
        (7, True, 3),
    ]
    (header,), (footer,) = raw_records(batches[0]), raw_records(batches[2])
    assert (header.key, header.value) == (
        encode_control_key(ControlType.SNAPSHOT_HEADER), snapshot_header_value(5_000)
    )  # fmt: skip
    assert (footer.key, footer.value) == (
        encode_control_key(ControlType.SNAPSHOT_FOOTER), snapshot_footer_value()
    )  # fmt: skip
    first, second, *_ = raw_records(batches[1])
    assert first.value == encode_frame(FeatureLevelRecord(METADATA_VERSION_FEATURE, 30))
    assert second.value == encode_frame(FeatureLevelRecord("group.version", 1))


def test_equal_images_give_equal_files(tmp_path: Path) -> None:
    """Whatever order the ACLs came in."""
    one, other = (replayed([acl(n) for n in order]) for order in ((1, 2, 3), (3, 1, 2)))
    assert (
        write_checkpoint(one, tmp_path / "a").read_bytes()
        == write_checkpoint(other, tmp_path / "b").read_bytes()
    )


def test_batches_are_bounded(tmp_path: Path) -> None:
    """No batch has more than BATCH_BYTES_MAX of records; Kafka reads up to 8 MiB."""
    image = replayed([acl(n, resource_name="x" * 32_000) for n in range(80)])
    path = write_checkpoint(image, tmp_path)
    batches = batches_of(path.read_bytes())
    assert len(batches) == 2 + 3
    assert max(batch.size_bytes for batch in batches) < BATCH_BYTES_MAX + 1_000
    assert read_checkpoint(path).digest == image.digest


def test_what_the_format_cannot_hold_leaves_no_file(tmp_path: Path) -> None:
    """Kafka's strings have 32,767 bytes at most."""
    with pytest.raises(EncodeError, match="32768 bytes"):
        write_checkpoint(replayed([acl(1), acl(2, resource_name="x" * 32_768)]), tmp_path)
    assert list(tmp_path.iterdir()) == []


def batches_of(data: bytes) -> list[RecordBatch]:
    batches = []
    position = 0
    while position < len(data):
        batches.append(decode_batch(data, position))
        position += batches[-1].size_bytes
    return batches


def control(control_type: ControlType, value: bytes, base_offset: int) -> bytes:
    key = encode_control_key(control_type)
    return encode_batch(
        [value], keys=[key], is_control=True, base_offset=base_offset, epoch=1, timestamp_ms=0
    )


def header(base_offset: int = 0) -> bytes:
    return control(ControlType.SNAPSHOT_HEADER, snapshot_header_value(5), base_offset)


def footer(base_offset: int) -> bytes:
    return control(ControlType.SNAPSHOT_FOOTER, snapshot_footer_value(), base_offset)


def data_batch(*records: MetadataRecord, base_offset: int = 1) -> bytes:
    return values_batch(*map(encode_frame, records), base_offset=base_offset)


def values_batch(*values: bytes | None, base_offset: int = 1) -> bytes:
    return encode_batch(values, base_offset=base_offset, epoch=1, timestamp_ms=9)


def decode(data: bytes) -> AclsImage:
    return decode_checkpoint(data, end_offset=50, epoch=1, source="c")


def test_control_records_of_the_quorum_pass_by() -> None:
    """kraft.version and voters lie between header and records (KIP-853)."""
    kraft_version = encode_batch(
        [snapshot_header_value(5), bytes.fromhex("0000000100"), b"later kinds"],
        keys=[encode_control_key(ControlType.SNAPSHOT_HEADER), b"\0\0\0\x05", b"\0\0\0\x63"],
        is_control=True,
        base_offset=0,
        epoch=1,
        timestamp_ms=0,
    )
    image = decode(kraft_version + data_batch(acl(1), base_offset=3) + footer(4))
    assert [found.record for found in image] == [acl(1)]


def test_a_removed_feature_is_none() -> None:
    """Level 0 means that the feature is not there."""
    image = decode(header() + data_batch(FeatureLevelRecord("x", 0), FeatureLevelRecord("y", 1)) + footer(3))
    assert image.metadata.features == {"y": 1}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "unfinished: it has no footer", id="empty"),
        pytest.param(header(), "unfinished: it has no footer (in c, byte 83)", id="header only"),
        pytest.param(header() + data_batch(acl(1)), "unfinished: it has no footer", id="no footer"),
        pytest.param(
            data_batch(acl(1), base_offset=0), "does not begin with a snapshot's header", id="no header"
        ),
        pytest.param(footer(0), "does not begin with a snapshot's header", id="footer only"),
        pytest.param(
            data_batch(acl(1), base_offset=0) + header(1) + footer(2), "does not begin", id="header second"
        ),
        pytest.param(
            header() + footer(1) + data_batch(acl(1), base_offset=2),
            "follows the snapshot's footer",
            id="after footer",
        ),
        pytest.param(
            header() + data_batch(acl(1), base_offset=5) + footer(6),
            "records are missing",
            id="batch missing",
        ),
        pytest.param(
            header() + data_batch(RemoveAccessControlEntryRecord(acl_id(1))) + footer(2),
            "RemoveAccessControlEntryRecord is not allowed in a snapshot (in c, offset 1, byte 83)",
            id="removal",
        ),
        pytest.param(
            header() + data_batch(BeginTransactionRecord()) + footer(2),
            "not allowed in a snapshot",
            id="transaction",
        ),
        pytest.param(header() + values_batch(None) + footer(2), "without a value", id="null value"),
        pytest.param(header() + values_batch(b"\x01\x12\x00abc") + footer(2), "offset 1", id="short record"),
        pytest.param(header() + footer(1)[:-1], "", id="truncated footer"),
        pytest.param(header() + footer(1) + b"\0" * 20, "", id="bytes after the footer"),
    ],
)
def test_damaged_files_are_corrupt(data: bytes, problem: str) -> None:
    """The error names the file, the place and what is wrong."""
    with pytest.raises(SnapshotCorruptError) as raised:
        decode(data)
    assert problem in str(raised.value)
    assert "in c" in str(raised.value)


def test_an_unknown_record_version_is_never_skipped() -> None:
    """I7: an ACL in a version that this build does not know is no damage, and not passed by either."""
    newer = bytearray(encode_frame(acl(1)))
    newer[2] = 1
    with pytest.raises(SnapshotUnsupportedError, match="in c, offset 1"):
        decode(header() + values_batch(bytes(newer)) + footer(2))


@pytest.mark.parametrize("name", ["00000000000000000099-0000000001.checkpoint"])
def test_every_truncation_and_flipped_bit_of_a_real_file_is_found(name: str) -> None:
    """Not one byte can be lost or changed without an error, but for what no CRC covers and nothing reads."""
    data = (real_log("kraft-small") / name).read_bytes()
    image = decode(data)
    for end in range(0, len(data), 97):
        with pytest.raises(SnapshotCorruptError):
            decode(data[:end])
    for place in range(0, len(data), 61):
        flipped = bytearray(data)
        flipped[place] ^= 0x10
        try:
            read = decode(bytes(flipped))
        except (SnapshotCorruptError, SnapshotUnsupportedError):
            continue
        assert read.digest == image.digest  # the epoch in a batch's header


def test_files_that_are_not_there_or_not_checkpoints(tmp_path: Path) -> None:
    """Each with its path."""
    name = CheckpointId(1, 1).name
    with pytest.raises(SnapshotMissingError, match=f"there is no file {tmp_path / name}"):
        read_checkpoint(tmp_path / name)
    with pytest.raises(SnapshotCorruptError, match="has no checkpoint's name"):
        read_checkpoint(tmp_path / "other.checkpoint")
    (tmp_path / name).mkdir()
    with pytest.raises(SnapshotError, match="cannot read"):
        read_checkpoint(tmp_path / name)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SnapshotError, match="cannot write"):
        write_checkpoint(IMAGE, tmp_path / "file")
