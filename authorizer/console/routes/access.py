"""Access checks of the console's requests: console enabled, rights of the caller, same origin.

Only the console's own page may send changes (ADR 0046). A browser sends client certificates and local
connections for every page, so the guard compares the request's Origin with the console's.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.configuration.keys.names import PUBLIC_URL, TRUSTED_PROXIES
from authorizer.listeners.listener import Listener, parse_host
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.request_origin import misdirected_error
from authorizer.sidecar.http.request_response import JSON, origin_of
from authorizer.sidecar.routes.request_state import ready_state

if TYPE_CHECKING:
    from starlette.requests import Request

    from authorizer.listeners.connection_peer import Peer
    from authorizer.node.node import Node

_SAME_ORIGIN: Final = "same-origin"


def require_console(request: Request) -> None:
    """Raise HttpError 404 if the listener has no console."""
    if not origin_of(request).listener.has_console:
        raise HttpError(ErrorCode.NOT_FOUND, f"there is nothing at {request.url.path}")


def console_caller(node: Node, request: Request, name: str = "Console") -> Caller:
    """Return the caller, with rights by the current ACLs; HttpError 404: the listener has no console.

    ``name`` is the request's name in the audit log.
    """
    require_console(request)
    return Caller(node, ready_state(node), origin_of(request), name)


def require_same_origin(request: Request) -> None:
    """Reject requests of other pages.

    HttpError: 421, the Host header is not a name of this sidecar; 403, the Origin is another page, or
    missing; 400, a form or a link could have sent the request.
    """
    listener = origin_of(request).listener
    allowed_origins = _origins(request, listener)
    headers = request.headers
    sites = headers.getlist("sec-fetch-site")
    origins = headers.getlist("origin")
    if len(origins) != 1 or origins[0] not in allowed_origins or (sites and sites != [_SAME_ORIGIN]):
        addresses = f" at {' or '.join(sorted(allowed_origins))}" if allowed_origins else ""
        sender = ", ".join(origins)[:200] or "no page"
        raise HttpError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"only the console's own page{addresses} may send this request, but its Origin is {sender}. "
            f"If people reach the page through a proxy, set {PUBLIC_URL} to its address there, and name the "
            f"proxy in {TRUSTED_PROXIES} if it changes Host. Programs use /v1/acls and /v1/plans",
        )
    # For this type, a page elsewhere must send a CORS preflight request, which is never granted.
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HttpError(ErrorCode.INVALID_HEADER, f"Content-Type must be {JSON}")
    if request.url.query:
        raise invalid_request(f"{request.url.path} takes no query: put the parameters into the body")


def _origins(request: Request, listener: Listener) -> set[str]:
    """The origins of the page at the address of this request. HttpError: 421."""
    peer: Peer = request.scope["state"]["peer"]
    public = set() if listener.public_origin is None else {listener.public_origin}
    if peer.is_proxy:
        return public
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not (listener.is_addressed(hosts[0]) or _is_address(parse_host(hosts[0]))):
        raise misdirected_error(", ".join(hosts)[:200], listener)
    if any(hosts[0] == each.partition("://")[2] for each in public):
        return public
    return public | {f"{listener.url.partition('://')[0]}://{hosts[0]}"}


def _is_address(host: str | None) -> bool:
    """Whether a host is an IP address, which DNS cannot point to another machine."""
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True
