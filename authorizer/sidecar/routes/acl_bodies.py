"""What ``/v1/acls`` is asked: JSON and queries in Kafka's terms, in both directions. No state, no sockets.

    an ACL      {"resourceType": "TOPIC", "resourceName": "orders", "patternType": "LITERAL",
                 "principal": "User:alice", "host": "*", "operation": "READ", "permissionType": "ALLOW"}
    a filter    the same fields, each of which may be left out: then it is any
    POST        {"acls": [...]}
    DELETE      {"filters": [...]}
    GET         a filter's fields, min_offset and at_offset as query parameters
    a plan      as `aclog plan --output` writes it, and maxRemovedPercent beside its own fields

A new ACL may carry the ``id`` with which ``aclog acls --json`` prints it; it says nothing, for the log gives
ids. In a filter it is refused, and so is every field that is not known: passing over one that was meant to
narrow a filter would remove more than was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from authorizer.api.errors import PlanUnreadableError
from authorizer.node.writing.acl_control import RECORDS_PER_OPERATION_MAX
from authorizer.sidecar.http.errors import ErrorCode, HttpError, invalid_request
from authorizer.sidecar.http.json_body import decode_body
from authorizer.sidecar.http.query import decode_query
from authorizer.sidecar.routes.questions import Offset
from records.acl import (
    WILDCARD,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.plan import AclPlan, PlanApplication


#: Where all this is asked.
ACLS_PATH: Final = "/v1/acls"
#: Where a plan is asked to be applied.
PLANS_PATH: Final = "/v1/plans"

_Code = TypeVar("_Code", ResourceType, PatternType, AclOperation, AclPermissionType)


class NewAcl(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """An ACL that is to be; defaults as kafka-acls has them."""

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission_type: str
    pattern_type: str = PatternType.LITERAL.name
    host: str = WILDCARD
    id: str | None = None

    @classmethod
    def of(cls, binding: AclBinding) -> Self:
        """As a client sends it."""
        pattern, entry = binding.pattern, binding.entry
        return cls(
            pattern.resource_type.name,
            pattern.name,
            entry.principal,
            entry.operation.name,
            entry.permission_type.name,
            pattern.pattern_type.name,
            entry.host,
        )

    def binding(self, where: str) -> AclBinding:
        """``where``: what errors call it, with a dot."""
        return AclBinding(
            ResourcePattern(
                _code(ResourceType, self.resource_type, f"{where}resourceType"),
                self.resource_name,
                _code(PatternType, self.pattern_type, f"{where}patternType"),
            ),
            AccessControlEntry(
                self.principal,
                self.host,
                _code(AclOperation, self.operation, f"{where}operation"),
                _code(AclPermissionType, self.permission_type, f"{where}permissionType"),
            ),
        )


class AclFilter(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Which ACLs; what is left out is any."""

    resource_type: str = ResourceType.ANY.name
    resource_name: str | None = None
    pattern_type: str = PatternType.ANY.name
    principal: str | None = None
    host: str | None = None
    operation: str = AclOperation.ANY.name
    permission_type: str = AclPermissionType.ANY.name

    @classmethod
    def of(cls, wanted: AclBindingFilter) -> Self:
        """As a client sends it."""
        pattern, entry = wanted.pattern_filter, wanted.entry_filter
        return cls(
            pattern.resource_type.name,
            pattern.name,
            pattern.pattern_type.name,
            entry.principal,
            entry.host,
            entry.operation.name,
            entry.permission_type.name,
        )

    def filter(self, where: str) -> AclBindingFilter:
        """``where``: what errors call it, with a dot."""
        return AclBindingFilter(
            ResourcePatternFilter(
                _code(ResourceType, self.resource_type, f"{where}resourceType"),
                self.resource_name,
                _code(PatternType, self.pattern_type, f"{where}patternType"),
            ),
            AccessControlEntryFilter(
                self.principal,
                self.host,
                _code(AclOperation, self.operation, f"{where}operation"),
                _code(AclPermissionType, self.permission_type, f"{where}permissionType"),
            ),
        )


