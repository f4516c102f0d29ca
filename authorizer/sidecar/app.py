"""The sidecar's ASGI application: which handler has which path, and what holds for every answer.

The caller is a principal (``authentication``), and Kafka's own ACLs guard it (``caller.py``). Its address is
the peer's; a header says another one only where the peer is a trusted proxy.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route, Router

from authorizer.errors import AuthorizerNotReadyError
from authorizer.sidecar.acl_bodies import ACLS_PATH
from authorizer.sidecar.acls import AclRoutes
from authorizer.sidecar.changes import ChangeRoutes
from authorizer.sidecar.errors import RETRY, ErrorCode, HttpError
from authorizer.sidecar.evaluations import EVALUATION_PATH, EVALUATIONS_PATH, Evaluations
from authorizer.sidecar.http import error_response, json_response, request_id_of
from authorizer.sidecar.kafka_questions import KafkaQuestionRoutes
from authorizer.sidecar.node_routes import NodeRoutes
from authorizer.sidecar.openapi import openapi_document
from authorizer.sidecar.origin import find_origin
from authorizer.sidecar.searches import SearchRoutes

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

    from authorizer.node import Node
    from authorizer.sidecar.authentication.authenticator import Authenticator
    from authorizer.sidecar.origin import Origin

log = structlog.get_logger(__name__)

#: An orchestrator or a generator of clients asks them without a token, and they say nothing that is secret.
_FOR_EVERYONE: Final = ("/livez", "/readyz", "/openapi.json")
_INTERNAL_ERROR: Final = HttpError(ErrorCode.UNKNOWN_SERVER_ERROR, "internal error: see the sidecar's log")


class SidecarApp:
    """ASGI 3 application for all listeners: each request says which one it came in on (``protocol``).

    Attributes:
        authenticator: says whose each request is, before anything else is done with it.
    """

    def __init__(self, node: Node, authenticator: Authenticator) -> None:
        acls, of_node = AclRoutes(node), NodeRoutes(node)
        self._evaluations = Evaluations(node)
        questions, searches = KafkaQuestionRoutes(node), SearchRoutes(node)
        self._node = node
        self.authenticator = authenticator
        self._changes = ChangeRoutes(node)
        self._routes = [
            Route("/", self._index),
            Route(EVALUATION_PATH, self._evaluations.handle, methods=["POST"]),
            Route(EVALUATIONS_PATH, self._evaluations.handle, methods=["POST"]),
            Route("/access/v1/search/subject", searches.subject, methods=["POST"]),
            Route("/access/v1/search/resource", searches.resource, methods=["POST"]),
            Route("/access/v1/search/action", searches.action, methods=["POST"]),
            Route("/.well-known/authzen-configuration", of_node.authzen_configuration),
            Route(ACLS_PATH, acls.describe),
            Route(ACLS_PATH, acls.create, methods=["POST"]),
            Route(ACLS_PATH, acls.delete, methods=["DELETE"]),
            Route(f"{ACLS_PATH}/{{id}}", acls.describe_one),
            Route("/v1/authorized-operations", questions.authorized_operations, methods=["GET", "POST"]),
            Route(
                "/v1/authorize-by-resource-type",
                questions.authorize_by_resource_type,
                methods=["GET", "POST"],
            ),
            Route("/v1/filter", questions.filter, methods=["POST"]),
            Route("/v1/explain", questions.explain, methods=["GET", "POST"]),
            Route("/v1/changes", self._changes.changes),
            Route("/v1/state", of_node.state),
            Route("/livez", of_node.livez),
            Route("/readyz", of_node.readyz),
            Route("/metrics", of_node.metrics),
            Route("/openapi.json", self._describe),
        ]
        self._document = openapi_document(self._routes, _FOR_EVERYONE)
        self._router = Router(self._routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; WebSockets are not offered."""
        if scope["type"] != "http":
            raise TypeError(f"the sidecar speaks HTTP only, not {scope['type']}")
        request = Request(scope, receive)
        request_id: str | None = None
        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                headers["cache-control"] = "no-store"
                if request_id is not None:
                    headers["x-request-id"] = request_id
            await send(message)

        # Starlette raises HTTPException only where there is an application that catches it.
        scope["app"] = self
        try:
            request_id = request_id_of(request)
            request.state.origin = await self._origin(request)
            await self._router(scope, receive, send_with_headers)
        except ConnectionResetError:
            return
        except Exception as error:
            response = error_response(self._answer_for(error, scope["path"], scope["method"]), scope["path"])
            if has_begun:
                raise
            await response(scope, receive, send_with_headers)

    async def _origin(self, request: Request) -> Origin:
        """Where it comes from and who asks.

        Raises:
            HttpError: the caller is not believed.
        """
        origin = find_origin(request.scope)
        if request.scope["path"] in _FOR_EVERYONE:
            return origin
        authorization = [value for name, value in request.scope["headers"] if name == b"authorization"]
        return replace(origin, principal=await self.authenticator.caller(authorization, origin))

    def end_streams(self) -> None:
        """End what would not end by itself. For any thread."""
        self._changes.close()

    def answer_at_once(self, path: str, body: bytes, origin: Origin) -> bytes | Response | None:
        """The answer to a POST to one of the two paths of ``Evaluations``, for the protocol.

        Returns:
            The JSON of a 200; any other answer; None if the request must wait and is to take ASGI's way.
        """
        try:
            return self._evaluations.answer_at_once(path, body, origin)
        except Exception as error:  # noqa: BLE001 - as below: the client gets an error, never a decision
            return error_response(self._answer_for(error, path, "POST"), path)

    def _answer_for(self, error: Exception, path: str, method: str) -> HttpError:
        match error:
            case HttpError():
                return error
            case AuthorizerNotReadyError():
                reason = self._node.authorizer.state.not_ready_reason
                return HttpError(ErrorCode.AUTHORIZER_NOT_READY, f"AUTHORIZER_NOT_READY: {reason}", RETRY)
            case HTTPException(status_code=HTTPStatus.NOT_FOUND):
                return HttpError(
                    ErrorCode.NOT_FOUND, f"there is nothing at {path}; see {', '.join(self._methods())}"
                )
            case HTTPException(status_code=HTTPStatus.METHOD_NOT_ALLOWED):
                here = (route.methods for route in self._routes if route.path_regex.match(path))
                allowed = ", ".join(method for methods in here for method in sorted(methods or ()))
                return HttpError(
                    ErrorCode.METHOD_NOT_ALLOWED,
                    f"{path} takes {allowed}, not {method}",
                    {"allow": allowed},
                )
            case _:
                # The last line of defence: the client gets an error, never a decision.
                log.error("request_failed", path=path, exc_info=error)
                return _INTERNAL_ERROR

    def _methods(self) -> dict[str, list[str]]:
        """Of each path, in the order of the routes."""
        methods: dict[str, list[str]] = {}
        for route in self._routes:
            methods.setdefault(route.path, []).extend(sorted(route.methods or ()))
        return methods

    async def _index(self, _request: Request) -> Response:
        return json_response(
            {
                "name": "aclog",
                "version": version("aclog"),
                "description": "Kafka's ACL decisions outside the broker, over HTTP (AuthZEN 1.0)",
                "paths": self._methods(),
            }
        )

    async def _describe(self, _request: Request) -> Response:
        return json_response(self._document)
