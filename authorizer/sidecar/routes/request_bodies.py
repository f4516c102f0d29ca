"""Requests of Kafka's queries, ``/v1/acls`` and ``/v1/plans``: JSON and query strings in Kafka's terms.

    explain                      {"principal": "User:alice", "host": "10.0.0.1", "operation": "READ",
                                  "resourceType": "TOPIC", "resourceName": "orders"}
    authorized-operations        without the operation
    authorize-by-resource-type   without the name
    filter                       with "resourceNames": [...] instead of the name

The fields are those of the lines of ``aclog check --batch``. ``host`` may be left out where
aclog.sidecar.default.host is set; ``min_offset`` and ``at_offset`` say on which state. A field that is not
known is refused: passing over a mistyped host would answer for another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import msgspec

from authorizer.analysis.plans.plan import PlanApplication
from authorizer.api.authorizer_api import Action, HttpRequestContext
from authorizer.api.errors import PlanUnreadableError
from authorizer.api.http.acl_requests import ACLS_PATH, PLANS_PATH, AclCreation, AclDeletion, AclFilter
from authorizer.api.http.error_code import ErrorCode
from authorizer.api.ip_address import host_address
from authorizer.node.writing.acl_control import RECORDS_PER_OPERATION_MAX
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.request_decoding import decode_body, decode_query
from records.acl import AclBinding, AclBindingFilter, AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import KafkaPrincipal, parse_kafka_principal
from records.topic_name import TOPIC_LENGTH_MAX

_Code = TypeVar("_Code", AclOperation, ResourceType)

_KIND_NAMES = {AclOperation: "operation", ResourceType: "resource type"}


def code_of(kind: type[_Code], name: str, field: str) -> _Code:
    """The operation or resource type of a name in any case. HttpError 400: unknown, or not of requests."""
    code = kind.from_name(name)
    if code <= kind.ANY:
        known = ", ".join(member.name for member in kind if member > kind.ANY)
        raise invalid_request(f"{field} `{name}` is not a Kafka {_KIND_NAMES[kind]}: {known}")
    return code


def address_of(host: str | None, default: str | None, field: str) -> str:
    """The client's address as ACL hosts are written; ``default`` where there is none. HttpError 400."""
    host = host or default
    if host is None:
        raise invalid_request(
            f"the request has no {field}, the client's IP address, which ACLs are matched against; "
            "send it, or set aclog.sidecar.default.host"
        )
    try:
        return host_address(host)
    except ValueError as error:
        raise invalid_request(f"{field}: {error}") from error


def principal_of(text: str, field: str) -> KafkaPrincipal:
    """``Type:name``. HttpError 400."""
    try:
        return parse_kafka_principal(text)
    except ValueError as error:
        raise invalid_request(f"{field}: {error}") from error


_CAMEL: Final = {
    "resource_type": "resourceType",
    "resource_name": "resourceName",
    "resource_names": "resourceNames",
}

#: Bytes of a string of Kafka's protocol, whose length is an int16.
_STRING_BYTES_MAX: Final = 2**15 - 1

