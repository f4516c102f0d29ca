"""Calls of the HTTP API: requests, and the decoders of their answers. Pure: no sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET

from authorizer.api.errors import (
    SidecarError,
    SidecarRefusedError,
    SidecarRequestError,
)
from authorizer.api.http.acl_requests import (
    ACLS_PATH,
    PLANS_PATH,
    creation_body,
    deletion_body,
    listing_query,
)
from authorizer.api.http.answers.acls import (
    AclList,
    AppliedAcl,
    CreationResults,
    DeletionResults,
    PlanOutcomes,
    SingleAcl,
)
from authorizer.api.http.answers.decisions import (
    AllowedNames,
    AuthorizedOperations,
    ByResourceType,
    ExplainedDecision,
)
from authorizer.api.http.answers.decisions import Decision as DecisionAnswer
from authorizer.api.http.answers.decisions import Decisions as DecisionsAnswer
from authorizer.api.http.answers.node import NodeState
from authorizer.client.messages import AuthorizationRequest, Decision
from records.acl import AclBinding, AclBindingFilter, AclOperation, ResourceType
from records.principal import KafkaPrincipal

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

#: Decisions of one HTTP request; a sidecar accepts 10,000, and 4 MiB.
REQUESTS_MAXIMUM: Final = 5_000

_FORBIDDEN: Final = (401, 403)
_ANY: Final = AclBindingFilter()


class NotReadyError(Exception):
    """The node is not ready; the message says why."""


@dataclass(frozen=True, slots=True)
class Call(Generic[_T_co]):
    """An HTTP request and the decoder of its answer.

    Attributes:
        decode: returns the value of an answer's body; raises ValueError, KeyError or TypeError.
        is_change: whether it changes ACLs, so that it must not be repeated if it may have had an effect.
    """

    method: str
    target: str
    decode: Callable[[bytes], _T_co]
    body: bytes | None = None
    is_change: bool = False

    def then(self, make: Callable[[_T_co], _T]) -> Call[_T]:
        """Return the same request, with ``make`` applied to its value; ``make`` raises as ``decode``."""
        return Call(self.method, self.target, lambda body: make(self.decode(body)), self.body, self.is_change)


def decision(
    request: AuthorizationRequest, *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[Decision]:
    """Decide one request."""
    body = _evaluation(request) | _evaluation_context(request, min_offset, at_offset)
    return Call("POST", "/access/v1/evaluation", _decision_from_body, msgspec.json.encode(body))


def decisions(
    requests: Sequence[AuthorizationRequest], *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[list[Decision | SidecarError]]:
    """Decide at most REQUESTS_MAXIMUM requests, all on one state; a refused one has an error in its place."""

    def decode(body: bytes) -> list[Decision | SidecarError]:
        answers = msgspec.json.decode(body, type=DecisionsAnswer).evaluations
        if len(answers) != len(requests):
            raise ValueError(f"{len(answers)} answers to {len(requests)} requests")
        return [_decision_or_error(answer) for answer in answers]

    evaluations = [_evaluation(each) | _evaluation_context(each, min_offset, at_offset) for each in requests]
    body = msgspec.json.encode({"evaluations": evaluations})
    return Call("POST", "/access/v1/evaluations", decode, body)


def explanation(
    request: AuthorizationRequest, *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[ExplainedDecision]:
    """Explain a decision."""
    body = {
        **_request_body(request.principal, request.host, min_offset, at_offset),
        "operation": request.operation.name,
        "resourceType": request.resource_type.name,
        "resourceName": request.resource_name,
    }
    return _json_call("/v1/explain", body, ExplainedDecision)


def authorized_operations(
    principal: KafkaPrincipal,
    resource_type: ResourceType,
    resource_name: str,
    *,
    host: str | None = None,
    min_offset: int | None = None,
    at_offset: int | None = None,
) -> Call[AuthorizedOperations]:
    """List a principal's authorized operations on a resource (KIP-430)."""
    body = _request_body(principal, host, min_offset, at_offset)
    body |= {"resourceType": resource_type.name, "resourceName": resource_name}
    return _json_call("/v1/authorized-operations", body, AuthorizedOperations)


def by_resource_type(
    principal: KafkaPrincipal,
    operation: AclOperation,
    resource_type: ResourceType,
    *,
    host: str | None = None,
    min_offset: int | None = None,
    at_offset: int | None = None,
) -> Call[ByResourceType]:
    """Decide whether the operation is allowed on any resource of the type (KIP-679)."""
    body = _request_body(principal, host, min_offset, at_offset)
    body |= {"operation": operation.name, "resourceType": resource_type.name}
    return _json_call("/v1/authorize-by-resource-type", body, ByResourceType)


