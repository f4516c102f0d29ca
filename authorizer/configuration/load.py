"""The configuration: a Java properties file with Kafka's keys, the environment over it, flags over both.

A broker's own server.properties works as it is: its log.dirs name the log to read, its listeners stay the
broker's (``broker_file.py``), and keys that aclog has no use for are passed by. aclog's own keys
begin with ``aclog.``, and one of those that does not exist is an error, as a typing mistake must not switch
something off. A value that is not allowed stops the start with the key, the value and what is allowed. The
keys are the table in ``keys.py``; docs/configuration.md is written from it.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from authorizer.configuration.authentication import require_authentication_whole
from authorizer.configuration.broker_file import BrokersLog, brokers_log, is_brokers
from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX, ENVIRONMENT_PREFIX
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    EARLY_START_LISTENERS,
    LISTENERS,
    LOG_URL,
    PROTOCOL_MAP,
)
from authorizer.configuration.keys.table import BY_NAME, BY_VARIABLE, KEYS
from authorizer.configuration.listeners import (
    DEFAULT_PROTOCOL_MAP,
    parse_listeners,
    parse_protocol_map,
    require_served,
    with_controller_listeners,
)
from authorizer.errors import ConfigError
from records.properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.api import Endpoint
    from records.acl import AclOperation, ResourceType
    from records.principal import KafkaPrincipal

#: What an error calls the file itself.
CONFIG_FLAG: Final = "--config"
# Above this likeness a variable is taken for a mistyped one. Others are left alone: Kubernetes sets
# ACLOG_SERVICE_HOST and the like for a service named aclog.
_LIKENESS: Final = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, read and checked.

    Each attribute without a line here is the value of the key of its name (``keys.KEYS``): times in
    milliseconds, principals as ``Type:name`` texts, None where nothing is set.

    Attributes:
        early_start_listeners: names of listeners that accept before the log is loaded.
        listeners: where the sidecar is to listen; ``served_listeners`` says whether it can.
        listeners_key: the key that they came from, for errors.
        log_url: the metadata log, if one was named; ``require_log_url`` is that or the broker's.
        brokers_log: the metadata log of the broker whose own file was read, if it was one.
        kafka: settings for the Kafka client, without ``aclog.kafka.``; it may hold secrets.
        properties: every key and text as merged, for ``Authorizer.configure``; it may hold secrets.
    """

    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool
    early_start_listeners: frozenset[str]
    listeners: tuple[Endpoint, ...]
    listeners_key: str
    node_id: int
    sidecar_default_host: str | None
    sidecar_public_url: str | None
    authzen_subject_aliases: Mapping[str, str]
    authzen_resource_aliases: Mapping[str, ResourceType]
    authzen_action_aliases: Mapping[str, AclOperation]
    search_resource_names: str | None
    trusted_proxies: tuple[str, ...]
    allow_plaintext_beyond_loopback: bool
    unix_principals: Mapping[str, KafkaPrincipal]
    describe_principals: frozenset[str]
    auth_required_listeners: tuple[str, ...]
    auth_tokens_file: str | None
    auth_oidc_jwks: str | None
    auth_oidc_jwks_refresh_ms: int
    auth_oidc_issuer: str | None
    auth_oidc_audience: tuple[str, ...]
    auth_oidc_principal_claim: str
    auth_oidc_algorithms: tuple[str, ...]
    auth_oidc_leeway_ms: int
    log_url: str | None
    brokers_log: BrokersLog | None
    log_mode: str
    snapshot_store: str | None
    snapshot_keep: int
    snapshot_max_bytes: int
    snapshot_max_age_ms: int
    max_lag_ms: int
    acl_update_timeout_ms: int
    audit_level: str
    audit_queue_max_lines: int
    logging_format: str
    logging_level: str
    # Not in the repr, which may end in a log line: they may hold secrets.
    kafka: Mapping[str, str] = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)

    def served_listeners(self) -> tuple[Endpoint, ...]:
        """The listeners, once it is sure that the sidecar can serve each of them safely.

        Raises:
            ConfigError: one is neither SSL nor PLAINTEXT where that is allowed.
        """
        allow_plaintext = self.allow_plaintext_beyond_loopback
        require_served(self.listeners, key=self.listeners_key, allow_plaintext=allow_plaintext)
        return self.listeners

    def require_log_url(self) -> str:
        """The log's URL: the one that was named, or that of the broker whose own file was read.

        Raises:
            ConfigError: none was set, or the broker's is not on this machine.
            OSError: the broker's may not be looked at.
        """
        if self.log_url is not None:
            return self.log_url
        if self.brokers_log is None:
            raise ConfigError(LOG_URL, "", f"name the metadata log to replay: {BY_NAME[LOG_URL].allowed}")
        return self.brokers_log.url


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str | None] | None = None,
) -> Config:
    """Read and check the whole configuration.

    Args:
        path: a Java properties file; None for defaults only.
        environ: environment variables, os.environ if None. Those of ``keys.BY_VARIABLE`` count, and
            ``ACLOG_KAFKA_...`` for client settings.
        flags: by key name; None values count as not given.

    Raises:
        ConfigError: an unreadable file, an unknown ``aclog.`` key, a value that is not allowed.
    """
    in_file = {} if path is None else read_properties(path)
    in_flags = {name: text for name, text in (flags or {}).items() if text is not None}
    merged = {**in_file, **_from_environment(os.environ if environ is None else environ), **in_flags}
    _refuse_unknown(merged)
    values = {key.name: key.read(merged.get(key.name)) for key in KEYS}

    listeners_key = ACLOG_LISTENERS if ACLOG_LISTENERS in merged and LISTENERS not in in_flags else LISTENERS
    listeners_text = merged.get(listeners_key)
    of_broker = is_brokers(in_file)
    if listeners_key == LISTENERS and LISTENERS not in in_flags and of_broker:
        listeners_text = None
    if listeners_text is None:
        listeners_text = str(BY_NAME[LISTENERS].default)
    controllers: tuple[str, ...] = values[CONTROLLER_LISTENER_NAMES]
    if PROTOCOL_MAP in merged:
        protocols = {**parse_protocol_map(merged[PROTOCOL_MAP], key=PROTOCOL_MAP)}
        # A broker's map need not know the listener that is aclog's alone, nor is it about that.
        if of_broker:
            protocols = {**protocols, **DEFAULT_PROTOCOL_MAP}
        elif listeners_key == ACLOG_LISTENERS or listeners_text != merged.get(LISTENERS):
            protocols = {**DEFAULT_PROTOCOL_MAP, **protocols}
    else:
        protocols = with_controller_listeners(DEFAULT_PROTOCOL_MAP, controllers, listeners_text)
    listeners = parse_listeners(listeners_text, key=listeners_key, protocols=protocols)
    require_authentication_whole(values, listeners)

    own = {key.field: values[key.name] for key in KEYS if key.field in Config.__dataclass_fields__}
    own["early_start_listeners"] = _early_start(merged, values[EARLY_START_LISTENERS], controllers, listeners)
    own["listeners"] = listeners
    return Config(
        **own,
        listeners_key=listeners_key,
        brokers_log=brokers_log(in_file),
        kafka=MappingProxyType(
            {
                name.removeprefix(CLIENT_PREFIX): text
                for name, text in merged.items()
                if name.startswith(CLIENT_PREFIX)
            }
        ),
        properties=MappingProxyType(merged),
    )


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    r"""The keys and texts of a Java properties file; the last of several equal keys counts, as in Java.

    The bytes are read as UTF-8 if they are that, else as Latin-1, as Java reads them; ``\uXXXX`` works in
    both.

    Raises:
        ConfigError: the file cannot be read, or holds a malformed ``\u`` escape.
    """
    allowed = "a readable Java properties file"
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - any path-like
            data = file.read()
    except OSError as error:
        raise ConfigError(CONFIG_FLAG, os.fspath(path), f"{allowed}: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return parse_properties(text)
    except ValueError as error:
        raise ConfigError(CONFIG_FLAG, os.fspath(path), f"{allowed}: {error}") from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """By key name. Unknown variables are left alone unless they look like a known one."""
    client_variables = ENVIRONMENT_PREFIX + CLIENT_PREFIX.removeprefix(ACLOG_PREFIX).upper().replace(".", "_")
    found: dict[str, str] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in BY_VARIABLE:
            found[BY_VARIABLE[variable].name] = text
        elif variable.startswith(client_variables):
            name = variable.removeprefix(client_variables).lower().replace("_", ".")
            found[CLIENT_PREFIX + name] = text
        elif alike := difflib.get_close_matches(variable, BY_VARIABLE, n=1, cutoff=_LIKENESS):
            raise ConfigError(variable, text, f"there is no such variable; did you mean {alike[0]}?")
    return found


def _refuse_unknown(merged: Mapping[str, str]) -> None:
    """Raise ConfigError for an ``aclog.`` key that does not exist."""
    for name, text in merged.items():
        if not name.startswith(ACLOG_PREFIX) or name in BY_NAME or name.startswith(CLIENT_PREFIX):
            continue
        own = [known for known in BY_NAME if known.startswith(ACLOG_PREFIX)]
        alike = difflib.get_close_matches(name, own, n=1)
        hint = f"did you mean `{alike[0]}`?" if alike else f"the keys are {', '.join(own)}"
        raise ConfigError(name, text, f"there is no such key; {hint}")


def _early_start(
    merged: Mapping[str, str],
    names: tuple[str, ...] | None,
    controllers: tuple[str, ...],
    listeners: tuple[Endpoint, ...],
) -> frozenset[str]:
    """KafkaConfig.earlyStartListeners: the controllers' listeners unless said otherwise."""
    if names is None:
        return frozenset(controllers)
    # Also those of a broker's file whose listeners are not ours.
    in_file = {part.partition("://")[0].strip().upper() for part in merged.get(LISTENERS, "").split(",")}
    known = in_file.union(controllers, (str(endpoint.listener_name) for endpoint in listeners))
    for name in names:
        if name not in known:
            raise ConfigError(
                EARLY_START_LISTENERS,
                merged[EARLY_START_LISTENERS],
                f"listener {name} is not in {LISTENERS} or {CONTROLLER_LISTENER_NAMES}",
            )
    return frozenset(names)
