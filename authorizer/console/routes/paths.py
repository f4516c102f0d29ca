"""What the page can ask: the same paths where it is worked out and where it is passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from authorizer.console.routes.pages import ASSETS_PATH, asset

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

#: Of a fleet's root.
CLUSTERS_LIST_PATH: Final = "/console/v1/clusters"
PLAN_PATH: Final = "/console/v1/plan"
APPLY_PATH: Final = "/console/v1/apply"
#: Of one node: GET.
ASKED: Final = (
    "/console/v1/now",
    "/console/v1/moments",
    "/console/v1/matrix",
    "/console/v1/changes",
    "/console/v1/flips",
    "/console/v1/acls",
    "/console/v1/findings",
    "/console/v1/ask",
    "/console/v1/allowed",
    "/console/v1/decisions",
    "/console/v1/nodes",
    "/console/v1/counts",
)
#: POST.
_SENT: Final = (PLAN_PATH, APPLY_PATH)


def console_routes(handler: Callable[[str], Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """All of one node, with the page's files: its own, and no interface for others.

    Args:
        handler: what answers at a path.
    """
    return [
        _assets_route(),
        *(Route(path, handler(path), include_in_schema=False) for path in ASKED),
        *(Route(path, handler(path), methods=["POST"], include_in_schema=False) for path in _SENT),
    ]


def fleet_console_routes(list_clusters: Callable[[Request], Awaitable[Response]]) -> list[Route]:
    """The routes of a fleet's front page."""
    return [_assets_route(), Route(CLUSTERS_LIST_PATH, list_clusters, include_in_schema=False)]


def _assets_route() -> Route:
    return Route(f"{ASSETS_PATH}{{name}}", asset, include_in_schema=False)
