"""The page, and the files that it is made of: the same for everyone, and without anything of any ACL."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from authorizer.api.http.error_code import ErrorCode
from authorizer.console.routes.access import require_console
from authorizer.sidecar.http.errors import HttpError

if TYPE_CHECKING:
    from starlette.requests import Request

#: Below it are the files.
ASSETS_PATH: Final = "/console/assets/"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain",
    ".NOTICE": "text/plain",
}
#: Nothing but what comes from here, no script or style within the page, and no frame around it.
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def is_page(request: Request) -> bool:
    """Whether the page is asked for, as browsers do, or a file of it."""
    path = request.scope["path"]
    if path.startswith(ASSETS_PATH):
        return True
    return path == "/" and "text/html" in request.headers.get("accept", "")


def page() -> Response:
    """The page of one log."""
    return _answer("index.html")


def fleet_page() -> Response:
    """That of a fleet's root."""
    return _answer("fleet.html")


async def asset(request: Request) -> Response:
    """GET: a file."""
    name = request.path_params["name"]
    require_console(request)
    if name not in _assets():
        raise HttpError(ErrorCode.NOT_FOUND, f"there is nothing at {request.url.path}")
    return _answer(name)


@cache
def _assets() -> dict[str, bytes]:
    """All of them: some 60 kB, read once."""
    found = files("authorizer.console").joinpath("assets")
    return {each.name: each.read_bytes() for each in found.iterdir() if _type(each.name)}


def _type(name: str) -> str | None:
    return next((media for ending, media in _TYPES.items() if name.endswith(ending)), None)


def _answer(name: str) -> Response:
    return Response(_assets()[name], headers=_HEADERS, media_type=_type(name))
