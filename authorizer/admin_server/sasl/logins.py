"""SaslLogins: what a server verifies logins with, and its limits on failures."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from authorizer.admin_server.sasl.mechanisms import OAuthBearerServer, PlainServer, ScramServer
from authorizer.api.errors import ConfigError
from authorizer.authentication.cluster_credentials import ClusterCredentials
from authorizer.authentication.fair_places import FairExecutor, NoSlotError
from authorizer.authentication.issuer import Issuer
from authorizer.authentication.rate_limits import FailureRateLimit
from authorizer.authentication.rejection import busy_error
from authorizer.authentication.reloading_value import FILE_POLL_INTERVAL_S, FileReader, ReloadingValue
from authorizer.authentication.scram import (
    CREDENTIALS_FILE,
    ITERATIONS_MAX,
    SCRAM_DIGESTS,
    ScramCredential,
    credential_id,
)
from authorizer.configuration.keys.admin import SERVED_MECHANISMS
from authorizer.configuration.keys.names import (
    ADMIN_CREDENTIALS_FILE,
    ADMIN_SCRAM_CREDENTIALS,
    AUTH_OIDC_JWKS,
    LISTENER_PREFIX,
    MAX_REAUTH_MS,
    SASL_MECHANISMS,
)
from authorizer.configuration.keys.table import BY_NAME
from authorizer.listeners.log_throttle import LogThrottle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.admin_server.metrics import LoginMetrics
    from authorizer.admin_server.sasl.mechanisms import SaslServer
    from authorizer.configuration.load import Config
    from records.principal import KafkaPrincipal
    from replay.clock import Clock

log = structlog.get_logger(__name__)

#: Threads that hash passwords, and queued logins.
_THREADS: Final = 2
_SLOTS: Final = 256
#: How long a failed login waits for its answer (connection.failed.authentication.delay.ms), and at most
#: after many failures of its address.
FAILURE_DELAY_S: Final = 0.1
_FAILURE_DELAY_MAX_S: Final = 1.0

_Credentials = dict[str, ScramCredential]


class SaslLogins:
    """Those of one server; on its event loop only."""

    def __init__(self, config: Config, clock: Clock, metrics: LoginMetrics) -> None:
        """Load the file of credentials and the issuer's keys.

        Raises:
            ConfigError: a file is invalid, the log cannot have credentials, or PyJWT is needed and not
                installed.
        """
        self._config = config
        self.clock = clock
        self.metrics = metrics
        self._salt_key = secrets.token_bytes(32)
        self._checks = FairExecutor(_THREADS, _SLOTS, "aclog-passwords")
        self._failures = FailureRateLimit()
        self._lines = LogThrottle()
        self._credentials: ReloadingValue[_Credentials] | None = None
        self._issuer: Issuer | None = None
        self._cluster_credentials: ClusterCredentials | None = None
        if config.admin_scram_credentials == "log":
            if config.admin_credentials_file is not None:
                raise ConfigError(
                    ADMIN_CREDENTIALS_FILE,
                    "",
                    f"no file with {ADMIN_SCRAM_CREDENTIALS}=log: set one of the two",
                )
            self._cluster_credentials = ClusterCredentials(config)
        elif config.admin_credentials_file is not None:
            load = FileReader(Path(config.admin_credentials_file), _read_credentials)
            self._credentials = ReloadingValue("credentials", load, FILE_POLL_INTERVAL_S, changed=_nothing)
            self._credentials.load()
        if config.auth_oidc_jwks is not None:
            self._issuer = Issuer(config, config.auth_oidc_jwks, clock, changed=_nothing)

    def start(self) -> None:
        if self._cluster_credentials is not None:
            self._cluster_credentials.start()
        for each in self._reloading_values():
            each.start()

    def close(self) -> None:
        for each in self._reloading_values():
            each.close()
        if self._cluster_credentials is not None:
            self._cluster_credentials.close()
        self._checks.close()
        if self._issuer is not None:
            self._issuer.close()

    def mechanisms(self, listener: str) -> tuple[str, ...]:
        """Return the mechanisms that a listener offers.

        Raises:
            ConfigError: one is not served, or there is nothing to verify it with.
        """
        key, text = self._listener_value(listener, None, SASL_MECHANISMS)
        offered: tuple[str, ...] = BY_NAME[SASL_MECHANISMS].read(text)
        for name in offered or ("",):
            if name not in SERVED_MECHANISMS:
                raise ConfigError(key, name, BY_NAME[SASL_MECHANISMS].allowed)
            if name == "OAUTHBEARER" and self._issuer is None:
                raise ConfigError(AUTH_OIDC_JWKS, "", f"{key} has {name}: name the keys that verify tokens")
            if name != "OAUTHBEARER" and self._credentials is None and self._cluster_credentials is None:
                raise ConfigError(
                    ADMIN_CREDENTIALS_FILE,
                    "",
                    f"{key} has {name}: name {BY_NAME[ADMIN_CREDENTIALS_FILE].allowed}",
                )
        return offered

    def max_session_ms(self, listener: str, mechanism: str) -> int:
        """Return ``connections.max.reauth.ms`` of a mechanism; 0: unlimited."""
        _, text = self._listener_value(listener, mechanism, MAX_REAUTH_MS)
        value: int = BY_NAME[MAX_REAUTH_MS].read(text)
        return value

    def server(self, mechanism: str, address: str) -> SaslServer:
        if mechanism == "PLAIN":
            return PlainServer(partial(self._verify_password, address))
        if mechanism == "OAUTHBEARER":
            return OAuthBearerServer(partial(self._verify_token, address))
        return ScramServer(mechanism, partial(self._find, mechanism))

    def add_failure(self, address: str, mechanism: str, reason: str) -> float:
        """Count a failed login and log it; return the seconds after which it is answered."""
        now_s = self.clock.monotonic_s()
        delay_s = FAILURE_DELAY_S + min(self._failures.wait_s(address, now_s), _FAILURE_DELAY_MAX_S)
        self._failures.add(address, now_s)
        # One line for all clients: guesses may come from many addresses.
        if (since_last_line := self._lines.count(None, now_s)) is not None:
            log.warning(
                "sasl_login_failed",
                mechanism=mechanism,
                reason=reason,
                address=address,
                since_last_line=since_last_line,
            )
        return delay_s

    def _listener_value(self, listener: str, mechanism: str | None, key: str) -> tuple[str, str | None]:
        """Return the most specific key that is set, and its text (ListenerName.saslMechanismPrefix)."""
        properties: Mapping[str, str] = self._config.properties
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        specific = [] if mechanism is None else [f"{prefix}{mechanism.lower()}.{key}"]
        found = next((each for each in (*specific, f"{prefix}{key}") if each in properties), key)
        return found, properties.get(found)

    def _find(self, mechanism: str, user: str) -> tuple[ScramCredential, bool]:
        """Return a user's credential and True; for an unknown user one that nothing matches, and False."""
        stored: Mapping[str, ScramCredential] = {}
        if self._cluster_credentials is not None:
            stored = self._cluster_credentials.require()
        elif self._credentials is not None:
            stored = self._credentials.value or {}
        found = stored.get(credential_id(user, mechanism))
        if found is not None:
            return found, True
        # The same salt each time, as of a user that exists.
        salt = hmac.digest(self._salt_key, f"{mechanism} {user}".encode("utf-8", "replace"), "sha256")[:16]
        key = bytes(hashlib.new(SCRAM_DIGESTS[mechanism]).digest_size)
        return ScramCredential(user, mechanism, ITERATIONS_MAX, salt, key, key), False

    async def _verify_password(self, address: str, user: str, password: str) -> bool:
        candidates = [self._find(mechanism, user) for mechanism in SCRAM_DIGESTS]

        def verify() -> bool:
            # Each is hashed, so that the time does not tell which ones exist.
            matches = [credential.matches(password) and is_known for credential, is_known in candidates]
            return any(matches)

        try:
            return await self._checks.run(address, verify, is_over_limit=self._is_over_limit(address))
        except NoSlotError:
            raise busy_error() from None

    async def _verify_token(self, address: str, token: str) -> tuple[KafkaPrincipal, float]:
        if self._issuer is None:
            raise ConfigError(AUTH_OIDC_JWKS, "", "name the keys that verify tokens")
        is_over_limit = partial(self._is_over_limit, address)
        principal, until_s, _ = await self._issuer.verify(token, address, is_over_limit)
        return principal, until_s

    def _is_over_limit(self, address: str) -> bool:
        return self._failures.wait_s(address, self.clock.monotonic_s()) > 0

    def _reloading_values(self) -> list[ReloadingValue[Any]]:
        key_set = None if self._issuer is None else self._issuer.key_set
        return [each for each in (self._credentials, key_set) if each is not None]


def _read_credentials(path: Path) -> _Credentials:
    return {each.id: each for each in CREDENTIALS_FILE.read(path)}


def _nothing() -> None:
    """Logins in progress continue with the credential that they began with."""
