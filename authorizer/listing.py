"""Which ACLs a filter means, from one index, in Kafka's order: what describeAcls answers.

A filter that names a resource or a principal reads only what is stored for it; any other one reads every ACL,
in an order that numpy finds.
Source: AclBindingFilter.matches, StandardAcl.compareTo. Unlike Kafka, an ACL whose pattern type has no name
does not make a MATCH filter throw: it is matched as it decides, as a prefix (architecture.md 8.4).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from authorizer.index.places import PREFIXED
from authorizer.kafka_order import in_entry_order, in_kafka_order, rows_in_kafka_order, utf16
from records.acl import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from authorizer.index.acl_index import AclIndex
    from records.acl import AccessControlEntryFilter, AclBindingFilter, ResourcePatternFilter
    from records.entries import AccessControlEntryRecord
    from snapshot.rows import AppliedAcl

# Rows that are made into objects at once.
_PIECE_ROWS: Final = 1024


def list_acls(index: AclIndex, acl_filter: AclBindingFilter) -> Iterator[AppliedAcl]:
    """The ACLs that the filter means: by resource type, then name (the last name first), then entry."""
    patterns, entries = acl_filter.pattern_filter, acl_filter.entry_filter
    types = [*ResourceType] if patterns.resource_type is ResourceType.ANY else [patterns.resource_type]

    def meant(acls: Iterable[AppliedAcl]) -> Iterator[AppliedAcl]:
        return (acl for acl in acls if _is_meant(acl.record, acl_filter))

    if patterns.name is None and entries.principal is not None:
        yield from in_kafka_order(meant(index.acls_of(entries.principal)))
        return
    for resource_type in types:
        if patterns.name is None:
            yield from meant(_all(index, resource_type))
            continue
        for name in sorted(_names(index, resource_type, patterns), key=utf16, reverse=True):
            yield from in_entry_order(meant(_acls(index, resource_type, name, entries.principal)))


def _names(index: AclIndex, resource_type: ResourceType, patterns: ResourcePatternFilter) -> Iterable[str]:
    """Names among which is all that the filter means."""
    name = patterns.name or ""
    if patterns.pattern_type is not PatternType.MATCH:
        return (name,)
    return {name, WILDCARD, *index.resources.prefixes_of(resource_type, name)}


def _acls(
    index: AclIndex, resource_type: ResourceType, name: str, principal: str | None
) -> Iterator[AppliedAcl]:
    resources = index.resources
    for place in ((int(resource_type), name), (resource_type + PREFIXED, name)):
        yield from resources.acls(place) if principal is None else resources.acls_of(place, principal)


def _all(index: AclIndex, resource_type: ResourceType) -> Iterator[AppliedAcl]:
    """All of one type. Names that changes touched are looked at one by one, all others sorted at once."""
    changed = index.resources.changed_names(resource_type)
    untouched = _untouched(index, resource_type, changed)
    if not changed:
        return untouched
    touched = (
        acl
        for name in sorted(changed, key=utf16, reverse=True)
        for acl in in_entry_order(_acls(index, resource_type, name, None))
    )
    return heapq.merge(untouched, touched, key=lambda acl: utf16(acl.record.resource_name), reverse=True)


def _untouched(index: AclIndex, resource_type: ResourceType, changed: set[str]) -> Iterator[AppliedAcl]:
    columns = index.rows.columns
    rows = rows_in_kafka_order(columns, index.rows.rows_of_type(resource_type, without=changed))
    for start in range(0, len(rows), _PIECE_ROWS):
        yield from columns.acls(rows[start : start + _PIECE_ROWS])


def _is_meant(record: AccessControlEntryRecord, acl_filter: AclBindingFilter) -> bool:
    """AclBindingFilter.matches."""
    return _pattern_fits(record, acl_filter.pattern_filter) and _entry_fits(record, acl_filter.entry_filter)


def _pattern_fits(record: AccessControlEntryRecord, patterns: ResourcePatternFilter) -> bool:
    """ResourcePatternFilter.matches."""
    if patterns.resource_type not in (ResourceType.ANY, ResourceType.from_code(record.resource_type)):
        return False
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
