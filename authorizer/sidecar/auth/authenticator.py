"""Authenticator: identifies the caller by the Authorization header, else by the connection.

- A verified token costs a keyed hash and a look-up. The cache is bounded, contains no token, and drops an
  entry when it expires, when its line of the tokens file is changed or removed, or when the issuer's keys
  change.
- A token of the file is verified on the event loop with one SHA-256. An issuer's token, and one with a slow
  hash, is verified in a thread. The queue for threads is bounded and shared fairly by address
  (``fair_places``). Each of the two kinds has its own queue; fetching an issuer's keys blocks neither.
- A valid token is accepted, however many invalid ones came from its address (``failure_rate_limit``).
- A header that is not a valid bearer token is rejected, never ignored: its sender intends to authenticate.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import threading
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import AUTH_OIDC_JWKS, AUTH_TOKENS_FILE
from authorizer.sidecar.auth.failure_rate_limit import FailureRateLimit
from authorizer.sidecar.auth.fair_places import FairExecutor, FairSlots, NoSlotError
from authorizer.sidecar.auth.metrics import AuthenticationCollector, RejectionCounter
from authorizer.sidecar.auth.rejection import Reason, RejectionError
from authorizer.sidecar.auth.reloading_value import FILE_POLL_INTERVAL_S, FileReader, ReloadingValue
from authorizer.sidecar.auth.stored_tokens import TOKEN_PREFIX, StoredToken, StoredTokens
from authorizer.sidecar.auth.tokens_file import read_tokens
from records.install_command import install_command
from records.principal import ANONYMOUS, KafkaPrincipal
from replay.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.configuration.load import Config
    from authorizer.listeners.listener import Listener
    from authorizer.sidecar.auth.key_set import KeySet
    from authorizer.sidecar.auth.oidc import OidcTokens
    from authorizer.sidecar.http.request_origin import Origin
    from replay.clock import Clock

#: RFC 6750, section 2.1; the scheme in any case (RFC 9110).
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)
_TOKEN_BYTES_MAX: Final = 16 * 1024

#: Cached tokens; beyond them the oldest entry is dropped.
CACHE_MAX: Final = 10_000
#: For each kind of verification: threads, and queued requests.
_THREADS: Final = 2
SLOTS: Final = 256
#: Requests that wait for a newer key set, and how long each waits.
KEY_SLOTS: Final = 64
KEY_WAIT_S: Final = 5.0


_Result = TypeVar("_Result")


class _CachedCaller(NamedTuple):
    """A verified token: its caller, and the entry or key set that verified it."""

    principal: KafkaPrincipal
    until_ms: float
    proof: StoredToken | KeySet


class Authenticator:
    """Identifies the callers of a sidecar's requests. Implements ``CallerCache``."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        """Load the files.

        Raises:
            ConfigError: a file is invalid, or PyJWT is needed and not installed.
        """
        self._clock = clock or SystemClock()
        self._key = secrets.token_bytes(32)
        self._cache: dict[bytes, _CachedCaller] = {}
        self._checks: dict[bytes, asyncio.Future[_CachedCaller]] = {}
        self._slow_checks = FairExecutor(_THREADS, SLOTS, "aclog-stored-tokens")
        self._jwt_checks = FairExecutor(_THREADS, SLOTS, "aclog-issuer-tokens")
        self._key_slots = FairSlots(KEY_SLOTS)
        # Protects the replacement of the cache: each reloading value has a thread.
        self._cache_lock = threading.Lock()
        self._failures = FailureRateLimit()
        self._refusals = RejectionCounter()
        self._tokens: ReloadingValue[StoredTokens] | None = None
        self._oidc: OidcTokens | None = None
        self._key_set: ReloadingValue[KeySet] | None = None
        if config.auth_tokens_file is not None:
            load = FileReader(Path(config.auth_tokens_file), lambda path: StoredTokens(read_tokens(path)))
            self._tokens = ReloadingValue("tokens", load, FILE_POLL_INTERVAL_S, changed=self._drop_stale)
            self._tokens.load()
        if config.auth_oidc_jwks is not None:
            self._oidc, self._key_set = self._open_issuer(config, config.auth_oidc_jwks)
        self.collector = AuthenticationCollector(self._refusals, self._reloading_values())

    def start(self) -> None:
        """Start to reload the files and the issuer's keys."""
        for each in self._reloading_values():
            each.start()

    def close(self) -> None:
        """Stop reloading. Idempotent."""
        for each in self._reloading_values():
            each.close()
        self._slow_checks.close()
        self._jwt_checks.close()

    def cached_caller(
        self, authorization: bytes | None, connection: KafkaPrincipal, listener: Listener
    ) -> KafkaPrincipal | None:
        """Return the caller if that needs no verification; None: use ``caller``. On the event loop only.

        Args:
            authorization: value of the request's only Authorization header; None if there is none.
            connection: the connection's principal.
            listener: of the connection.
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

        Raises:
            RejectionError: 401, the token is missing or invalid; 429, it is invalid after too many others, or
                the queue is full.
        """
        header = authorization[0] if authorization else None
        if len(authorization) <= 1:
            known = self.cached_caller(header, origin.principal, origin.listener)
            if known is not None:
                return known
        try:
            return (await self._authenticate(authorization, origin)).principal
        except RejectionError as refused:
            refusal = self._count_rejection(refused, origin)
            if refusal is refused:
                raise
            raise refusal from refused

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
        # Read before the tokens and keys: a verification that began before a reload must not write into the
        # cache of the reload.
        cache = self._cache
        stored = None if self._tokens is None else self._tokens.value
        if stored is not None and (self._oidc is None or token.startswith(TOKEN_PREFIX)):
            seen = await self._check_stored(token, stored, address)
        elif self._oidc is not None and self._key_set is not None:
            cache, seen = await self._check_jwt(token, self._oidc, self._key_set, address)
        else:
            raise RejectionError(
                Reason.UNKNOWN_TOKEN, f"no tokens are known here: {AUTH_TOKENS_FILE} is not set"
            )
        if len(cache) >= CACHE_MAX:
            del cache[next(iter(cache))]
        cache[digest] = seen
        return seen

    async def _check_stored(self, token: str, tokens: StoredTokens, address: str) -> _CachedCaller:
        entry = tokens.find(token)
        verify = partial(tokens.verify, token, entry)
        stored = await self._run_check(self._slow_checks, address, verify) if entry.is_slow else verify()
        return _CachedCaller(stored.principal, inf, stored)

    async def _check_jwt(
        self, token: str, oidc: OidcTokens, key_set: ReloadingValue[KeySet], address: str
    ) -> tuple[dict[bytes, _CachedCaller], _CachedCaller]:
        """Return the cache for the result, and the result."""
        cache = self._cache
        verify = partial(_verify_jwt, token, oidc, key_set)
        try:
            return cache, await self._run_check(self._jwt_checks, address, verify)
        except RejectionError as refusal:
            if refusal.reason is not Reason.UNKNOWN_KEY:
                raise
        # The issuer may have a new key.
        await self._wait_for_keys(key_set, address)
        cache = self._cache
        return cache, await self._run_check(self._jwt_checks, address, verify)

    async def _wait_for_keys(self, key_set: ReloadingValue[KeySet], address: str) -> None:
        """Wait until the keys were fetched again, or were a short time ago, or the timeout."""
        fetched = asyncio.wrap_future(key_set.ask(self._clock.monotonic_s()))
        try:
            with self._key_slots.place(address, is_over_limit=self._is_indebted(address)) as place:
                await asyncio.wait((fetched, place), timeout=KEY_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
                fetched.cancel()  # the fetch continues: others may wait for it
                if place.done():
                    await place
        except NoSlotError:
            raise _busy_error() from None

    async def _run_check(self, checks: FairExecutor, address: str, check: Callable[[], _Result]) -> _Result:
        try:
            return await checks.run(address, check, is_over_limit=self._is_indebted(address))
        except NoSlotError:
            raise _busy_error() from None

    def _is_indebted(self, address: str) -> bool:
        return self._failures.wait_s(address, self._clock.monotonic_s()) > 0

    def _open_issuer(self, config: Config, jwks: str) -> tuple[OidcTokens, ReloadingValue[KeySet]]:
        try:
            from authorizer.sidecar.auth.key_set import fetch_key_set, read_key_set  # noqa: PLC0415
            from authorizer.sidecar.auth.oidc import OidcTokens  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(AUTH_OIDC_JWKS, jwks, f"it takes PyJWT: {install_command('oidc')}") from error
        if "://" in jwks:
            # Fetched in a thread, so that the start does not wait for it.
            every_s = config.auth_oidc_jwks_refresh_ms / 1000
            followed = ReloadingValue("jwks", partial(fetch_key_set, jwks), every_s, changed=self._drop_stale)
        else:
            load = FileReader(Path(jwks), read_key_set)
            followed = ReloadingValue("jwks", load, FILE_POLL_INTERVAL_S, changed=self._drop_stale)
            followed.load()
        return OidcTokens(config), followed

    def _reloading_values(self) -> list[ReloadingValue[Any]]:
        return [each for each in (self._tokens, self._key_set) if each is not None]

    def _drop_stale(self) -> None:
        """Drop cached tokens whose entry or key set was replaced. Called in a reloading thread."""
        with self._cache_lock:
            tokens = None if self._tokens is None else self._tokens.value
            keys = None if self._key_set is None else self._key_set.value
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


def _verify_jwt(token: str, oidc: OidcTokens, key_set: ReloadingValue[KeySet]) -> _CachedCaller:
    """Verify an issuer's token; runs in a thread."""
    keys = key_set.value
    if keys is None:
        raise RejectionError(Reason.NO_KEYS, "the keys that verify tokens are not loaded yet")
    principal, until_s = oidc.verify(token, keys)
    return _CachedCaller(principal, until_s * 1000, keys)


def _busy_error() -> RejectionError:
    return RejectionError(Reason.BUSY, "too many new tokens at a time: try again")
