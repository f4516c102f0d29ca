"""An issuer's tokens, JSON Web Tokens (RFC 7519) verified by PyJWT, and its keys (RFC 7517).

The algorithm is one that the configuration allows and that the key is for; a token's header chooses among
those only, so that neither ``none`` nor an HMAC with a public key as its secret is ever computed.
"""

from __future__ import annotations

import http.client
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import jwt
import msgspec
from jwt import PyJWK, exceptions
from jwt.exceptions import PyJWTError

from authorizer.api.errors import ConfigError
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.configuration.keys.names import AUTH_OIDC_JWKS
from records.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    from authorizer.configuration.load import Config

_BYTES_MAX: Final = 1024 * 1024
#: A fetch's time: for all of it, and for each step of it that waits for the server.
_FETCH_S: Final = 5.0
#: Which algorithms a key may be for: by its type and its curve.
_ALGORITHMS: Final[dict[tuple[object, object], tuple[str, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys that verify signatures.

    ``text``: what they were read from; sets of the same text are equal.
    """

    text: bytes
    _keys: Mapping[str | None, Mapping[str, PyJWK]] = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Keys of other types, for other uses, too short or with their private part are passed by.

        ValueError: no JSON of keys, or none is left.
        """
        keys: dict[str | None, dict[str, PyJWK]] = {}
        for jwk in msgspec.json.decode(text, type=_JwkSet).keys:
            kid = jwk.get("kid")
            if kid is None or isinstance(kid, str):
                for algorithm, key in _usable_keys(jwk):
                    keys.setdefault(kid, {})[algorithm] = key
        if not keys:
            raise ValueError("there is no public RSA, EC or Ed25519 key for signatures in it")
        return cls(text, keys)

    def of(self, kid: str | None) -> Mapping[str, PyJWK] | None:
        """A key by its id, for each algorithm; a token need not name the only one there is."""
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)


class _JwkSet(msgspec.Struct):
    keys: list[dict[str, Any]]


def _usable_keys(jwk: dict[str, Any]) -> Iterator[tuple[str, PyJWK]]:
    if jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ("verify",)) or "d" in jwk:
        return
    for algorithm in _ALGORITHMS.get((jwk.get("kty"), jwk.get("crv")), ()):
        if jwk.get("alg", algorithm) == algorithm:
            try:
                key = PyJWK(jwk, algorithm)
                too_short = key.Algorithm.check_key_length(key.key)
            except (PyJWTError, ValueError, TypeError):
                return
            if too_short is None:
                yield algorithm, key


def read_key_set(path: Path) -> KeySet:
    """The keys in a file. Raises ConfigError."""
    try:
        return _parse_tokens(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(AUTH_OIDC_JWKS, path, f"a file to be read: {error.strerror}") from error


def fetch_key_set(url: str) -> KeySet:
    """The keys at a URL, which is https or this machine's; a redirect is not followed.

    ConfigError: there are none just now, or not within five seconds.
    """
    deadline = _Deadline(_FETCH_S)
    handlers: list[urllib.request.BaseHandler] = [
        _NoRedirects(),
        _HttpHandler(deadline),
        _HttpsHandler(deadline),
    ]
    if url.startswith("http:"):
        handlers.append(urllib.request.ProxyHandler({}))  # what is on this machine must not leave it
    request = urllib.request.Request(url, headers={"accept": "application/json"})  # noqa: S310 - see keys.py
    try:
        with (
            deadline,
            urllib.request.build_opener(*handlers).open(request, timeout=_FETCH_S) as answer,
        ):
            text: bytes = answer.read(_BYTES_MAX + 1)
            deadline.require_not_over()  # an answer that ends with its connection may be half of one
    except urllib.error.HTTPError as error:
        with error:
            raise _fetch_error(url, f"it says {error.code}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise _fetch_error(url, deadline.message if deadline.is_over else reason) from error
    return _parse_tokens(text, url)


def _fetch_error(url: str, reason: object) -> ConfigError:
    return ConfigError(AUTH_OIDC_JWKS, url, f"a URL that answers with keys: {reason}")


def _parse_tokens(text: bytes, where: str) -> KeySet:
    try:
        if len(text) > _BYTES_MAX:
            raise ValueError(f"it has more than {_BYTES_MAX} bytes")  # noqa: TRY301 - as what parse raises
        return KeySet.parse(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(AUTH_OIDC_JWKS, where, f"a JSON Web Key Set (RFC 7517): {error}") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from where the configuration says, over what it says."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> NoReturn:
        raise urllib.error.URLError(f"it redirects ({code}), which is not followed")


class _Deadline:
    """Ends an exchange by its connection: a socket's own timeout begins anew with each byte."""

    def __init__(self, within_s: float) -> None:
        self.message = f"it did not answer within {within_s:g} s"
        self.is_over = False
        self._connection: http.client.HTTPConnection | None = None
        self._connected: socket.socket | None = None
        self._timer = threading.Timer(within_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def connecting(self, connection: http.client.HTTPConnection) -> None:
        """It is about to connect, maybe through a proxy that it talks to first."""
        self._connection = connection

    def connected(self, connected: socket.socket) -> None:
        """It has; the connection lets go of this as soon as the answer's head is there."""
        self._connected = connected

    def require_not_over(self) -> None:
        """TimeoutError if it is."""
        if self.is_over:
            raise TimeoutError(self.message)

    def _end(self) -> None:
        self.is_over = True
        connected = self._connected
        if connected is None and self._connection is not None:
            connected = self._connection.sock
        if connected is not None:
            try:
                # TLS' own shutdown would wait for the other side.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)
            except OSError:
                return  # it has ended by itself, or is being wrapped: `connect` asks again


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connections(http.client.HTTPConnection, self._deadline), req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_connections(http.client.HTTPSConnection, self._deadline), req)


def _connections(kind: type[http.client.HTTPConnection], deadline: _Deadline) -> Any:
    """Makes connections that end with the deadline."""

    class Connection(kind):  # type: ignore[misc, valid-type]
        def connect(self) -> None:
            deadline.connecting(self)
            super().connect()
            deadline.connected(self.sock)
            # It may have been over while TLS shook hands.
            deadline.require_not_over()

    return Connection


#: The first that an error is an instance of; what is in none of these is malformed.
_REASONS: Final[tuple[tuple[type[Exception], Reason, str], ...]] = (
    (exceptions.ExpiredSignatureError, Reason.EXPIRED, "the token has expired"),
    (exceptions.ImmatureSignatureError, Reason.NOT_YET_VALID, "the token is not valid yet"),
    (exceptions.InvalidAudienceError, Reason.AUDIENCE, "the token is for another audience"),
    (exceptions.InvalidIssuerError, Reason.ISSUER, "the token is of another issuer"),
    (exceptions.InvalidAlgorithmError, Reason.ALGORITHM, "the token's algorithm is not one of its key"),
    (exceptions.InvalidSignatureError, Reason.SIGNATURE, "the token's signature is not its key's"),
    (exceptions.MissingRequiredClaimError, Reason.CLAIM, "the token needs iss, aud and exp"),
)

_TIMES: Final = ("exp", "nbf", "iat")
#: What a float has exactly. Milliseconds, which some issuers write, are less.
_TIME_MAX: Final = 2**53


class OidcTokens:
    """Verifies tokens as the configuration says."""

    def __init__(self, config: Config) -> None:
        self._issuer = config.auth_oidc_issuer
        self._audience = config.auth_oidc_audience
        self._claim = config.auth_oidc_principal_claim
        self._algorithms = frozenset(config.auth_oidc_algorithms)
        self._leeway_s = config.auth_oidc_leeway_ms / 1000

    def verify(self, token: str, keys: KeySet) -> tuple[KafkaPrincipal, float]:
        """Whose token it is, and until when (seconds since the epoch). RejectionError: it is not valid."""
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in self._algorithms:
                raise RejectionError(Reason.ALGORITHM, "the token's algorithm is not allowed here")
            of_key = keys.of(header.get("kid"))
            if of_key is None:
                raise RejectionError(Reason.UNKNOWN_KEY, "the token's key is none of its issuer's")
            if algorithm not in of_key:
                raise RejectionError(Reason.ALGORITHM, "the token's algorithm is not one of its key")
            claims = jwt.decode(
                token,
                of_key[algorithm],
                algorithms=[algorithm],
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway_s,
                options={"require": ["iss", "aud", "exp"]},
            )
            until_s = _until_s(claims)
        except (exceptions.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            for kind, reason, message in _REASONS:
                if isinstance(error, kind):
                    raise RejectionError(reason, message) from error
            raise RejectionError(Reason.MALFORMED, "this is no JSON Web Token") from error
        return self._principal(claims), until_s + self._leeway_s

    def _principal(self, claims: dict[str, Any]) -> KafkaPrincipal:
        name = claims.get(self._claim)
        # ANONYMOUS is who has no token.
        if not isinstance(name, str) or not name or name == ANONYMOUS.name:
            raise RejectionError(Reason.CLAIM, "the token has no claim that names its principal")
        return KafkaPrincipal(ANONYMOUS.principal_type, name)


def _until_s(claims: dict[str, Any]) -> float:
    """When a token expires, once its times were found to be numbers (RFC 7519, section 2).

    RejectionError: one is none, or beyond all time. PyJWT takes texts of numbers, and true for 1.
    """
    for name in _TIMES:
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _TIME_MAX:
            raise RejectionError(Reason.CLAIM, "exp, nbf and iat of a token are seconds since 1970")
    return float(int(claims["exp"]))  # whole seconds, as PyJWT compares them
