"""One part of a stored snapshot: ACLs as rows of a Parquet file, zstd, one column for each field.

    id, resource_type, resource_name, pattern_type, principal, host, operation, permission_type,
    offset (null when unknown), timestamp_ms: records.columns.arrow.ACL_SCHEMA

A part may say in the file's metadata what the digest of its rows is (``aclog.digest``, 32 hexadecimal
digits), for whoever continues one part alone; the manifest has that of all parts together.

A text column is read as its dictionary and one array of places in it, the numbers as arrays: rows become
a table without being looked at one by one.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from records.columns.acl_table import AclTable
from records.columns.arrow import ACL_SCHEMA, from_arrow, to_arrow
from records.errors import EncodeError
from snapshot.digest import digest_from_string, digest_to_string
from snapshot.errors import SnapshotCorruptError

_NO_DICTIONARY: Final = ("id", "offset", "timestamp_ms")
_DIGEST_KEY: Final = b"aclog.digest"
_TEXTS: Final = tuple(field.name for field in ACL_SCHEMA if pa.types.is_string(field.type))


def encode_part(rows: AclTable, *, digest: int | None = None) -> bytes:
    """The bytes of a Parquet file with these rows.

    Args:
        rows: of any number.
        digest: of these rows, if the part is to say it.

    Raises:
        EncodeError: a text with a lone surrogate.
    """
    try:
        table = pa.Table.from_batches([to_arrow(rows)])
    except UnicodeEncodeError as error:
        raise EncodeError(f"an ACL that a snapshot cannot hold: {error}") from error
    if digest is not None:
        table = table.replace_schema_metadata({_DIGEST_KEY: digest_to_string(digest)})
    sink = pa.BufferOutputStream()
    # Ids are random bytes: a dictionary of them would only be a detour.
    dictionaries = [name for name in ACL_SCHEMA.names if name not in _NO_DICTIONARY]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionaries)
    return bytes(sink.getvalue())


def decode_part(data: bytes, *, source: str) -> AclTable:
    """The rows of one part; ``source`` names it in errors.

    Raises:
        SnapshotCorruptError: not a Parquet file with ACL_SCHEMA's columns.
    """
    try:
        table = _table(data)
        return from_arrow({field.name: _column(table, field) for field in ACL_SCHEMA})
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
    for name in ACL_SCHEMA.names:
        if stored.count(name) != 1:
            raise ValueError(f"{stored.count(name)} columns `{name}`")
    # Reading a part takes little beside the building of its rows: a pool of threads would not be noticed.
    return pq.ParquetFile(file, read_dictionary=list(_TEXTS)).read(
        columns=ACL_SCHEMA.names, use_threads=False
    )


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
