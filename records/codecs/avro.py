"""Avro single-object encoding of the two ACL records: values of a topic log.

0xC3 0x01, the CRC-64-AVRO fingerprint of the writer's schema, little-endian, and the body. The schemas are
records/schemas/*.avsc. Source: Apache Avro specification, "Single-object encoding" and "Schema Resolution".

A field may be added later. Who has the newer schema reads older values and finds the field's default; who has
the older schema must be told of the newer one (``known``), as its fingerprint alone does not say what was
written, and then skips the field.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Final, cast

import fastavro
import msgspec
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, fingerprint, parse_schema, to_parsing_canonical_form

from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError, EncodeError, TruncatedRecordError, UnsupportedVersionError
from records.ids import UUID_BYTES, Uuid

Schema = dict[str, Any]

MAGIC: Final = b"\xc3\x01"
#: Bytes before the body.
HEADER_BYTES: Final = 10

# Avro has no int8.
_CODES: Final = frozenset(("resourceType", "patternType", "operation", "permissionType"))

# What fastavro raises for a body that does not fit its schema, or a schema that does not fit the current one.
_DECODE_ERRORS: Final = (
    ValueError,
    TypeError,
    OverflowError,
    LookupError,
    EOFError,
    SchemaResolutionError,
)


def load_schema(name: str) -> Schema:
    """The schema in ``records/schemas/<name>.avsc``."""
    text = (resources.files("records") / "schemas" / f"{name}.avsc").read_bytes()
    return cast("Schema", msgspec.json.decode(text))


ACCESS_CONTROL_ENTRY_SCHEMA: Final = load_schema("AccessControlEntryRecord")
REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA: Final = load_schema("RemoveAccessControlEntryRecord")


class AvroCodec:
    """Encodes with its current schemas; decodes what these and other known schemas have written.

    Args:
        current: one schema for each of the two records; what is read comes out as these say.
        known: schemas of other versions that may have written a value.

    Raises:
        ValueError: not a schema, or a schema of another record.
    """

    def __init__(
        self,
        current: Sequence[Schema] = (ACCESS_CONTROL_ENTRY_SCHEMA, REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA),
        *,
        known: Iterable[Schema] = (),
    ) -> None:
        self._current = {_record_name(schema): _parsed(schema) for schema in current}
        self._headers = {name: _header(schema) for name, schema in self._current.items()}
        # Header of a value -> name of its record and its writer's schema.
        self._writers = {self._headers[name]: (name, schema) for name, schema in self._current.items()}
        for schema in known:
            parsed = _parsed(schema)
            self._writers[_header(parsed)] = _record_name(schema), parsed

    def encode(self, record: AclRecord) -> bytes:
        """The value of a topic log.

        Raises:
            EncodeError: a field that the schema cannot hold.
        """
        if len(record.id) != UUID_BYTES:
            raise EncodeError(f"id has {len(record.id)} bytes, not {UUID_BYTES}")
        name, fields = type(record).__name__, _fields(record)
        for code in _CODES & fields.keys():
            if not -128 <= fields[code] <= 127:
                raise EncodeError(f"{code} {fields[code]} is beyond int8")
        out = io.BytesIO(self._headers[name])
        out.seek(HEADER_BYTES)
        try:
            fastavro.schemaless_writer(out, self._current[name], fields)
        except UnicodeEncodeError as error:
            raise EncodeError(f"cannot be written as UTF-8: {error.reason}") from error
        return out.getvalue()

    def decode(self, data: bytes | memoryview) -> AclRecord:
        """The record in a value.

        Raises:
            UnsupportedVersionError: written with a schema that is not known.
            DecodeError: anything else that is wrong; ``position`` is within ``data``.
        """
        name, fields = self.decode_fields(data)
        for code in _CODES & fields.keys():
            if not -128 <= fields[code] <= 127:
                raise DecodeError(f"{code} {fields[code]} is beyond int8", position=HEADER_BYTES)
        if name == "RemoveAccessControlEntryRecord":
            return RemoveAccessControlEntryRecord(Uuid(fields["id"]))
        return AccessControlEntryRecord(
            Uuid(fields["id"]),
            fields["resourceType"],
            fields["resourceName"],
            fields["patternType"],
            fields["principal"],
            fields["host"],
            fields["operation"],
            fields["permissionType"],
        )

    def decode_fields(self, data: bytes | memoryview) -> tuple[str, Mapping[str, Any]]:
        """(record name, all fields that the current schema has); raises as `decode`."""
        header = bytes(data[:HEADER_BYTES])
        if not header.startswith(MAGIC[: len(header)]):
            raise DecodeError("not an Avro single-object value", position=0)
        if len(header) < HEADER_BYTES:
            raise TruncatedRecordError("an Avro value ends inside its header", position=0)
        writer = self._writers.get(header)
        if writer is None:
            raise UnsupportedVersionError(
                f"Avro schema with fingerprint {header[:1:-1].hex()} is unknown", position=len(MAGIC)
            )
        name, schema = writer
        body = io.BytesIO(data)
        body.seek(HEADER_BYTES)
        try:
            fields = cast("dict[str, Any]", fastavro.schemaless_reader(body, schema, self._current[name]))
        except _DECODE_ERRORS as error:
            raise DecodeError(
                f"an Avro value does not fit its schema: {error!r}", position=body.tell()
            ) from error
        if body.tell() != len(data):
            raise DecodeError(f"{len(data) - body.tell()} bytes are left over", position=body.tell())
        return name, fields


def _fields(record: AclRecord) -> dict[str, Any]:
    if isinstance(record, RemoveAccessControlEntryRecord):
        return {"id": record.id}
    return {
        "id": record.id,
        "resourceType": record.resource_type,
        "resourceName": record.resource_name,
        "patternType": record.pattern_type,
        "principal": record.principal,
        "host": record.host,
        "operation": record.operation,
        "permissionType": record.permission_type,
    }


def _record_name(schema: Schema) -> str:
    name = str(schema.get("name")).rpartition(".")[2]  # its namespace may be in it
    if name not in {"AccessControlEntryRecord", "RemoveAccessControlEntryRecord"}:
        raise ValueError(f"`{name}` is not the schema of an ACL record")
    return name


def _parsed(schema: Schema) -> Schema:
    # A dictionary of its own: two versions of a schema define the same names.
    try:
        return cast("Schema", parse_schema(schema, {}))
    except SchemaParseException as error:
        raise ValueError(f"not an Avro schema: {error}") from error


def _header(schema: Schema) -> bytes:
    """The first bytes of every value that is written with ``schema``, which is parsed already."""
    # fastavro prints the fingerprint in the order in which it is written: lowest byte first.
    return MAGIC + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


_CODEC: Final = AvroCodec()

#: The first bytes of values that are written with today's schemas.
ACL_HEADER: Final = _header(_parsed(ACCESS_CONTROL_ENTRY_SCHEMA))
REMOVE_HEADER: Final = _header(_parsed(REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA))
_RESOURCE_AT: Final = HEADER_BYTES + UUID_BYTES
# A topic repeats names, principals and hosts. The parts of values are kept by their bytes, as codecs.kraft
# keeps those of frames, and emptied when full.
_PARTS_MAX: Final = 1 << 15
_coded_texts: dict[bytes, tuple[int, str]] = {}
_endings: dict[bytes, tuple[str, int, int]] = {}
_coded_text, _ending = _coded_texts.get, _endings.get


def encode(record: AclRecord) -> bytes:
    """`AvroCodec.encode` with today's schemas."""
    return _CODEC.encode(record)