#: Of a record, or the end offset of a state: an int64.
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class AtOffset(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The state to answer on.

    Attributes:
        min_offset: a state with this end offset, or a later one.
        at_offset: the state after the record at this offset, as `--at-offset`.
    """

    min_offset: Offset | None = None
    at_offset: Offset | None = None


class StateRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whether to answer with the digest of the effective permissions, too."""

    meaning: bool = False


class AccessRequest(AtOffset, rename=_CAMEL.get, kw_only=True):
    """Base of requests about access: the principal, its address, and the state."""

    principal: str
    resource_type: str
    host: str | None = None

    def context(self, default_host: str | None, caller: HttpRequestContext) -> HttpRequestContext:
        """Return the context of the request. Raises HttpError 400: no principal, or no address."""
        return HttpRequestContext(
            principal_of(self.principal, "principal"),
            address_of(self.host, default_host, "host"),
            request_name=caller.request_name,
            caller=caller.caller,
            caller_address=caller.caller_address,
            request_id=caller.request_id,
        )

    def type(self) -> ResourceType:
        """HttpError 400: unknown, or not of requests."""
        return code_of(ResourceType, self.resource_type, "resourceType")


class OperationsRequest(AccessRequest, kw_only=True):
    """A request for the allowed operations on one resource (KIP-430)."""

    resource_name: str


class ResourceTypeRequest(AccessRequest, kw_only=True):
    """A request about any resource of a type (KIP-679)."""

    operation: str

    def code(self) -> AclOperation:
        """HttpError 400: unknown, or not of requests."""
        return code_of(AclOperation, self.operation, "operation")


class DecisionRequest(ResourceTypeRequest, kw_only=True):
    """A request about one resource."""

    resource_name: str

    def action(self) -> Action:
        """HttpError 400: an operation or a type that cannot be asked about, or names that Kafka cannot have.

        The answer has them several times.
        """
        resource_type, name = self.type(), self.resource_name
        _check_length("principal", self.principal)
        _check_length("resourceName", name)
        if resource_type is ResourceType.TOPIC and len(name) > TOPIC_LENGTH_MAX:
            raise invalid_request(
                f"resourceName has {len(name)} characters: a topic's name has at most {TOPIC_LENGTH_MAX}"
            )
        return Action(self.code(), ResourcePattern(resource_type, name, PatternType.LITERAL))


class FilterRequest(ResourceTypeRequest, kw_only=True):
    """A request for the allowed ones of several names."""

    resource_names: list[str]

    def actions(self) -> list[Action]:
        """One for each name; nothing is accessed by them, so the audit log has them at TRACE.

        HttpError 400 as ``action``.
        """
        operation, resource_type = self.code(), self.type()
        return [
            Action(
                operation,
                ResourcePattern(resource_type, name, PatternType.LITERAL),
                log_if_allowed=False,
                log_if_denied=False,
            )
            for name in self.resource_names
        ]


def _check_length(field: str, text: str) -> None:
    """HttpError 400: the text is longer than one can be in Kafka's protocol."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > _STRING_BYTES_MAX:
        raise invalid_request(f"{field} has {size} bytes: a name has at most {_STRING_BYTES_MAX} in Kafka")


_T = TypeVar("_T")


class AclListing(AclFilter, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A filter, and the state to list."""

    min_offset: Offset | None = msgspec.field(name="min_offset", default=None)
    at_offset: Offset | None = msgspec.field(name="at_offset", default=None)


def bindings_of(body: bytes) -> list[AclBinding]:
    """The ACLs that a POST creates. Kafka's rules are checked later, for each ACL."""
    wanted = decode_body(body, AclCreation, ACLS_PATH).acls
    check_count(len(wanted))
    return [_validated(acl.binding, f"acls[{number}].") for number, acl in enumerate(wanted)]


def filters_of(body: bytes) -> list[AclBindingFilter]:
    """The filters of a DELETE. Raises as ``bindings_of``."""
    wanted = decode_body(body, AclDeletion, ACLS_PATH).filters
    check_count(len(wanted))
    return [_validated(each.filter, f"filters[{number}].") for number, each in enumerate(wanted)]


def plan_of(body: bytes) -> PlanApplication:
    """The plan of a POST. HttpError: 400, it is no plan, or it was modified."""
    try:
        return PlanApplication.from_json(body)
    except PlanUnreadableError as error:
        raise invalid_request(f"the body is not a request for {PLANS_PATH}: {error}") from error


def listing_of(query: bytes) -> tuple[AclBindingFilter, int | None, int | None]:
    """The filter of a GET, the offset that must be visible first, and the offset of the state to list."""
    wanted = decode_query(query, AclListing)
    return _validated(wanted.filter, ""), wanted.min_offset, wanted.at_offset


def _validated(read: Callable[[str], _T], where: str) -> _T:
    try:
        return read(where)
    except ValueError as error:
        raise invalid_request(str(error)) from error


def check_count(count: int) -> None:
    """Raise HttpError 413 for more items than one operation may have."""
    if count > RECORDS_PER_OPERATION_MAX:
        raise HttpError(
            ErrorCode.CONTENT_TOO_LARGE, f"{count} items in one request: at most {RECORDS_PER_OPERATION_MAX}"
        )
