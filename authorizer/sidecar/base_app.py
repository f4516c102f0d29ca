"""BaseApp: routing, identification of callers, limits and error responses of every application.

The caller is a principal (``auth``), whose rights come from Kafka's ACLs (``caller_authorization``). The
client's address is the peer's; only a trusted proxy can send another one in a header.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from time import perf_counter
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route, Router

from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.api.http.answers.node import Index
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.auth.authenticator import bearer_of_basic
from authorizer.sidecar.http.application import Application, InlineEndpoint
from authorizer.sidecar.http.errors import RETRY, HttpError
from authorizer.sidecar.http.limits import LoadLimiter, is_health
from authorizer.sidecar.http.request_metrics import OTHER, RequestMetrics
from authorizer.sidecar.http.request_origin import Origin, find_origin
from authorizer.sidecar.http.request_response import (
    CONFLUENT_PATH,
    PART_BYTES,
    error_response,
    hold_answer,
    json_response,
    request_id_of,
    send_in_parts,
)
from authorizer.sidecar.routes.endpoint import declare_endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

    from authorizer.sidecar.auth.authenticator import Authenticator
    from authorizer.sidecar.route_group import RouteGroup

log = structlog.get_logger(__name__)

#: Need no token: orchestrators and generators of clients request them, and they contain nothing secret.
PUBLIC_PATHS: Final = ("/livez", "/readyz", "/openapi.json")
_INTERNAL_ERROR: Final = HttpError(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error: see the sidecar's log")


class BaseApp(Application):
    """Application with routes. The protocol puts the connection's peer into each request's state.

    Attributes:
        authenticator: identifies the caller before a handler is called.
        inline_endpoints: answered by the protocol, by the path as a request line has it.
    """

    authenticator: Authenticator
    inline_endpoints: dict[bytes, InlineEndpoint]

    def __init__(self, authenticator: Authenticator, load: LoadLimiter, requests: RequestMetrics) -> None:
        self.authenticator = authenticator
        self.load = load
        self.requests = requests
        self.inline_endpoints = {}
        self._group: RouteGroup | None = None
        self._routes: Sequence[Route] = ()
        self._endpoints: Mapping[str, str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; WebSockets are not supported."""
        if scope["type"] != "http":
            raise TypeError(f"the sidecar speaks HTTP only, not {scope['type']}")
        begun_s, in_flight = perf_counter(), self.requests.in_flight
        endpoint = self.endpoint(scope["path"])
        status: int | None = None

        async def send_with_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        in_flight[endpoint] = in_flight.get(endpoint, 0) + 1
        try:
            await self._answer(scope, receive, send_with_status)
        finally:
            in_flight[endpoint] -= 1
            self.requests.add(scope["method"], endpoint, status, perf_counter() - begun_s)

    def endpoint(self, path: str) -> str:
        """The path of the matching route, as a label of metrics and traces."""
        if endpoint := self._endpoints.get(path):
            return endpoint
        return next((route.path for route in self._routes if route.path_regex.match(path)), OTHER)

    def end_streams(self) -> None:
        """End streams and background work, which have no end of their own. Thread-safe."""
        if self._group is not None:
            self._group.close()

    def _set_routes(self, routes: Sequence[Route], group: RouteGroup | None = None) -> None:
        if group is not None:
            self._group, routes = group, [*routes, *group.routes]
        self._routes = routes
        self._router = Router(list(routes), redirect_slashes=False)
        self._endpoints = {route.path: route.path for route in routes}

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        request_id: str | None = None
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] != "http.response.start":
                await send_in_parts(message, send)
                return
            headers = MutableHeaders(scope=message)
            size = int(headers.get("content-length", 0))
            # All requests for metrics share one text.
            if size > PART_BYTES and not has_begun and not is_health(scope["path"]):
                hold_answer(request, size)
            has_begun = True
            headers["cache-control"] = "no-store"
            if request_id is not None:
                headers["x-request-id"] = request_id
            await send(message)

        # Starlette raises HTTPException only if the scope has an application that catches it.
        scope["app"] = self
        scope["state"]["held_bytes"] = scope["state"]["held_answer_bytes"] = 0
        try:
            request_id = request_id_of(request)
            request.state.origin = await self._origin(request, request_id)
            await self._router(scope, receive, send_with_headers)
        except ConnectionResetError:
            return
        except Exception as error:
            response = self.error_response_for(error, scope["path"], scope["method"])
            if has_begun:
                raise
            await response(scope, receive, send_with_headers)
        finally:
            self.load.release(scope["state"]["held_bytes"])
            self.load.release_answer(scope["state"]["held_answer_bytes"])

    async def _origin(self, request: Request, request_id: str | None) -> Origin:
        """Identify the listener, the caller and the client's address."""
        path, in_flight = request.scope["path"], self.requests.in_flight
        refusal: HttpError | None = request.scope["state"].get("refusal")
        refusal = refusal or self.load.refusal(path, sum(in_flight.values()) - 1)
        if refusal is not None:
            raise refusal
        origin = find_origin(request.scope)
        if path in PUBLIC_PATHS or (
            self._group is not None and self._group.is_public(request, origin.listener)
        ):
            return origin
        authorization = [value for name, value in request.scope["headers"] if name == b"authorization"]
        if path.startswith(CONFLUENT_PATH):
            authorization = [bearer_of_basic(value) for value in authorization]
        principal = await self.authenticator.caller(authorization, origin)
        return replace(origin, principal=principal, request_id=request_id)

    def error_response_for(self, error: Exception, path: str, method: str) -> Response:
        """Return the response for an exception: an error, never a decision."""
        return error_response(self._answer_for(error, path, method), path)

    def _answer_for(self, error: Exception, path: str, method: str) -> HttpError:
        match error:
            case HttpError():
                return error
            case AuthorizerNotReadyError():
                return not_ready_error(self._not_ready_reason())
            case HTTPException(status_code=HTTPStatus.NOT_FOUND):
                return self._not_found_error(path)
            case HTTPException(status_code=HTTPStatus.METHOD_NOT_ALLOWED):
                here = (route.methods for route in self._routes if route.path_regex.match(path))
                allowed = ", ".join(method for methods in here for method in sorted(methods or ()))
                return HttpError(
                    ErrorCode.METHOD_NOT_ALLOWED,
                    f"{path} takes {allowed}, not {method}",
                    {"allow": allowed},
                )
            case _:
                log.error("request_failed", path=path, exc_info=error)
                return _INTERNAL_ERROR

    @abstractmethod
    def _not_ready_reason(self) -> str:
        """Why the node must not decide yet."""

    def _not_found_error(self, path: str) -> HttpError:
        return HttpError(ErrorCode.NOT_FOUND, f"there is nothing at {path}; see {', '.join(self._methods())}")

    def _methods(self) -> dict[str, list[str]]:
        """Methods by path, in the order of the routes, without those of web pages."""
        methods: dict[str, list[str]] = {}
        for route in self._routes:
            if not route.include_in_schema:
                continue
            methods.setdefault(route.path, []).extend(sorted(route.methods or ()))
        return methods

    @declare_endpoint("GET", "/", "The program, and its paths", Index)
    async def _front(self, request: Request) -> Response:
        page = None if self._group is None else self._group.front_page(request)
        if page is not None:
            return page
        return json_response(
            Index(
                name="aclog",
                version=version("aclog"),
                description="Kafka's ACL decisions outside the broker, over HTTP (AuthZEN 1.0)",
                paths=self._methods(),
            )
        )


def not_ready_error(reason: str) -> HttpError:
    """503: the node must not decide yet."""
    return HttpError(ErrorCode.AUTHORIZER_NOT_READY, f"AUTHORIZER_NOT_READY: {reason}", RETRY)
