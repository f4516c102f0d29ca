"""Exports: every ACL in every format, odd names and unknown codes too; files that are read back are equal."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from records.acl import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    code_from_name,
    code_to_name,
)
from records.entries import METADATA_VERSION_FEATURE, AccessControlEntryRecord, FeatureLevelRecord
from records.errors import EncodeError
from records.ids import uuid_to_string
from snapshot.digest import digest_to_string
from snapshot.errors import SnapshotError
from snapshot.files.export import export_image, kip11_resources
from snapshot.files.export_format import ExportFormat
from snapshot.files.kraft_checkpoint import read_checkpoint
from snapshot.image import AclsImage, Provenance
from support.data import real_log, real_log_home
from support.exported import acls_in_csv, records_in_json_lines
from support.snapshots import acl, acl_id, payload_acl, replayed

ODD = replayed(
    [
        FeatureLevelRecord(METADATA_VERSION_FEATURE, 30),
        FeatureLevelRecord("group.version", 1),
        acl(3),
        acl(1),
        acl(2, id=acl_id(9)),
        acl(2),
        acl(4, resource_name='a,"b"\r\nc', principal="User:CN=x,O=\u2028y", host=""),
        acl(5, resource_name=" naïve-🚀 ", principal="User:\t\0\x85"),
        acl(6, resource_type=99, pattern_type=-1, operation=127, permission_type=1),
    ],
    epoch=2,
)
PLACE = Provenance(77, 3, 5)


def exported(image: AclsImage, directory: Path, export_format: ExportFormat) -> Path:
    path = directory / f"state.{export_format}"
    export_image(image, path, export_format)
    return path


def real_image() -> AclsImage:
    return read_checkpoint(real_log("kraft-small") / "00000000000000000264-0000000001.checkpoint")


def test_json_lines_are_kafka_dump_logs_payloads(tmp_path: Path) -> None:
    """A real checkpoint's export is the payloads that kafka-dump-log prints of that checkpoint."""
    path = exported(real_image(), tmp_path, ExportFormat.JSON_LINES)
    ours = list(map(json.loads, path.read_bytes().splitlines()))
    name = "00000000000000000264-0000000001.checkpoint"
    wanted = {"ACCESS_CONTROL_ENTRY_RECORD", "FEATURE_LEVEL_RECORD"}
    dump = (real_log_home("kraft-small") / "dump-checkpoints.jsonl").read_bytes()
    dumped = [
        {field: entry[field] for field in ("type", "version", "data")}
        for entry in map(json.loads, dump.splitlines())
        if entry["file"] == name and entry.get("type") in wanted
    ]
    assert sorted(ours, key=repr) == sorted(dumped, key=repr)
    types = [entry["type"] for entry in ours]
    assert types == sorted(types, reverse=True)  # feature levels first


@pytest.mark.parametrize("image", [ODD, AclsImage.EMPTY, real_image()], ids=["odd", "empty", "real"])
def test_json_lines_come_back(tmp_path: Path, image: AclsImage) -> None:
    """ACLs, ids and features; the place is not in them."""
    again = replayed(records_in_json_lines(exported(image, tmp_path, ExportFormat.JSON_LINES)))
    assert {found.record for found in again} == {found.record for found in image}
    assert (again.digest, again.metadata.features) == (image.digest, image.metadata.features)


@pytest.mark.parametrize("image", [ODD, AclsImage.EMPTY, real_image()], ids=["odd", "empty", "real"])
def test_csv_comes_back(tmp_path: Path, image: AclsImage) -> None:
    """Names with commas, quotes, line breaks of any kind and NUL; unknown codes by number."""
    again = acls_in_csv(exported(image, tmp_path, ExportFormat.CSV))
    assert set(again) == {found.record for found in image}
    assert len(again) == len(image)


def test_csv_is_rfc_4180(tmp_path: Path) -> None:
    """A header, CRLF, quotes where needed and doubled inside; codes by name."""
    image = replayed([acl(1, resource_name='a,"b"'), acl(2, operation=99)])
    path = exported(image, tmp_path, ExportFormat.CSV)
    assert path.read_bytes().decode().split("\r\n") == [
        "id,resourceType,resourceName,patternType,principal,host,operation,permissionType",
        f'{uuid_to_string(acl_id(1))},TOPIC,"a,""b""",LITERAL,User:u1,*,READ,ALLOW',
        f"{uuid_to_string(acl_id(2))},TOPIC,t-2,LITERAL,User:u2,*,99,ALLOW",
        "",
    ]


def test_avro_is_a_container_that_others_read(tmp_path: Path) -> None:
    """Its records have the schema's fields; its header says where in the log the state stands."""
    path = exported(ODD, tmp_path, ExportFormat.AVRO)
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        rows: list[Any] = list(reader)
    assert {
        AccessControlEntryRecord(
            row["id"],
            row["resourceType"],
            row["resourceName"],
            row["patternType"],
            row["principal"],
            row["host"],
            row["operation"],
            row["permissionType"],
        )
        for row in rows
    } == {found.record for found in ODD}
    assert len(rows) == len(ODD)
    assert reader.codec == "deflate"
    metadata = {name: value for name, value in reader.metadata.items() if name.startswith("aclog.")}
    assert metadata == {
        "aclog.endOffset": "9",
        "aclog.epoch": "2",
        "aclog.timestampMs": "8000",
        "aclog.digest": digest_to_string(ODD.digest),
        "aclog.features": '{"group.version":1,"metadata.version":30}',
    }


