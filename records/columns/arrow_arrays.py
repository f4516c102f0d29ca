"""Conversion between Arrow's arrays and numpy's arrays or Python's texts, by their buffers.

``to_numpy`` and ``pa.array`` would load pandas if it is installed, which takes 0.2 s and memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_DTYPES: Final = {pa.int8(): np.int8, pa.int32(): np.int32, pa.int64(): np.int64}
_TYPES: Final = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}


# --- texts -----------------------------------------------------------------------------------------------


def dictionary_encoded(rows: Sequence[pa.StringArray]) -> tuple[pa.StringArray, npt.NDArray[np.int32]]:
    """The distinct texts of arrays without nulls, and the index of each row's text."""
    column = pa.concat_arrays(rows).dictionary_encode()
    return column.dictionary, numbers(column.indices)


def string_array(texts: Sequence[str]) -> pa.StringArray:
    """Convert texts to an Arrow array. Raises UnicodeEncodeError: one has a lone surrogate."""
    encoded = [text.encode() for text in texts]
    bounds = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([*map(len, encoded)], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def text_tuple(array: pa.StringArray) -> tuple[str, ...]:
    """The texts of an array without nulls. UnicodeDecodeError: one is not UTF-8.

    Reads Arrow's buffers: ``to_pylist`` creates a scalar for every text and takes several times as long.
    """
    data, bounds = _blob(array)
    if data.isascii():
        text = data.decode("ascii")
        return tuple([text[begin:end] for begin, end in pairwise(bounds)])
    return tuple([data[begin:end].decode() for begin, end in pairwise(bounds)])


def utf8_list(array: pa.StringArray) -> list[bytes]:
    """The texts of an array without nulls, as UTF-8."""
    data, bounds = _blob(array)
    return [data[begin:end] for begin, end in pairwise(bounds)]


def _blob(array: pa.StringArray) -> tuple[bytes, list[int]]:
    """The bytes of all texts, and the bounds of each."""
    _, starts, blob = array.buffers()
    if not len(array):
        return b"", []
    begins = np.frombuffer(starts, np.int32)[array.offset : array.offset + len(array) + 1]
    data = b"" if blob is None else bytes(memoryview(blob)[begins[0] : begins[-1]])
    return data, (begins - begins[0]).tolist()


# --- numbers ---------------------------------------------------------------------------------------------


def number_column(column: pa.ChunkedArray, *, null: int | None = None) -> npt.NDArray[Any]:
    """The numbers of a column of integers, with ``null`` for its nulls."""
    chunks = [numbers(chunk, null) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, _DTYPES[column.type])


def numbers(array: pa.Array, null: int | None = None) -> npt.NDArray[Any]:
    """The numbers of an array of integers, with ``null`` for its nulls."""
    validity, values = array.buffers()
    if not len(array) or values is None:
        return np.empty(0, _DTYPES[array.type])
    rows = slice(array.offset, array.offset + len(array))
    numbers = np.frombuffer(values, _DTYPES[array.type])[rows]
    if null is None or validity is None:
        return numbers
    is_valid = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")[rows]
    return np.where(is_valid != 0, numbers, null)


def number_array(values: npt.NDArray[Any], *, null: int | None = None) -> pa.Array:
    """Convert numbers to an Arrow array; ``null`` becomes null."""
    values = np.ascontiguousarray(values)
    validity = None
    if null is not None:
        validity = pa.py_buffer(np.packbits(values != null, bitorder="little"))
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [validity, pa.py_buffer(values)])


# --- memory ----------------------------------------------------------------------------------------------


def release_memory() -> None:
    """Release unused memory, which Arrow's allocator would retain: 110 MB after a million records."""
    pa.default_memory_pool().release_unused()
