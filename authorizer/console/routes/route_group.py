"""The console's route groups, with the same paths in the console process and in its proxy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from authorizer.console.routes.pages import ASSETS_PATH, asset, fleet_page, is_page, page
from authorizer.listeners.listener import Listener
from authorizer.sidecar.http.request_response import origin_of

CLUSTERS_LIST_PATH: Final = "/console/v1/clusters"
PLAN_PATH: Final = "/console/v1/plan"
APPLY_PATH: Final = "/console/v1/apply"
_GET_PATHS: Final = (
    "/console/v1/now",
    "/console/v1/moments",
    "/console/v1/matrix",
    "/console/v1/names",
    "/console/v1/changes",
    "/console/v1/flips",
    "/console/v1/temporary",
    "/console/v1/acls",
    "/console/v1/findings",
    "/console/v1/lint",
    "/console/v1/ask",
    "/console/v1/allowed",
    "/console/v1/decisions",
    "/console/v1/nodes",
    "/console/v1/counts",
)
_POST_PATHS: Final = (PLAN_PATH, APPLY_PATH)


class ConsoleRouteGroup:
    """The console's routes of one application (``sidecar.route_group.RouteGroup``)."""

    def __init__(
        self,
        routes: Sequence[Route],
        page: Callable[[Request], Response],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        """Group routes: all but ``/``, where ``page`` answers a browser; ``close`` stops background work."""
        self.routes = routes
        self._page = page
        self.close = close

    def is_public(self, request: Request, listener: Listener) -> bool:
        """Return whether the request needs no authentication: the page's files contain no ACLs."""
        return listener.has_console and is_page(request)

    def front_page(self, request: Request) -> Response | None:
        return self._page(request) if self.is_public(request, origin_of(request).listener) else None


def node_group(
    handler: Callable[[str], Callable[[Request], Awaitable[Response]]],
    close: Callable[[], None] = lambda: None,
) -> ConsoleRouteGroup:
    """Return the routes of one node; ``handler`` returns the handler of a path."""
    return ConsoleRouteGroup(_node_routes(handler), _node_page, close)


def fleet_group(list_clusters: Callable[[Request], Awaitable[Response]]) -> ConsoleRouteGroup:
    """Return the routes of a fleet; ``list_clusters`` handles the list of its clusters."""
    return ConsoleRouteGroup(_fleet_routes(list_clusters), lambda _: fleet_page())


def _node_page(request: Request) -> Response:
    path: str = request.scope["raw_path"].decode("ascii", "replace")
    if path.endswith("/"):
        return page()
    # In a fleet: the page refers to its files relative to the path with the slash.
    return RedirectResponse(f"{path.rpartition('/')[2]}/", HTTPStatus.PERMANENT_REDIRECT)


def _node_routes(handler: Callable[[str], Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """The routes of one node and the page's files; private to the page, so not in the OpenAPI document."""
    return [
        _assets_route(),
        *(Route(path, handler(path), include_in_schema=False) for path in _GET_PATHS),
        *(Route(path, handler(path), methods=["POST"], include_in_schema=False) for path in _POST_PATHS),
    ]


def _fleet_routes(list_clusters: Callable[[Request], Awaitable[Response]]) -> list[Route]:
    """The routes of a fleet's front page."""
    return [_assets_route(), Route(CLUSTERS_LIST_PATH, list_clusters, include_in_schema=False)]


def _assets_route() -> Route:
    return Route(f"{ASSETS_PATH}{{name}}", asset, include_in_schema=False)
