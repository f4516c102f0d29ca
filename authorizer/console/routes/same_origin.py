"""Which requests the page itself has sent: what the page may change, no other page may (0046).

Who asks may be known by a certificate or by being on this machine, which a browser gives to every page. So
what a request says of the page that it comes from is compared with where this page is.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.configuration.keys.names import PUBLIC_URL, TRUSTED_PROXIES
from authorizer.sidecar.http.errors import HttpError, invalid_request
from authorizer.sidecar.http.host_header import parse_host
from authorizer.sidecar.http.request_origin import misdirected
from authorizer.sidecar.http.request_response import JSON, origin_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from authorizer.sidecar.http.connection_peer import Peer
    from authorizer.sidecar.http.listener import Listener

_SAME_ORIGIN: Final = "same-origin"


def require_same_origin(request: Request) -> None:
    """Refuse what does not come from this page, as far as one browser can tell from another's request.

    Raises:
        HttpError: 421, it is addressed to a name that is not this sidecar's; 403, it comes from another page,
            or from none; 400, a form or a link could have sent it.
    """
    listener = origin_of(request).listener
    allowed = _origins(request, listener)
    headers = request.headers
    sites = headers.getlist("sec-fetch-site")
    origins = headers.getlist("origin")
    if len(origins) != 1 or origins[0] not in allowed or (sites and sites != [_SAME_ORIGIN]):
        here = f" at {' or '.join(sorted(allowed))}" if allowed else ""
        said = ", ".join(origins)[:200] or "no page"
        raise HttpError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"only the console's own page{here} may ask this, and the request says it comes from {said}. "
            f"If people reach the page through a proxy, set {PUBLIC_URL} to its address there, and name the "
            f"proxy in {TRUSTED_PROXIES} if it changes Host. Programs use /v1/acls and /v1/plans",
        )
    # A page elsewhere has to ask first whether it may send this type (CORS), and is never answered yes.
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HttpError(ErrorCode.INVALID_HEADER, f"Content-Type must be {JSON}")
    if request.url.query:
        raise invalid_request(f"{request.url.path} takes no query: what it is about goes into the body")


def _origins(request: Request, listener: Listener) -> set[str]:
    """What a browser calls the page where this request was sent to. HttpError: 421."""
    peer: Peer = request.scope["state"]["peer"]
    public = set() if listener.public_origin is None else {listener.public_origin}
    if peer.is_proxy:
        return public
    hosts = request.headers.getlist("host")
    if len(hosts) != 1 or not (listener.is_addressed(hosts[0]) or _is_address(parse_host(hosts[0]))):
        raise misdirected(", ".join(hosts)[:200], listener)
    if any(hosts[0] == each.partition("://")[2] for each in public):
        return public
    return public | {f"{listener.url.partition('://')[0]}://{hosts[0]}"}


def _is_address(host: str | None) -> bool:
    """An address cannot be made to mean another machine."""
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True
