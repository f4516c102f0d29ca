"""A state from a file of records: JSON lines as kafka-dump-log prints payloads, or the CSV of ``export``.

Such a file says neither of which log nor of which offset it is the state: the caller does. Its ACLs have no
log offsets; their time is the state's.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.codecs import json
from records.entries import AccessControlEntryRecord, FeatureLevelRecord, OtherRecord
from records.errors import DecodeError
from records.ids import uuid_from_string
from snapshot.code_names import code_from_name
from snapshot.errors import SnapshotError, SnapshotMissingError
from snapshot.files.export import CSV_HEADER
from snapshot.image import AclsImage, Provenance
from snapshot.restore import restore_image
from snapshot.rows import AppliedAcl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from enum import IntEnum
    from pathlib import Path


def import_json_lines(path: Path, *, provenance: Provenance) -> AclsImage:
    """The state of a file of ACCESS_CONTROL_ENTRY and FEATURE_LEVEL records; other types pass by.

    Raises:
        SnapshotMissingError: no such file.
        SnapshotError: the file cannot be read.
        DecodeError: a line that is not such a record, or one that belongs to a log and not to a state.
    """
    features: dict[str, int] = {}
    acls: list[AccessControlEntryRecord] = []
    for number, line in enumerate(_lines(path), start=1):
        try:
            record = json.loads(line)
        except DecodeError as error:
            raise type(error)(f"line {number}: {error.reason}", source=str(path)) from error
        match record:
            case AccessControlEntryRecord():
                acls.append(record)
            case FeatureLevelRecord():
                features[record.name] = record.level
            case OtherRecord():
                pass
            case _:
                raise DecodeError(
                    f"line {number}: {type(record).__name__}: these are the records of a log, not a state",
                    source=str(path),
                )
    return _image(acls, {name: level for name, level in features.items() if level}, provenance)


def import_csv(path: Path, *, provenance: Provenance) -> AclsImage:
    """The state of a CSV file with the header that ``export`` writes; there are no feature levels in it.

    Raises:
        SnapshotMissingError, SnapshotError: as ``import_json_lines``.
        DecodeError: another header, or a row that is not an ACL.
    """
    # csv knows which line breaks are inside quotes, and wants them all as they are.
    rows = csv.reader((str(line, "utf-8") for line in _lines(path)), strict=True)
    try:
        header = next(rows, [])
        if tuple(header) != CSV_HEADER:
            raise DecodeError(f"the header is not {','.join(CSV_HEADER)}")  # noqa: TRY301 - located below
        acls = [_record(row) for row in rows]
    except (csv.Error, DecodeError, UnicodeDecodeError) as error:
        reason = error.reason if isinstance(error, DecodeError) else str(error)
        raise DecodeError(f"line {rows.line_num}: {reason}", source=str(path)) from error
    return _image(acls, {}, provenance)


def _image(
    acls: Iterable[AccessControlEntryRecord], features: dict[str, int], provenance: Provenance
) -> AclsImage:
    rows = (AppliedAcl(acl, None, provenance.timestamp_ms) for acl in acls)
    return restore_image(rows, features=features, provenance=provenance)


def _lines(path: Path) -> Iterator[bytes]:
    """Lines with their ends, by newline alone: names may hold what str.splitlines() also splits at."""
    try:
        with path.open("rb") as file:
            yield from file
    except FileNotFoundError as error:
        raise SnapshotMissingError(f"there is no file {path}") from error
    except OSError as error:
        raise SnapshotError(f"cannot read {path}: {error.strerror or error}") from error


def _record(row: list[str]) -> AccessControlEntryRecord:
    if len(row) != len(CSV_HEADER):
        raise DecodeError(f"{len(row)} fields, not {len(CSV_HEADER)}")
    acl_id, resource_type, name, pattern_type, principal, host, operation, permission_type = row
    return AccessControlEntryRecord(
        uuid_from_string(acl_id),
        _code(ResourceType, resource_type),
        name,
        _code(PatternType, pattern_type),
        principal,
        host,
        _code(AclOperation, operation),
        _code(AclPermissionType, permission_type),
    )


def _code(kind: type[IntEnum], text: str) -> int:
    try:
        code: Any = code_from_name(kind, text)
    except ValueError:
        code = None
    if code is None or not -128 <= code <= 127:
        raise DecodeError(f"`{text}` is neither a {kind.__name__} nor an int8")
    return int(code)
