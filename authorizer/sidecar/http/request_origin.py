"""Origin of a request: its listener, the caller, and the client's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.api.ip_address import host_address
from authorizer.listeners.listener import Listener
from authorizer.sidecar.http.errors import HttpError

if TYPE_CHECKING:
    from starlette.types import Scope

    from authorizer.listeners.connection_peer import Peer
    from records.principal import KafkaPrincipal

_HOST: Final = b"host"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one request comes from.

    Attributes:
        address: the client's, in the form of ACL hosts; empty for a Unix socket.
        request_id: the client's id of the request (X-Request-ID).
    """

    listener: Listener
    principal: KafkaPrincipal
    address: str
    request_id: str | None = None


def find_origin(scope: Scope) -> Origin:
    """Return the origin of a request; the protocol has put the peer into the scope's state.

    HttpError: 400, a trusted proxy has sent an invalid address; 403, the peer has no principal; 421, the
    request is for another host.
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
    """421: the Host is not this sidecar's, as when a web page uses DNS rebinding."""
    return HttpError(
        ErrorCode.MISDIRECTED_REQUEST,
        f"Host `{header}` is none of this sidecar's names on listener {listener.name}: use {listener.url}. "
        "If clients use another name, set aclog.sidecar.public.url to it; if a proxy sends this, "
        "name the proxy in aclog.trusted.proxies",
    )
