"""Where the values of many records lie, and where the fields of the ACLs among them do. Pure.

How the fields of each format lie is said in `kraft` and `avro`; what both are made of is here. They look at
one field of all values at a time, and so cover plain values only: in the shortest encoding, texts below 1 MB.
All else, right or wrong, is for the general decoders (records.codecs), which say what is wrong and where.
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

#: Behind the data, so that looking for a field beyond a value's end finds something.
PADDING: Final = bytes(64)
_BYTE: Final = 0x80


class Values:
    """Pieces of one piece of bytes, in order.

    Attributes:
        data: the bytes, and PADDING; ``bytes_`` is the same.
        size: without the padding.
        starts, ends: of each value.
        is_null: of each value; None where none is.
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
        """One by one."""
        is_null: Mask | None = None
        there: list[Any] = [*values]
        try:
            ends = np.cumsum(np.fromiter(map(len, there), np.int64))
        except TypeError:  # a null; mostly there is none
            is_null = np.array([value is None for value in values], np.bool_)
            there = [value or b"" for value in values]
            ends = np.cumsum(np.fromiter(map(len, there), np.int64))
        sizes = np.diff(ends, prepend=0)
        return cls(b"".join([*there, PADDING]), ends - sizes, ends, is_null)

    @classmethod
    def of_arrow(cls, array: Any) -> Values:
        """An Arrow array of bytes."""
        count = len(array)
        _, offsets, content = array.buffers()
        bounds = np.frombuffer(offsets, np.int32, count + 1, array.offset * 4).astype(np.int64)
        content = b"" if content is None else memoryview(content)[bounds[0] : bounds[-1]]
        bounds -= bounds[0]
        is_null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        return cls(b"".join([content, PADDING]), bounds[:-1], bounds[1:], is_null)

    def __len__(self) -> int:
        return len(self.starts)

    def value(self, row: int) -> bytes | None:
        """One of them."""
        if self.is_null is not None and self.is_null[row]:
            return None
        return self.data[self.starts.item(row) : self.ends.item(row)]

    def windows(self, width: int, starts: Ints) -> Bytes:
        """A row of ``width`` bytes for each of these places."""
        return np.lib.stride_tricks.sliding_window_view(self.bytes_, width)[starts]


@dataclass(frozen=True, slots=True)
class Fields:
    """The plain ACLs and removals among some values, and where their fields are.

    Attributes:
        acls: which values, in order, are ACLs.
        acl_ids: where their ids are.
        codes: resource types, pattern types, operations, permission types.
        bounds: as `texts` takes them: of names, principals and hosts.
        removals, removal_ids: the same of removals.
        others: of the values looked at: which are neither, and have to be looked at one by one.
    """

    acls: Ints
    acl_ids: Ints
    codes: tuple[npt.NDArray[np.int8], ...]
    bounds: tuple[Ints, ...]
    removals: Ints
    removal_ids: Ints
    others: Ints


@dataclass(frozen=True, slots=True)
class Layout:
    """How a format writes an ACL; both that there are have the fields in the same order.

        header | id | type name | pattern principal | host | operation permission | ending

    Attributes:
        header_bytes: before the id.
        ending: what follows the last field.
        is_doubled: as in Avro, where numbers that are not negative are written doubled, and a text has its
            own size; in Kafka a text's size is one more.
    """

    header_bytes: int
    ending: bytes
    is_doubled: bool

    def fields(self, values: Values, rows: Ints, is_acl: Mask, is_removal: Mask, is_known: Mask) -> Fields:
        """The fields of the ACLs and removals among the rows; what is neither and not known is an other."""
        acls = np.flatnonzero(is_acl & is_known)
        bytes_, last = values.bytes_, values.size
        ids = values.starts[rows[acls]] + self.header_bytes
        types_at = np.minimum(ids + UUID_BYTES, last)
        name_starts, name_ends, is_wrong = self._text_bounds(values, types_at + 1)
        principal_starts, principal_ends, is_long = self._text_bounds(values, name_ends + 1)
        is_wrong |= is_long
        host_starts, host_ends, is_long = self._text_bounds(values, principal_ends)
        is_wrong |= is_long | (host_ends + 2 + len(self.ending) != values.ends[rows[acls]])
        for place, byte in enumerate(self.ending):
            is_wrong |= bytes_[host_ends + 2 + place] != byte
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
            tuple(places[~is_wrong] for places in bounds),
            removals,
            values.starts[removals] + self.header_bytes,
            rows[is_other],
        )

    def _text_bounds(self, values: Values, at: Ints) -> tuple[Ints, Ints, Mask]:
        """Where the texts begin and end whose sizes are there, within the data; and which are not plain."""
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
    """Unsigned varints of three bytes at most: values, places after them, and which ones are not such."""
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
    """An Arrow array of strings for every two of ``bounds``: where they start and where they end in ``data``.

    The bounds rise, from one text of a row to the next and from row to row. All of the data is one Arrow
    array whose elements are, for each row, its texts and what stands behind each of them; Arrow then takes
    every other one.

    Raises:
        pa.ArrowInvalid: one is not UTF-8.
    """
    return [column.cast(pa.string()) for column in pieces(data, bounds)]


def pieces(data: bytes, bounds: Sequence[Ints]) -> list[Any]:
    """As ``texts``, but bytes."""
    width, count = len(bounds), len(bounds[0])
    places = np.empty(width * count + 1, np.int32)
    for place, column in enumerate(bounds):
        places[place:-1:width] = column
    places[-1] = bounds[-1][-1] if count else 0
    elements = pa.Array.from_buffers(
        pa.binary(), width * count, [None, pa.py_buffer(places), pa.py_buffer(data)]
    )
    # Not pa.array(): of a numpy array it asks pandas, which takes 0.2 s to load where it is installed.
    firsts = np.arange(count, dtype=np.int32) * width
    rows = [pa.py_buffer(firsts + place) for place in range(0, width, 2)]
    return [elements.take(pa.Array.from_buffers(pa.int32(), count, [None, row])) for row in rows]
