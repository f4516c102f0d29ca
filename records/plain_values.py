"""Keys and values of many records or messages, from Arrow columns: the ACLs and removals among them. Pure.

What is covered: plain KRaft frames (records.plain_frames); Avro values of today's schemas whose texts are
below 8 KB and whose codes are from 0 to 63; null values, which are removals; keys as Kafka prints ids, as 16
bytes, or null. All else, right or wrong, is for records.log.topic.message.decode_message, row by row.

    Avro ACL   C3 01 fingerprint | id | type name | pattern principal | host | operation permission

Numbers are doubled, as varints; a text is its size and UTF-8. Source: Apache Avro specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.codecs.avro import ACL_HEADER, REMOVE_HEADER
from records.codecs.kraft import FRAME_VERSION
from records.ids import UUID_BYTES
from records.plain_frames import FRAME_HEADER_BYTES, PADDING, PlainFrames, texts, varints

if TYPE_CHECKING:
    import numpy.typing as npt

    _Ints = npt.NDArray[np.int64]
    _Bytes = npt.NDArray[np.uint8]
    _Mask = npt.NDArray[np.bool_]

_HEADER_BYTES: Final = len(ACL_HEADER)
_REMOVE_BYTES: Final = _HEADER_BYTES + UUID_BYTES
_BYTE: Final = 0x80

_KEY_CHARACTERS: Final = 22
_NO_DIGIT: Final = 0xFF
# The 6 bits that a character of URL-safe base64 stands for.
_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")] = np.arange(64)


class PlainValues:
    """What the rows of two columns say, if they are plain.

    Attributes:
        acls: rows that are ACLs, in order. The columns have an element for each of these:
        ids: 16 bytes each, in one piece.
        resource_types, pattern_types, operations, permission_types: codes.
        names, principals, hosts: Arrow arrays of strings.
        removals: rows that remove an ACL, in order; ``removal_ids``: of these.
        others: all rows that have to be looked at one by one. What is in none of the three passes by.
    """

    __slots__ = (
        "acls",
        "hosts",
        "ids",
        "names",
        "operations",
        "others",
        "pattern_types",
        "permission_types",
        "principals",
        "removal_ids",
        "removals",
        "resource_types",
    )

    def __init__(self, keys: Any, values: Any) -> None:
        """Two Arrow arrays of bytes, equally long."""
        column = _Column(values)
        is_other = np.zeros(len(values), np.bool_)
        acls, removals = _found(column, is_other)
        key_ids = _KeyIds(keys)
        key_ids.compare(acls.rows, column.ids_at(acls.id_starts), is_other)
        removal_ids = column.ids_at(removals.id_starts)
        key_ids.compare(removals.rows, removal_ids, is_other)
        acls = acls.where(~is_other[acls.rows])
        try:
            self.names, self.principals, self.hosts = texts(column.data, acls.bounds)
        except pa.ArrowInvalid:  # not UTF-8: which one, others find out
            is_other[acls.rows] = True
            acls = acls.where(np.zeros(len(acls.rows), np.bool_))
            self.names, self.principals, self.hosts = texts(column.data, acls.bounds)
        self.acls = acls.rows
        self.ids = column.ids_at(acls.id_starts).tobytes()
        self.resource_types, self.pattern_types, self.operations, self.permission_types = acls.codes
        nulls = np.flatnonzero(column.is_null)
        is_other[nulls[~key_ids.is_id[nulls]]] = True
        kept = ~is_other[removals.rows]
        rows = np.concatenate([removals.rows[kept], nulls[key_ids.is_id[nulls]]])
        ids = np.concatenate([removal_ids[kept], key_ids.ids[rows[kept.sum() :]]])
        order = np.argsort(rows)
        self.removals, self.removal_ids = rows[order], ids[order].tobytes()
        self.others = np.flatnonzero(is_other)


class _Column:
    """The bytes of an Arrow array, padded, and where each element's are."""

    __slots__ = ("bytes_", "data", "ends", "is_null", "size", "starts")

    def __init__(self, array: Any) -> None:
        count = len(array)
        _, offsets, content = array.buffers()
        bounds = np.frombuffer(offsets, np.int32, count + 1, array.offset * 4).astype(np.int64)
        content = b"" if content is None else memoryview(content)[bounds[0] : bounds[-1]]
        self.data = b"".join([content, PADDING])
        self.size = len(self.data) - len(PADDING)
        self.bytes_ = np.frombuffer(self.data, np.uint8)
        bounds -= bounds[0]
        self.starts, self.ends = bounds[:-1], bounds[1:]
        self.is_null: _Mask = array.is_null().to_numpy(zero_copy_only=False)

    def ids_at(self, starts: _Ints) -> _Bytes:
        """A row of 16 bytes for each of these places."""
        return self.windows(UUID_BYTES, starts)

    def windows(self, width: int, starts: _Ints) -> _Bytes:
        """A row of so many bytes for each of these places."""
        return np.lib.stride_tricks.sliding_window_view(self.bytes_, width)[starts]


