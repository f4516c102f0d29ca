"""Positions of many values, and of the fields of the ACLs among them. Pure.

records.columns.layouts defines the formats. They read one field of all values at a time, and so support plain
values only: shortest encoding, texts below 1 MB. The general decoders (records.codecs) handle everything
else, valid or not, and report errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.ids import UUID_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]

#: Follows the data, so that reading a field beyond a value's end stays in bounds.
PADDING: Final = bytes(64)
_BYTE: Final = 0x80


class Values:
    """Slices of one byte string, in order.

    Attributes:
        data: the bytes and PADDING; ``bytes_``: the same as an array.
        size: without the padding.
        starts, ends: of each value.
        is_null: for each value; None: no value is null.
    """

    __slots__ = ("bytes_", "data", "ends", "is_null", "size", "starts")

    def __init__(self, data: bytes, starts: Ints, ends: Ints, is_null: Mask | None = None) -> None:
        self.data = data
        self.size = len(data) - len(PADDING)
        self.bytes_ = np.frombuffer(data, np.uint8)
        self.starts, self.ends = starts, ends
        self.is_null = is_null

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> Values:
        is_null: Mask | None = None
        parts: list[Any] = [*values]
        try:
            ends = np.cumsum(np.fromiter(map(len, parts), np.int64))
        except TypeError:  # a null, which is rare
            is_null = np.array([value is None for value in values], np.bool_)
            parts = [value or b"" for value in values]
            ends = np.cumsum(np.fromiter(map(len, parts), np.int64))
        sizes = np.diff(ends, prepend=0)
        return cls(b"".join([*parts, PADDING]), ends - sizes, ends, is_null)

    def __len__(self) -> int:
        return len(self.starts)

    def value(self, row: int) -> bytes | None:
        if self.is_null is not None and self.is_null[row]:
            return None
        return self.data[self.starts.item(row) : self.ends.item(row)]

    def windows(self, width: int, starts: Ints) -> Bytes:
        """A row of ``width`` bytes from each of these positions."""
        return np.lib.stride_tricks.sliding_window_view(self.bytes_, width)[starts]


@dataclass(frozen=True, slots=True)
class Fields:
    """The plain ACLs and removals among some values, with the positions of their fields.

    Attributes:
        acls: rows of ACLs, in order.
        acl_ids: positions of their ids.
        codes: resource types, pattern types, operations, permission types.
        bounds: of names, principals and hosts, as `texts` takes them.
        removals, removal_ids: rows of removals, and positions of their ids.
        unread: rows to be decoded one by one.
    """

    acls: Ints
    acl_ids: Ints
    codes: tuple[npt.NDArray[np.int8], ...]
    bounds: tuple[Ints, ...]
    removals: Ints
    removal_ids: Ints
    unread: Ints


@dataclass(frozen=True, slots=True)
class Layout:
    """The encoding of an ACL in a format; all formats have the same order of fields.

        header | id | type name | pattern principal | host | operation permission | ending

    Attributes:
        header_bytes: before the id.
        ending: bytes after the last field.
        is_doubled: as in Avro, where numbers are zigzag-encoded, and so doubled. In Kafka a text has its size
            plus one.
    """

    header_bytes: int
    ending: bytes
    is_doubled: bool

    def fields(self, values: Values, rows: Ints, is_acl: Mask, is_removal: Mask, is_known: Mask) -> Fields:
        """Find the fields of the ACLs and removals among the rows; unknown rows remain unread."""
        acls = np.flatnonzero(is_acl & is_known)
        bytes_, last = values.bytes_, values.size
        ids = values.starts[rows[acls]] + self.header_bytes
        types_at = np.minimum(ids + UUID_BYTES, last)
        name_starts, name_ends, is_wrong = self._text_bounds(values, types_at + 1)
        principal_starts, principal_ends, is_long = self._text_bounds(values, name_ends + 1)
        is_wrong |= is_long
        host_starts, host_ends, is_long = self._text_bounds(values, principal_ends)
        is_wrong |= is_long | (host_ends + 2 + len(self.ending) != values.ends[rows[acls]])
        for index, byte in enumerate(self.ending):
            is_wrong |= bytes_[host_ends + 2 + index] != byte
        codes = [bytes_[at] for at in (types_at, name_ends, host_ends, host_ends + 1)]
        is_wrong |= ((codes[0] | codes[1] | codes[2] | codes[3]) & (_BYTE | self.is_doubled)) != 0
        bounds = (name_starts, name_ends, principal_starts, principal_ends, host_starts, host_ends)
        is_other = ~is_known
        is_other[acls[is_wrong]] = True
        removals = rows[np.flatnonzero(is_removal & is_known)]
        return Fields(
            rows[acls[~is_wrong]],
            ids[~is_wrong],
            tuple((code[~is_wrong] >> self.is_doubled).astype(np.int8) for code in codes),
            tuple(positions[~is_wrong] for positions in bounds),
            removals,
            values.starts[removals] + self.header_bytes,
            rows[is_other],
        )

    def _text_bounds(self, values: Values, at: Ints) -> tuple[Ints, Ints, Mask]:
        """Starts and ends, within the data, of the texts with sizes at ``at``; and which are not plain."""
        last = values.size
        sizes, starts, is_wrong = varints(values.bytes_, np.minimum(at, last))
        if self.is_doubled:
            is_wrong |= sizes & 1 != 0
            lengths = sizes >> 1
        else:
            is_wrong |= sizes == 0  # null
            lengths = np.maximum(sizes - 1, 0)
        return starts, np.minimum(starts + lengths, last), is_wrong


def varints(bytes_: Bytes, at: Ints) -> tuple[Ints, Ints, Mask]:
    """Unsigned varints of at most three bytes: values, positions after them, and which ones are longer."""
    values = bytes_[at].astype(np.int64)
    has_more = values >= _BYTE
    if not has_more.any():
        return values, at + 1, has_more
    seconds = bytes_[at + 1].astype(np.int64)
    values += np.where(has_more, (seconds - 1) << 7, 0)
    has_third, is_wrong = has_more & (seconds >= _BYTE), has_more & (seconds == 0)
    if has_third.any():
        thirds = bytes_[at + 2].astype(np.int64)
        values += np.where(has_third, (thirds - 1) << 14, 0)
        is_wrong |= has_third & ((thirds >= _BYTE) | (thirds == 0))
    return values, at + 1 + has_more + has_third, is_wrong


def texts(data: bytes, bounds: Sequence[Ints]) -> list[Any]:
    """Arrow arrays of strings, one for every two of ``bounds``: starts and ends in ``data``.

    The bounds increase, from text to text within a row and from row to row. The data becomes one Arrow array,
    whose elements are the texts of each row and the bytes after each of them. Arrow takes every other
    element. pa.ArrowInvalid: one is not UTF-8.
    """
    return [column.cast(pa.string()) for column in pieces(data, bounds)]


def pieces(data: bytes, bounds: Sequence[Ints]) -> list[Any]:
    """As ``texts``, but arrays of bytes."""
    width, count = len(bounds), len(bounds[0])
    positions = np.empty(width * count + 1, np.int32)
    for index, column in enumerate(bounds):
        positions[index:-1:width] = column
    positions[-1] = bounds[-1][-1] if count else 0
    elements = pa.Array.from_buffers(
        pa.binary(), width * count, [None, pa.py_buffer(positions), pa.py_buffer(data)]
    )
    # pa.array() would load pandas if it is installed, which takes 0.2 s.
    firsts = np.arange(count, dtype=np.int32) * width
    rows = [pa.py_buffer(firsts + index) for index in range(0, width, 2)]
    return [elements.take(pa.Array.from_buffers(pa.int32(), count, [None, row])) for row in rows]
