"""One part of a stored snapshot: ACLs as rows of a Parquet file, zstd, one column for each field.

    id               fixed binary of 16        principal        string
    resource_type    int8                      host             string
    resource_name    string                    operation        int8
    pattern_type     int8                      permission_type  int8
    offset           int64, null when unknown  timestamp_ms     int64

A part may say in the file's metadata what the digest of its rows is (``aclog.digest``, 32 hexadecimal
digits), for whoever continues one part alone; the manifest has that of all parts together.

A text column is read as its dictionary and one array of places in it, the numbers as arrays: rows become
columns (snapshot.columns) without being looked at one by one.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from records.errors import EncodeError
from records.ids import UUID_BYTES
from snapshot.arrow_columns import number_array, number_column, text_array, text_column
from snapshot.digest import digest_from_string, digest_to_string
from snapshot.errors import SnapshotCorruptError
from snapshot.rows import UNKNOWN_OFFSET, AclRows

_DIGEST_KEY: Final = b"aclog.digest"
_CODES: Final = ("resource_type", "pattern_type", "operation", "permission_type")
_TEXTS: Final = ("resource_name", "principal", "host")

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.binary(UUID_BYTES), nullable=False),
        pa.field("resource_type", pa.int8(), nullable=False),
        pa.field("resource_name", pa.string(), nullable=False),
        pa.field("pattern_type", pa.int8(), nullable=False),
        pa.field("principal", pa.string(), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("operation", pa.int8(), nullable=False),
        pa.field("permission_type", pa.int8(), nullable=False),
        pa.field("offset", pa.int64(), nullable=True),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
    ]
)


def encode_part(rows: AclRows, *, digest: int | None = None) -> bytes:
    """The bytes of a Parquet file with these rows.

    Args:
        rows: of any number.
        digest: of these rows, if the part is to say it.

    Raises:
        EncodeError: a text with a lone surrogate.
    """
    try:
        texts = {
            "resource_name": text_array(rows.names),
            "principal": text_array(rows.principals),
            "host": text_array(rows.hosts),
        }
    except UnicodeEncodeError as error:
        raise EncodeError(f"an ACL that a snapshot cannot hold: {error}") from error
    arrays = {
        **texts,
        **{name: number_array(getattr(rows, f"{name}s")) for name in _CODES},
        "id": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(UUID_BYTES), len(rows), [None, pa.py_buffer(rows.ids)]
        ),
        "offset": number_array(rows.offsets, null=UNKNOWN_OFFSET),
        "timestamp_ms": number_array(rows.timestamps_ms),
    }
    table = pa.table([arrays[field.name] for field in SCHEMA], schema=SCHEMA)
    if digest is not None:
        table = table.replace_schema_metadata({_DIGEST_KEY: digest_to_string(digest)})
    sink = pa.BufferOutputStream()
    # Ids are random bytes: a dictionary of them would only be a detour.
    dictionaries = [*_CODES, *_TEXTS]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionaries)
    return bytes(sink.getvalue())


def decode_part(data: bytes, *, source: str) -> AclRows:
    """The rows of one part; ``source`` names it in errors.

    Raises:
        SnapshotCorruptError: not a Parquet file with SCHEMA's columns.
    """
    try:
        table = _table(data)
        columns = {field.name: _column(table, field) for field in SCHEMA}
        names, principals, hosts = (text_column(columns[name]) for name in _TEXTS)
        resource_types, pattern_types, operations, permission_types = (
            number_column(columns[name]) for name in _CODES
        )
        return AclRows(
            ids=_ids(columns["id"]),
            resource_types=resource_types,
            names=names,
            pattern_types=pattern_types,
            principals=principals,
            hosts=hosts,
            operations=operations,
            permission_types=permission_types,
            offsets=number_column(columns["offset"], null=UNKNOWN_OFFSET),
            timestamps_ms=number_column(columns["timestamp_ms"]),
        )
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        # ValueError: UnicodeDecodeError, and what is found here; OSError: a damaged page; KeyError: a column
        # that has columns inside.
        raise SnapshotCorruptError(f"{source} is not a snapshot part: {error}") from error


def part_digest(data: bytes, *, source: str) -> int | None:
    """What the part says that the digest of its rows is; None where it does not say.

    Raises:
        SnapshotCorruptError: not a Parquet file, or what it says is no digest.
    """
    try:
        said = (pq.read_schema(pa.BufferReader(data)).metadata or {}).get(_DIGEST_KEY)
        return None if said is None else digest_from_string(said.decode("ascii"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SnapshotCorruptError(f"{source} is not a snapshot part: {error}") from error


def _table(data: bytes) -> pa.Table:
    file = pa.BufferReader(data)
    stored = pq.read_schema(file).names
    for name in SCHEMA.names:
        if stored.count(name) != 1:
            raise ValueError(f"{stored.count(name)} columns `{name}`")
    # Reading a part takes little beside the building of its rows: a pool of threads would not be noticed.
    return pq.ParquetFile(file, read_dictionary=list(_TEXTS)).read(columns=SCHEMA.names, use_threads=False)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """The column, of the type that the schema says, or that a writer without that type may use instead."""
    column = table.column(field.name)
    if column.null_count and not field.nullable:
        raise ValueError(f"column `{field.name}` holds nulls")
    stored = column.type
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    elif field.name == "id" and pa.types.is_binary(stored):
        # Spark has no fixed-size binary; the cast fails on any other length.
        return column.cast(field.type)
    if stored != field.type:
        raise ValueError(f"column `{field.name}` is {stored}, not {field.type}")
    return column


def _ids(column: pa.ChunkedArray) -> bytes:
    ids = b""
    for chunk in column.chunks:
        if len(chunk):
            start = chunk.offset * UUID_BYTES
            ids += memoryview(chunk.buffers()[1])[start : start + len(chunk) * UUID_BYTES]
    return ids
