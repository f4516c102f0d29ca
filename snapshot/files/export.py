"""Export of a state for other programs: Avro, JSON lines, CSV, KIP-11's JSON.

    avro    object container file (deflate) of records/schemas/AccessControlEntryRecord.avsc; its header has
            the state's position: aclog.endOffset, .epoch, .timestampMs, .digest, .features
    jsonl   payloads as kafka-dump-log prints them, feature levels first
    csv     RFC 4180, UTF-8, a header; codes by name, or by number where they have none; a text that a
            spreadsheet would run as a formula is prefixed with ', see csv_cell.py
    kip11   one JSON document, a line for each resource, see kip11_resources

Kafka's .checkpoint is in kraft_checkpoint.py. ACLs are sorted (by type, name, pattern, principal, ...), so
equal states give equal files. Files are written atomically.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from itertools import groupby
from typing import IO, TYPE_CHECKING, Any

import msgspec

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_to_name
from records.codecs import json
from records.entries import AccessControlEntryRecord, FeatureLevelRecord
from records.errors import EncodeError
from records.ids import uuid_to_string
from records.install_command import importing_extra
from snapshot.digest import DIGEST_BITS, digest_to_string
from snapshot.errors import SnapshotError
from snapshot.files.atomic_file import atomic_write
from snapshot.files.csv_cell import CSV_HEADER, cell_of_text
from snapshot.files.export_format import ExportFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from records.entries import AccessControlEntryRecord
    from snapshot.image import AclsImage


def export_image(
    image: AclsImage, path: Path, export_format: ExportFormat, *, raw_cells: bool = False
) -> None:
    """Write the state to ``path``, replacing an existing file.

    ``raw_cells``: in CSV, do not mark texts that a spreadsheet would run as formulas. EncodeError: text that
    is not valid Unicode. SnapshotError: the file cannot be written, or fastavro is not installed.
    """
    records = sorted((acl.record for acl in image), key=lambda record: (record.content, record.id))
    try:
        with atomic_write(path) as file:
            match export_format:
                case ExportFormat.AVRO:
                    _write_avro(file, image, records)
                case ExportFormat.JSON_LINES:
                    _write_json_lines(file, image, records)
                case ExportFormat.CSV:
                    _write_csv(file, records, raw_cells=raw_cells)
                case ExportFormat.KIP11:
                    _write_kip11(file, records)
    except UnicodeEncodeError as error:
        raise EncodeError(f"an ACL with text that is not valid Unicode: {error}") from error
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error


def _write_avro(file: IO[bytes], image: AclsImage, records: list[AccessControlEntryRecord]) -> None:
    with importing_extra("avro", "an Avro file", SnapshotError, "fastavro"):
        import fastavro  # noqa: PLC0415 - of an extra

        from records.codecs.avro import ACCESS_CONTROL_ENTRY_SCHEMA  # noqa: PLC0415
    provenance = image.provenance
    fastavro.writer(
        file,
        fastavro.parse_schema(ACCESS_CONTROL_ENTRY_SCHEMA, {}),
        # The same fields as in JSON, the id as bytes.
        (json.to_json(record)["data"] | {"id": record.id} for record in records),
        codec="deflate",
        metadata={
            "aclog.endOffset": str(provenance.end_offset),
            "aclog.epoch": str(provenance.epoch),
            "aclog.timestampMs": str(provenance.timestamp_ms),
            "aclog.digest": digest_to_string(image.digest),
            "aclog.features": msgspec.json.encode(dict(image.metadata.features), order="sorted").decode(),
        },
        # Any 16 bytes that do not occur in the data by chance; derived from the state, so that equal states
        # give equal files.
        sync_marker=image.digest.to_bytes(DIGEST_BITS // 8, "big"),
    )


def _write_json_lines(file: IO[bytes], image: AclsImage, records: list[AccessControlEntryRecord]) -> None:
    for name, level in sorted(image.metadata.features.items()):
        file.write(json.dumps(FeatureLevelRecord(name, level)).encode() + b"\n")
    for record in records:
        file.write(json.dumps(record).encode() + b"\n")


def _write_csv(file: IO[bytes], records: list[AccessControlEntryRecord], *, raw_cells: bool) -> None:
    cell = str if raw_cells else cell_of_text
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    rows = csv.writer(text, lineterminator="\r\n")
    rows.writerow(CSV_HEADER)
    for record in records:
        rows.writerow(
            (
                uuid_to_string(record.id),
                code_to_name(ResourceType, record.resource_type),
                cell(record.resource_name),
                code_to_name(PatternType, record.pattern_type),
                cell(record.principal),
                cell(record.host),
                code_to_name(AclOperation, record.operation),
                code_to_name(AclPermissionType, record.permission_type),
            )
        )
    text.detach()


def _write_kip11(file: IO[bytes], records: list[AccessControlEntryRecord]) -> None:
    # The document is streamed: that of a million ACLs need not be in memory.
    file.write(b'{"version": 1, "resources": [')
    separator = b"\n"
    for resource in kip11_resources(records):
        file.write(separator + msgspec.json.encode(resource))
        separator = b",\n"
    file.write(b"\n]}\n")


def kip11_resources(records: Iterable[AccessControlEntryRecord]) -> Iterator[dict[str, Any]]:
    """Yield the resources of a document in KIP-11's JSON, sorted; the ACLs may come in any order.

    KIP-11 has one document for each resource, ``{"version": 1, "acls": [...]}``, whose entries say "principal
    P is ALLOWED or DENIED operations O1, O2 from hosts H1, H2". Here one document holds all resources with
    names:

        {"version": 1,
         "resources": [
           {"resourceType": "TOPIC", "resourceName": "orders", "patternType": "LITERAL",
            "acls": [
              {"principal": "User:alice", "permissionType": "ALLOW",
               "operations": ["READ", "DESCRIBE"], "hosts": ["10.0.0.1", "10.0.0.2"]}]}]}

    An entry means each of its operations from each of its hosts, so hosts share an entry only if they have
    all operations in common. Ids, and with them equal content under two ids (I8), are lost. Codes without a
    name are written as numbers. Equal sets of ACLs give equal documents.
    """
    for resource, acls in groupby(sorted(records, key=_by_resource), key=_by_resource):
        resource_type, name, pattern_type = resource
        yield {
            "resourceType": code_to_name(ResourceType, resource_type),
            "resourceName": name,
            "patternType": code_to_name(PatternType, pattern_type),
            "acls": _entries(acls),
        }


def _by_resource(record: AccessControlEntryRecord) -> tuple[int, str, int]:
    return record.resource_type, record.resource_name, record.pattern_type


def _entries(records: Iterable[AccessControlEntryRecord]) -> list[dict[str, Any]]:
    """The entries of one resource: operations by principal and host, then hosts with equal operations."""
    operations: defaultdict[tuple[str, int, str], set[int]] = defaultdict(set)
    for record in records:
        operations[record.principal, record.permission_type, record.host].add(record.operation)
    hosts: defaultdict[tuple[str, int, tuple[int, ...]], list[str]] = defaultdict(list)
    for (principal, permission_type, host), codes in operations.items():
        hosts[principal, permission_type, tuple(sorted(codes))].append(host)
    return [
        {
            "principal": principal,
            "permissionType": code_to_name(AclPermissionType, permission_type),
            "operations": [code_to_name(AclOperation, code) for code in codes],
            "hosts": sorted(hosts[principal, permission_type, codes]),
        }
        for principal, permission_type, codes in sorted(hosts)
    ]
