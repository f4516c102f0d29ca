"""Console routes that this process answers itself."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import RedirectResponse

from authorizer.console.routes.access import require_console
from authorizer.console.routes.console_routes import ConsoleRoutes
from authorizer.console.routes.pages import fleet_page, is_page, page
from authorizer.console.routes.paths import console_routes, fleet_console_routes
from authorizer.sidecar.http.request_response import json_response, origin_of
from authorizer.sidecar.routes.node_routes import member_state

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from authorizer.node.fleet import Fleet, Member
    from authorizer.sidecar.http.listener import Listener
    from authorizer.sidecar.route_group import NodeContext


class ConsoleRouteGroup:
    """The console's routes of one application (``sidecar.route_group.RouteGroup``)."""

    def __init__(
        self,
        routes: Sequence[Route],
        page: Callable[[Request], Response],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Group routes.

        Args:
            routes: all but ``/``.
            page: answers a browser at ``/``.
            close: stops background work.
        """
        self.routes = routes
        self._page = page
        self.close = close

    def is_public(self, request: Request, listener: Listener) -> bool:
        """The page and its files are the same for everyone, and contain no ACLs."""
        return listener.has_console and is_page(request)

    def front_page(self, request: Request) -> Response | None:
        """The page, where the console is enabled."""
        return self._page(request) if self.is_public(request, origin_of(request).listener) else None


def node_group(
    handler: Callable[[str], Callable[[Request], Awaitable[Response]]],
    close: Callable[[], None] = lambda: None,
) -> ConsoleRouteGroup:
    """The routes of one node; ``handler`` returns the handler of a path."""
    return ConsoleRouteGroup(console_routes(handler), _node_page, close)


def fleet_group(list_clusters: Callable[[Request], Awaitable[Response]]) -> ConsoleRouteGroup:
    """The routes of a fleet; ``list_clusters`` handles the list of its clusters."""
    return ConsoleRouteGroup(fleet_console_routes(list_clusters), lambda _: fleet_page())


def _node_page(request: Request) -> Response:
    path: str = request.scope["raw_path"].decode("ascii", "replace")
    if path.endswith("/"):
        return page()
    # In a fleet: the page refers to its files relative to the path with the slash.
    return RedirectResponse(f"{path.rpartition('/')[2]}/", HTTPStatus.PERMANENT_REDIRECT)


class InProcessConsole:
    """Makes the console's routes of this process (``sidecar.route_group.RouteGroupFactory``)."""

    def __init__(self) -> None:
        self._nodes: dict[str, ConsoleRoutes] = {}

    def for_node(self, context: NodeContext) -> ConsoleRouteGroup:
        """The routes of one node."""
        console = ConsoleRoutes(context)
        self._nodes[context.cluster] = console

        def close() -> None:
            if self._nodes.get(context.cluster) is console:
                del self._nodes[context.cluster]
            console.close()

        return node_group(console.handlers().__getitem__, close)

    def for_fleet(self, fleet: Fleet) -> ConsoleRouteGroup:
        """The routes of a fleet's front page."""

        async def list_clusters(request: Request) -> Response:
            """GET: the state of each cluster; how many of its nodes agree, for callers who may know."""
            require_console(request)

            async def state_of(member: Member) -> dict[str, Any]:
                console = self._nodes.get(member.name)
                agreement = None if console is None else await console.node_status.agreement(request)
                return {**msgspec.to_builtins(member_state(member)), "nodes": agreement}

            found = await asyncio.gather(*map(state_of, fleet.members.values()))
            return json_response({"caller": str(origin_of(request).principal), "clusters": found})

        return fleet_group(list_clusters)

    def prefetch(self, cluster: str) -> bool:
        """Compute the first page of a cluster's console. False: the node is not ready yet."""
        console = self._nodes.get(cluster)
        return console is not None and console.prefetch()