def filtered(
    principal: KafkaPrincipal,
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    host: str | None = None,
    min_offset: int | None = None,
    at_offset: int | None = None,
) -> Call[AllowedNames]:
    """Select the allowed ones of up to 10,000 names."""
    body = _request_body(principal, host, min_offset, at_offset)
    body |= {
        "operation": operation.name,
        "resourceType": resource_type.name,
        "resourceNames": list(names),
    }
    return _json_call("/v1/filter", body, AllowedNames)


def listing(
    acl_filter: AclBindingFilter = _ANY, *, min_offset: int | None = None, at_offset: int | None = None
) -> Call[AclList]:
    """List the ACLs that match a filter."""
    offsets = urlencode(_offsets(min_offset, at_offset))
    query = listing_query(acl_filter) + (f"&{offsets}" if offsets else "")
    return Call("GET", f"{ACLS_PATH}?{query}", msgspec.json.Decoder(AclList).decode)


def acl(acl_id: str) -> Call[AppliedAcl]:
    """Get an ACL by its id."""

    def decode(body: bytes) -> AppliedAcl:
        return msgspec.json.decode(body, type=SingleAcl).acl

    return Call("GET", f"{ACLS_PATH}/{quote(acl_id, safe='')}", decode)


def creation(bindings: Iterable[AclBinding]) -> Call[CreationResults]:
    """Create ACLs."""
    decode = msgspec.json.Decoder(CreationResults).decode
    return Call("POST", ACLS_PATH, decode, creation_body(bindings), is_change=True)


def deletion(filters: Iterable[AclBindingFilter]) -> Call[DeletionResults]:
    """Remove the ACLs that match any of the filters."""
    decode = msgspec.json.Decoder(DeletionResults).decode
    return Call("DELETE", ACLS_PATH, decode, deletion_body(filters), is_change=True)


def plan_application(plan: bytes) -> Call[PlanOutcomes]:
    """Apply a plan file of ``aclog plan --output``."""
    return Call("POST", PLANS_PATH, msgspec.json.Decoder(PlanOutcomes).decode, plan, is_change=True)


def state() -> Call[NodeState]:
    """Get the node's state."""
    return Call("GET", "/v1/state", msgspec.json.Decoder(NodeState).decode)


def readiness() -> Call[NodeState]:
    """Get the node's state once it is ready: until then, decoding raises NotReadyError."""

    def decode(body: bytes) -> NodeState:
        node_state = msgspec.json.decode(body, type=NodeState)
        if not node_state.ready:
            raise NotReadyError(f"not ready: {node_state.reason}")
        return node_state

    return Call("GET", "/v1/state", decode)


def _json_call(path: str, body: dict[str, Any], answer_type: type[_T]) -> Call[_T]:
    return Call("POST", path, msgspec.json.Decoder(answer_type).decode, msgspec.json.encode(body))


def _offsets(min_offset: int | None, at_offset: int | None) -> dict[str, Any]:
    offsets = {"min_offset": min_offset, "at_offset": at_offset}
    return {name: offset for name, offset in offsets.items() if offset is not None}


def _request_body(
    principal: KafkaPrincipal, host: str | None, min_offset: int | None, at_offset: int | None
) -> dict[str, Any]:
    host_field = {} if host is None else {"host": host}
    return {"principal": str(principal), **host_field, **_offsets(min_offset, at_offset)}


def _evaluation(request: AuthorizationRequest) -> dict[str, Any]:
    principal = request.principal
    return {
        "subject": {"type": principal.principal_type, "id": principal.name},
        "action": {"name": request.operation.name},
        "resource": {"type": request.resource_type.name, "id": request.resource_name},
    }


def _evaluation_context(
    request: AuthorizationRequest, min_offset: int | None, at_offset: int | None
) -> dict[str, dict[str, Any]]:
    context = _offsets(min_offset, at_offset)
    if request.host is not None:
        context["host"] = request.host
    if not request.log_if_allowed:
        context["log_if_allowed"] = False
    if not request.log_if_denied:
        context["log_if_denied"] = False
    if request.explain:
        context["explain"] = True
    return {"context": context}


def _decision_from_body(body: bytes) -> Decision:
    return _decision(msgspec.json.decode(body, type=DecisionAnswer))


def _decision(answer: DecisionAnswer) -> Decision:
    """Raises ValueError if the answer lacks a rule, a reason or an offset."""
    context = answer.context
    if context.offset is UNSET or context.rule is UNSET or context.reason is UNSET:
        raise ValueError("a decision without a rule, a reason or an offset")
    acl = None if context.acl is UNSET else context.acl
    return Decision(answer.decision, context.rule, context.reason, context.offset, acl)


def _decision_or_error(answer: DecisionAnswer) -> Decision | SidecarError:
    error = answer.context.error
    if error is UNSET:
        return _decision(answer)
    kind = SidecarRefusedError if error.status in _FORBIDDEN else SidecarRequestError
    return kind(error.message, status=error.status, code=error.code)
