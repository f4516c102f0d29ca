"""What the page shows of the node itself: decisions by rule, the other nodes of its log, counts over time.

Counts and addresses are for who may describe the cluster.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from authorizer.console.history.stored_counts import StoredCounts
from authorizer.console.peer_nodes import PeerNodes
from authorizer.console.process.thread_pool import run_in_console_thread
from authorizer.console.routes.access import console_caller
from authorizer.sidecar.auth.caller_authorization import Caller
from authorizer.sidecar.http.request_response import json_response, origin_of
from records.acl import AclOperation
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.node.node import Node
    from authorizer.sidecar.workers.worker_fanout import NodePeers

_DECISIONS: Final = "aclog_authorizations"


class NodeStatus:
    """The handlers of one node."""

    def __init__(self, node: Node, workers: NodePeers | None) -> None:
        """``workers``: who counts beside this process."""
        self._node = node
        self._workers = workers
        self._others = PeerNodes(node)
        self._counting = asyncio.Lock()
        counts = node.config.console_counts
        self._counts = None if counts is None else StoredCounts(counts)

    def handlers(self) -> Mapping[str, Callable[[Request], Awaitable[Response]]]:
        """By path."""
        return {
            "/console/v1/decisions": self.decisions,
            "/console/v1/nodes": self.nodes,
            "/console/v1/counts": self.counts,
        }

    async def decisions(self, request: Request) -> Response:
        """GET: how many actions were decided since the start, by result and rule, as /metrics counts them."""
        self._require_describe(request)
        collected = self._node.collector if self._workers is None else await self._workers.metrics()

        def counted() -> list[dict[str, Any]]:
            return [
                {**sample.labels, "count": int(sample.value)}
                for family in collected.collect()
                if family.name == _DECISIONS
                for sample in family.samples
            ]

        return json_response({"at_s": time.monotonic(), "rules": await run_in_console_thread(counted)})

    async def nodes(self, request: Request) -> Response:
        """GET: the other nodes of the log, and whether they agree with this one."""
        self._require_describe(request)
        return json_response({"nodes": await self._others.look()})

    async def counts(self, request: Request) -> Response:
        """GET: how many ACLs there were when, as Spark has counted them; null where none are configured."""
        self._require_describe(request)
        identity = self._node.status().identity
        if self._counts is None or identity is None:
            return json_response({"kept": None, "error": None})
        try:
            async with self._counting:  # one thread, however many look
                kept = await run_in_console_thread(self._counts.read, identity)
        except AclogError as error:
            return json_response({"kept": None, "error": str(error)})
        return json_response({"kept": kept, "error": None})

    async def agreement(self, request: Request) -> dict[str, Any] | None:
        """How many of the other nodes there are by verdict; None for who may not know, or while not ready."""
        state = self._node.authorizer.state
        if not state.is_ready or not Caller(self._node, state, origin_of(request), "Console").may_list():
            return None
        verdicts = [each.verdict for each in await self._others.look()]
        return {each: verdicts.count(each) for each in dict.fromkeys(verdicts)}

    def _require_describe(self, request: Request) -> None:
        """HttpError 403; a page that looks every few seconds is a line of the log only where it is denied."""
        caller = console_caller(self._node, request)
        if not caller.may_list():
            caller.require_on_cluster(AclOperation.DESCRIBE)
