"""Requests of the page's node view: decisions by rule, the other nodes of the log, ACL counts over time.

All of them require Describe on the cluster.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from authorizer.console.routes.access import console_caller
from authorizer.console.routes.peer_nodes import PeerNodes
from authorizer.console.threads import run_in_console_thread
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.request_response import json_response, origin_of
from records.acl import AclOperation
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.console.history.stored_counts import StoredCounts
    from authorizer.node.node import Node
    from authorizer.sidecar.routes.node_routes import NodePeers

_DECISIONS: Final = "aclog_authorizations"


class NodeStatus:
    """The node view's handlers for one node."""

    def __init__(self, node: Node, workers: NodePeers | None) -> None:
        """``workers``: the other processes that count decisions."""
        self._node = node
        self._workers = workers
        self._peers = PeerNodes(node)
        self._counts_lock = asyncio.Lock()
        counts = node.config.console_counts
        self._counts: StoredCounts | None = None
        if counts is not None:
            from authorizer.console.history.stored_counts import StoredCounts  # noqa: PLC0415 - loads Arrow

            self._counts = StoredCounts(counts)

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        return {
            "/console/v1/decisions": self.decisions,
            "/console/v1/nodes": self.nodes,
            "/console/v1/counts": self.counts,
        }

    async def decisions(self, request: Request) -> Response:
        """GET: decisions since the start by result and rule, as in /metrics."""
        self._require_describe(request)
        collected = self._node.collector if self._workers is None else await self._workers.metrics()

        def rule_counts() -> list[dict[str, Any]]:
            return [
                {**sample.labels, "count": int(sample.value)}
                for family in collected.collect()
                if family.name == _DECISIONS
                for sample in family.samples
            ]

        return json_response({"at_s": time.monotonic(), "rules": await run_in_console_thread(rule_counts)})

    async def nodes(self, request: Request) -> Response:
        """GET: the other nodes of the log, and whether they agree with this one."""
        self._require_describe(request)
        return json_response({"nodes": await self._peers.poll()})

    async def counts(self, request: Request) -> Response:
        """GET: number of ACLs over time, as counted by Spark; null if not configured."""
        self._require_describe(request)
        identity = self._node.status().identity
        if self._counts is None or identity is None:
            return json_response({"kept": None, "error": None})
        try:
            async with self._counts_lock:  # one thread for any number of requests
                counts = await run_in_console_thread(self._counts.read, identity)
        except AclogError as error:
            return json_response({"kept": None, "error": str(error)})
        return json_response({"kept": counts, "error": None})

    async def agreement(self, request: Request) -> dict[str, Any] | None:
        """Return the number of other nodes by verdict; None without Describe or before the node is ready."""
        state = self._node.authorizer.state
        if not state.is_ready or not Caller(self._node, state, origin_of(request), "Console").may_list():
            return None
        verdicts = [each.verdict for each in await self._peers.poll()]
        return {each: verdicts.count(each) for each in dict.fromkeys(verdicts)}

    def _require_describe(self, request: Request) -> None:
        """Raise HttpError 403. Only denials are logged, because the page polls every few seconds."""
        caller = console_caller(self._node, request)
        if not caller.may_list():
            caller.require_on_cluster(AclOperation.DESCRIBE)
