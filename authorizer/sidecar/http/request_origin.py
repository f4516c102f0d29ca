"""Where a request comes from: the listener it came in on, the caller, and the client's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.api.ip_address import host_address
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.listener import Listener

if TYPE_CHECKING:
    from starlette.types import Scope

    from authorizer.sidecar.http.connection_peer import Peer
    from records.principal import KafkaPrincipal

_HOST: Final = b"host"


@dataclass(frozen=True, slots=True)
class Origin:
    """One request's.

    Attributes:
        listener: where it came in.
        principal: the caller.
        address: the client's as ACL hosts are written; empty when there is none (a UNIX socket).
        request_id: what the client calls the request (X-Request-ID).
    """

    listener: Listener
    principal: KafkaPrincipal
    address: str
    request_id: str | None = None


def find_origin(scope: Scope) -> Origin:
    """The origin of a request in ASGI's terms, whose connection the protocol has put into its state.

    Raises:
        HttpError: 400, a trusted proxy has forwarded what is no address; 403, the peer has no principal;
            421, the request was meant for another host.
    """
    peer: Peer = scope["state"]["peer"]
    if peer.refusal is not None:
        raise HttpError(ErrorCode.NO_PRINCIPAL, peer.refusal)
    listener = peer.listener
    if listener.checks_names and not peer.is_proxy:
        for name, value in scope["headers"]:
            if name == _HOST and not listener.is_addressed(header := value.decode("latin-1")):
                raise misdirected_error(header, listener)
    client = scope["client"]
    if client is None:
        return Origin(listener, peer.principal, "")
    try:
        return Origin(listener, peer.principal, host_address(client[0]))
    except ValueError as error:
        raise HttpError(ErrorCode.INVALID_HEADER, f"X-Forwarded-For: {error}") from error


def misdirected_error(header: str, listener: Listener) -> HttpError:
    """421: a web page's own name was made to mean this machine (DNS rebinding); its Host says so."""
    return HttpError(
        ErrorCode.MISDIRECTED_REQUEST,
        f"Host `{header}` is none of this sidecar's names on listener {listener.name}: ask {listener.url}. "
        "If clients know it by another name, set aclog.sidecar.public.url to that; if a proxy sends this, "
        "name the proxy in aclog.trusted.proxies",
    )
