"""Who asks for something of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_response import origin_of
from authorizer.sidecar.routes.request_state import ready_state

if TYPE_CHECKING:
    from starlette.requests import Request

    from authorizer.node.node import Node


def require_console(request: Request) -> None:
    """HttpError 404 where the console is not switched on."""
    if not origin_of(request).listener.has_console:
        raise HttpError(ErrorCode.NOT_FOUND, f"there is nothing at {request.url.path}")


def console_caller(node: Node, request: Request, name: str = "Console") -> Caller:
    """The caller, by the ACLs of now; ``name`` is what the audit log calls the request.

    Raises:
        HttpError: 404, the console is not switched on here.
        AuthorizerNotReadyError: nobody's rights can be relied on now.
    """
    require_console(request)
    return Caller(node, ready_state(node), origin_of(request), name)