def test_kip11_resources_have_kip11s_form() -> None:
    """Per resource: principal, permission, operations and hosts, grouped without adding or losing a grant."""
    orders: dict[str, Any] = {"resource_name": "orders", "principal": "User:alice"}
    records = [
        acl(1, **orders, operation=8, host="h1"),
        acl(2, **orders, operation=3, host="h1"),
        acl(3, **orders, operation=3, host="h2"),
        acl(4, **orders, operation=8, host="h2"),
        acl(5, **orders, operation=3, host="h3"),
        acl(6, **orders, operation=3, host="h1", permission_type=2),
        acl(7, **orders, operation=3, host="h1"),
        acl(8, resource_name="orders", pattern_type=4, operation=99, resource_type=3, principal="User:bob"),
    ]
    expected = [
        {
            "resourceType": "TOPIC",
            "resourceName": "orders",
            "patternType": "LITERAL",
            "acls": [
                {
                    "principal": "User:alice",
                    "permissionType": "DENY",
                    "operations": ["READ"],
                    "hosts": ["h1"],
                },
                {
                    "principal": "User:alice",
                    "permissionType": "ALLOW",
                    "operations": ["READ"],
                    "hosts": ["h3"],
                },
                {
                    "principal": "User:alice",
                    "permissionType": "ALLOW",
                    "operations": ["READ", "DESCRIBE"],
                    "hosts": ["h1", "h2"],
                },
            ],
        },
        {
            "resourceType": "GROUP",
            "resourceName": "orders",
            "patternType": "PREFIXED",
            "acls": [
                {
                    "principal": "User:bob",
                    "permissionType": "ALLOW",
                    "operations": ["99"],
                    "hosts": ["*"],
                }
            ],
        },
    ]
    assert list(kip11_resources(records)) == expected
    assert list(kip11_resources(reversed(records))) == expected


def test_kip11_file_is_the_document(tmp_path: Path) -> None:
    """JSON in UTF-8, one line for each resource."""
    path = exported(ODD, tmp_path, ExportFormat.KIP11)
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) == {
        "version": 1,
        "resources": list(kip11_resources(found.record for found in ODD)),
    }
    assert "🚀" in text
    assert text.count("\n") == 2 + len(json.loads(text)["resources"])
    empty = exported(AclsImage.EMPTY, tmp_path, ExportFormat.KIP11)
    assert json.loads(empty.read_bytes()) == {"version": 1, "resources": []}


@pytest.mark.parametrize("export_format", ExportFormat)
def test_equal_states_give_equal_files(tmp_path: Path, export_format: ExportFormat) -> None:
    """In whatever order their ACLs came in."""
    one, other = (replayed([acl(n) for n in order]) for order in ((1, 2, 3), (3, 1, 2)))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    paths = [
        exported(one, tmp_path / "a", export_format),
        exported(other, tmp_path / "b", export_format),
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("export_format", ExportFormat)
def test_a_failing_export_leaves_what_was_there(tmp_path: Path, export_format: ExportFormat) -> None:
    """Text that is not valid Unicode is an EncodeError, and the file of yesterday stays."""
    path = tmp_path / f"state.{export_format}"
    path.write_text("yesterday's")
    with pytest.raises(EncodeError, match="not valid Unicode"):
        export_image(replayed([acl(1), acl(2, host="\ud800")]), path, export_format)
    assert path.read_text() == "yesterday's"
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_to_nowhere_names_the_path(tmp_path: Path) -> None:
    """A SnapshotError, not an OSError."""
    with pytest.raises(SnapshotError, match=f"cannot write {tmp_path / 'no' / 'state'}"):
        export_image(ODD, tmp_path / "no" / "state", ExportFormat.CSV)


def test_codes_have_names_or_numbers() -> None:
    """Each code has one text, and that text is the code again; UNKNOWN is code 0 alone."""
    for kind in (ResourceType, PatternType, AclOperation, AclPermissionType):
        texts = [code_to_name(kind, code) for code in range(-128, 128)]
        assert [code_from_name(kind, text) for text in texts] == list(range(-128, 128))
    assert [code_to_name(ResourceType, code) for code in (-1, 0, 2, 8)] == ["-1", "UNKNOWN", "TOPIC", "8"]
    with pytest.raises(ValueError, match="Topic"):
        code_from_name(ResourceType, "Topic")


def test_helper_reads_payloads_as_the_codec_does(tmp_path: Path) -> None:
    """The tests' own reading of a payload is not what makes them pass."""
    path = exported(ODD, tmp_path, ExportFormat.JSON_LINES)
    payloads = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    assert {payload_acl(entry["data"]) for entry in payloads if entry["type"].startswith("ACCESS")} == {
        found.record for found in ODD
    }
    assert csv.field_size_limit() > 32_767 * 4  # a name as long as Kafka's can be is a field
