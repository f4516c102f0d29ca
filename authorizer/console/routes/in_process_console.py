"""InProcessConsole: console routes that are answered in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from authorizer.console.routes.access import require_console
from authorizer.console.routes.console_routes import ConsoleRoutes
from authorizer.console.routes.route_group import ConsoleRouteGroup, fleet_group, node_group
from authorizer.sidecar.http.request_response import json_response, origin_of
from authorizer.sidecar.routes.node_routes import member_state

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from authorizer.node.fleet import Fleet, Member
    from authorizer.sidecar.route_group import NodeContext


class InProcessConsole:
    """Creates the console's routes (``sidecar.route_group.RouteGroupFactory``)."""

    def __init__(self) -> None:
        self._nodes: dict[str, ConsoleRoutes] = {}

    def for_node(self, context: NodeContext) -> ConsoleRouteGroup:
        console = ConsoleRoutes(context)
        self._nodes[context.cluster] = console

        def close() -> None:
            if self._nodes.get(context.cluster) is console:
                del self._nodes[context.cluster]
            console.close()

        return node_group(console.handlers().__getitem__, close)

    def for_fleet(self, fleet: Fleet) -> ConsoleRouteGroup:

        async def list_clusters(request: Request) -> Response:
            """GET: the state of each cluster; how many of its nodes agree, for callers with Describe."""
            require_console(request)

            async def state_of(member: Member) -> dict[str, Any]:
                console = self._nodes.get(member.name)
                agreement = None if console is None else await console.node_status.agreement(request)
                return {**msgspec.to_builtins(member_state(member)), "nodes": agreement}

            clusters = await asyncio.gather(*map(state_of, fleet.members.values()))
            return json_response({"caller": str(origin_of(request).principal), "clusters": clusters})

        return fleet_group(list_clusters)

    def prefetch(self, cluster: str) -> bool:
        """Compute the first view of a cluster's console; return False if the node is not ready yet."""
        console = self._nodes.get(cluster)
        return console is not None and console.prefetch()
