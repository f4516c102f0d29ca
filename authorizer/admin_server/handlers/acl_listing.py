"""Encodes the answer to DescribeAcls from columns, in parts, so that a large listing is never in memory.

The bytes are those of ``values_encoder``, which needs a mapping for each ACL, and all in memory.
Source: DescribeAclsResponse.json; DescribeAclsResponse.aclsResources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from authorizer.admin_server.api import StreamedAnswer
from authorizer.admin_server.values_encoder import Sizes
from authorizer.api.errors import UnknownServerError
from authorizer.engine.index.pattern_keys import known_codes
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from authorizer.engine.decisions.listing import Listing
    from records.columns.text_column import TextColumn

    _Ints = npt.NDArray[np.int64]

#: From this version on texts and arrays have sizes of variable length, and entities have tagged fields.
_FLEXIBLE: Final = 2
#: Average size of a part.
_PART_BYTES: Final = 256 * 1024
_LEGACY_TEXT_MAX: Final = 2**15 - 1


def encode_listing(listing: Listing, version: int, throttle_ms: int = 0) -> StreamedAnswer:
    """Encode the fields of the response after its header.

    Raises:
        UnknownServerError: a text is too long for this version, as on a broker.
    """
    return _Encoder(listing, is_flexible=version >= _FLEXIBLE).answer(throttle_ms)


class _Encoder:
    def __init__(self, listing: Listing, *, is_flexible: bool) -> None:
        columns, rows = listing.distinct_rows()
        self._is_flexible = is_flexible
        self._sizes = Sizes.of(is_flexible=is_flexible)
        self._end = b"\0" if is_flexible else b""
        self._names, self._principals, self._hosts = columns.names, columns.principals, columns.hosts
        self._rows = rows
        self._columns = columns
        # A resource begins where the pattern differs from that of the row before.
        types, patterns = (
            self._codes("resource_types", ResourceType),
            self._codes("pattern_types", PatternType),
        )
        names = columns.names.codes[rows]
        differs = (np.diff(types) != 0) | (np.diff(patterns) != 0) | (np.diff(names) != 0)
        first, last = np.array([0] if len(rows) else [], np.int32), np.array([len(rows)], np.int32)
        #: Positions of the first row of each resource, and the end.
        self._starts = np.concatenate([first, np.flatnonzero(differs).astype(np.int32) + 1, last])

    def answer(self, throttle_ms: int) -> StreamedAnswer:
        # No error, an empty message.
        head = (
            throttle_ms.to_bytes(4, "big")
            + bytes(2)
            + (b"\1" if self._is_flexible else b"\0\0")
            + self._sizes.array(len(self._starts) - 1)
        )
        rows, firsts, flags = self._rows, self._rows[self._starts[:-1]], len(self._end)
        size = (
            len(head)
            + self._text_bytes(self._principals, rows)
            + self._text_bytes(self._hosts, rows)
            + self._text_bytes(self._names, firsts)
            + (2 + flags) * (len(rows) + len(firsts))
            + (int(_varint_sizes(np.diff(self._starts) + 1).sum()) if self._is_flexible else 4 * len(firsts))
            + flags
        )
        memory = rows.nbytes + self._starts.nbytes + min(size, _PART_BYTES)
        return StreamedAnswer(size, memory, self._parts(head, max(_PART_BYTES * len(rows) // size, 1)))

    def _parts(self, head: bytes, count: int) -> Iterator[bytes]:
        part = [head]
        ends = b"\0" if self._is_flexible and len(self._rows) else b""
        for begin in range(0, len(self._rows), count):
            entries = self._entries(begin, begin + count)
            for start, resource in self._resources(begin, begin + count):
                entries[start - begin] = b"".join(
                    (self._end if start else b"", resource, entries[start - begin])
                )
            part += entries
            yield b"".join(part)
            part = []
        yield b"".join((*part, ends, self._end))

    def _entries(self, begin: int, end: int) -> list[bytes]:
        rows = self._rows[begin:end]
        return [
            b"".join((principal, host, code))
            for principal, host, code in zip(
                self._texts(self._principals, rows),
                self._texts(self._hosts, rows),
                self._pairs("operations", AclOperation, "permission_types", AclPermissionType, rows),
                strict=True,
            )
        ]

    def _resources(self, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        """What comes before the first entry of each resource that begins in a part."""
        low, high = np.searchsorted(self._starts, (begin, end))
        high = min(high, len(self._starts) - 1)
        starts, counts = self._starts[low:high], np.diff(self._starts[low : high + 1])
        rows = self._rows[starts]
        columns = self._columns
        types = known_codes(columns.resource_types[rows], ResourceType).tobytes()
        patterns = known_codes(columns.pattern_types[rows], PatternType).tobytes()
        names = self._texts(self._names, rows)
        for at, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
            yield (
                start,
                b"".join((types[at : at + 1], names[at], patterns[at : at + 1], self._sizes.array(count))),
            )

    def _codes(self, column: str, named: Any) -> npt.NDArray[np.int8]:
        return known_codes(getattr(self._columns, column)[self._rows], named)

    def _pairs(
        self, first: str, first_named: Any, second: str, second_named: Any, rows: npt.NDArray[np.int32]
    ) -> list[bytes]:
        """Two codes of each row, with the end of the entity."""
        pair = np.empty((len(rows), 2), np.int8)
        pair[:, 0] = known_codes(getattr(self._columns, first)[rows], first_named)
        pair[:, 1] = known_codes(getattr(self._columns, second)[rows], second_named)
        encoded, end = pair.tobytes(), self._end
        return [encoded[at : at + 2] + end for at in range(0, len(encoded), 2)]

    def _texts(self, column: TextColumn, rows: npt.NDArray[np.int32]) -> list[bytes]:
        texts, codes = column.texts, column.codes[rows].tolist()
        encoded = {}
        for code in set(codes):
            text = _utf8(texts[code])
            encoded[code] = self._sizes.text(len(text)) + text
        return list(map(encoded.__getitem__, codes))

    def _text_bytes(self, column: TextColumn, rows: npt.NDArray[np.int32]) -> int:
        distinct, counts = np.unique(column.codes[rows], return_counts=True)
        texts = column.texts
        sizes = np.fromiter((len(_utf8(texts[code])) for code in distinct.tolist()), np.int64, len(distinct))
        if self._is_flexible:
            return int(((sizes + _varint_sizes(sizes + 1)) * counts).sum())
        if len(sizes) and sizes.max() > _LEGACY_TEXT_MAX:
            raise UnknownServerError(
                f"An ACL has a text of {sizes.max()} bytes, too long for this version of DescribeAcls."
            )
        return int(((sizes + 2) * counts).sum())


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _varint_sizes(values: _Ints) -> _Ints:
    """Bytes of each number as a varint."""
    sizes = np.ones(len(values), np.int64)
    for bits in (7, 14, 21, 28):
        sizes += values >= 1 << bits
    return sizes
