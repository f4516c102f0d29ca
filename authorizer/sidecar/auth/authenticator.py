"""Authenticator: identifies the caller by the Authorization header, else by the connection.

- A verified token costs a keyed hash and a look-up. The cache is bounded, contains no token, and drops an
  entry when it expires, when its line of the tokens file is changed or removed, or when the issuer's keys
  change.
- A token of the file is verified on the event loop with one SHA-256. An issuer's token is verified in a
  thread (``issuer``). The queue for threads is bounded and shared fairly by address; fetching keys blocks
  neither.
- A valid token is accepted, however many invalid ones came from its address (``FailureRateLimit``).
- A header that is not a valid bearer token is rejected, never ignored: its sender intends to authenticate.
- HTTP Basic, as Confluent's clients send API keys, has the token as its password; the user name may be any.
  It is verified as the same token after ``Bearer``: one cache, one limit of failures, one rule about TLS. A
  Basic header without such a password is malformed, which does not count as a failed try.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import secrets
import threading
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.http.error_code import ErrorCode
from authorizer.authentication.issuer import Issuer
from authorizer.authentication.rate_limits import FailureRateLimit
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.authentication.reloading_value import FILE_POLL_INTERVAL_S, FileReader, ReloadingValue
from authorizer.configuration.keys.names import AUTH_TOKENS_FILE
from authorizer.listeners.log_throttle import LogThrottle
from authorizer.sidecar.auth.stored_tokens import TOKEN_PREFIX, TOKENS_FILE, StoredToken, StoredTokens
from authorizer.sidecar.http.errors import HttpError
from records.principal import ANONYMOUS, KafkaPrincipal
from replay.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from authorizer.authentication.oidc import KeySet
    from authorizer.configuration.load import Config
    from authorizer.listeners.listener import Listener
    from authorizer.sidecar.http.request_origin import Origin

#: RFC 7617; the scheme in any case.
_BASIC: Final = re.compile(rb"basic +([A-Za-z0-9+/]+={0,2}) *", re.IGNORECASE)


def bearer_of_basic(authorization: bytes) -> bytes:
    """Return the value of a bearer header with the password of a Basic one; any other value unchanged."""
    matched = _BASIC.fullmatch(authorization)
    if matched is None:
        return authorization
    try:
        _, colon, password = base64.b64decode(matched[1], validate=True).partition(b":")
    except binascii.Error:
        return authorization
    return b"Bearer " + password if colon else authorization


_REALM: Final = 'Bearer realm="aclog"'


def http_error(rejection: RejectionError) -> HttpError:
    """Return the response (RFC 6750): 401 with a challenge, 429, or 503 while there are no keys."""
    message, retry = rejection.message, {"retry-after": str(rejection.retry_after_s)}
    match rejection.reason:
        case Reason.TOO_MANY_TRIES | Reason.BUSY:
            return HttpError(ErrorCode.TOO_MANY_REQUESTS, message, retry)
        case Reason.NO_KEYS:
            return HttpError(ErrorCode.NO_TOKEN_KEYS, message, retry)
        case Reason.MISSING:
            return HttpError(ErrorCode.UNAUTHENTICATED, message, {"www-authenticate": _REALM})
    challenge = f'{_REALM}, error="invalid_token", error_description="{message}"'
    return HttpError(ErrorCode.UNAUTHENTICATED, message, {"www-authenticate": challenge})


#: RFC 6750, section 2.1; the scheme in any case (RFC 9110).
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)
_TOKEN_BYTES_MAX: Final = 16 * 1024

#: Cached tokens; beyond them the oldest entry is dropped.
CACHE_MAX: Final = 10_000


class _CachedCaller(NamedTuple):
    """A verified token: its caller, and the entry or key set that verified it."""

    principal: KafkaPrincipal
    until_ms: float
    proof: StoredToken | KeySet


class Authenticator:
    """Identifies the callers of a sidecar's requests. Implements ``CallerCache``."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        """Load the files. Raises ConfigError: a file is invalid, or PyJWT is needed and not installed."""
        self._clock = clock or SystemClock()
        self._key = secrets.token_bytes(32)
        self._cache: dict[bytes, _CachedCaller] = {}
        self._checks: dict[bytes, asyncio.Future[_CachedCaller]] = {}
        # Protects the replacement of the cache: each reloading value has a thread.
        self._cache_lock = threading.Lock()
        self._failures = FailureRateLimit()
        self._refusals = RejectionCounter()
        self._tokens: ReloadingValue[StoredTokens] | None = None
        self._issuer: Issuer | None = None
        if config.auth_tokens_file is not None:
            load = FileReader(
                Path(config.auth_tokens_file), lambda path: StoredTokens(TOKENS_FILE.read(path))
            )
            self._tokens = ReloadingValue("tokens", load, FILE_POLL_INTERVAL_S, changed=self._drop_stale)
            self._tokens.load()
        if config.auth_oidc_jwks is not None:
            self._issuer = Issuer(config, config.auth_oidc_jwks, self._clock, changed=self._drop_stale)
        self.collector = AuthenticationCollector(self._refusals, self._reloading_values())

    def start(self) -> None:
        for each in self._reloading_values():
            each.start()

    def close(self) -> None:
        for each in self._reloading_values():
            each.close()
        if self._issuer is not None:
            self._issuer.close()

    def cached_caller(
        self, authorization: bytes | None, connection: KafkaPrincipal, listener: Listener
    ) -> KafkaPrincipal | None:
        """Return the caller if that needs no verification; None: use ``caller``. On the event loop only.

        ``authorization``: value of the request's only Authorization header; None if there is none.
        """
        if authorization is None:
            if listener.requires_authentication and connection == ANONYMOUS:
                return None
            return connection
        if not listener.carries_tokens:
            return None
        seen = self._cache.get(self._digest(authorization))
        if seen is None or seen.until_ms <= self._clock.now_ms():
            return None
        return seen.principal

    async def caller(self, authorization: Sequence[bytes], origin: Origin) -> KafkaPrincipal:
        """Identify the caller of a request with these Authorization headers. On the event loop only.

        HttpError: 401, the token is missing or invalid; 429, it is invalid after too many others, or the
        queue is full.
        """
        header = authorization[0] if authorization else None
        if len(authorization) <= 1:
            known = self.cached_caller(header, origin.principal, origin.listener)
            if known is not None:
                return known
        try:
            return (await self._authenticate(authorization, origin)).principal
        except RejectionError as refused:
            rejection = self._count_rejection(refused, origin)
            raise http_error(rejection) from rejection

    def _count_rejection(self, refusal: RejectionError, origin: Origin) -> RejectionError:
        """Count a rejection; return the answer, which is 429 after too many failures of the address."""
        now_s = self._clock.monotonic_s()
        if refusal.counts_as_failure:
            wait_s = self._failures.wait_s(origin.address, now_s)
            self._failures.add(origin.address, now_s)
            if wait_s > 0:
                refusal = RejectionError(
                    Reason.TOO_MANY_TRIES,
                    "this token is not valid, and too many others that are not came from this address",
                    ceil(wait_s),
                )
        self._refusals.add(refusal, origin, now_s)
        return refusal

    async def _authenticate(self, authorization: Sequence[bytes], origin: Origin) -> _CachedCaller:
        if not authorization:
            name = origin.listener.name
            raise RejectionError(
                Reason.MISSING, f"listener {name} requires authentication: send a bearer token"
            )
        matched = _BEARER.fullmatch(authorization[0])
        if len(authorization) > 1 or matched is None or len(authorization[0]) > _TOKEN_BYTES_MAX:
            raise RejectionError(Reason.MALFORMED, "the Authorization header is not one bearer token")
        if not origin.listener.carries_tokens:
            raise RejectionError(
                Reason.UNPROTECTED, "this listener has no TLS: the token was seen on its way, so revoke it"
            )
        digest = self._digest(authorization[0])
        check = self._checks.get(digest)
        if check is None:
            check = asyncio.ensure_future(self._check(matched[1].decode("ascii"), digest, origin.address))
            self._checks[digest] = check
            check.add_done_callback(partial(self._on_check_done, digest))
        # A client that disconnects must not cancel it for the others.
        return await asyncio.shield(check)

    def _on_check_done(self, digest: bytes, check: asyncio.Future[_CachedCaller]) -> None:
        del self._checks[digest]
        if not check.cancelled():
            check.exception()  # retrieved, even if all waiting clients have disconnected

    async def _check(self, token: str, digest: bytes, address: str) -> _CachedCaller:
        # Read before the tokens: a verification that began before a reload must not write into the cache of
        # the reload.
        cache = self._cache
        stored = None if self._tokens is None else self._tokens.value
        if stored is not None and (self._issuer is None or token.startswith(TOKEN_PREFIX)):
            entry = stored.verify(token)
            seen = _CachedCaller(entry.principal, inf, entry)
        elif self._issuer is not None:
            is_over_limit = partial(self._is_indebted, address)
            principal, until_s, keys = await self._issuer.verify(token, address, is_over_limit)
            seen = _CachedCaller(principal, until_s * 1000, keys)
            cache = self._cache
            if keys is not self._issuer.key_set.value:
                return seen
        else:
            raise RejectionError(
                Reason.UNKNOWN_TOKEN, f"no tokens are known here: {AUTH_TOKENS_FILE} is not set"
            )
        if len(cache) >= CACHE_MAX:
            del cache[next(iter(cache))]
        cache[digest] = seen
        return seen

    def _is_indebted(self, address: str) -> bool:
        return self._failures.wait_s(address, self._clock.monotonic_s()) > 0

    def _reloading_values(self) -> list[ReloadingValue[Any]]:
        key_set = None if self._issuer is None else self._issuer.key_set
        return [each for each in (self._tokens, key_set) if each is not None]

    def _drop_stale(self) -> None:
        """Drop cached tokens whose entry or key set was replaced. Called in a reloading thread."""
        with self._cache_lock:
            tokens = None if self._tokens is None else self._tokens.value
            keys = None if self._issuer is None else self._issuer.key_set.value
            self._cache = {
                digest: seen
                for digest, seen in list(self._cache.items())
                if (
                    tokens is not None and tokens.contains(seen.proof)
                    if isinstance(seen.proof, StoredToken)
                    else seen.proof is keys
                )
            }

    def _digest(self, authorization: bytes) -> bytes:
        return hashlib.blake2b(authorization, key=self._key, digest_size=16).digest()


