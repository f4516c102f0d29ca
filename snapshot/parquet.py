"""One part of a stored snapshot: ACLs as rows of a Parquet file, zstd, one column for each field.

    id               fixed binary of 16        principal        string
    resource_type    int8                      host             string
    resource_name    string                    operation        int8
    pattern_type     int8                      permission_type  int8
    offset           int64, null when unknown  timestamp_ms     int64

Reading is by column: the numbers of a column leave Arrow's buffer as one list, a text column as its
dictionary and one list of indices into it, so each different text is one str in memory however many ACLs hold
it. pyarrow's own ``to_pylist`` makes a scalar of every cell and takes ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from records.entries import AccessControlEntryRecord
from records.errors import EncodeError
from records.ids import UUID_BYTES, Uuid
from snapshot.errors import SnapshotCorruptError
from snapshot.image import AppliedAcl

if TYPE_CHECKING:
    from collections.abc import Sequence

_CODES: Final = ("resource_type", "pattern_type", "operation", "permission_type")
_TEXTS: Final = ("resource_name", "principal", "host")
_ID: Final = Struct(f"{UUID_BYTES}s")
_FORMATS: Final[dict[Any, Literal["b", "i", "q"]]] = {pa.int8(): "b", pa.int32(): "i", pa.int64(): "q"}

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


@dataclass(frozen=True, slots=True)
class PartRows:
    """The rows of one part, by column where a caller needs a column."""

    ids: list[Uuid]
    resource_types: list[int]
    acls: list[AppliedAcl]


def encode_part(acls: Sequence[AppliedAcl]) -> bytes:
    """The bytes of a Parquet file with these rows.

    Raises:
        EncodeError: a text with a lone surrogate, a code beyond int8, an id that is not 16 bytes.
    """
    records = [acl.record for acl in acls]
    values: dict[str, list[Any]] = {
        name: [getattr(record, name) for record in records] for name in ("id", *_CODES, *_TEXTS)
    }
    values["offset"] = [acl.offset for acl in acls]
    values["timestamp_ms"] = [acl.timestamp_ms for acl in acls]
    try:
        table = pa.table([pa.array(values[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise EncodeError(f"an ACL that a snapshot cannot hold: {error}") from error
    sink = pa.BufferOutputStream()
    # Ids are random bytes: a dictionary of them would only be a detour.
    dictionaries = [*_CODES, *_TEXTS]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionaries)
    return bytes(sink.getvalue())


def decode_part(data: bytes, interned: dict[str, str], *, source: str) -> PartRows:
    """The rows of one part. ``interned`` collects the texts of all parts, ``source`` names this one.

    Raises:
        SnapshotCorruptError: not a Parquet file with SCHEMA's columns.
    """
    try:
        table = _table(data)
        columns = {field.name: _column(table, field) for field in SCHEMA}
        ids = _ids(columns["id"])
        resource_types = _numbers(columns["resource_type"])
        records = map(
            AccessControlEntryRecord,
            ids,
            resource_types,
            _texts(columns["resource_name"], interned),
            _numbers(columns["pattern_type"]),
            _texts(columns["principal"], interned),
            _texts(columns["host"], interned),
            _numbers(columns["operation"]),
            _numbers(columns["permission_type"]),
        )
        acls = list(map(AppliedAcl, records, _offsets(columns["offset"]), _numbers(columns["timestamp_ms"])))
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        # ValueError: UnicodeDecodeError, and what is found here; OSError: a damaged page; KeyError: a column
        # that has columns inside.
        raise SnapshotCorruptError(f"{source} is not a snapshot part: {error}") from error
    return PartRows(ids, resource_types, acls)


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


def _ids(column: pa.ChunkedArray) -> list[Uuid]:
    ids: list[Uuid] = []
    for chunk in column.chunks:
        if len(chunk):
            start = chunk.offset * UUID_BYTES
            data = memoryview(chunk.buffers()[1])[start : start + len(chunk) * UUID_BYTES]
            ids += [acl_id for (acl_id,) in _ID.iter_unpack(data)]
    return ids


def _texts(column: pa.ChunkedArray, interned: dict[str, str]) -> list[str]:
    texts: list[str] = []
    for chunk in column.chunks:
        dictionary = [interned.setdefault(text, text) for text in _chunk_texts(chunk.dictionary)]
        texts += map(dictionary.__getitem__, _chunk_numbers(chunk.indices))
    return texts


def _numbers(column: pa.ChunkedArray) -> list[int]:
    numbers: list[int] = []
    for chunk in column.chunks:
        numbers += _chunk_numbers(chunk)
    return numbers


def _offsets(column: pa.ChunkedArray) -> list[int | None]:
    offsets: list[int | None] = []
    for chunk in column.chunks:
        if chunk.null_count == 0:
            offsets += _chunk_numbers(chunk)
        elif chunk.null_count == len(chunk):
            offsets += [None] * len(chunk)
        else:
            offsets += chunk.to_pylist()
    return offsets


def _chunk_texts(chunk: pa.StringArray) -> list[str]:
    """The texts of an array without nulls: Arrow has one blob of UTF-8 and the places where texts begin."""
    _, places, blob = chunk.buffers()
    if not len(chunk) or blob is None:
        return [""] * len(chunk)
    data = blob.to_pybytes()
    begins = memoryview(places).cast("B").cast("i")[chunk.offset : chunk.offset + len(chunk) + 1].tolist()
    return [data[begin:end].decode() for begin, end in pairwise(begins)]


def _chunk_numbers(chunk: pa.Array) -> list[int]:
    """The numbers of an array without nulls."""
    if not len(chunk):
        return []
    view = memoryview(chunk.buffers()[1]).cast("B").cast(_FORMATS[chunk.type])
    numbers: list[int] = view[chunk.offset : chunk.offset + len(chunk)].tolist()
    return numbers