class AclListing(AclFilter, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A filter, and on which state."""

    min_offset: Offset | None = msgspec.field(name="min_offset", default=None)
    at_offset: Offset | None = msgspec.field(name="at_offset", default=None)


class AclCreation(msgspec.Struct, forbid_unknown_fields=True):
    """ACLs that are to be."""

    acls: list[NewAcl]


class AclDeletion(msgspec.Struct, forbid_unknown_fields=True):
    """Filters, all of whose ACLs are to go."""

    filters: list[AclFilter]


def bindings_of(body: bytes) -> list[AclBinding]:
    """The ACLs that a POST wants created. Whether they can be is Kafka's to say, for each.

    Raises:
        HttpError: 400, naming what is absent or unknown; 413, too many.
    """
    wanted = decode_body(body, AclCreation, ACLS_PATH).acls
    _check_count(len(wanted))
    return [acl.binding(f"acls[{number}].") for number, acl in enumerate(wanted)]


def filters_of(body: bytes) -> list[AclBindingFilter]:
    """Which ACLs a DELETE wants removed. Raises as ``bindings_of``."""
    wanted = decode_body(body, AclDeletion, ACLS_PATH).filters
    _check_count(len(wanted))
    return [each.filter(f"filters[{number}].") for number, each in enumerate(wanted)]


def plan_of(body: bytes) -> PlanApplication:
    """The plan that a POST wants applied. HttpError: 400, it is none, or not as it was made."""
    from authorizer.analysis.plan import PlanApplication  # noqa: PLC0415 - clients of a node need none of it

    try:
        return PlanApplication.from_json(body)
    except PlanUnreadableError as error:
        raise invalid_request(f"the body is not a request for {PLANS_PATH}: {error}") from error


def listing_of(query: bytes) -> tuple[AclBindingFilter, int | None, int | None]:
    """Which ACLs a GET wants listed, the offset that must be visible first, and that of the state to list.

    Raises:
        HttpError: 400, naming the parameter.
    """
    wanted = decode_query(query, AclListing)
    return wanted.filter(""), wanted.min_offset, wanted.at_offset


def creation_body(bindings: Iterable[AclBinding]) -> bytes:
    """The body whose ``bindings_of`` these are. UnicodeEncodeError: a text that is not Unicode."""
    return msgspec.json.encode(AclCreation([NewAcl.of(binding) for binding in bindings]))


def deletion_body(filters: Iterable[AclBindingFilter]) -> bytes:
    """The body whose ``filters_of`` these are. Raises as ``creation_body``."""
    return msgspec.json.encode(AclDeletion([AclFilter.of(each) for each in filters]))


def application_body(plan: AclPlan, max_removed_percent: int | None) -> bytes:
    """The body whose ``plan_of`` this is; without a share, as earlier releases take it, too."""
    from authorizer.analysis.plan import PlanApplication  # noqa: PLC0415 - as plan_of

    return msgspec.json.encode(
        plan if max_removed_percent is None else PlanApplication.of_plan(plan, max_removed_percent)
    )


def listing_query(wanted: AclBindingFilter) -> str:
    """The query whose ``listing_of`` this is. Raises as ``creation_body``."""
    return urlencode(msgspec.to_builtins(AclFilter.of(wanted)))


def _code(kind: type[_Code], name: str, field: str) -> _Code:
    code = kind.from_name(name)
    if code.is_unknown:
        known = ", ".join(member.name for member in kind if not member.is_unknown)
        raise invalid_request(f"{field} `{name}` is none of {known}")
    return code


def _check_count(count: int) -> None:
    if count > RECORDS_PER_OPERATION_MAX:
        raise HttpError(
            ErrorCode.CONTENT_TOO_LARGE, f"{count} items in one request: at most {RECORDS_PER_OPERATION_MAX}"
        )
