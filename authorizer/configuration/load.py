"""The configuration: a Java properties file with Kafka's keys, the environment over it, flags over both.

A broker's own server.properties works as it is: its log.dirs name the log to read, its listeners stay the
broker's (``broker_file.py``), and keys that aclog has no use for are passed by. In any other file the keys of
a Kafka client are refused (``client_keys.py``). aclog's own keys begin with ``aclog.``, and one of those that
does not exist is an error, as a typing mistake must not switch something off. A value that is not allowed
stops the start with the key, the value and what is allowed. The keys are the table in ``keys.py``;
docs/configuration.md is written from it.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import SecurityProtocol
from authorizer.api.cluster_name import CLUSTER_NAME
from authorizer.api.errors import ConfigError
from authorizer.configuration.authentication import require_authentication_whole
from authorizer.configuration.broker_file import BrokersLog, brokers_log, is_brokers
from authorizer.configuration.client_keys import refuse_client_keys
from authorizer.configuration.clusters import (
    cluster_key,
    is_clusters,
    key_of_variable,
    require_cluster_key,
    texts_of_cluster,
)
from authorizer.configuration.console import console_listeners
from authorizer.configuration.keys.key import (
    ACLOG_PREFIX,
    CLIENT_PREFIX,
    CLIENT_PREFIXES,
    DECISION_CLIENT_PREFIX,
    ENVIRONMENT_PREFIX,
    variable_of,
)
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    BYTES_IN_FLIGHT,
    CLUSTERS,
    CONSOLE_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    EARLY_START_LISTENERS,
    LISTENERS,
    LOG_URL,
    PROTOCOL_MAP,
    REQUEST_BYTES,
)
from authorizer.configuration.keys.table import BY_NAME, BY_VARIABLE, KEYS
from authorizer.configuration.listeners import (
    DEFAULT_PROTOCOL_MAP,
    parse_listeners,
    parse_protocol_map,
    require_served,
    with_controller_listeners,
)
from records.properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.api.authorizer_api import Endpoint
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.configuration.decision_log import DestinationSettings
    from authorizer.configuration.decision_log_rules import Rule
    from records.acl import AclOperation, ResourceType
    from records.principal import KafkaPrincipal

#: What an error calls the file itself.
CONFIG_FLAG: Final = "--config"
# Above this likeness a variable is taken for a mistyped one. Others are left alone: Kubernetes sets
# ACLOG_SERVICE_HOST and the like for a service named aclog.
_LIKENESS: Final = 0.85


@dataclass(frozen=True, slots=True)
class Given:
    """What a configuration was read from; the texts may hold secrets.

    Attributes:
        path: a Java properties file; None for none.
        in_file: its keys and texts.
        environment: those that variables gave.
        flags: those of the command line.
        cluster: whose configuration it gives, of a fleet; None: the process's.
    """

    path: str | os.PathLike[str] | None
    in_file: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    flags: Mapping[str, str] = field(repr=False)
    cluster: str | None = None

    def read_again(self) -> Given:
        """With the file as it is now. Raises ConfigError: it cannot be read."""
        return self if self.path is None else replace(self, in_file=read_properties(self.path))

    def config(self, put: Mapping[str, str] | None = None) -> Config:
        """The configuration that it gives, with ``put`` over all else; raises as ``load_config``."""
        texts: dict[str, Mapping[str, str]] = {
            "file": self.in_file,
            "environment": self.environment,
            "flag": self.flags,
        }
        if self.cluster is not None:
            texts = dict(texts_of_cluster(texts, self.cluster))
        texts["put"] = put or {}
        merged = {name: text for each in texts.values() for name, text in each.items()}
        sources = {name: source for source, each in texts.items() for name in each}
        try:
            return _config(self, merged, sources)
        except ConfigError as error:
            if (
                self.cluster is None
                or (written := cluster_key(self.cluster, error.key)) not in self._written()
            ):
                raise
            raise ConfigError(written, error.value, error.allowed) from error

    def _written(self) -> set[str]:
        return {*self.in_file, *self.environment, *self.flags}


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
        decision_log_kafka: the same of ``aclog.decision.log.kafka.``.
        properties: every key and text as merged, for ``Authorizer.configure``; it may hold secrets.
        sources: what each of them was set by: ``file``, ``environment``, ``flag`` or ``put``.
        given: what it was read from, to be read again.
    """

    super_users: frozenset[str]
    allow_everyone_if_no_acl_found: bool
    early_start_listeners: frozenset[str]
    listeners: tuple[Endpoint, ...]
    listeners_key: str
    node_id: int
    workers: int
    workers_hang_timeout_ms: int
    clusters: tuple[str, ...]
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
    console_listeners: tuple[str, ...]
    console_peers: tuple[str, ...]
    console_peers_token_file: str | None
    console_peers_ca_file: str | None
    console_peers_certificate_file: str | None
    console_counts: str | None
    console_history: str | None
    auth_tokens_file: str | None
    auth_oidc_jwks: str | None
    auth_oidc_jwks_refresh_ms: int
    auth_oidc_issuer: str | None
    auth_oidc_audience: tuple[str, ...]
    auth_oidc_principal_claim: str
    auth_oidc_algorithms: tuple[str, ...]
    auth_oidc_leeway_ms: int
    sidecar_max_connections: int
    sidecar_max_connections_per_ip: int
    sidecar_max_requests_in_flight: int
    sidecar_max_request_bytes: int
    sidecar_max_bytes_in_flight: int
    sidecar_max_questions: int
    sidecar_max_head_bytes: int
    sidecar_max_headers: int
    sidecar_connections_max_idle_ms: int
    sidecar_request_timeout_ms: int
    sidecar_unread_timeout_ms: int
    sidecar_overload_late_ms: int
    sidecar_drain_timeout_ms: int
    kafka_version: KafkaVersion | None
    log_url: str | None
    brokers_log: BrokersLog | None
    log_mode: str
    snapshot_store: str | None
    snapshot_keep: int
    snapshot_max_bytes: int
    snapshot_max_age_ms: int
    max_lag_ms: int
    acl_update_timeout_ms: int
    plan_max_removed_percent: int
    audit_level: str
    audit_queue_max_lines: int
    decision_log: tuple[DestinationSettings, ...]
    decision_log_level: str
    decision_log_rules: tuple[Rule, ...]
    decision_log_fold_ms: int
    decision_log_file_max_bytes: int
    decision_log_file_keep: int
    logging_format: str
    logging_level: str
    # Not in the repr, which may end in a log line: they may hold secrets.
    kafka: Mapping[str, str] = field(repr=False)
    decision_log_kafka: Mapping[str, str] = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)
    sources: Mapping[str, str]
    given: Given

    @property
    def cluster(self) -> str | None:
        """Whose it is, of a fleet; None: the process's."""
        return self.given.cluster

    def of_cluster(self, cluster: str) -> Config:
        """One cluster's of a fleet.

        Raises:
            ConfigError: a value that is not allowed.
        """
        return replace(self.given, cluster=cluster).config()

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
        if self.cluster is not None:
            raise ConfigError(
                cluster_key(self.cluster, LOG_URL), "", f"name the cluster's log: {BY_NAME[LOG_URL].allowed}"
            )
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
            ``ACLOG_KAFKA_...`` and ``ACLOG_DECISION_LOG_KAFKA_...`` for client settings.
        flags: by key name; None values count as not given.

    Raises:
        ConfigError: an unreadable file, an unknown ``aclog.`` key, a value that is not allowed.
    """
    in_flags = {name: text for name, text in (flags or {}).items() if text is not None}
    in_file = {} if path is None else read_properties(path)
    variables = os.environ if environ is None else environ
    clusters = in_flags.get(CLUSTERS, variables.get(variable_of(CLUSTERS), in_file.get(CLUSTERS)))
    in_environment = _from_environment(variables, BY_NAME[CLUSTERS].read(clusters))
    config = Given(path, in_file, in_environment, in_flags).config()
    for cluster in config.clusters:
        config.of_cluster(cluster)
    return config


def _config(given: Given, merged: Mapping[str, str], sources: Mapping[str, str]) -> Config:
    in_file, in_flags = given.in_file, given.flags
    values = {key.name: key.read(merged.get(key.name)) for key in KEYS}
    _refuse_unknown(merged, values[CLUSTERS])

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
    if not of_broker:
        # Listeners that a flag names stand in for those of the file, which may have had TLS.
        has_tls = listeners_key in in_flags or any(
            endpoint.security_protocol is SecurityProtocol.SSL for endpoint in listeners
        )
        refuse_client_keys(in_file, has_tls_listener=has_tls)
    require_authentication_whole(values, listeners)
    if values[BYTES_IN_FLIGHT] < values[REQUEST_BYTES]:
        allowed = f"as many as {REQUEST_BYTES} or more: else the largest body would never have room"
        raise ConfigError(BYTES_IN_FLIGHT, values[BYTES_IN_FLIGHT], allowed)

    own = {key.field: values[key.name] for key in KEYS if key.field in Config.__dataclass_fields__}
    own["early_start_listeners"] = _early_start(merged, values[EARLY_START_LISTENERS], controllers, listeners)
    own["listeners"] = listeners
    own["console_listeners"] = console_listeners(values[CONSOLE_LISTENERS], listeners)
    return Config(
        **own,
        listeners_key=listeners_key,
        brokers_log=brokers_log(in_file) if given.cluster is None else None,
        kafka=_below(CLIENT_PREFIX, merged),
        decision_log_kafka=_below(DECISION_CLIENT_PREFIX, merged),
        properties=MappingProxyType(
            merged if given.cluster is None else {**merged, CLUSTER_NAME: given.cluster}
        ),
        sources=MappingProxyType(dict(sources)),
        given=given,
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


def _below(prefix: str, merged: Mapping[str, str]) -> Mapping[str, str]:
    """The keys that begin so, without that, but for those of the table."""
    found = {
        name.removeprefix(prefix): text
        for name, text in merged.items()
        if name.startswith(prefix) and name not in BY_NAME
    }
    return MappingProxyType(found)


def _from_environment(environ: Mapping[str, str], clusters: tuple[str, ...]) -> dict[str, str]:
    """By key name. Unknown variables are left alone unless they look like a known one."""
    clients = [(variable_of(prefix), prefix) for prefix in CLIENT_PREFIXES]
    found: dict[str, str] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in BY_VARIABLE:
            found[BY_VARIABLE[variable].name] = text
        elif written := key_of_variable(variable, clusters):
            found[written] = text
        elif client := next((each for each in clients if variable.startswith(each[0])), None):
            found[client[1] + variable.removeprefix(client[0]).lower().replace("_", ".")] = text
        elif alike := difflib.get_close_matches(variable, BY_VARIABLE, n=1, cutoff=_LIKENESS):
            raise ConfigError(variable, text, f"there is no such variable; did you mean {alike[0]}?")
    return found


def _refuse_unknown(merged: Mapping[str, str], clusters: tuple[str, ...]) -> None:
    """Raise ConfigError for an ``aclog.`` key that does not exist."""
    for name, text in merged.items():
        if is_clusters(name):
            require_cluster_key(name, text, clusters)
            continue
        if not name.startswith(ACLOG_PREFIX) or name in BY_NAME or name.startswith(CLIENT_PREFIXES):
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
