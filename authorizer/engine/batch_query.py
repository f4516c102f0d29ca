"""Batch query: one query line of ``aclog check --batch``, as a dict, and its answer as a dict.

The lines and answers have the form of the recorded answers of the real Kafka (tests/data/oracle/README.md):

    authorize (default)      -> {"result", "rule"[, "audit": {"level", "message"}]}
    authorizedOperations     -> {"bits", "operations"}
    authorizeByResourceType  -> {"result"}
    acls                     -> {"acls": [...]}         in Kafka's order
    aclCount                 -> {"aclCount"}

``hostAddress`` is added if the query has no host, or one not in the form that ACLs are compared with. An
error is {"error": "Class: message"} with Kafka's class and message. The caller evaluates ``atOffset``, which
selects the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from authorizer.api.audit_levels import AUDIT_LEVELS, audit_level
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.errors import ApiError
from authorizer.api.ip_address import DEFAULT_HOST, host_address
from authorizer.engine.decisions.audit import audit_line
from authorizer.engine.decisions.authorize import to_bit_field
from records.acl import (
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
from records.errors import DecodeError
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from authorizer.api.authorizer_api import AuthorizableRequestContext, AuthorizationResult
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerState

_Code = TypeVar("_Code", AclOperation, AclPermissionType, PatternType, ResourceType)

# The request type of a query without one: Fetch.
_FETCH: Final = 1

_LEVEL_NAMES: Final = {level: name for name, level in AUDIT_LEVELS.items()}


class BatchAuthorizer(Protocol):
    """The authorizer that answers queries: a StandardAuthorizer, or a node that has one."""

    @property
    def state(self) -> AuthorizerState:
        """The current state."""

    def decide(self, context: AuthorizableRequestContext, action: Action) -> Decision:
        """Return one decision with its reason."""

    def authorized_operations(
        self, context: AuthorizableRequestContext, resource_type: ResourceType, name: str
    ) -> tuple[AclOperation, ...]:
        """Return the permitted operations on a resource (KIP-430)."""

    def authorize_by_resource_type(
        self, context: AuthorizableRequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> AuthorizationResult:
        """Return whether the operation is allowed on any resource of the type (KIP-679)."""

    def acls(self, acl_filter: AclBindingFilter) -> Iterator[AclBinding]:
        """Yield the ACLs that match, in Kafka's order."""

    def acl_count(self) -> int:
        """Return how many ACLs are in force, by id."""


def answer_query(authorizer: BatchAuthorizer, query: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one query by the current state. DecodeError: a field is missing, or has an invalid value."""
    kind = query.get("kind", "authorize")
    if kind not in _KINDS:
        raise DecodeError(f"a query's kind is one of {', '.join(_KINDS)}, not `{kind}`")
    try:
        return _KINDS[kind](authorizer, query)
    except KeyError as error:
        raise DecodeError(f"a query of kind {kind} has no field {error}") from None
    except ApiError as error:
        return {"error": f"{error.kafka_name}: {str(error) or 'null'}"}
    except ValueError as error:
        return {"error": f"IllegalArgumentException: {error}"}


def request_of_query(query: Mapping[str, Any]) -> tuple[RequestContext, Action]:
    """Return the request of a query of kind authorize.

    KeyError: a field is missing. DecodeError: an unknown name or code. ValueError: the principal has no
    colon, or the host is no IP address.
    """
    context = _context(query)
    action = Action(
        _code(AclOperation, query["operation"]),
        ResourcePattern(
            _code(ResourceType, query["resourceType"]),
            query["resourceName"],
            _code(PatternType, query.get("patternType", PatternType.LITERAL)),
        ),
        query.get("refCount", 1),
        query.get("logIfAllowed", True),
        query.get("logIfDenied", True),
    )
    return context, action


def _authorize(authorizer: BatchAuthorizer, query: Mapping[str, Any]) -> dict[str, Any]:
    context, action = request_of_query(query)
    decision = authorizer.decide(context, action)
    found: dict[str, Any] = {
        "result": decision.result.value,
        "rule": str(decision),
        **_host_address(query, context),
    }
    if query.get("audit"):
        level = audit_level(action, allowed=decision.is_allowed)
        found["audit"] = {
            "level": _LEVEL_NAMES[level],
            "message": audit_line(level, authorizer.state, context, action, decision).event,
        }
    return found


def _authorized_operations(authorizer: BatchAuthorizer, query: Mapping[str, Any]) -> dict[str, Any]:
    context = _context(query)
    operations = authorizer.authorized_operations(
        context, _code(ResourceType, query["resourceType"]), query["resourceName"]
    )
    return {
        "bits": to_bit_field(operations),
        "operations": [operation.name for operation in operations],
        **_host_address(query, context),
    }


def _authorize_by_resource_type(authorizer: BatchAuthorizer, query: Mapping[str, Any]) -> dict[str, Any]:
    context = _context(query)
    result = authorizer.authorize_by_resource_type(
        context, _code(AclOperation, query["operation"]), _code(ResourceType, query["resourceType"])
    )
    return {"result": result.value, **_host_address(query, context)}


def _acls(authorizer: BatchAuthorizer, query: Mapping[str, Any]) -> dict[str, Any]:
    acl_filter = AclBindingFilter(
        ResourcePatternFilter(
            _code(ResourceType, query.get("resourceType", ResourceType.ANY)),
            query.get("resourceName"),
            _code(PatternType, query.get("patternType", PatternType.ANY)),
        ),
        AccessControlEntryFilter(
            query.get("principal"),
            query.get("host"),
            _code(AclOperation, query.get("operation", AclOperation.ANY)),
            _code(AclPermissionType, query.get("permissionType", AclPermissionType.ANY)),
        ),
    )
    return {"acls": [_binding_json(binding) for binding in authorizer.acls(acl_filter)]}


def _acl_count(authorizer: BatchAuthorizer, _query: Mapping[str, Any]) -> dict[str, Any]:
    return {"aclCount": authorizer.acl_count()}


_KINDS: Final[dict[str, Callable[[BatchAuthorizer, Mapping[str, Any]], dict[str, Any]]]] = {
    "authorize": _authorize,
    "authorizedOperations": _authorized_operations,
    "authorizeByResourceType": _authorize_by_resource_type,
    "acls": _acls,
    "aclCount": _acl_count,
}


def _context(query: Mapping[str, Any]) -> RequestContext:
    return RequestContext(
        parse_kafka_principal(query["principal"]),
        host_address(query.get("host", DEFAULT_HOST)),
        request_type=query.get("apiKey", _FETCH),
    )


def _host_address(query: Mapping[str, Any], context: RequestContext) -> dict[str, str]:
    return {} if context.client_address == query.get("host") else {"hostAddress": context.client_address}


def _code(kind: type[_Code], value: object) -> _Code:
    """Parse a name as Kafka writes it, or a code."""
    if isinstance(value, int):
        return kind.from_code(value)
    if isinstance(value, str) and value.upper() in kind.__members__:
        return kind[value.upper()]
    raise DecodeError(f"`{value}` is no {kind.__name__}; there are {', '.join(kind.__members__)}")


def _binding_json(binding: AclBinding) -> dict[str, str]:
    pattern, entry = binding.pattern, binding.entry
    return {
        "resourceType": pattern.resource_type.name,
        "resourceName": pattern.name,
        "patternType": pattern.pattern_type.name,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permissionType": entry.permission_type.name,
    }
