"""What a running node says of itself: its ``/v1/state``, for a log that is compared with it."""

from __future__ import annotations

from typing import Final

import msgspec

from authorizer.cli.failure import ExitCode, Failure

_PATH: Final = "/v1/state"
_TIMEOUT_S: Final = 10.0


class NodeState(msgspec.Struct, frozen=True):
    """One moment of a node.

    Attributes:
        cluster_id, topic_id: which log it follows, topic id in Kafka's 22 characters; None while unknown.
        offset: last applied offset + 1.
        digest: of the ACLs in force there, 32 hexadecimal digits (I12).
        reason: why it is not ready; None if it is.
    """

    cluster_id: str | None
    topic_id: str | None
    offset: int
    digest: str
    reason: str | None


def node_state(url: str) -> NodeState:
    """Ask the node whose sidecar listens at ``http://HOST:PORT``.

    Raises:
        Failure: nothing answers there, it is not an aclog, or it does not know its log yet.
    """
    import http.client
    import urllib.error
    import urllib.request

    # A node is in one's own network: no proxy of the environment between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    address = url.rstrip("/").removesuffix(_PATH) + _PATH
    try:
        with opener.open(address, timeout=_TIMEOUT_S) as answer:
            state = msgspec.json.decode(answer.read(), type=NodeState)
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        way_out = "Is `aclog serve` running, and is this its listener?"
        raise Failure(f"{address}: {reason}", ExitCode.NOT_READY, way_out) from error
    except (ValueError, msgspec.DecodeError) as error:
        raise Failure(f"{address} does not answer as an aclog node does", ExitCode.USAGE) from error
    if state.cluster_id is None:
        raise Failure(f"{address}: not ready: {state.reason}", ExitCode.NOT_READY)
    return state


def is_node(url: str) -> bool:
    """Whether a URL names a running node rather than a log or a store."""
    return url.lower().startswith(("http://", "https://"))
