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

    __slots__ = ("_by_principal", "_count")

    def __init__(self, by_principal: Table[str, Table[str, _Acls]], count: int) -> None:
        self._by_principal = by_principal
        self._count = count

    @classmethod
    def of(cls, acls: Iterable[AppliedAcl]) -> CrowdedBucket:
        lists: defaultdict[str, defaultdict[str, list[AppliedAcl]]] = defaultdict(lambda: defaultdict(list))
        count = 0
        for acl in acls:
            lists[acl.record.principal][acl.record.host].append(acl)
            count += 1
        return cls(
            {
                principal: {host: tuple(here) for host, here in by_host.items()}
                for principal, by_host in lists.items()
            },
            count,
        )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[AppliedAcl]:
        for hosts in self._by_principal.values():
            for acls in hosts.values():
                yield from acls

    def by_host(self, principal: str) -> Table[str, _Acls]:
        return self._by_principal.get(principal) or {}

    def replacing(self, before: AppliedAcl | None, after: AppliedAcl | None) -> CrowdedBucket:
        """Without the one and with the other."""
        by_principal, count = self._by_principal, self._count
        for old, new in ((before, None), (None, after)):
            acl = old or new
            if acl is None:
                continue
            principal, host = acl.record.principal, acl.record.host
            by_host = by_principal.get(principal) or {}
            here = _replacing(by_host.get(host) or (), old, new)
            by_host = with_entries(by_host, {host: here or None})
            by_principal = with_entries(by_principal, {principal: by_host if len(by_host) else None})
            count += (new is not None) - (old is not None)
        return CrowdedBucket(by_principal, count)


Bucket = tuple["AppliedAcl", ...] | CrowdedBucket


def replacing(bucket: Bucket | None, before: AppliedAcl | None, after: AppliedAcl | None) -> Bucket | None:
    """The bucket without ``before`` and with ``after`` (of the same name); None if nothing is left."""
    if isinstance(bucket, CrowdedBucket):
        changed: Bucket = bucket.replacing(before, after)
    else:
        changed = _replacing(bucket or (), before, after)
        if len(changed) > SMALL_MAXIMUM:
            changed = CrowdedBucket.of(changed)
    return changed if len(changed) else None


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


def acls_for(bucket: Bucket, principal: str, host: str) -> Iterator[AppliedAcl]:
    """The ACLs of one principal that match a host."""
    if isinstance(bucket, CrowdedBucket):
        hosts = bucket.by_host(principal)
        for each in {host, WILDCARD}:
            yield from hosts.get(each) or ()
        return
    for acl in bucket:
        record = acl.record
        if record.principal == principal and (record.host in (host, WILDCARD)):
            yield acl


def _replacing(acls: _Acls, before: AppliedAcl | None, after: AppliedAcl | None) -> _Acls:
    if before is not None:
        # By id: an equal ACL may be here under another one (I8).
        acls = tuple(acl for acl in acls if acl.record.id != before.record.id)
    return acls if after is None else (*acls, after)
