"""From Arrow's columns of texts to ours."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from snapshot.columns import TextColumn

if TYPE_CHECKING:
    import numpy.typing as npt


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
        places[-1].append(_indices(chunk.indices))
    return TextColumn.joined(
        [
            TextColumn(_texts(dictionary), np.concatenate(codes))
            for dictionary, codes in zip(dictionaries, places, strict=True)
        ]
    )


def _indices(array: pa.Int32Array) -> npt.NDArray[np.int32]:
    """Not ``to_numpy``: that asks pandas, which takes 0.2 s to load where it is installed."""
    buffer = array.buffers()[1]
    if not len(array) or buffer is None:
        return np.empty(0, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array)]


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
