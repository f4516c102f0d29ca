"""Near misses: ACLs that would have changed the result except for exactly one field.

Examples: LITERAL in place of PREFIXED, another host, operation, principal or resource type, a typo in a name.
The closest are returned. The search is bounded, so that an explanation is fast for any number of ACLs.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Final, Self

from authorizer.api.http.answers import decisions as answers
from authorizer.api.http.answers.acls import AppliedAcl as AclAnswer
from authorizer.api.ip_address import matches_host
from authorizer.engine.decisions.listing import list_acls
from authorizer.engine.decisions.rules import acl_principals, allows, covers_operation
from records.acl import (
    WILDCARD,
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
    code_to_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.pattern_keys import PatternKey
    from records.columns.acl_table import AppliedAcl
    from records.entries import AccessControlEntryRecord

#: Near misses that are returned in total, and of one field.
NEAR_MISSES_MAXIMUM: Final = 10
NEAR_MISSES_PER_FIELD: Final = 3
# ACLs that are read for each kind of near miss.
_SEARCHED_MAXIMUM: Final = 20_000

# The most frequent mistakes come first.
_FIELDS: Final = ("patternType", "host", "operation", "resourceName", "principal", "resourceType")
# The distance of two texts that have nothing in common.
_UNRELATED: Final = 1.0


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that failed on one field.

    Attributes:
        field: the name of that field in AccessControlEntryRecord's JSON.
        requested: the value that would have matched.
    """

    acl: AppliedAcl
    field: str
    value: str
    requested: str

    def answer(self) -> answers.NearMiss:
        return answers.NearMiss(self.field, self.value, self.requested, AclAnswer.of_row(self.acl))

    @classmethod
    def from_answer(cls, answer: answers.NearMiss) -> Self:
        """Parse an HTTP answer. ValueError: the ACL has an unknown code."""
        return cls(answer.acl.row(), answer.field, answer.has, answer.requested)


def near_misses(
    index: AclIndex, context: AuthorizableRequestContext, action: Action, *, allowing: bool
) -> tuple[NearMiss, ...]:
    """Return ACLs that allow (or deny) and failed on one field, the closest first."""
    search = _Search(index, context, action, allowing=allowing)
    by_field: dict[str, list[tuple[float, NearMiss]]] = {field: [] for field in _FIELDS}
    for miss in chain(search.covering(), search.with_other_name(), search.of_other_type()):
        by_field[miss.field].append((_distance(miss), miss))
    closest = [
        each for field in _FIELDS for each in nsmallest(NEAR_MISSES_PER_FIELD, by_field[field], key=_order)
    ]
    closest.sort(key=lambda each: each[0] >= _UNRELATED)
    return tuple(miss for _, miss in closest[:NEAR_MISSES_MAXIMUM])


class _Search:
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
        """Yield ACLs that cover the resource, but differ in principal, host or operation."""
        resources = self._index.resources
        acls = (acl for key in self._covering_keys(self._type) for acl in resources.acls(key))
        for acl in islice(acls, _SEARCHED_MAXIMUM):
            record = acl.record
            if allows(record) is not self._allowing:
                continue
            misses = []
            if record.principal not in self._principals:
                if self._principal not in self._principals:
                    continue  # a type with a colon: no ACL can be for that principal
                misses.append(NearMiss(acl, "principal", record.principal, self._principal))
            if not self._matches_host(record):
                misses.append(NearMiss(acl, "host", record.host, self._host))
            if not covers_operation(record, self._operation):
                value = code_to_name(type(self._operation), record.operation)
                misses.append(NearMiss(acl, "operation", value, self._operation.name))
            if len(misses) == 1:
                yield misses[0]

    def with_other_name(self) -> Iterator[NearMiss]:
        """Yield ACLs of the principal for this operation, but another name."""
        if self._type is ResourceType.ANY:
            return  # in a filter ANY means every type; in a request it is a type
        patterns = ResourcePatternFilter(self._type)
        acls = (
            acl
            for principal in self._principals
            for acl in list_acls(
                self._index, AclBindingFilter(patterns, AccessControlEntryFilter(principal=principal))
            ).acls()
        )
        for acl in islice(acls, _SEARCHED_MAXIMUM):
            record = acl.record
            if not self._matches_rest(record):
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
        """Yield ACLs of the principal that cover the name as another type: a group, not a topic."""
        for resource_type in ResourceType:
            if resource_type is self._type:
                continue
            for key in self._covering_keys(resource_type):
                for principal in self._principals:
                    for acl in self._index.resources.acls_for(key, principal, self._host):
                        if self._matches_rest(acl.record):
                            yield NearMiss(acl, "resourceType", resource_type.name, self._type.name)

    def _covering_keys(self, resource_type: ResourceType) -> Iterator[PatternKey]:
        return self._index.resources.covering_keys(resource_type, self._name)

    def _matches_host(self, record: AccessControlEntryRecord) -> bool:
        return matches_host(record, self._host, self._index.rows.networks)

    def _matches_rest(self, record: AccessControlEntryRecord) -> bool:
        return (
            allows(record) is self._allowing
            and self._matches_host(record)
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
    value, requested = miss.value.casefold(), miss.requested.casefold()
    if miss.field == "principal":
        # Almost all types are User: the mistake is in the name, or in the type of the right name.
        (acl_type, _, value), (requested_type, _, requested) = value.partition(":"), requested.partition(":")
        if value == requested:
            return 0.0 if acl_type == requested_type else 0.1
    elif value == requested:
        return 0.0
    pairs = zip(value, requested, strict=False)
    common_length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return _UNRELATED - common_length / max(len(value), len(requested))
