"""What a running node says of itself: its ``/v1/state``, for commands that compare with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Self

from authorizer.cli.failure import ExitCode, Failure

_PATH: Final = "/v1/state"
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One moment of a node.

    Attributes:
        cluster_id, topic_id: which log it follows; topic id in Kafka's 22 characters.
        end_offset: last applied offset + 1.
        acl_count: ACLs in force there.
        digest: of them, 32 hexadecimal digits (I12).
    """

    cluster_id: str
    topic_id: str
    end_offset: int
    acl_count: int
    digest: str

    @classmethod
    def fetched(cls, url: str) -> Self:
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
                said = json.load(answer)
            if said["cluster_id"] is None:
                raise Failure(f"{address}: not ready: {said['reason']}", ExitCode.NOT_READY)
            return cls._of(said)
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            way_out = "Is `aclog serve` running, and is this its listener?"
            raise Failure(f"{address}: {reason}", ExitCode.NOT_READY, way_out) from error
        except (ValueError, KeyError, TypeError) as error:
            raise Failure(f"{address} does not answer as an aclog node does", ExitCode.USAGE) from error

    @classmethod
    def _of(cls, said: Any) -> Self:
        return cls(
            cluster_id=str(said["cluster_id"]),
            topic_id=str(said["topic_id"]),
            end_offset=int(said["offset"]),
            acl_count=int(said["acl_count"]),
            digest=str(said["digest"]),
        )


def is_node(url: str) -> bool:
    """Whether a URL names a running node rather than a log or a store."""
    return url.lower().startswith(("http://", "https://"))
