"""File of ACLs, in one of these forms; the first line tells which.

    kafka-acls --list         Current ACLs for resource `ResourcePattern(...)`: and a line for each entry
    JSON                      of `aclog acls --list --json`, a list of ACLs, or one on each line; ids are
                              optional
    payload lines             of kafka-dump-log and `aclog log dump`: folded, with their removals
    KIP-11's JSON             as `aclog snapshot export --format kip11` writes it
    CSV                       as `aclog snapshot export --format csv` writes it

Errors name the number of the line.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from authorizer.analysis.files.parsing import Line, line_error, parse_json_object
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_from_name
from records.codecs.json import from_json
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError
from records.ids import Uuid, content_uuid
from snapshot.files.csv_cell import CSV_HEADER, text_of_cell

_RESOURCE: Final = re.compile(
    r"Current ACLs for resource `ResourcePattern\(resourceType=(.*?), name=(.*), patternType=(.*?)\)`: ?"
)
_ENTRY: Final = re.compile(r"\s*\(principal=(.*), host=(.*?), operation=(.*?), permissionType=(.*?)\)\s*")
#: The keys with the ACLs of a document: of ``aclog acls --list --json``, and of KIP-11's JSON.
_DOCUMENTS: Final = {"acls", "resources"}
_DEFAULTS: Final = {"patternType": PatternType.LITERAL.name, "host": "*"}
_FIELDS: Final = tuple(field for field in CSV_HEADER if field != "id")
#: An ACL with the number of its line; 1 for all of a document.
NumberedAcl = tuple[int, AccessControlEntryRecord]


def parse_acls(lines: list[Line], path: str) -> list[NumberedAcl]:
    """Parse the lines of a file. DecodeError: the form is unknown, or a line is wrong."""
    first = lines[0][1].lstrip() if lines else ""
    if not first or first.startswith(("Current ACLs", "ACLs for principal")):
        return list(_listed(lines, path))
    if first.startswith("id,"):
        return list(_from_csv(lines, path))
    if first.startswith("["):
        return [numbered_acl(each, path, 1) for each in _document(lines, path)]
    if first.startswith("{"):
        return _from_lines(lines, path) if _is_line(first) else _from_document(_document(lines, path), path)
    raise DecodeError(
        "neither what kafka-acls --list prints, nor JSON lines, nor KIP-11's JSON, nor CSV", source=path
    )


def _is_line(text: str) -> bool:
    """Whether a text is one complete JSON object, and not a document with all ACLs."""
    try:
        return not _DOCUMENTS & json.loads(text).keys()
    except (ValueError, RecursionError):
        return False  # it continues on the next line


def _document(lines: Iterable[Line], path: str) -> Any:
    try:
        return json.loads("\n".join(line for _, line in lines))
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"not JSON: {error}", source=path) from error


def _listed(lines: Iterable[Line], path: str) -> Iterator[NumberedAcl]:
    resource: dict[str, str] | None = None
    title_line = 0
    for number, line in lines:
        if line.startswith("ACLs for principal"):
            continue
        if found := _RESOURCE.fullmatch(line):
            title_line = number
            resource = dict(zip(("resourceType", "resourceName", "patternType"), found.groups(), strict=True))
        elif (found := _ENTRY.fullmatch(line)) and resource is not None:
            entry = dict(
                zip(("principal", "host", "operation", "permissionType"), found.groups(), strict=True)
            )
            title_line = 0
            yield numbered_acl(resource | entry, path, number)
        else:
            raise line_error("not a line of what kafka-acls --list prints", path, number)
    if title_line:
        raise line_error(
            "the listing ends before the ACLs of this resource: it is not complete", path, title_line
        )


def _from_csv(lines: list[Line], path: str) -> Iterator[NumberedAcl]:
    rows = csv.DictReader(io.StringIO("\n".join(line for _, line in lines)), strict=True)
    if tuple(rows.fieldnames or ()) != CSV_HEADER:
        raise line_error(f"the header is not {','.join(CSV_HEADER)}", path, 1)
    try:
        for row in rows:
            yield numbered_acl(
                {field: row[field] and text_of_cell(row[field]) for field in _FIELDS}, path, rows.line_num
            )
    except csv.Error as error:
        raise line_error(f"not CSV: {error}", path, rows.line_num) from error


def _from_document(document: Any, path: str) -> list[NumberedAcl]:
    if "acls" in document:
        if not isinstance(document["acls"], list):
            raise line_error("`acls` is no list", path, 1)
        return [numbered_acl(each, path, 1) for each in document["acls"]]
    return list(_from_kip11(document, path))


def _from_kip11(document: Any, path: str) -> Iterator[NumberedAcl]:
    try:
        for resource in document["resources"]:
            pattern = {field: resource[field] for field in ("resourceType", "resourceName", "patternType")}
            for entry in resource["acls"]:
                subject = {field: entry[field] for field in ("principal", "permissionType")}
                for operation in entry["operations"]:
                    for host in entry["hosts"]:
                        yield numbered_acl(
                            {**pattern, **subject, "operation": operation, "host": host}, path, 1
                        )
    except (KeyError, TypeError) as error:
        raise DecodeError(f"not KIP-11's JSON as aclog writes it: {error!r}", source=path) from error


def _from_lines(lines: Iterable[Line], path: str) -> list[NumberedAcl]:
    """Lines of ACLs, or of the records of a log in order."""
    found: dict[Uuid, NumberedAcl] = {}
    for number, line in lines:
        try:
            payload = parse_json_object(line.encode("utf-8", "surrogatepass"))
            is_record = "type" in payload or "control" in payload
            record = from_json(payload) if "type" in payload else None
        except DecodeError as error:
            raise error.located(source=f"{path} line {number}") from error
        if isinstance(record, RemoveAccessControlEntryRecord):
            found.pop(record.id, None)
        elif isinstance(record, AccessControlEntryRecord):
            found[record.id] = number, record
        elif not is_record:
            _, acl = numbered_acl(payload, path, number)
            found[acl.id] = number, acl
    return list(found.values())


def numbered_acl(document: Any, path: str, number: int) -> NumberedAcl:
    """Parse the ACL of a JSON object. DecodeError: it is none."""
    if not isinstance(document, dict):
        raise line_error("not an ACL: not a JSON object", path, number)
    values = _DEFAULTS | {field: value for field, value in document.items() if field != "id"}
    for field in _FIELDS:
        if not isinstance(values.get(field), str):
            raise line_error(f"not an ACL: `{field}` is missing or no text", path, number)
    if unknown := values.keys() - set(_FIELDS):
        raise line_error(f"not an ACL: `{min(unknown)}` is not known", path, number)
    codes = []
    for kind, field in _KINDS.items():
        try:
            codes.append(_code(kind, values[field]))
        except ValueError:
            raise line_error(f"`{values[field]}` is no {field}", path, number) from None
    resource_type, pattern_type, operation, permission_type = codes
    content = (
        resource_type,
        values["resourceName"],
        pattern_type,
        values["principal"],
        values["host"],
        operation,
        permission_type,
    )
    return number, AccessControlEntryRecord(content_uuid(content), *content)


_KINDS: Final = {
    ResourceType: "resourceType",
    PatternType: "patternType",
    AclOperation: "operation",
    AclPermissionType: "permissionType",
}


def _code(kind: Any, text: str) -> int:
    known = kind.from_name(text)
    return code_from_name(kind, text) if known.is_unknown else int(known)
