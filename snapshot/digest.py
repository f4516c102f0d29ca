"""The digest of a set of ACLs: an order-free 128-bit sum of keyed hashes of (id, content) (I12).

A replica, a Spark snapshot and a stored manifest at one offset have the same one, whatever order the ACLs
came in. Adding and removing one ACL costs one hash, so the digest follows the fold.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from records.entries import AccessControlEntryRecord

DIGEST_BITS: Final = 128
_HEX_DIGITS: Final = frozenset("0123456789abcdef")
_MASK: Final = (1 << DIGEST_BITS) - 1
# The key separates these hashes from any other use of BLAKE2b; changing it changes every digest.
_HASHER: Final = blake2b(digest_size=DIGEST_BITS // 8, key=b"aclog acl digest v1")
# Codes as they are on the wire (int8), then the lengths, so that no two contents share an encoding.
_HEAD: Final = Struct(">16s4bIII")


def acl_hash(record: AccessControlEntryRecord) -> int:
    """The keyed hash of one ACL: its id and its content."""
    name = record.resource_name.encode("utf-8", "surrogatepass")
    principal = record.principal.encode("utf-8", "surrogatepass")
    host = record.host.encode("utf-8", "surrogatepass")
    hasher = _HASHER.copy()
    hasher.update(
        _HEAD.pack(
            record.id,
            record.resource_type,
            record.pattern_type,
            record.operation,
            record.permission_type,
            len(name),
            len(principal),
            len(host),
        )
        + name
        + principal
        + host
    )
    return int.from_bytes(hasher.digest(), "big")


def digest_add(digest: int, record: AccessControlEntryRecord) -> int:
    """The digest of the set with this ACL added."""
    return (digest + acl_hash(record)) & _MASK


def digest_remove(digest: int, record: AccessControlEntryRecord) -> int:
    """The digest of the set with this ACL removed."""
    return (digest - acl_hash(record)) & _MASK


def digest_of(records: Iterable[AccessControlEntryRecord]) -> int:
    """The digest of a whole set, computed anew."""
    return sum(map(acl_hash, records)) & _MASK


def digest_to_string(digest: int) -> str:
    """32 hexadecimal digits."""
    return f"{digest:032x}"


def digest_from_string(text: str) -> int:
    """Parse 32 lower-case hexadecimal digits; ValueError otherwise."""
    # int() alone would also take signs, blanks, `_` and `0x`.
    if len(text) != DIGEST_BITS // 4 or not _HEX_DIGITS.issuperset(text):
        raise ValueError(f"a digest has {DIGEST_BITS // 4} lower-case hexadecimal digits, got `{text}`")
    return int(text, 16)
