"""Between Arrow's columns and ours.

By their buffers, and not by ``to_numpy`` and ``pa.array``: these load pandas where it is installed, which
takes 0.2 s and memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapshot.text_column import TextColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_DTYPES: Final = {pa.int8(): np.int8, pa.int32(): np.int32, pa.int64(): np.int64}
_TYPES: Final = {np.dtype(dtype): kind for kind, dtype in _DTYPES.items()}


def text_column(column: pa.ChunkedArray) -> TextColumn:
    """The texts of a column of dictionary-encoded strings without nulls.

    Raises:
        UnicodeDecodeError: one is not UTF-8, as a damaged file may have it.
    """
    dictionaries: list[pa.StringArray] = []
    places: list[list[npt.NDArray[np.int32]]] = []
    for chunk in column.chunks:
        # What Arrow encoded itself has one dictionary for all chunks.
        if not dictionaries or not chunk.dictionary.equals(dictionaries[-1]):
            dictionaries.append(chunk.dictionary)
            places.append([])
        places[-1].append(_numbers(chunk.indices))
    return TextColumn.joined(
        [
            TextColumn(_texts(dictionary), np.concatenate(codes))
            for dictionary, codes in zip(dictionaries, places, strict=True)
        ]
    ).without_unused()


class EncodedTexts:
    """A column of texts as Arrow encodes it: what a TextColumn is made of, once all parts are there.

    Attributes:
        texts: distinct; not all of them need have a row.
        codes: for each row the place of its text.
    """

    __slots__ = ("codes", "texts")

    def __init__(self, texts: pa.StringArray, codes: npt.NDArray[np.int32]) -> None:
        self.texts = texts
        self.codes = codes

    @classmethod
    def of(cls, rows: pa.ChunkedArray) -> EncodedTexts:
        """From one text for each row, without nulls; there is one chunk at least."""
        chunks = rows.dictionary_encode().chunks
        # All of them have one dictionary.
        return cls(chunks[0].dictionary, np.concatenate([_numbers(chunk.indices) for chunk in chunks]))

    @classmethod
    def of_column(cls, column: TextColumn) -> EncodedTexts:
        """The same texts."""
        return cls(_string_array(column.texts), column.codes)

    def taken(self, rows: npt.NDArray[np.bool_]) -> EncodedTexts:
        """Some of the rows."""
        return EncodedTexts(self.texts, self.codes[rows])

    @classmethod
    def merged(cls, parts: Sequence[EncodedTexts]) -> EncodedTexts:
        """The rows of all parts, in order, and no text that none of them has; there is one part at least."""
        return cls.of(pa.chunked_array([part.texts.take(number_array(part.codes)) for part in parts]))

    @staticmethod
    def joined(parts: Sequence[EncodedTexts]) -> TextColumn:
        """The rows of all parts, in order; there is one part at least."""
        chunks = [pa.DictionaryArray.from_arrays(number_array(part.codes), part.texts) for part in parts]
        unified = pa.chunked_array(chunks).unify_dictionaries().chunks
        codes = np.concatenate([_numbers(chunk.indices) for chunk in unified])
        return TextColumn(_texts(unified[0].dictionary), codes).without_unused()


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


def text_array(column: TextColumn) -> pa.StringArray:
    """Texts for Arrow, one for each row.

    Raises:
        UnicodeEncodeError: one has a lone surrogate.
    """
    return pc.take(_string_array(column.texts), number_array(column.codes))


def _string_array(texts: list[str]) -> pa.StringArray:
    encoded = [text.encode() for text in texts]
    bounds = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([*map(len, encoded)], out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def number_array(values: npt.NDArray[Any], *, null: int | None = None) -> pa.Array:
    """Numbers for Arrow; those that are ``null`` are null there."""
    values = np.ascontiguousarray(values)
    validity = None
    if null is not None:
        validity = pa.py_buffer(np.packbits(values != null, bitorder="little"))
    kind = _TYPES[values.dtype]
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values)])


def _texts(array: pa.StringArray) -> list[str]:
    """The texts of an array without nulls: Arrow has one blob of UTF-8 and the places where texts begin.

    ``to_pylist`` makes a scalar of every text first and takes several times as long.
    """
    _, places, blob = array.buffers()
    if not len(array) or blob is None:
        return [""] * len(array)
    data = blob.to_pybytes()
    begins = np.frombuffer(places, np.int32)[array.offset : array.offset + len(array) + 1].tolist()
    if data.isascii():
        text = data.decode("ascii")
        return [text[begin:end] for begin, end in pairwise(begins)]
    return [data[begin:end].decode() for begin, end in pairwise(begins)]
