"""What a running node says of itself: its ``/v1/state``, for a log that is compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.api.errors import SidecarUnavailableError
from authorizer.cli.sidecar import asked_sidecar

if TYPE_CHECKING:
    from authorizer.client.answers import NodeState


def node_state(url: str) -> NodeState:
    """Ask the node whose sidecar listens at ``http://HOST:PORT``, with the command's credentials.

    Raises:
        SidecarError: nothing answers there, it is not an aclog, or it does not know its log yet.
    """
    from authorizer.client import calls

    with asked_sidecar(url.rstrip("/").removesuffix("/v1/state")) as client:
        state = client.ask(calls.state())
    if state.cluster_id is None:
        raise SidecarUnavailableError(f"{url}: not ready: {state.reason}")
    return state


def is_node(url: str) -> bool:
    """Whether a URL names a running node rather than a log or a store."""
    return url.lower().startswith(("http://", "https://", "unix:"))
