"""The caller of a request: by its Authorization header, else by its connection.

- A token seen before costs a keyed hash and a look-up. The cache is bounded, holds no token, and forgets one
  when it expires, and all when the file of tokens or the issuer's keys change: a token that was revoked is
  then checked as if for the first time.
- Any other token is checked in a thread of its own, two at a time, equal ones once; what waits for that is
  bounded, and so are the failures of an address.
- A header that is no valid bearer token is refused, never passed over: a caller who sends one means it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from authorizer.configuration.keys.names import AUTH_OIDC_JWKS, AUTH_TOKENS_FILE
from authorizer.errors import ConfigError
from authorizer.sidecar.authentication.followed import FILE_EVERY_S, FileLoad, Followed
from authorizer.sidecar.authentication.metrics import AuthenticationCollector
from authorizer.sidecar.authentication.refusal import Reason, RefusalError
from authorizer.sidecar.authentication.refusals import Refusals
from authorizer.sidecar.authentication.stored_tokens import TOKEN_PREFIX, StoredTokens
from authorizer.sidecar.authentication.tokens_file import read_tokens
from authorizer.sidecar.authentication.tries import FailedTries
from records.principal import ANONYMOUS, KafkaPrincipal
from replay.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.configuration.load import Config
    from authorizer.sidecar.authentication.key_set import KeySet
    from authorizer.sidecar.authentication.oidc import OidcTokens
    from authorizer.sidecar.origin import Listener, Origin
    from replay.clock import Clock

#: RFC 6750, section 2.1; the scheme in any case (RFC 9110).
_BEARER: Final = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)
_TOKEN_BYTES_MAX: Final = 16 * 1024

#: Tokens that are remembered; one more, and the one seen first is forgotten.
CACHE_MAX: Final = 10_000
#: Tokens that are checked at the same time, and that may wait for it.
_THREADS: Final = 2
WAITING_MAX: Final = 64


class _Seen(NamedTuple):
    principal: KafkaPrincipal
    until_ms: float


class Authenticator:
    """What a sidecar's requests are put to."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        """Read the files.

        Raises:
            ConfigError: one cannot be used, or PyJWT is not installed and needed.
        """
        self._clock = clock or SystemClock()
        self._key = secrets.token_bytes(32)
        self._seen: dict[bytes, _Seen] = {}
        self._checks: dict[bytes, asyncio.Future[_Seen]] = {}
        self._turns = asyncio.Semaphore(_THREADS)
        self._threads = ThreadPoolExecutor(_THREADS, "aclog-authentication")
        self._tries = FailedTries()
        self._refusals = Refusals()
        self._tokens: Followed[StoredTokens] | None = None
        self._oidc: OidcTokens | None = None
        self._key_set: Followed[KeySet] | None = None
        if config.auth_tokens_file is not None:
            load = FileLoad(Path(config.auth_tokens_file), lambda path: StoredTokens(read_tokens(path)))
            self._tokens = Followed("tokens", load, FILE_EVERY_S, changed=self._forget)
            self._tokens.load()
        if config.auth_oidc_jwks is not None:
            self._oidc, self._key_set = self._of_issuer(config, config.auth_oidc_jwks)
        self.collector = AuthenticationCollector(self._refusals, self._followed())

    def start(self) -> None:
        """Begin to follow the files and the issuer's keys."""
        for each in self._followed():
            each.start()

    def close(self) -> None:
        """Stop that. Idempotent."""
        for each in self._followed():
            each.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def known(
        self, authorization: bytes | None, connection: KafkaPrincipal, listener: Listener
    ) -> KafkaPrincipal | None:
        """The caller, if that takes no work; None: ask ``caller``. From the event loop only, as that.

        Args:
            authorization: the value of the request's only header of that name; None if there is none.
            connection: the connection's principal.
            listener: where the request came in.
        """
        if authorization is None:
            if listener.requires_authentication and connection == ANONYMOUS:
                return None
            return connection
        if not listener.carries_tokens:
            return None
        seen = self._seen.get(self._digest(authorization))
        if seen is None or seen.until_ms <= self._clock.now_ms():
            return None
        return seen.principal

    async def caller(self, authorization: Sequence[bytes], origin: Origin) -> KafkaPrincipal:
        """The caller of a request with these Authorization headers.

        Raises:
            RefusalError: 401, no token where one is needed, or one that is not valid; 429, too many tries.
        """
        header = authorization[0] if authorization else None
        if len(authorization) <= 1:
            known = self.known(header, origin.principal, origin.listener)
            if known is not None:
                return known
        try:
            return (await self._checked(authorization, origin)).principal
        except RefusalError as refusal:
            now_s = self._clock.monotonic_s()
            if refusal.is_failed_try:
                self._tries.add(origin.address, now_s)
            self._refusals.add(refusal, origin, now_s)
            raise

    async def _checked(self, authorization: Sequence[bytes], origin: Origin) -> _Seen:
        if not authorization:
            name = origin.listener.name
            raise RefusalError(Reason.MISSING, f"listener {name} needs to know who asks: send a bearer token")
        matched = _BEARER.fullmatch(authorization[0])
        if len(authorization) > 1 or matched is None or len(authorization[0]) > _TOKEN_BYTES_MAX:
            raise RefusalError(Reason.MALFORMED, "the Authorization header is not one bearer token")
        if not origin.listener.carries_tokens:
            raise RefusalError(
                Reason.UNPROTECTED, "this listener has no TLS: the token was seen on its way, so revoke it"
            )
        digest = self._digest(authorization[0])
        check = self._checks.get(digest)
        if check is None:
            if len(self._checks) >= WAITING_MAX:
                raise RefusalError(Reason.BUSY, "too many new tokens at once: try again")
            check = asyncio.ensure_future(self._check(matched[1].decode("ascii"), digest, origin.address))
            self._checks[digest] = check
            check.add_done_callback(partial(self._done, digest))
        # Who goes away does not end it for the others.
        return await asyncio.shield(check)

    def _done(self, digest: bytes, check: asyncio.Future[_Seen]) -> None:
        del self._checks[digest]
        if not check.cancelled():
            check.exception()  # seen, even if everyone who waited has gone

    async def _check(self, token: str, digest: bytes, address: str) -> _Seen:
        # Before what it is checked with: what a reload has emptied takes nothing that was checked before it.
        cache = self._seen
        try:
            seen = await self._in_turn(token, address)
        except RefusalError as refusal:
            if refusal.reason is not Reason.UNKNOWN_KEY or self._key_set is None:
                raise
            # The issuer may have a new key.
            await asyncio.wrap_future(self._key_set.ask(self._clock.monotonic_s()))
            cache = self._seen
            seen = await self._in_turn(token, address)
        if len(cache) >= CACHE_MAX:
            del cache[next(iter(cache))]
        cache[digest] = seen
        return seen

    async def _in_turn(self, token: str, address: str) -> _Seen:
        self._require_tries(address)
        async with self._turns:
            # Others of this address may have failed meanwhile.
            self._require_tries(address)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._verified, token)

    def _require_tries(self, address: str) -> None:
        wait_s = self._tries.wait_s(address, self._clock.monotonic_s())
        if wait_s > 0:
            raise RefusalError(
                Reason.TOO_MANY_TRIES,
                "too many wrong tokens came from this address: try again later",
                ceil(wait_s),
            )

    def _verified(self, token: str) -> _Seen:
        """In a thread."""
        stored = None if self._tokens is None else self._tokens.value
        if stored is not None and (self._oidc is None or token.startswith(TOKEN_PREFIX)):
            return _Seen(stored.principal_of(token), inf)
        if self._oidc is None or self._key_set is None:
            raise RefusalError(
                Reason.UNKNOWN_TOKEN, f"no tokens are known here: {AUTH_TOKENS_FILE} is not set"
            )
        if self._key_set.value is None:
            raise RefusalError(Reason.NO_KEYS, "the keys that tokens are checked with are not there yet")
        principal, until_s = self._oidc.verify(token, self._key_set.value)
        return _Seen(principal, until_s * 1000)

    def _of_issuer(self, config: Config, jwks: str) -> tuple[OidcTokens, Followed[KeySet]]:
        try:
            from authorizer.sidecar.authentication.key_set import fetch_key_set, read_key_set  # noqa: PLC0415
            from authorizer.sidecar.authentication.oidc import OidcTokens  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError(AUTH_OIDC_JWKS, jwks, "it takes PyJWT: pip install 'aclog[oidc]'") from error
        if "://" in jwks:
            # Fetched by its thread, so that no start waits for it.
            every_s = config.auth_oidc_jwks_refresh_ms / 1000
            followed = Followed("jwks", partial(fetch_key_set, jwks), every_s, changed=self._forget)
        else:
            load = FileLoad(Path(jwks), read_key_set)
            followed = Followed("jwks", load, FILE_EVERY_S, changed=self._forget)
            followed.load()
        return OidcTokens(config), followed

    def _followed(self) -> list[Followed[Any]]:
        return [each for each in (self._tokens, self._key_set) if each is not None]

    def _forget(self) -> None:
        self._seen = {}

    def _digest(self, authorization: bytes) -> bytes:
        return hashlib.blake2b(authorization, key=self._key, digest_size=16).digest()
