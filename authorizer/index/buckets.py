"""A bucket: the ACLs that were added at one place, whoever they are for (resource_index).

A tuple while it is small. A name that very many ACLs share (``*``, one busy topic) gets a CrowdedBucket,
ordered by principal and host, so that finding one asker's ACLs and replacing one ACL do not grow with the
crowd. Buckets never change; a changed ACL makes a new one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from authorizer.index.overlay import Table, with_entries
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.columns.acl_table import AppliedAcl

#: Above this many ACLs a bucket is a CrowdedBucket.
SMALL_MAXIMUM: Final = 64

_Acls = tuple["AppliedAcl", ...]


class CrowdedBucket:
    """The ACLs of one name by principal, then by host."""

    __slots__ = ("_by_principal",)

    def __init__(self, by_principal: Table[str, Table[str, _Acls]]) -> None:
        self._by_principal = by_principal

    @classmethod
    def of(cls, acls: Iterable[AppliedAcl]) -> CrowdedBucket:
        lists: defaultdict[str, defaultdict[str, list[AppliedAcl]]] = defaultdict(lambda: defaultdict(list))
        for acl in acls:
            lists[acl.record.principal][acl.record.host].append(acl)
        return cls(
            {
                principal: {host: tuple(here) for host, here in by_host.items()}
                for principal, by_host in lists.items()
            }
        )

    def __iter__(self) -> Iterator[AppliedAcl]:
        for hosts in self._by_principal.values():
            for acls in hosts.values():
                yield from acls

    def by_host(self, principal: str) -> Table[str, _Acls]:
        """The ACLs of one principal, by their host."""
        return self._by_principal.get(principal) or {}

    def with_acl(self, acl: AppliedAcl) -> CrowdedBucket:
        """With one more."""
        return self._replaced(acl, (*self._here(acl), acl))

    def without_acl(self, acl: AppliedAcl) -> CrowdedBucket | None:
        """Without one, by its id; None if nothing is left."""
        crowd = self._replaced(acl, _without(self._here(acl), acl))
        return crowd if any(True for _ in crowd) else None

    def _here(self, acl: AppliedAcl) -> _Acls:
        return self.by_host(acl.record.principal).get(acl.record.host) or ()

    def _replaced(self, acl: AppliedAcl, here: _Acls) -> CrowdedBucket:
        principal, host = acl.record.principal, acl.record.host
        by_host = with_entries(self.by_host(principal), {host: here or None})
        return CrowdedBucket(with_entries(self._by_principal, {principal: by_host if len(by_host) else None}))


Bucket = tuple["AppliedAcl", ...] | CrowdedBucket


def with_acl(bucket: Bucket | None, acl: AppliedAcl) -> Bucket:
    """With one more."""
    if bucket is None:
        return (acl,)
    if isinstance(bucket, CrowdedBucket):
        return bucket.with_acl(acl)
    more = (*bucket, acl)
    return CrowdedBucket.of(more) if len(more) > SMALL_MAXIMUM else more


def without_acl(bucket: Bucket | None, acl: AppliedAcl) -> Bucket | None:
    """Without one, by its id: an equal one may be here under another (I8). None if nothing is left."""
    if isinstance(bucket, CrowdedBucket):
        return bucket.without_acl(acl)
    return _without(bucket or (), acl) or None


def acls_of(bucket: Bucket, principal: str) -> Iterable[AppliedAcl]:
    """The ACLs of one principal."""
    if isinstance(bucket, CrowdedBucket):
        return (acl for acls in bucket.by_host(principal).values() for acl in acls)
    return [acl for acl in bucket if acl.record.principal == principal]


def acls_for(bucket: Bucket, principal: str, host: str) -> list[AppliedAcl]:
    """The ACLs of one principal that match a host."""
    hosts = (WILDCARD,) if host == WILDCARD else (host, WILDCARD)
    if isinstance(bucket, CrowdedBucket):
        mine = bucket.by_host(principal)
        return [acl for each in hosts for acl in mine.get(each) or ()]
    return [acl for acl in bucket if acl.record.principal == principal and acl.record.host in hosts]


def _without(acls: _Acls, acl: AppliedAcl) -> _Acls:
    return tuple(each for each in acls if each.record.id != acl.record.id)
