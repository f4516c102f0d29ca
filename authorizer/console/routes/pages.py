"""The page's files, which contain no ACLs and need no authentication."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from authorizer.api.http.error_code import ErrorCode
from authorizer.console.routes.access import require_console
from authorizer.sidecar.http.errors import HttpError

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


def is_page(request: Request) -> bool:
    """Return whether a request is for the page, as browsers send it, or for one of its files."""
    path = request.scope["path"]
    if path.startswith(ASSETS_PATH):
        return True
    return path == "/" and "text/html" in request.headers.get("accept", "")


def page() -> Response:
    """Return the page of one node."""
    return _answer("index.html")


def fleet_page() -> Response:
    """Return the page of a fleet's root."""
    return _answer("fleet.html")


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
