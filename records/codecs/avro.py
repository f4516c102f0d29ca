"""Avro single-object encoding of the two ACL records: values of a topic log.

0xC3 0x01, the CRC-64-AVRO fingerprint of the writer's schema, little-endian, and the body. The schemas are
records/schemas/*.avsc. Source: Apache Avro specification, "Single-object encoding" and "Schema Resolution".

A field may be added later. A reader with the newer schema reads older values, with the field's default. A
reader with the older schema needs the newer one as well (``known``), and then skips the field.
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

from records.codecs.avro_header import HEADER_BYTES, MAGIC
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError, EncodeError, TruncatedRecordError, UnsupportedVersionError
from records.ids import UUID_BYTES, Uuid

Schema = dict[str, Any]

# Avro has no int8.
_CODES: Final = frozenset(("resourceType", "patternType", "operation", "permissionType"))

# fastavro's exceptions for a body that does not match its schema, or a schema that does not match the current
# one.
_DECODE_ERRORS: Final = (
    ValueError,
    TypeError,
    OverflowError,
    LookupError,
    EOFError,
    SchemaResolutionError,
)


def load_schema(name: str) -> Schema:
    """Load the schema in ``records/schemas/<name>.avsc``."""
    text = (resources.files("records") / "schemas" / f"{name}.avsc").read_bytes()
    return cast("Schema", msgspec.json.decode(text))


ACCESS_CONTROL_ENTRY_SCHEMA: Final = load_schema("AccessControlEntryRecord")
REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA: Final = load_schema("RemoveAccessControlEntryRecord")


class AvroCodec:
    """Encodes with its current schemas; decodes values of these and of other known schemas.

    Args:
        current: one schema for each of the two records; decoded values have their fields.
        known: other versions of schemas.

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
        """Encode a value of a topic log. Raises EncodeError: a field that the schema cannot hold."""
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
        """Decode a value.

        UnsupportedVersionError: written with an unknown schema. DecodeError: its ``position`` is within
        ``data``.
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
        """(record name, fields of the current schema); raises as `decode`."""
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
    name = str(schema.get("name")).rpartition(".")[2]  # without a namespace
    if name not in {"AccessControlEntryRecord", "RemoveAccessControlEntryRecord"}:
        raise ValueError(f"`{name}` is not the schema of an ACL record")
    return name


def _parsed(schema: Schema) -> Schema:
    # An empty dictionary each time, as two versions of a schema define the same names.
    try:
        return cast("Schema", parse_schema(schema, {}))
    except SchemaParseException as error:
        raise ValueError(f"not an Avro schema: {error}") from error


def _header(schema: Schema) -> bytes:
    """The first bytes of every value that is written with the parsed ``schema``."""
    # fastavro returns the fingerprint in the order of the encoding: lowest byte first.
    return MAGIC + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


_CODEC: Final = AvroCodec()
#: `AvroCodec.encode` and `AvroCodec.decode` with the current schemas.
encode: Final = _CODEC.encode
decode: Final = _CODEC.decode
