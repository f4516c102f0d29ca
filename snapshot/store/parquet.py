"""One part of a stored snapshot: ACLs as rows of a Parquet file, zstd, one column for each field.

    id, resource_type, resource_name, pattern_type, principal, host, operation, permission_type,
    offset (null when unknown), timestamp_ms: records.columns.acl_table_arrow.ACL_SCHEMA

A changes file holds what changed in a part since it was written. It has the same columns, and one row for
each changed id: the new or changed ACL; or, for a removed row, the id alone with nulls.

Reading all rows is columnar: a text column as its dictionary and an array of codes, numbers as arrays.

A small file may decode to gigabytes. So its footer is checked first: the number of rows must be the
manifest's and possible for the file's size; the size of decoded columns is bounded by the number of rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from records.columns.acl_table import CODES, COLUMNS, AclTable
from records.columns.acl_table_arrow import ACL_SCHEMA, from_arrow, id_bytes, to_arrow
from records.columns.arrow_arrays import number_array, number_column
from records.errors import EncodeError
from records.ids import UUID_BYTES
from snapshot.errors import SnapshotCorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

_NO_DICTIONARY: Final = ("id", "offset", "timestamp_ms")
_CODES: Final = tuple(field for field, column in COLUMNS.items() if column in CODES)
# Read as dictionaries. For names, building a dictionary takes longer than reading them.
_FEW_TEXTS: Final = ("principal", "host")
_MANY_TEXTS: Final = "resource_name"
#: Rows that a file of any size may have, such as one that is only a footer.
_ROWS_MIN: Final = 1024
#: Limit of the decoded columns: a fixed part, and bytes for each row. A name has up to 32,767 bytes, but not
#: on average.
_DECODED_BYTES: Final = 64 * 1024 * 1024
_DECODED_BYTES_PER_ROW: Final = 1024
_ROWS_PER_READ: Final = 4096


#: Schema of a changes file: a removed row has only its id.
_CHANGES: Final = pa.schema([field.with_nullable(field.name != "id") for field in ACL_SCHEMA])


def encode_part(rows: AclTable) -> bytes:
    """A Parquet file with these rows. Raises EncodeError: a text with a lone surrogate."""
    return _encoded(_arrow_table(rows))


def encode_changes(rows: AclTable, removed_ids: bytes) -> bytes:
    """A changes file; ``removed_ids``: 16 bytes for each. EncodeError: a text with a lone surrogate."""
    count = len(removed_ids) // UUID_BYTES
    columns = {field.name: pa.nulls(count, field.type) for field in _CHANGES}
    columns["id"] = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(UUID_BYTES), count, [None, pa.py_buffer(removed_ids)]
    )
    removed = pa.table([columns[name] for name in _CHANGES.names], schema=_CHANGES)
    return _encoded(pa.concat_tables([_arrow_table(rows).cast(_CHANGES), removed]))


def _arrow_table(rows: AclTable) -> pa.Table:
    try:
        return pa.Table.from_batches([to_arrow(rows)])
    except UnicodeEncodeError as error:
        raise EncodeError(f"an ACL that a snapshot cannot hold: {error}") from error


def _encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # Ids are random bytes, which a dictionary cannot compress.
    dictionaries = [name for name in ACL_SCHEMA.names if name not in _NO_DICTIONARY]
    pq.write_table(table, sink, compression="zstd", use_dictionary=dictionaries)
    return bytes(sink.getvalue())


def decode_part(data: bytes, *, rows: int, source: str) -> AclTable:
    """The rows of one part; ``rows`` is their number by the manifest, ``source`` names the part in errors.

    SnapshotCorruptError: not a Parquet file with ACL_SCHEMA's columns and that number of rows.
    """
    with _as_corrupt(source):
        return _rows(_table(data, rows))


def decode_changes(data: bytes, *, rows: int, source: str) -> tuple[AclTable, bytes]:
    """The new rows of a changes file, and the removed ids, 16 bytes each; ``rows`` counts both.

    SnapshotCorruptError: not a changes file with that number of rows.
    """
    with _as_corrupt(source):
        table = _table(data, rows)
        is_removed = table.column("resource_type").is_null()
        removed = table.filter(is_removed)
        if any(removed.column(name).null_count != len(removed) for name in ACL_SCHEMA.names if name != "id"):
            raise ValueError("a removed row has more than its id")
        return _rows(table.filter(pc.invert(is_removed))), _ids(removed)


class PartTable:
    """One part that is read but not decoded, for callers that need few of its rows.

    ``ids``: of all rows, 16 bytes each.
    """

    def __init__(self, data: bytes, rows: int) -> None:
        table = _table(data, rows)
        self._table = pa.table([_column(table, field) for field in ACL_SCHEMA], ACL_SCHEMA.names)
        self.ids = _ids(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def take(self, chosen: npt.NDArray[np.bool_]) -> pa.Table:
        """Some of the rows, for ``to_rows``."""
        return self._table.take(number_array(np.flatnonzero(chosen))).cast(ACL_SCHEMA)

    def encoded_with(self, chosen: npt.NDArray[np.bool_], added: AclTable) -> bytes:
        """As ``encode_part``, of some of the rows and further ones, without decoding."""
        return _encoded(pa.concat_tables([self.take(chosen), _arrow_table(added)]))

    def codes(self) -> list[npt.NDArray[np.int8]]:
        """The columns of codes of all rows, in the order of the fields."""
        return [number_column(self._table.column(name)) for name in _CODES]


# As many entries as a log has shards by default.
_cached_part_table: Final = lru_cache(8)(PartTable)


def read_part_table(data: bytes, *, rows: int, source: str) -> PartTable:
    """A part's table; arguments and errors as ``decode_part``.

    Cached: a small batch of Spark leaves most parts unchanged, and the same process runs the next batch.
    """
    with _as_corrupt(source):
        return _cached_part_table(data, rows)


def to_rows(taken: Sequence[pa.Table]) -> AclTable:
    """Decode rows that were taken from one or more parts."""
    return _rows(pa.concat_tables(taken)) if taken else AclTable.of(())


def _rows(table: pa.Table) -> AclTable:
    return from_arrow({field.name: _column(table, field) for field in ACL_SCHEMA})


def _ids(table: pa.Table) -> bytes:
    column = _column(table, ACL_SCHEMA.field("id"))
    return b"".join([id_bytes(chunk) for chunk in column.chunks])


@contextmanager
def _as_corrupt(source: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        # ValueError: UnicodeDecodeError, and the checks here; OSError: a damaged page; KeyError: a nested
        # column.
        raise SnapshotCorruptError(f"{source} is not a snapshot part: {error}") from error


def _table(data: bytes, rows: int) -> pa.Table:
    stored = pq.read_schema(pa.BufferReader(data)).names
    for name in ACL_SCHEMA.names:
        if stored.count(name) != 1:
            raise ValueError(f"{stored.count(name)} columns `{name}`")
    file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(_FEW_TEXTS))
    _check_footer(file.metadata, len(data), rows)
    # Reading a part takes little time compared with building its rows: threads would not pay off.
    bounded = file.read(columns=[name for name in ACL_SCHEMA.names if name != _MANY_TEXTS], use_threads=False)
    # These columns take no more than the footer says, or a few bytes for each row.
    return bounded.append_column(_MANY_TEXTS, _bounded_texts(file, rows)).select(ACL_SCHEMA.names)


def _check_footer(footer: pq.FileMetaData, size_bytes: int, rows: int) -> None:
    """Raise ValueError if the number of rows is not the manifest's, or impossible for the file's size."""
    if footer.num_rows != rows:
        raise ValueError(f"it has {footer.num_rows} rows, its manifest says {rows}")
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    if sum(group.num_rows for group in groups) != rows:
        raise ValueError(f"its row groups do not have {rows} rows")
    # Each row has a unique id, which takes at least one byte even compressed.
    if rows > max(size_bytes, _ROWS_MIN):
        raise ValueError(f"{rows} rows cannot be in {size_bytes} bytes")
    if sum(group.total_byte_size for group in groups) > _decoded_bytes_max(rows):
        raise ValueError(f"its columns are too large for {rows} rows")


def _bounded_texts(file: pq.ParquetFile, rows: int) -> pa.ChunkedArray:
    """The names, read in pieces: one long text of a dictionary may occur in every row."""
    pieces, left_bytes = [], _decoded_bytes_max(rows)
    for batch in file.iter_batches(_ROWS_PER_READ, columns=[_MANY_TEXTS], use_threads=False):
        pieces.append(batch.column(0))
        left_bytes -= batch.nbytes
        if left_bytes < 0:
            raise ValueError(f"its names are too long for {rows} rows")
    return pa.chunked_array(pieces, file.schema_arrow.field(_MANY_TEXTS).type)


def _decoded_bytes_max(rows: int) -> int:
    return _DECODED_BYTES + rows * _DECODED_BYTES_PER_ROW


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """The column, of the schema's type or of the one that a writer without that type uses instead."""
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
