"""Kafka's queries over HTTP: authorized operations, any resource of a type, filter, explain.

The rules:

- A caller may ask about itself; about others it needs Describe on the cluster (``caller_authorization``). The
  current ACLs decide that, also for a query about an earlier state.
- Queries that access nothing are audited at TRACE, as in KIP-430. Explanations are neither audited nor
  counted.
- An explanation has ACLs of other principals only for callers that may list ACLs.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from authorizer.api.authorizer_api import Action, AuthorizationResult, HttpRequestContext
from authorizer.api.http.answers.decisions import (
    AllowedNames,
    AuthorizedOperations,
    ByResourceType,
    ExplainedDecision,
)
from authorizer.engine.decisions.authorize import to_bit_field
from authorizer.engine.decisions.rules import acl_principals
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.request_decoding import decode_body, decode_query
from authorizer.sidecar.http.request_response import json_response, origin_of, read_body
from authorizer.sidecar.routes.endpoint import STATE_ERRORS, declare_endpoint
from authorizer.sidecar.routes.request_bodies import (
    AccessRequest,
    DecisionRequest,
    FilterRequest,
    OperationsRequest,
    ResourceTypeRequest,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.node.node import Node
    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.routes.request_state import RequestStates

_Query = TypeVar("_Query", bound=AccessRequest)

_EXAMPLE: Final = {"principal": "User:alice", "host": "10.0.0.1", "resourceType": "TOPIC"}


class KafkaQueryRoutes:
    """The handlers of one node."""

    def __init__(self, node: Node, load: LoadLimiter, states: RequestStates) -> None:
        self._node = node
        self._states = states
        self._load = load
        self._default_host = node.config.sidecar_default_host

    @declare_endpoint(
        "GET POST",
        "/v1/authorized-operations",
        "The operations that a principal may do to one resource (KIP-430)",
        AuthorizedOperations,
        request=OperationsRequest,
        example={**_EXAMPLE, "resourceName": "orders"},
        errors=STATE_ERRORS,
    )
    async def authorized_operations(self, request: Request) -> Response:
        query = await _decode_query(request, OperationsRequest)
        state, _, context = await self._authorize(request, query, "AuthorizedOperations")
        operations = self._node.authorizer.authorized_operations(
            context, query.type(), query.resource_name, state
        )
        return json_response(
            AuthorizedOperations(
                state.end_offset,
                state.end_offset,
                [operation.name for operation in operations],
                to_bit_field(operations),
            )
        )

    @declare_endpoint(
        "GET POST",
        "/v1/authorize-by-resource-type",
        "Whether a principal may do an operation to any resource of a type (KIP-679)",
        ByResourceType,
        request=ResourceTypeRequest,
        example={**_EXAMPLE, "operation": "READ"},
        errors=STATE_ERRORS,
    )
    async def authorize_by_resource_type(self, request: Request) -> Response:
        query = await _decode_query(request, ResourceTypeRequest)
        state, _, context = await self._authorize(request, query, "AuthorizeByResourceType")
        # Looks at all that the principal has.
        result = await asyncio.to_thread(
            self._node.authorizer.authorize_by_resource_type, context, query.code(), query.type(), state
        )
        return json_response(ByResourceType(state.end_offset, state.end_offset, result.value))

    @declare_endpoint(
        "POST",
        "/v1/filter",
        "Which of up to 10,000 resources a principal may do an operation to",
        AllowedNames,
        request=FilterRequest,
        example={**_EXAMPLE, "operation": "READ", "resourceNames": ["orders", "payments"]},
        errors=STATE_ERRORS,
    )
    async def filter(self, request: Request) -> Response:
        query = decode_body(await read_body(request), FilterRequest, request.url.path)
        self._load.require_item_count(len(query.resource_names), "names")
        state, _, context = await self._authorize(request, query, "Filter")

        def allowed() -> list[str]:
            results = self._node.authorizer.authorize(context, query.actions(), state)
            pairs = zip(query.resource_names, results, strict=True)
            return [name for name, result in pairs if result is AuthorizationResult.ALLOWED]

        names = await asyncio.to_thread(allowed)
        return json_response(AllowedNames(state.end_offset, state.end_offset, names))

    @declare_endpoint(
        "GET POST",
        "/v1/explain",
        "Why a principal may do an operation to a resource, or may not",
        ExplainedDecision,
        request=DecisionRequest,
        example={**_EXAMPLE, "resourceName": "orders", "operation": "READ"},
        errors=STATE_ERRORS,
    )
    async def explain(self, request: Request) -> Response:
        query = await _decode_query(request, DecisionRequest)
        state, caller, context = await self._authorize(request, query, "Explain")
        explained = partial(
            explained_decision,
            self._node,
            context,
            query.action(),
            state,
            shows_all=caller.may_list(),
            host_assumed=query.host is None,
        )
        return json_response(await asyncio.to_thread(explained))

    async def _authorize(
        self, request: Request, query: AccessRequest, name: str
    ) -> tuple[AuthorizerState, Caller, HttpRequestContext]:
        """Return the state, the caller and the query's context. Raises HttpError 403."""
        origin = origin_of(request)

        def authorized_caller(now: AuthorizerState) -> tuple[Caller, HttpRequestContext]:
            caller = Caller(self._node, now, origin, name)
            context = query.context(self._default_host, caller.context)
            caller.require_may_ask_about(context.principal)
            return caller, context

        state, now = await self._states.states(
            origin,
            authorized_caller,
            min_offset=query.min_offset,
            at_offset=query.at_offset,
            early_start=origin.listener.early_start,
        )
        return state, *authorized_caller(now)


def explained_decision(
    node: Node,
    context: HttpRequestContext,
    action: Action,
    state: AuthorizerState,
    *,
    shows_all: bool,
    host_assumed: bool,
) -> ExplainedDecision:
    """Explain a decision, without ACLs of other principals unless ``shows_all``.

    ``host_assumed``: the query has no host, so the context has the default.
    """
    explanation = node.authorizer.explain(context, action, state)
    if not shows_all:
        principals = acl_principals(context.principal)
        misses = tuple(each for each in explanation.near_misses if each.acl.record.principal in principals)
        explanation = replace(explanation, near_misses=misses)
    status = node.status()
    if status.freshness is not None:
        explanation = explanation.without_offsets()
    freshness = status.freshness if state.end_offset >= status.end_offset else None  # not of the past
    return ExplainedDecision(
        **msgspec.structs.asdict(explanation.answer()),
        host_assumed=host_assumed,
        high_watermark_is_guess=status.uncommitted_from is not None,
        uncommitted_from=status.uncommitted_from,
        age_ms=None if freshness is None else freshness.age_ms,
        near_misses_of_others=shows_all,
    )


async def _decode_query(request: Request, kind: type[_Query]) -> _Query:
    """Decode the query of a GET, or the body of a POST."""
    if request.method == "POST":
        return decode_body(await read_body(request), kind, request.url.path)
    return decode_query(request.scope["query_string"], kind)
