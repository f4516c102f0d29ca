"""A bucket: every ACL of one resource type and name, literal or prefixed, whoever it is for.

A tuple while it is small. A name that very many ACLs share (``*``, one busy topic) gets a CrowdedBucket,
ordered by principal and host, so that finding one asker's ACLs and replacing one ACL do not grow with the
crowd. Buckets never change; a changed ACL makes a new one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from authorizer.overlay import Table, with_entries
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from snapshot.image import AppliedAcl

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

    def replacing(self, before: AppliedAcl | None, after: AppliedAcl | None) -> CrowdedBucket | None:
        """Without the one and with the other; None if nothing is left."""
        by_principal = self._by_principal
        for old, new in ((before, None), (None, after)):
            acl = old or new
            if acl is not None:
                principal, host = acl.record.principal, acl.record.host
                by_host = by_principal.get(principal) or {}
                here = _replacing(by_host.get(host) or (), old, new)
                by_host = with_entries(by_host, {host: here or None})
                by_principal = with_entries(by_principal, {principal: by_host if len(by_host) else None})
        return CrowdedBucket(by_principal) if len(by_principal) else None


Bucket = tuple["AppliedAcl", ...] | CrowdedBucket


def replacing(bucket: Bucket | None, before: AppliedAcl | None, after: AppliedAcl | None) -> Bucket | None:
    """The bucket without ``before`` and with ``after`` (of the same name); None if nothing is left."""
    if isinstance(bucket, CrowdedBucket):
        return bucket.replacing(before, after)
    changed = _replacing(bucket or (), before, after)
    return CrowdedBucket.of(changed) if len(changed) > SMALL_MAXIMUM else changed or None


def by_host(bucket: Bucket | None, principal: str) -> Table[str, _Acls]:
    """The ACLs of one principal, by their host."""
    if isinstance(bucket, CrowdedBucket):
        return bucket.by_host(principal)
    hosts: dict[str, _Acls] = {}
    for acl in bucket or ():
        if acl.record.principal == principal:
            host = acl.record.host
            hosts[host] = (*hosts.get(host, ()), acl)
    return hosts


def acls_for(bucket: Bucket, principal: str, host: str) -> list[AppliedAcl]:
    """The ACLs of one principal that match a host."""
    hosts = (WILDCARD,) if host == WILDCARD else (host, WILDCARD)
    if isinstance(bucket, CrowdedBucket):
        mine = bucket.by_host(principal)
        return [acl for each in hosts for acl in mine.get(each) or ()]
    return [acl for acl in bucket if acl.record.principal == principal and acl.record.host in hosts]


def _replacing(acls: _Acls, before: AppliedAcl | None, after: AppliedAcl | None) -> _Acls:
    if before is not None:
        # By id: an equal ACL may be here under another one (I8).
        acls = tuple(acl for acl in acls if acl.record.id != before.record.id)
    return acls if after is None else (*acls, after)
