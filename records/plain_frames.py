"""Where the fields of many KRaft frames lie, by looking at one field of all of them at a time. Pure.

    ACL frame  01 12 00 | id | type name | pattern principal | host | operation permission | 00

A text is its size + 1, as a varint, and UTF-8. Plain frames are

- ACLs and removals in the shortest encoding, nothing tagged on, below 8 KB, codes from 0 to 127;
- records that pass by, known by their header alone.

All else, right or wrong, is for records.codecs.kraft. Source: AccessControlEntryRecord.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.codecs.kraft import FRAME_VERSION, RECORD_VERSION, UNDERSTOOD_API_KEYS
from records.entries import ACCESS_CONTROL_ENTRY_API_KEY, REMOVE_ACCESS_CONTROL_ENTRY_API_KEY
from records.ids import UUID_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    _Ints = npt.NDArray[np.int64]
    _Bytes = npt.NDArray[np.uint8]
    _Mask = npt.NDArray[np.bool_]

#: Behind the data, so that looking for a field beyond a frame's end finds something.
PADDING: Final = bytes(64)
#: Before the id of an ACL or a removal.
FRAME_HEADER_BYTES: Final = 3
_FRAME_BYTES_MIN: Final = 3
_REMOVE_FRAME_BYTES: Final = FRAME_HEADER_BYTES + UUID_BYTES + 1
_BYTE: Final = 0x80

_PASSES_BY: Final = np.zeros(256, np.bool_)
_PASSES_BY[:_BYTE] = True
_PASSES_BY[list(UNDERSTOOD_API_KEYS)] = False


class PlainFrames:
    """Where the fields of ACL frames lie.

    Attributes:
        is_removal, is_wrong: of all records walked.
        acls: indices of those that are ACLs; the rest has an element for each of these.
        name_starts, name_ends, principal_starts, ...: places in the data.
    """

    __slots__ = (
        "acls",
        "host_ends",
        "host_starts",
        "is_removal",
        "is_wrong",
        "name_ends",
        "name_starts",
        "principal_ends",
        "principal_starts",
    )

    def __init__(self, bytes_: _Bytes, last: int, starts: _Ints, ends: _Ints) -> None:
        """The frames at ``starts`` to ``ends``; ``bytes_`` has PADDING from ``last`` on."""
        api_keys, versions = bytes_[starts + 1], bytes_[starts + 2]
        is_version_0 = versions == RECORD_VERSION
        is_acl = is_version_0 & (api_keys == ACCESS_CONTROL_ENTRY_API_KEY)
        is_removal = is_version_0 & (api_keys == REMOVE_ACCESS_CONTROL_ENTRY_API_KEY)
        is_removal &= (ends - starts == _REMOVE_FRAME_BYTES) & (bytes_[ends - 1] == 0)
        is_known = is_acl | is_removal | (_PASSES_BY[api_keys] & (versions < _BYTE))
        self.is_removal = is_removal
        self.is_wrong = ~is_known | (bytes_[starts] != FRAME_VERSION) | (ends - starts < _FRAME_BYTES_MIN)
        self.acls = np.flatnonzero(is_acl)
        types = starts[self.acls] + FRAME_HEADER_BYTES + UUID_BYTES
        types = np.minimum(types, last)
        self.name_starts, self.name_ends, wrong = text_bounds(bytes_, types + 1, last)
        self.principal_starts, self.principal_ends, is_long = text_bounds(bytes_, self.name_ends + 1, last)
        wrong |= is_long
        self.host_starts, self.host_ends, is_long = text_bounds(bytes_, self.principal_ends, last)
        wrong |= is_long | (self.host_ends + 3 != ends[self.acls])
        codes = bytes_[types] | bytes_[self.name_ends] | bytes_[self.host_ends] | bytes_[self.host_ends + 1]
        wrong |= (codes >= _BYTE) | (bytes_[self.host_ends + 2] != 0)  # nothing tagged on
        self.is_wrong[self.acls[wrong]] = True

    def bounds(self) -> tuple[_Ints, ...]:
        """Of names, principals and hosts: starts, ends, starts, ..."""
        return (
            self.name_starts,
            self.name_ends,
            self.principal_starts,
            self.principal_ends,
            self.host_starts,
            self.host_ends,
        )


def texts(data: bytes, bounds: Sequence[_Ints]) -> list[Any]:
    """An Arrow array of strings for every two of ``bounds``: where they start and where they end in ``data``.

    The bounds rise, from one text of a row to the next and from row to row. All of the data is one Arrow
    array whose elements are, for each row, its texts and what stands behind each of them; Arrow then takes
    every other one.

    Raises:
        pa.ArrowInvalid: one is not UTF-8.
    """
    return [column.cast(pa.string()) for column in pieces(data, bounds)]


def pieces(data: bytes, bounds: Sequence[_Ints]) -> list[Any]:
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


def varints(bytes_: _Bytes, at: _Ints) -> tuple[_Ints, _Ints, _Mask]:
    """Unsigned varints of one or two bytes: values, places after them, and which ones are not short."""
    values = bytes_[at].astype(np.int64)
    has_more = values >= _BYTE
    if not has_more.any():
        return values, at + 1, has_more
    seconds = bytes_[at + 1].astype(np.int64)
    values += np.where(has_more, (seconds - 1) << 7, 0)
    return values, at + 1 + has_more, has_more & ((seconds >= _BYTE) | (seconds == 0))


def text_bounds(bytes_: _Bytes, at: _Ints, last: int) -> tuple[_Ints, _Ints, _Mask]:
    """Where the texts begin and end whose sizes are there, none beyond ``last``; and which are not plain."""
    sizes, starts, is_wrong = varints(bytes_, np.minimum(at, last))
    is_wrong |= sizes == 0  # null
    return starts, np.minimum(starts + np.maximum(sizes - 1, 0), last), is_wrong