@dataclass(frozen=True, slots=True)
class _Removals:
    """Which rows, and where their ids are."""

    rows: _Ints
    id_starts: _Ints


@dataclass(frozen=True, slots=True)
class _Acls:
    """Which rows, in order, and what they hold or where.

    Attributes:
        codes: resource types, pattern types, operations, permission types.
        bounds: as records.plain_frames.texts takes them.
    """

    rows: _Ints
    id_starts: _Ints
    codes: tuple[npt.NDArray[np.int8], ...]
    bounds: tuple[_Ints, ...]

    def where(self, chosen: Any) -> _Acls:
        """A part of them, by mask or in another order."""
        return _Acls(
            self.rows[chosen],
            self.id_starts[chosen],
            tuple(column[chosen] for column in self.codes),
            tuple(column[chosen] for column in self.bounds),
        )


def _found(column: _Column, is_other: _Mask) -> tuple[_Acls, _Removals]:
    """All plain ACLs and removals; sets ``is_other`` for what is not plain."""
    has_value = (column.ends > column.starts) & ~column.is_null
    firsts = column.bytes_[column.starts]
    is_frame = has_value & (firsts == FRAME_VERSION)
    is_avro = has_value & (firsts == ACL_HEADER[0])
    is_other |= ~(is_frame | is_avro | column.is_null)
    if not is_avro.any():
        return _in_frames(column, np.flatnonzero(is_frame), is_other)
    if not is_frame.any():
        return _in_avro(column, np.flatnonzero(is_avro), is_other)
    acls, removals = _in_frames(column, np.flatnonzero(is_frame), is_other)
    more_acls, more_removals = _in_avro(column, np.flatnonzero(is_avro), is_other)
    acls = _Acls(
        np.concatenate([acls.rows, more_acls.rows]),
        np.concatenate([acls.id_starts, more_acls.id_starts]),
        tuple(map(np.concatenate, zip(acls.codes, more_acls.codes, strict=True))),
        tuple(map(np.concatenate, zip(acls.bounds, more_acls.bounds, strict=True))),
    )
    return acls.where(np.argsort(acls.rows)), _Removals(
        np.concatenate([removals.rows, more_removals.rows]),
        np.concatenate([removals.id_starts, more_removals.id_starts]),
    )


def _in_frames(column: _Column, rows: _Ints, is_other: _Mask) -> tuple[_Acls, _Removals]:
    bytes_, starts = column.bytes_, column.starts[rows]
    frames = PlainFrames(bytes_, column.size, starts, column.ends[rows])
    is_other[rows[frames.is_wrong]] = True
    id_starts = starts + FRAME_HEADER_BYTES
    types_at = np.minimum(id_starts[frames.acls] + UUID_BYTES, column.size)
    codes = [bytes_[at] for at in (types_at, frames.name_ends, frames.host_ends, frames.host_ends + 1)]
    acls = _Acls(
        rows[frames.acls],
        id_starts[frames.acls],
        tuple(code.astype(np.int8) for code in codes),
        frames.bounds(),
    )
    removals = np.flatnonzero(frames.is_removal & ~frames.is_wrong)
    return acls.where(~frames.is_wrong[frames.acls]), _Removals(rows[removals], id_starts[removals])


