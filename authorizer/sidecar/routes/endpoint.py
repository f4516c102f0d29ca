"""Endpoint: declares what a handler takes and answers, for the router and for ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from starlette.routing import Route

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.request_response import JSON

_ENDPOINTS: Final = "__endpoints__"

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

#: Errors of endpoints that Kafka's ACLs guard.
GUARD_ERRORS: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.AUTHORIZER_NOT_READY)
#: Errors of endpoints that take ``min_offset`` and ``at_offset``.
STATE_ERRORS: Final = (*GUARD_ERRORS, ErrorCode.OFFSET_NOT_HELD, ErrorCode.OFFSET_NOT_VISIBLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A path of a handler.

    Attributes:
        methods: without HEAD, which comes with GET.
        answer: types of a 200's body; empty: not described.
        request: type of the body of a request, or of the query of a GET; None: neither.
        in_query: ``request`` is the query of every method.
        status: of a success; any but 200 has no body.
        example: of the request, by member.
        required: members of ``request`` that are required although the type has a default for them.
        headers: schemas of request headers, by name.
        errors: codes in addition to those of every endpoint.
        not_ready: type of the body of a 503 that is not an error.
    """

    methods: tuple[str, ...]
    path: str
    handler: str
    summary: str
    answer: tuple[Any, ...]
    status: HTTPStatus = HTTPStatus.OK
    description: str = "The answer"
    request: type[msgspec.Struct] | None = None
    in_query: bool = False
    example: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: tuple[ErrorCode, ...] = ()
    media_type: str = JSON
    not_ready: Any = None


def declare_endpoint(
    methods: str, path: str, summary: str, *answer: Any, **declared: Any
) -> Callable[[_Handler], _Handler]:
    """Declare an endpoint of the decorated handler; ``declared``: further attributes of Endpoint."""

    def declare(handler: _Handler) -> _Handler:
        name = handler.__name__
        found = Endpoint(
            methods=tuple(methods.split()),
            path=path,
            handler=name,
            summary=summary,
            answer=answer,
            **declared,
        )
        setattr(handler, _ENDPOINTS, (found, *getattr(handler, _ENDPOINTS, ())))
        return handler

    return declare


def endpoints_of(group: type) -> tuple[Endpoint, ...]:
    """The endpoints that the methods of a class declare, in the order of the source."""
    return tuple(found for member in vars(group).values() for found in getattr(member, _ENDPOINTS, ()))


def routes_of(handlers: object, group: type | None = None) -> list[Route]:
    """Routes to the handlers of an object; ``group``: those that this base class declares."""
    return [
        Route(found.path, getattr(handlers, found.handler), methods=list(found.methods))
        for found in endpoints_of(group or type(handlers))
    ]


def operations(endpoints: Iterable[Endpoint]) -> dict[tuple[str, str], Endpoint]:
    """Endpoints by method and path."""
    return {(method, found.path): found for found in endpoints for method in found.methods}
