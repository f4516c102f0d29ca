"""Which ACLs a filter means, from one index, in Kafka's order: what describeAcls answers.

A filter that names a resource or a principal reads only what is stored for it; any other one reads every ACL.
Source: AclBindingFilter.matches, StandardAcl.compareTo. Unlike Kafka, an ACL whose pattern type has no name
does not make a MATCH filter throw: it is matched as it decides, as a prefix (architecture.md 8.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.buckets import CrowdedBucket
from authorizer.matching import entry_order, utf16
from records.acl import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.buckets import Bucket
    from authorizer.index import AclIndex
    from records.acl import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter
    from records.entries import AccessControlEntryRecord
    from snapshot.image import AppliedAcl


def list_acls(index: AclIndex, acl_filter: AclBindingFilter) -> Iterator[AppliedAcl]:
    """The ACLs that the filter means: by resource type, then name (the last name first), then entry."""
    patterns, entries = acl_filter.pattern_filter, acl_filter.entry_filter
    any_type = patterns.resource_type is ResourceType.ANY
    for resource_type in ResourceType if any_type else (patterns.resource_type,):
        resources = index.resources[resource_type]
        for name in sorted(_names(index, resource_type, acl_filter), key=utf16, reverse=True):
            here = [
                acl
                for prefixed in (False, True)
                for acl in _acls(resources.get(name, prefixed=prefixed), entries.principal)
                if _pattern_fits(acl.record, patterns) and _entry_fits(acl.record, entries)
            ]
            if len(here) > 1:
                here.sort(key=lambda acl: entry_order(acl.record))
            yield from here


def _names(index: AclIndex, resource_type: ResourceType, acl_filter: AclBindingFilter) -> Iterable[str]:
    """Names among which is all that the filter means."""
    patterns, principal = acl_filter.pattern_filter, acl_filter.entry_filter.principal
    resources = index.resources[resource_type]
    if patterns.name is not None:
        if patterns.pattern_type is not PatternType.MATCH:
            return (patterns.name,)
        return {patterns.name, WILDCARD, *(prefix for prefix, _ in resources.prefixes_of(patterns.name))}
    if principal is None or ":" not in principal:
        # Without a colon it matches nobody, and is found by name only.
        return resources.names()
    mine = index.rights_of(principal)
    rights = None if mine is None else mine[resource_type]
    return () if rights is None else rights.names()


def _acls(bucket: Bucket | None, principal: str | None) -> Iterable[AppliedAcl]:
    if bucket is None:
        return ()
    if principal is None:
        return bucket
    if isinstance(bucket, CrowdedBucket):
        return (acl for acls in bucket.by_host(principal).values() for acl in acls)
    return (acl for acl in bucket if acl.record.principal == principal)


def _pattern_fits(record: AccessControlEntryRecord, patterns: ResourcePatternFilter) -> bool:
    """ResourcePatternFilter.matches, for a record of the right resource type."""
    wanted = patterns.pattern_type
    if wanted is PatternType.ANY and patterns.name is None:
        return True
    own = PatternType.from_code(record.pattern_type)
    if wanted not in (PatternType.ANY, PatternType.MATCH, own):
        return False
    if patterns.name is None:
        return True
    if wanted in (PatternType.ANY, own):
        return record.resource_name == patterns.name
    if own is PatternType.LITERAL:
        return record.resource_name in (patterns.name, WILDCARD)
    return patterns.name.startswith(record.resource_name)


def _entry_fits(record: AccessControlEntryRecord, entries: AccessControlEntryFilter) -> bool:
    """AccessControlEntryFilter.matches."""
    return (
        (entries.principal is None or entries.principal == record.principal)
        and (entries.host is None or entries.host == record.host)
        and (
            entries.operation is AclOperation.ANY
            or entries.operation is AclOperation.from_code(record.operation)
        )
        and (
            entries.permission_type is AclPermissionType.ANY
            or entries.permission_type is AclPermissionType.from_code(record.permission_type)
        )
    )
