"""Issuer: verifies an issuer's tokens in threads, and fetches its keys again for an unknown key."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from authorizer.api.errors import ConfigError
from authorizer.authentication.fair_places import FairExecutor, FairSlots, NoSlotError
from authorizer.authentication.rejection import Reason, RejectionError, busy_error
from authorizer.authentication.reloading_value import FILE_POLL_INTERVAL_S, FileReader, ReloadingValue
from authorizer.configuration.keys.names import AUTH_OIDC_JWKS
from records.install_command import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from authorizer.authentication.oidc import KeySet
    from authorizer.configuration.load import Config
    from records.principal import KafkaPrincipal
    from replay.clock import Clock

#: Threads, and queued verifications.
_THREADS: Final = 2
_SLOTS: Final = 256
#: Verifications that wait for a newer key set, and how long each waits.
KEY_SLOTS: Final = 64
KEY_WAIT_S: Final = 5.0


class Issuer:
    """The configured issuer; ``key_set``: its keys."""

    def __init__(self, config: Config, jwks: str, clock: Clock, *, changed: Callable[[], None]) -> None:
        """Load its keys if they are in a file; ``key_set.start`` begins to reload them."""
        try:
            from authorizer.authentication.oidc import (  # noqa: PLC0415
                OidcTokens,
                fetch_key_set,
                read_key_set,
            )
        except ImportError as error:
            raise ConfigError(AUTH_OIDC_JWKS, jwks, f"it takes PyJWT: {install_command('oidc')}") from error
        self.key_set: ReloadingValue[KeySet]
        if "://" in jwks:
            # Fetched in a thread, so that the start does not wait for it.
            every_s = config.auth_oidc_jwks_refresh_ms / 1000
            self.key_set = ReloadingValue("jwks", partial(fetch_key_set, jwks), every_s, changed=changed)
        else:
            load = FileReader(Path(jwks), read_key_set)
            self.key_set = ReloadingValue("jwks", load, FILE_POLL_INTERVAL_S, changed=changed)
            self.key_set.load()
        self._tokens = OidcTokens(config)
        self._clock = clock
        self._checks = FairExecutor(_THREADS, _SLOTS, "aclog-issuer-tokens")
        self._key_slots = FairSlots(KEY_SLOTS)

    def close(self) -> None:
        """Start no more verifications. Idempotent."""
        self.key_set.close()
        self._checks.close()

    async def verify(
        self, token: str, address: str, is_over_limit: Callable[[], bool]
    ) -> tuple[KafkaPrincipal, float, KeySet]:
        """Return a token's principal, its end (seconds since the epoch) and the keys that verified it.

        RejectionError: it is not valid, or the queue is full.
        """
        try:
            return await self._check(token, address, is_over_limit())
        except RejectionError as refusal:
            if refusal.reason is not Reason.UNKNOWN_KEY:
                raise
        # The issuer may have a new key.
        await self._wait_for_keys(address, is_over_limit())
        return await self._check(token, address, is_over_limit())

    async def _check(
        self, token: str, address: str, is_over_limit: bool
    ) -> tuple[KafkaPrincipal, float, KeySet]:
        try:
            return await self._checks.run(address, partial(self._verify, token), is_over_limit=is_over_limit)
        except NoSlotError:
            raise busy_error() from None

    def _verify(self, token: str) -> tuple[KafkaPrincipal, float, KeySet]:
        keys = self.key_set.value
        if keys is None:
            raise RejectionError(Reason.NO_KEYS, "the keys that verify tokens are not loaded yet")
        return *self._tokens.verify(token, keys), keys

    async def _wait_for_keys(self, address: str, is_over_limit: bool) -> None:
        """Wait until the keys were fetched again, or were a short time ago, or the timeout."""
        fetched = asyncio.wrap_future(self.key_set.ask(self._clock.monotonic_s()))
        try:
            with self._key_slots.place(address, is_over_limit=is_over_limit) as place:
                await asyncio.wait((fetched, place), timeout=KEY_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
                fetched.cancel()  # the fetch continues: others may wait for it
                if place.done():
                    await place
        except NoSlotError:
            raise busy_error() from None