def decode(data: bytes | memoryview) -> AclRecord:
    """`AvroCodec.decode` with today's schemas.

    Nearly all values are ACLs whose numbers, lengths among them, are one byte each (Avro doubles them: even,
    and below 128). These are read here, and for speed; anything unusual, or wrong, is left to the codec.
    """
    data = data if isinstance(data, bytes) else bytes(data)
    if data.startswith(ACL_HEADER):
        try:
            name_end = _RESOURCE_AT + 2 + (data[_RESOURCE_AT + 1] >> 1)
            principal_end = name_end + 2 + (data[name_end + 1] >> 1)
            raw = data[_RESOURCE_AT:name_end]
            resource_type, resource_name = _coded_text(raw) or _new_coded_text(raw)
            raw = data[name_end:principal_end]
            pattern_type, principal = _coded_text(raw) or _new_coded_text(raw)
            raw = data[principal_end:]
            host, operation, permission_type = _ending(raw) or _new_ending(raw)
        except (IndexError, UnicodeDecodeError, _NotPlainError):
            return _CODEC.decode(data)
        return AccessControlEntryRecord(
            Uuid(data[HEADER_BYTES:_RESOURCE_AT]),
            resource_type,
            resource_name,
            pattern_type,
            principal,
            host,
            operation,
            permission_type,
        )
    return _CODEC.decode(data)


class _NotPlainError(Exception):
    """A part of a value that is wrong, or right but unusual."""


def _new_coded_text(raw: bytes) -> tuple[int, str]:
    """A code and a text; both are all of ``raw``."""
    if len(raw) < 2 or (raw[0] | raw[1]) & 0x81 or len(raw) - 2 != raw[1] >> 1:
        raise _NotPlainError
    part = raw[0] >> 1, raw[2:].decode()
    if len(_coded_texts) >= _PARTS_MAX:
        _coded_texts.clear()
    _coded_texts[raw] = part
    return part


def _new_ending(raw: bytes) -> tuple[str, int, int]:
    """A text and two codes; together all of ``raw``."""
    size = len(raw) - 3
    if size < 0 or (raw[0] | raw[-2] | raw[-1]) & 0x81 or size != raw[0] >> 1:
        raise _NotPlainError
    part = raw[1:-2].decode(), raw[-2] >> 1, raw[-1] >> 1
    if len(_endings) >= _PARTS_MAX:
        _endings.clear()
    _endings[raw] = part
    return part
