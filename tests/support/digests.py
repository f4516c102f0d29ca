"""The digest of a set of ACLs by its definition."""

from __future__ import annotations

from collections.abc import Iterable

from records.entries import AccessControlEntryRecord
from snapshot.digest import DIGEST_MASK, acl_hash


def digest_of(records: Iterable[AccessControlEntryRecord]) -> int:
    """The sum of the hashes of all ACLs."""
    return sum(map(acl_hash, records)) & DIGEST_MASK
