"""Conversion between AclTable and Arrow's record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.columns.acl_table import CODES, COLUMNS, TEXTS, UNKNOWN_OFFSET, AclTable
from records.columns.arrow_arrays import number_array, number_column, numbers, text_tuple
from records.columns.text_column import TextColumn
from records.ids import UUID_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

#: Schema of ACLs in Parquet files and Spark's rows; unknown offsets are null.
ACL_SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.binary(UUID_BYTES), nullable=False),
        *(
            pa.field(field, pa.string() if column in TEXTS else pa.int8(), nullable=False)
            for field, column in COLUMNS.items()
        ),
        pa.field("offset", pa.int64(), nullable=True),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
    ]
)


def to_arrow(table: AclTable) -> pa.RecordBatch:
    """Convert to rows of ACL_SCHEMA. Raises UnicodeEncodeError: a text has a lone surrogate."""
    columns: dict[str, pa.Array] = {
        "id": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(UUID_BYTES), len(table), [None, pa.py_buffer(table.ids)]
        ),
        "offset": number_array(table.offsets, null=UNKNOWN_OFFSET),
        "timestamp_ms": number_array(table.timestamps_ms),
    }
    for field, name in COLUMNS.items():
        column = getattr(table, name)
        columns[field] = number_array(column) if name in CODES else text_array(column)
    return pa.RecordBatch.from_arrays([columns[name] for name in ACL_SCHEMA.names], schema=ACL_SCHEMA)


def from_arrow(columns: Mapping[str, pa.ChunkedArray]) -> AclTable:
    """Convert columns of ACL_SCHEMA's types; texts may be dictionary-encoded.

    UnicodeDecodeError: a text is not UTF-8, for example in a damaged file.
    """
    table: dict[str, Any] = {
        name: number_column(columns[field]) if name in CODES else text_column(columns[field])
        for field, name in COLUMNS.items()
    }
    return AclTable(
        ids=b"".join([id_bytes(chunk) for chunk in columns["id"].chunks]),
        offsets=number_column(columns["offset"], null=UNKNOWN_OFFSET),
        timestamps_ms=number_column(columns["timestamp_ms"]),
        **table,
    )


def id_bytes(ids: pa.Array) -> memoryview:
    """The concatenated ids of an array of binary[16] without nulls."""
    start = ids.offset * UUID_BYTES
    return memoryview(ids.buffers()[1] or b"")[start : start + len(ids) * UUID_BYTES]


def text_column(column: pa.ChunkedArray) -> TextColumn:
    """The texts of a column of strings without nulls. Raises UnicodeDecodeError: one is not UTF-8."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    dictionaries: list[pa.StringArray] = []
    codes: list[list[npt.NDArray[np.int32]]] = []
    for chunk in column.chunks:
        # `dictionary_encode` makes one dictionary for all chunks.
        if not dictionaries or not chunk.dictionary.equals(dictionaries[-1]):
            dictionaries.append(chunk.dictionary)
            codes.append([])
        codes[-1].append(numbers(chunk.indices))
    parts = []
    for dictionary, codes_of in zip(dictionaries, codes, strict=True):
        _require_utf8(dictionary)
        parts.append(TextColumn(dictionary, np.concatenate(codes_of)))
    return TextColumn.concat(parts).without_unused()


def _require_utf8(array: pa.StringArray) -> None:
    """Arrow does not validate the texts of a file when it reads them."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        text_tuple(array)  # raises a better error
        raise


def text_array(column: TextColumn) -> pa.StringArray:
    """Convert to an Arrow array with one text per row. UnicodeEncodeError: one has a lone surrogate."""
    return column.strings.take(number_array(column.codes))
