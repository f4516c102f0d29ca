"""Export of a state for other programs: Avro, JSON lines, CSV, KIP-11's JSON.

    avro    object container file (deflate) of records/schemas/AccessControlEntryRecord.avsc; its header has
            the state's position: aclog.endOffset, .epoch, .timestampMs, .digest, .features
    jsonl   payloads as kafka-dump-log prints them, feature levels first
    csv     RFC 4180, UTF-8, a header; codes by name, or by number where they have none; a text that a
            spreadsheet would run as a formula is prefixed with ', see csv_cell.py
    kip11   one JSON document, a line for each resource, see kip11.py

Kafka's .checkpoint is in kraft_checkpoint.py. ACLs are sorted (by type, name, pattern, principal, ...), so
equal states give equal files. Files are written atomically.
"""

from __future__ import annotations

import csv
import io
from typing import IO, TYPE_CHECKING

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
from snapshot.files.kip11 import kip11_resources

if TYPE_CHECKING:
    from pathlib import Path

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