def _in_avro(column: _Column, rows: _Ints, is_other: _Mask) -> tuple[_Acls, _Removals]:
    bytes_, last = column.bytes_, column.size
    starts, ends = column.starts[rows], column.ends[rows]
    headers = column.windows(_HEADER_BYTES, starts)
    is_acl = (headers == np.frombuffer(ACL_HEADER, np.uint8)).all(axis=1)
    is_removal = (headers == np.frombuffer(REMOVE_HEADER, np.uint8)).all(axis=1)
    is_removal &= ends - starts == _REMOVE_BYTES
    is_other[rows[~(is_acl | is_removal)]] = True
    id_starts = starts + _HEADER_BYTES
    types_at = np.minimum(id_starts[is_acl] + UUID_BYTES, last)
    name_starts, name_ends, is_wrong = _text_bounds(bytes_, types_at + 1, last)
    principal_starts, principal_ends, is_long = _text_bounds(bytes_, name_ends + 1, last)
    is_wrong |= is_long
    host_starts, host_ends, is_long = _text_bounds(bytes_, principal_ends, last)
    is_wrong |= is_long | (host_ends + 2 != ends[is_acl])
    codes = [bytes_[at] for at in (types_at, name_ends, host_ends, host_ends + 1)]
    is_wrong |= ((codes[0] | codes[1] | codes[2] | codes[3]) & (_BYTE | 1)) != 0
    acls = _Acls(
        rows[is_acl],
        id_starts[is_acl],
        tuple((code >> 1).astype(np.int8) for code in codes),
        (name_starts, name_ends, principal_starts, principal_ends, host_starts, host_ends),
    )
    is_other[acls.rows[is_wrong]] = True
    return acls.where(~is_wrong), _Removals(rows[is_removal], id_starts[is_removal])


def _text_bounds(bytes_: _Bytes, at: _Ints, last: int) -> tuple[_Ints, _Ints, _Mask]:
    """As records.plain_frames.text_bounds, of Avro's texts."""
    sizes, starts, is_wrong = varints(bytes_, np.minimum(at, last))
    is_wrong |= sizes & 1 != 0
    return starts, np.minimum(starts + (sizes >> 1), last), is_wrong


class _KeyIds:
    """The ids that keys say.

    Attributes:
        is_id: which keys are ids; ``ids``: 16 bytes in a row for each key.
    """

    __slots__ = ("_is_null", "ids", "is_id")

    def __init__(self, keys: Any) -> None:
        count = len(keys)
        self.ids = np.zeros((count, UUID_BYTES), np.uint8)
        self.is_id = np.zeros(count, np.bool_)
        self._is_null: _Mask = np.ones(count, np.bool_)
        if keys.null_count == count:
            return
        column = _Column(keys)
        self._is_null = column.is_null
        sizes = np.where(column.is_null, 0, column.ends - column.starts)
        as_bytes = np.flatnonzero(sizes == UUID_BYTES)
        self.ids[as_bytes] = column.ids_at(column.starts[as_bytes])
        self.is_id[as_bytes] = True
        as_text = np.flatnonzero(sizes == _KEY_CHARACTERS)
        digits = np.zeros((len(as_text), _KEY_CHARACTERS + 2), np.uint8)
        digits[:, :_KEY_CHARACTERS] = _DIGITS[column.windows(_KEY_CHARACTERS, column.starts[as_text])]
        self.is_id[as_text] = (digits != _NO_DIGIT).all(axis=1)
        first, second, third, fourth = digits.reshape(-1, 6, 4).transpose(2, 0, 1)
        triples = np.stack([first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth], axis=2)
        self.ids[as_text] = triples.reshape(len(as_text), 18)[:, :UUID_BYTES]

    def compare(self, rows: _Ints, ids: _Bytes, is_other: _Mask) -> None:
        """Sets ``is_other`` for the rows that have a key, but not of the id that their value says."""
        has_key = ~self._is_null[rows]
        if has_key.any():
            differs = ~self.is_id[rows] | (self.ids[rows] != ids).any(axis=1)
            is_other[rows[has_key & differs]] = True
