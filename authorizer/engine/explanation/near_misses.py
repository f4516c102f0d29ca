"""Near misses: ACLs that would have changed the result except for exactly one field.

A LITERAL that should have been PREFIXED, another host, another operation, a name with a typo, another
principal, another resource type. The closest are returned, and the search is bounded: explaining stays fast
where a name or a principal has very many ACLs.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from authorizer.api.ip_network import matches_host
from authorizer.engine.decisions.listing import list_acls
from authorizer.engine.decisions.rules import acl_principals, allows, covers_operation
from authorizer.engine.index.pattern_keys import PREFIXED
from records.acl import (
    WILDCARD,
    AccessControlEntryFilter,
    AclBindingFilter,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
)
from records.code_names import code_to_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.pattern_keys import PatternKey
    from authorizer.engine.index.resource_index import ResourceIndex
    from records.acl import AclOperation
    from records.columns.acl_table import AppliedAcl
    from records.entries import AccessControlEntryRecord

#: Near misses that are returned in total, and of one field.
NEAR_MISSES_MAXIMUM: Final = 10
NEAR_MISSES_PER_FIELD: Final = 3
# ACLs read for each way to miss.
_LOOKED_AT_MAXIMUM: Final = 20_000

# What people get wrong most often comes first.
_FIELDS: Final = ("patternType", "host", "operation", "resourceName", "principal", "resourceType")
# The distance of two texts that have nothing in common.
_UNRELATED: Final = 1.0


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that failed on one field.

    Attributes:
        acl: with its id and offset.
        field: the name of that field in AccessControlEntryRecord's JSON.
        has: the ACL's value.
        asked: the value that would have matched.
    """

    acl: AppliedAcl
    field: str
    has: str
    asked: str


def near_misses(
    index: AclIndex, context: AuthorizableRequestContext, action: Action, *, allowing: bool
) -> tuple[NearMiss, ...]:
    """Return ACLs that allow (or deny) and failed on one field, the closest first."""
    search = _Search(index, context, action, allowing=allowing)
    by_field: dict[str, list[tuple[float, NearMiss]]] = {field: [] for field in _FIELDS}
    for miss in chain(search.covering(), search.with_other_name(), search.of_other_type()):
        by_field[miss.field].append((_distance(miss), miss))
    few = [
        each for field in _FIELDS for each in nsmallest(NEAR_MISSES_PER_FIELD, by_field[field], key=_order)
    ]
    few.sort(key=lambda each: each[0] >= _UNRELATED)
    return tuple(miss for _, miss in few[:NEAR_MISSES_MAXIMUM])


def covering_places(resources: ResourceIndex, resource_type: ResourceType, name: str) -> Iterator[PatternKey]:
    """Yield all patterns of a type that cover a name."""
    for literal in dict.fromkeys((name, WILDCARD)):
        yield int(resource_type), literal
    for prefix in resources.prefixes_of(resource_type, name):
        yield resource_type + PREFIXED, prefix


class _Search:
    """The three kinds of near misses."""

    def __init__(
        self, index: AclIndex, context: AuthorizableRequestContext, action: Action, *, allowing: bool
    ) -> None:
        self._index = index
        self._principals = acl_principals(context.principal)
        self._principal = str(context.principal)
        self._host = context.client_address
        self._operation: AclOperation = action.operation
        self._type: ResourceType = action.resource_pattern.resource_type
        self._name = action.resource_pattern.name
        self._allowing = allowing

    def covering(self) -> Iterator[NearMiss]:
        """ACLs that cover the resource, but differ in principal, host or operation."""
        resources = self._index.resources
        acls = (acl for place in self._places(self._type) for acl in resources.acls(place))
        for acl in islice(acls, _LOOKED_AT_MAXIMUM):
            record = acl.record
            if allows(record) is not self._allowing:
                continue
            misses = []
            if record.principal not in self._principals:
                if self._principal not in self._principals:
                    continue  # a type with a colon: no ACL can be for that principal
                misses.append(NearMiss(acl, "principal", record.principal, self._principal))
            if not self._is_here(record):
                misses.append(NearMiss(acl, "host", record.host, self._host))
            if not covers_operation(record, self._operation):
                has = code_to_name(type(self._operation), record.operation)
                misses.append(NearMiss(acl, "operation", has, self._operation.name))
            if len(misses) == 1:
                yield misses[0]

    def with_other_name(self) -> Iterator[NearMiss]:
        """ACLs of the principal for this operation, but another name."""
        if self._type is ResourceType.ANY:
            return  # as a filter it means every type, as a resource its own
        patterns = ResourcePatternFilter(self._type)
        acls = (
            acl
            for principal in self._principals
            for acl in list_acls(
                self._index, AclBindingFilter(patterns, AccessControlEntryFilter(principal=principal))
            ).acls()
        )
        for acl in islice(acls, _LOOKED_AT_MAXIMUM):
            record = acl.record
            if not self._would_do(record):
                continue
            name = record.resource_name
            if record.pattern_type != PatternType.LITERAL:
                if not self._name.startswith(name):
                    yield NearMiss(acl, "resourceName", name, self._name)
            elif name not in (self._name, WILDCARD):
                if name and self._name.startswith(name):
                    yield NearMiss(acl, "patternType", PatternType.LITERAL.name, PatternType.PREFIXED.name)
                else:
                    yield NearMiss(acl, "resourceName", name, self._name)

    def of_other_type(self) -> Iterator[NearMiss]:
        """ACLs of the principal that cover the name, but as another type: a group, not a topic."""
        for resource_type in ResourceType:
            if resource_type is self._type:
                continue
            for place in self._places(resource_type):
                for principal in self._principals:
                    for acl in self._index.resources.acls_for(place, principal, self._host):
                        if self._would_do(acl.record):
                            yield NearMiss(acl, "resourceType", resource_type.name, self._type.name)

    def _places(self, resource_type: ResourceType) -> Iterator[PatternKey]:
        return covering_places(self._index.resources, resource_type, self._name)

    def _is_here(self, record: AccessControlEntryRecord) -> bool:
        return matches_host(record, self._host, self._index.rows.networks)

    def _would_do(self, record: AccessControlEntryRecord) -> bool:
        return (
            allows(record) is self._allowing
            and self._is_here(record)
            and covers_operation(record, self._operation)
        )


def _order(each: tuple[float, NearMiss]) -> tuple[object, ...]:
    """The closest first; equal distances by content, so that the order does not depend on the index."""
    distance, miss = each
    return distance, miss.acl.record.content, miss.acl.record.id


def _distance(miss: NearMiss) -> float:
    """The distance of the two values: 0 if they differ in case only, 1 for nothing in common."""
    if miss.field not in ("resourceName", "principal", "host"):
        return 0.0
    has, asked = miss.has.casefold(), miss.asked.casefold()
    if miss.field == "principal":
        # Everyone's type is User; what people mistake is the name, or the type of the right name.
        (has_type, _, has), (asked_type, _, asked) = has.partition(":"), asked.partition(":")
        if has == asked:
            return 0.0 if has_type == asked_type else 0.1
    elif has == asked:
        return 0.0
    common = next((at for at, (one, other) in enumerate(zip(has, asked, strict=False)) if one != other), None)
    common = min(len(has), len(asked)) if common is None else common
    return _UNRELATED - common / max(len(has), len(asked))
