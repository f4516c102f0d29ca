"""Between Arrow's columns and an AclTable, and what Arrow does for columns of texts.

By their buffers, and not by ``to_numpy`` and ``pa.array``: these load pandas where it is installed, which
takes 0.2 s and memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.columns.acl_table import CODES, COLUMNS, TEXTS, UNKNOWN_OFFSET, AclTable
from records.columns.text_column import TextColumn
from records.ids import UUID_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

_DTYPES: Final = {pa.int8(): np.int8, pa.int32(): np.int32, pa.int64(): np.int64}
_TYPES: Final = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}

#: An AclTable's columns, as Parquet files and Spark's rows have them; offsets that are not known are null.
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
    """Rows of ACL_SCHEMA.

    Raises:
        UnicodeEncodeError: a text has a lone surrogate.
    """
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
    """The table of columns of ACL_SCHEMA's types; texts may be encoded as dictionaries.

    Raises:
        UnicodeDecodeError: a text is not UTF-8, as a damaged file may have it.
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
    """The ids of an array of binary[16] without nulls, one behind the other."""
    start = ids.offset * UUID_BYTES
    return memoryview(ids.buffers()[1] or b"")[start : start + len(ids) * UUID_BYTES]


def release_memory() -> None:
    """Give back what decoding took: Arrow's allocator keeps it otherwise, 110 MB after a million records."""
    pa.default_memory_pool().release_unused()


# --- texts -----------------------------------------------------------------------------------------------


def text_column(column: pa.ChunkedArray) -> TextColumn:
    """The texts of a column of strings without nulls.

    Raises:
        UnicodeDecodeError: one is not UTF-8.
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    dictionaries: list[pa.StringArray] = []
    codes: list[list[npt.NDArray[np.int32]]] = []
    for chunk in column.chunks:
        # What Arrow encoded itself has one dictionary for all chunks.
        if not dictionaries or not chunk.dictionary.equals(dictionaries[-1]):
            dictionaries.append(chunk.dictionary)
            codes.append([])
        codes[-1].append(_numbers(chunk.indices))
    parts = []
    for dictionary, codes_of in zip(dictionaries, codes, strict=True):
        _require_utf8(dictionary)
        parts.append(TextColumn(dictionary, np.concatenate(codes_of)))
    return TextColumn.joined(parts).without_unused()


def _require_utf8(array: pa.StringArray) -> None:
    """What is in a file may be anything, and Arrow does not look at it when it reads it."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        text_tuple(array)  # says what is wrong, and where
        raise


def encoded(rows: Sequence[pa.StringArray]) -> TextColumn:
    """From one text for each row, without nulls."""
    column = pa.concat_arrays(rows).dictionary_encode()
    return TextColumn(column.dictionary, _numbers(column.indices))


def text_array(column: TextColumn) -> pa.StringArray:
    """Texts for Arrow, one for each row.

    Raises:
        UnicodeEncodeError: one has a lone surrogate.
    """
    return column.strings.take(number_array(column.codes))


def string_array(texts: Sequence[str]) -> pa.StringArray:
    """The texts for Arrow.

    Raises:
        UnicodeEncodeError: one has a lone surrogate.
    """
    texts_of = [text.encode() for text in texts]
    bounds = np.zeros(len(texts_of) + 1, np.int32)
    np.cumsum([*map(len, texts_of)], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(texts_of))]
    return pa.Array.from_buffers(pa.string(), len(texts_of), buffers)


def text_tuple(array: pa.StringArray) -> tuple[str, ...]:
    """The texts of an array without nulls: Arrow has one blob of UTF-8 and the places where texts begin.

    ``to_pylist`` makes a scalar of every text first and takes several times as long.

    Raises:
        UnicodeDecodeError: one is not UTF-8.
    """
    data, bounds = _blob(array)
    if data.isascii():
        text = data.decode("ascii")
        return tuple([text[begin:end] for begin, end in pairwise(bounds)])
    return tuple([data[begin:end].decode() for begin, end in pairwise(bounds)])


def utf8_list(array: pa.StringArray) -> list[bytes]:
    """The same as bytes."""
    data, bounds = _blob(array)
    return [data[begin:end] for begin, end in pairwise(bounds)]


def _blob(array: pa.StringArray) -> tuple[bytes, list[int]]:
    """The bytes of all texts, and where each begins, and the end."""
    _, places, blob = array.buffers()
    if not len(array):
        return b"", []
    begins = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1]
    data = b"" if blob is None else bytes(memoryview(blob)[begins[0] : begins[-1]])
    return data, (begins - begins[0]).tolist()


# --- numbers ---------------------------------------------------------------------------------------------


def number_column(column: pa.ChunkedArray, *, null: int | None = None) -> npt.NDArray[Any]:
    """The numbers of a column of integers; with ``null`` where it has none."""
    chunks = [_numbers(chunk, null) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, _DTYPES[column.type])


def _numbers(array: pa.Array, null: int | None = None) -> npt.NDArray[Any]:
    validity, values = array.buffers()
    if not len(array) or values is None:
        return np.empty(0, _DTYPES[array.type])
    rows = slice(array.offset, array.offset + len(array))
    numbers = np.frombuffer(values, _DTYPES[array.type])[rows]
    if null is None or validity is None:
        return numbers
    is_there = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[rows]
    return np.where(is_there != 0, numbers, null)


def number_array(values: npt.NDArray[Any], *, null: int | None = None) -> pa.Array:
    """Numbers for Arrow; those that are ``null`` are null there."""
    values = np.ascontiguousarray(values)
    validity = None
    if null is not None:
        validity = pa.py_buffer(np.packbits(values != null, bitorder="little"))
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [validity, pa.py_buffer(values)])
