"""The digest of a set of ACLs: an order-free 128-bit sum of keyed hashes of (id, content) (I12).

A replica, a Spark snapshot and a stored manifest have the same digest at the same offset, whatever order the
ACLs came in. Adding or removing one ACL costs one hash, so the fold updates the digest incrementally.

Hashed is the frame that a broker writes for the ACL (records.codecs.kraft): a reader of a log already has it,
and its length fields make it unique for each content.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np

from records.codecs.kraft import FRAME_VERSION, RECORD_VERSION
from records.entries import ACCESS_CONTROL_ENTRY_API_KEY
from records.ids import UUID_BYTES
from records.varint import append_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

DIGEST_BITS: Final = 128
_HEX_DIGITS: Final = frozenset("0123456789abcdef")
DIGEST_MASK: Final = (1 << DIGEST_BITS) - 1
# The key separates these hashes from any other use of BLAKE2b; changing it changes every digest.
_HASHER: Final = blake2b(digest_size=DIGEST_BITS // 8, key=b"aclog acl digest v2")
_HASH_WORDS: Final = DIGEST_BITS // 32
_HEADER: Final = bytes((FRAME_VERSION, ACCESS_CONTROL_ENTRY_API_KEY, RECORD_VERSION))
_CODES: Final = {code: code.to_bytes(1, "big", signed=True) for code in range(-128, 128)}
_SIZES: Final = tuple(bytes((size + 1,)) for size in range(0x7F))


def acl_hash(record: AccessControlEntryRecord) -> int:
    """The keyed hash of one ACL: its id and its content.

    A text that no frame can hold (half a surrogate pair, say) is encoded by `surrogatepass`.
    """
    hasher = _HASHER.copy()
    hasher.update(
        b"".join(
            (
                _HEADER,
                record.id,
                _CODES[record.resource_type],
                _sized(record.resource_name.encode("utf-8", "surrogatepass")),
                _CODES[record.pattern_type],
                _sized(record.principal.encode("utf-8", "surrogatepass")),
                _sized(record.host.encode("utf-8", "surrogatepass")),
                _CODES[record.operation],
                _CODES[record.permission_type],
                b"\0",
            )
        )
    )
    return int.from_bytes(hasher.digest(), "big")


def _sized(text: bytes) -> bytes:
    """A text with its length, as in a frame."""
    if len(text) < len(_SIZES):
        return _SIZES[len(text)] + text
    out = bytearray()
    append_unsigned_varint(out, len(text) + 1)
    return bytes(out) + text


def frame_hashes(data: bytes, starts: Iterable[int], ends: Iterable[int]) -> bytes:
    """The hashes, 16 bytes each, of ACLs whose frames lie in ``data`` in their shortest encoding."""
    return _hashes(map(data.__getitem__, map(slice, starts, ends)))


def _hashes(frames: Iterable[bytes]) -> bytes:
    copy = _HASHER.copy
    hashes: list[bytes] = []
    append = hashes.append
    for frame in frames:
        hasher = copy()
        hasher.update(frame)
        append(hasher.digest())
    return b"".join(hashes)


def table_hashes(table: AclTable) -> bytes:
    """The hashes of all rows, 16 bytes each."""
    # As few pieces for each row as possible: joining them takes half of the time.
    count = len(table)
    heads = np.empty((count, len(_HEADER) + UUID_BYTES + 1), np.uint8)
    heads[:, : len(_HEADER)] = np.frombuffer(_HEADER, np.uint8)
    heads[:, len(_HEADER) : -1] = np.frombuffer(table.ids, np.uint8).reshape(count, UUID_BYTES)
    heads[:, -1] = table.resource_types
    tails = np.zeros((count, 3), np.uint8)
    tails[:, 0], tails[:, 1] = table.operations, table.permission_types
    names, principals, hosts = (
        map([*map(_sized, column.utf8())].__getitem__, column.codes.tolist())
        for column in (table.names, table.principals, table.hosts)
    )
    pattern_types = map(_CODES.__getitem__, table.pattern_types.tolist())
    rows = zip(_pieces(heads), names, pattern_types, principals, hosts, _pieces(tails), strict=True)
    return _hashes(map(b"".join, rows))


def _pieces(rows: npt.NDArray[np.uint8]) -> list[bytes]:
    pieces: list[bytes] = rows.view(f"V{rows.shape[1]}").ravel().tolist()
    return pieces


def hashes_sum(hashes: bytes) -> int:
    """The digest of the set of ACLs with these hashes."""
    words = np.frombuffer(hashes, ">u4").reshape(-1, _HASH_WORDS).sum(0, np.uint64).tolist()
    digest = 0
    for word in words:
        digest = (digest << 32) + word
    return digest & DIGEST_MASK


def table_digest(table: AclTable) -> int:
    """The digest of all rows of a table."""
    return hashes_sum(table_hashes(table))


def digest_to_string(digest: int) -> str:
    """32 hexadecimal digits."""
    return f"{digest:032x}"


def digest_from_string(text: str) -> int:
    """Parse 32 lower-case hexadecimal digits; ValueError otherwise."""
    # int() alone would also take signs, blanks, `_` and `0x`.
    if len(text) != DIGEST_BITS // 4 or not _HEX_DIGITS.issuperset(text):
        raise ValueError(f"a digest has {DIGEST_BITS // 4} lower-case hexadecimal digits, got `{text}`")
    return int(text, 16)
