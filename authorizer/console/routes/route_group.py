"""The console's route groups, with the same paths in the console process and in its proxy.

And the page's files, which contain no ACLs and need no authentication.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from authorizer.api.http.error_code import ErrorCode
from authorizer.console.routes.access import require_console
from authorizer.listeners.listener import Listener
from authorizer.sidecar.http.errors import HttpError
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

ASSETS_PATH: Final = "/console/assets/"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain",
    ".NOTICE": "text/plain",
}
#: Allow only files of this origin, no inline script or style, and no frame.
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


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
    # Private to the page, so not in the OpenAPI document.
    routes = [
        _assets_route(),
        *(Route(path, handler(path), include_in_schema=False) for path in _GET_PATHS),
        *(Route(path, handler(path), methods=["POST"], include_in_schema=False) for path in _POST_PATHS),
    ]
    return ConsoleRouteGroup(routes, _node_page, close)


def fleet_group(list_clusters: Callable[[Request], Awaitable[Response]]) -> ConsoleRouteGroup:
    """Return the routes of a fleet; ``list_clusters`` handles the list of its clusters."""
    routes = [_assets_route(), Route(CLUSTERS_LIST_PATH, list_clusters, include_in_schema=False)]
    return ConsoleRouteGroup(routes, lambda _: _answer("fleet.html"))


def _node_page(request: Request) -> Response:
    path: str = request.scope["raw_path"].decode("ascii", "replace")
    if path.endswith("/"):
        return _answer("index.html")
    # In a fleet: the page refers to its files relative to the path with the slash.
    return RedirectResponse(f"{path.rpartition('/')[2]}/", HTTPStatus.PERMANENT_REDIRECT)


def _assets_route() -> Route:
    return Route(f"{ASSETS_PATH}{{name}}", asset, include_in_schema=False)


def is_page(request: Request) -> bool:
    """Return whether a request is for the page, as browsers send it, or for one of its files."""
    path = request.scope["path"]
    if path.startswith(ASSETS_PATH):
        return True
    return path == "/" and "text/html" in request.headers.get("accept", "")


async def asset(request: Request) -> Response:
    """GET: one file of the page."""
    name = request.path_params["name"]
    require_console(request)
    if name not in _assets():
        raise HttpError(ErrorCode.NOT_FOUND, f"there is nothing at {request.url.path}")
    return _answer(name)


@cache
def _assets() -> dict[str, bytes]:
    """All files, some 60 kB, read once."""
    folder = files("authorizer.console").joinpath("assets")
    return {each.name: each.read_bytes() for each in folder.iterdir() if _type(each.name)}


def _type(name: str) -> str | None:
    return next((media for ending, media in _TYPES.items() if name.endswith(ending)), None)


def _answer(name: str) -> Response:
    return Response(_assets()[name], headers=_HEADERS, media_type=_type(name))
