"""Arrow's arrays of numbers and texts as numpy's and Python's, and back, by their buffers.

Not by ``to_numpy`` and ``pa.array``: these load pandas where it is installed, which takes 0.2 s and memory.
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
    """The distinct texts of arrays without nulls, and for each row the index of its text among them."""
    column = pa.concat_arrays(rows).dictionary_encode()
    return column.dictionary, numbers(column.indices)


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
    chunks = [numbers(chunk, null) for chunk in column.chunks]
    return np.concatenate(chunks) if chunks else np.empty(0, _DTYPES[column.type])


def numbers(array: pa.Array, null: int | None = None) -> npt.NDArray[Any]:
    """The numbers of an array of integers; ``null`` in place of its nulls."""
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


# --- memory ----------------------------------------------------------------------------------------------


def release_memory() -> None:
    """Give back what decoding took: Arrow's allocator keeps it otherwise, 110 MB after a million records."""
    pa.default_memory_pool().release_unused()
