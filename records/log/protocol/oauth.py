"""Tokens for OAUTHBEARER: from a file, or from an issuer's token endpoint by client id and secret.

The grant is that of RFC 6749, section 4.4, requested as Kafka's own clients do: id and secret by HTTP basic
authentication, unencoded. A token file is read for each connection, because a rotation replaces it.
"""

from __future__ import annotations

import base64
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import unquote, urlencode, urlsplit

import msgspec

_ANSWER_BYTES_MAX: Final = 64 * 1024
#: Fraction of a token's lifetime after which the next connection requests a new one.
_REUSED_FRACTION: Final = 0.8
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
#: The issuer rejects the client: a retry cannot succeed.
_REFUSALS: Final = (400, 401, 403)


class TokenError(Exception):
    """No token is available; the text has no secret. ``is_refusal``: whether a retry cannot succeed."""

    def __init__(self, message: str, *, is_refusal: bool) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float = 0


def read_token(path: Path) -> str:
    """The token in a file that holds nothing else. Raises TokenError."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise TokenError(f"no token can be read from {path}: {error}", is_refusal=True) from error


class GrantedTokens:
    """Requests tokens from an issuer, and reuses each for most of its lifetime. Not thread-safe."""

    def __init__(
        self, url: str, client_id: str, secret: str, *, scope: str | None, ca: str | None, timeout_s: float
    ) -> None:
        """Send nothing yet. ``ca``: authorities for the endpoint's certificate; default: the system's."""
        self._url = url
        self._form = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})
        self._basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode("ascii")
        self._ca = ca
        self._timeout_s = timeout_s
        self._token = ""
        self._reused_until_s = 0.0

    def __call__(self) -> str:
        """Raises TokenError."""
        if time.monotonic() >= self._reused_until_s:
            requested_s = time.monotonic()
            granted = self._grant()
            self._token = granted.access_token
            self._reused_until_s = requested_s + _REUSED_FRACTION * granted.expires_in
        return self._token

    def _grant(self) -> _Granted:
        headers = {"authorization": f"Basic {self._basic}", "accept": "application/json"}
        request = urllib.request.Request(  # noqa: S310 - `endpoint_problem` has checked the scheme
            self._url, data=urlencode(self._form).encode("ascii"), headers=headers
        )
        try:
            with self._opener().open(request, timeout=self._timeout_s) as answer:
                return msgspec.json.decode(answer.read(_ANSWER_BYTES_MAX), type=_Granted)
        except urllib.error.HTTPError as error:
            with error:
                raise self._no_token(
                    f"HTTP status {error.code}", is_refusal=error.code in _REFUSALS
                ) from error
        except msgspec.DecodeError as error:
            raise self._no_token(f"malformed response: {error}") from error
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise self._no_token(str(reason)) from error

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if self._url.startswith("http:"):
            handlers.append(urllib.request.ProxyHandler({}))  # a secret for this machine must not leave it
        else:
            context = ssl.create_default_context(cafile=self._ca)
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)

    def _no_token(self, why: str, *, is_refusal: bool = False) -> TokenError:
        return TokenError(f"no token from {self._url}: {why}", is_refusal=is_refusal)


def token_file(url: str) -> Path | None:
    """The path of a ``file:`` URL; None for other URLs."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def endpoint_problem(url: str) -> str | None:
    """Why a secret must not be sent to this URL; None if it may."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return None
    return "use https://..., file:///..., or http:// of this machine, because a secret is sent there"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a secret is sent only to the configured URL."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> NoReturn:
        fp.close()
        raise urllib.error.URLError(f"redirect ({code}) refused")