log = structlog.get_logger(__name__)


class RejectionCounter:
    """Those of one sidecar. Not thread-safe: the event loop's.

    ``counts``: by reason, each from the start on.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Reason, 0)
        self._lines = LogThrottle()

    def add(self, refusal: RejectionError, origin: Origin, now_s: float) -> None:
        """Count it, and log it unless its reason was logged a short time ago."""
        reason = refusal.reason
        self.counts[reason] += 1
        if (since_last_line := self._lines.count(reason, now_s)) is None:
            return
        log.warning(
            "caller_refused",
            reason=reason.value,
            message=refusal.message,
            address=origin.address,
            listener=origin.listener.name,
            since_last_line=since_last_line,
        )


class AuthenticationCollector(Collector):
    """Refusals, and what tokens are checked with."""

    def __init__(self, refusals: RejectionCounter, followed: Sequence[ReloadingValue[Any]]) -> None:
        self._refusals = refusals
        self._reloading_values = followed

    def collect(self) -> Iterator[Metric]:
        refused = CounterMetricFamily(
            "aclog_authentication_failures", "Requests whose caller was not believed.", labels=["reason"]
        )
        for reason, count in self._refusals.counts.items():
            refused.add_metric([reason.value], count)
        reloads = CounterMetricFamily(
            "aclog_authentication_reload_failures",
            "Tokens files and key sets that could not be used.",
            labels=["source"],
        )
        failing = GaugeMetricFamily(
            "aclog_authentication_reload_failed",
            "1 while the newest cannot be used and the one before is in use.",
            labels=["source"],
        )
        for each in self._reloading_values:
            reloads.add_metric([each.name], each.failures)
            failing.add_metric([each.name], each.failure is not None)
        yield from (refused, reloads, failing)
