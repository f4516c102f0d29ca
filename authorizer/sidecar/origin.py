"""Where a request comes from: the listener it came in on, and the client's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from authorizer.host import host_address
from authorizer.sidecar.errors import ErrorCode, HttpError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope


@dataclass(frozen=True, slots=True)
class Listener:
    """What a request's listener means for it; all of them are PLAINTEXT so far.

    Attributes:
        name: as configured.
        early_start: decides for super users before the node is ready (KIP-801).
        url: where it is, without a slash at the end.
        is_local: the socket in the log's directory, where everything is allowed (``local_socket``).
    """

    name: str
    early_start: bool
    url: str
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """One request's.

    Attributes:
        listener: where it came in.
        address: the client's as ACL hosts are written; empty when there is none (a UNIX socket).
    """

    listener: Listener
    address: str


def find_origin(scope: Scope, listeners: Mapping[int | None, Listener]) -> Origin:
    """The origin of a request in ASGI's terms; ``listeners`` by their ports.

    Raises:
        HttpError: 400, a trusted proxy has forwarded what is no address.
    """
    client, server = scope["client"], scope["server"]
    listener = listeners[server[1]]
    if client is None:
        return Origin(listener, "")
    try:
        return Origin(listener, host_address(client[0]))
    except ValueError as error:
        raise HttpError(ErrorCode.INVALID_HEADER, f"X-Forwarded-For: {error}") from error
