"""Config and load_config: a Java properties file with Kafka's keys, the environment over it, flags over both.

A broker's own server.properties works unchanged (``broker_file.py``); unknown keys are ignored. An unknown
key that begins with ``aclog.`` is an error. In any other file so are keys of a Kafka client, and almost one
of Kafka's keys (``refused_keys.py``): a typing mistake must not switch something off. The keys are declared
in ``keys``.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from authorizer.api.cluster_name import CLUSTER_NAME
from authorizer.api.errors import ConfigError
from authorizer.configuration.authentication import require_complete_authentication
from authorizer.configuration.broker_file import BrokerLog, broker_log_of, is_broker_file
from authorizer.configuration.clusters import (
    cluster_key,
    cluster_key_of_variable,
    is_cluster_key,
    require_cluster_key,
    texts_of_cluster,
)
from authorizer.configuration.keys.key import (
    ACLOG_PREFIX,
    CLIENT_PREFIX,
    CLIENT_PREFIXES,
    DECISION_CLIENT_PREFIX,
    ENVIRONMENT_PREFIX,
    ConfigKey,
    variable_of,
)
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    ADMIN_ADVERTISED_LISTENERS,
    ADMIN_LISTENERS,
    BYTES_IN_FLIGHT,
    CLUSTERS,
    COMMAND_CONFIG,
    CONSOLE_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    EARLY_START_LISTENERS,
    LISTENERS,
    LOG_URL,
    PROTOCOL_MAP,
    REQUEST_BYTES,
)
from authorizer.configuration.keys.table import BY_NAME, BY_VARIABLE, KEYS, ConfigKeys
from authorizer.configuration.listeners import (
    ADMIN_LISTENERS_ALLOWED,
    DEFAULT_PROTOCOL_MAP,
    WITH_TLS,
    console_listeners,
    parse_listeners,
    parse_protocol_map,
    require_admin_served,
    require_distinct,
    require_served,
    with_controller_listeners,
)
from authorizer.configuration.refused_keys import (
    SIMILARITY_MIN,
    file_notes,
    refuse_client_keys,
    refuse_mistyped_keys,
)
from records.log.client_keys import ClientKeys, NamedSettings
from records.properties import parse_properties, property_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.api.authorizer_api import Endpoint
    from authorizer.configuration.client_properties.client_settings import JavaClientSettings

_T = TypeVar("_T")

_FILE_ALLOWED: Final = "a readable Java properties file"
#: Bytes that no text has.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")
#: Name of the file itself in errors.
CONFIG_FLAG: Final = "--config"


@dataclass(frozen=True, slots=True)
class ConfigInputs:
    """Sources of a configuration, by which it can be computed again; the texts may contain secrets.

    Attributes:
        path: a Java properties file; None for none.
        cluster: the cluster of a fleet whose configuration results; None: the process's.
    """

    path: str | os.PathLike[str] | None
    file: Mapping[str, str] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    flags: Mapping[str, str] = field(repr=False)
    cluster: str | None = None

    def reread(self) -> ConfigInputs:
        """Return the inputs with the file's present content. Raises ConfigError if it cannot be read."""
        return self if self.path is None else replace(self, file=read_properties(self.path))

    def config(self, overrides: Mapping[str, str] | None = None) -> Config:
        """Compute the configuration, with ``overrides`` over all inputs; raises as ``load_config``."""
        texts: dict[str, Mapping[str, str]] = {
            "file": self.file,
            "environment": self.environment,
            "flag": self.flags,
        }
        if self.cluster is not None:
            texts = dict(texts_of_cluster(texts, self.cluster))
        texts["put"] = overrides or {}
        merged = {name: text for each in texts.values() for name, text in each.items()}
        sources = {name: source for source, each in texts.items() for name in each}
        try:
            return _config(self, merged, sources)
        except ConfigError as error:
            written = error.key
            if self.cluster is not None:
                # The error names the key as the user wrote it.
                of_cluster = cluster_key(self.cluster, error.key)
                if of_cluster in {*self.file, *self.environment, *self.flags}:
                    written = of_cluster
            is_in_file = written in self.file and sources.get(error.key) == "file"
            where = self.line_of(written) if is_in_file else ""
            if not where and written == error.key:
                raise
            raise ConfigError(written, error.value, error.allowed, where) from error

    def line_of(self, key: str) -> str:
        """Return the file and the line that sets a key; the file alone if it has changed since."""
        return _line_of(self.path or "", key)


@dataclass(frozen=True, kw_only=True)
class Config(ConfigKeys):
    """All settings, validated.

    Each key of ``keys.table`` is an attribute: times in milliseconds, principals as ``Type:name`` texts, None
    where nothing is set. These fields are in addition:

    Attributes:
        values: the keys' values by attribute; they may contain secrets.
        early_start_listeners: names of listeners that accept connections before the log is loaded.
        listeners: the sidecar's listeners; ``served_listeners`` checks whether it can serve them.
        listeners_key: the key that named them, for errors.
        process_admin_listeners: those of all clusters of the process.
        broker_log: the metadata log of the broker whose own file was read, if it was one.
        kafka: settings for the Kafka client, without ``aclog.kafka.``; they may contain secrets.
        decision_log_kafka: the same of ``aclog.decision.log.kafka.``.
        unused_client_keys: keys of ``command_config`` that have no effect here.
        properties: every key and text as merged, for ``Authorizer.configure``; they may contain secrets.
        sources: the source of each of them: ``file``, ``environment``, ``flag`` or ``put``.
    """

    early_start_listeners: frozenset[str]
    listeners: tuple[Endpoint, ...]
    listeners_key: str
    admin_listeners: tuple[Endpoint, ...]
    process_admin_listeners: tuple[Endpoint, ...]
    console_listeners: tuple[str, ...]
    broker_log: BrokerLog | None
    # Secrets must not get into the repr, which may end in a log line.
    values: Mapping[str, Any] = field(repr=False)
    kafka: Mapping[str, str] = field(repr=False)
    decision_log_kafka: Mapping[str, str] = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)
    unused_client_keys: tuple[str, ...]
    sources: Mapping[str, str]
    inputs: ConfigInputs

    def __post_init__(self) -> None:
        self.__dict__.update(self.values)

    def with_value(self, key: ConfigKey[_T], value: _T) -> Config:
        """Return this configuration with another value of a key: ``with_value(Config.log_mode, "read")``."""
        return replace(self, values=MappingProxyType({**self.values, key.attribute: value}))

    def file_notes(self) -> tuple[str, ...]:
        """Return notes about keys and values of the file that are probably not what was meant."""
        notes = file_notes(self.inputs.file)
        return tuple(f"{self.inputs.line_of(key)}: {text}" for key, text in notes.items())

    @property
    def cluster(self) -> str | None:
        """The cluster of a fleet; None: the process's configuration."""
        return self.inputs.cluster

    def of_cluster(self, cluster: str) -> Config:
        return replace(self.inputs, cluster=cluster).config()

    def served_listeners(self) -> tuple[Endpoint, ...]:
        """Return the listeners. ConfigError: the sidecar cannot serve each of them safely."""
        allow_plaintext = self.allow_plaintext_beyond_loopback
        require_served(self.listeners, key=self.listeners_key, allow_plaintext=allow_plaintext)
        return self.listeners

    def admin_configs(self) -> list[Config]:
        """Return the configuration of each node that has listeners of Kafka's protocol."""
        of_nodes = map(self.of_cluster, self.clusters) if self.clusters else (self,)
        return [each for each in of_nodes if each.admin_listeners]

    @property
    def admin_listeners_key(self) -> str:
        return ADMIN_LISTENERS if self.cluster is None else cluster_key(self.cluster, ADMIN_LISTENERS)

    def served_admin_listeners(self) -> tuple[Endpoint, ...]:
        """Return the listeners of Kafka's protocol. ConfigError: one has no protocol, or cannot be served."""
        require_admin_served(
            self.admin_listeners,
            http_names={endpoint.listener_name or "" for endpoint in self.listeners},
            key=self.admin_listeners_key,
            allow_plaintext=self.allow_plaintext_beyond_loopback,
        )
        return self.admin_listeners

    def advertised_admin_listeners(self) -> dict[str, Endpoint]:
        """Return by listener name the addresses that Metadata gives to clients of Kafka's protocol."""
        text = self.admin_advertised_listeners_text
        advertised = _admin_endpoints(self.inputs, ADMIN_ADVERTISED_LISTENERS, text, self.properties)
        known = {endpoint.listener_name for endpoint in self.admin_listeners}
        for endpoint in advertised:
            if endpoint.listener_name not in known or not endpoint.host or not endpoint.port:
                raise ConfigError(
                    ADMIN_ADVERTISED_LISTENERS,
                    text or "",
                    f"NAME://HOST:PORT for names out of {self.admin_listeners_key}",
                )
        return {endpoint.listener_name or "": endpoint for endpoint in advertised}

    def require_log_url(self) -> str:
        """Return the log's URL: the configured one, or that of the broker whose own file was read.

        ConfigError: no log is configured; and the errors of ``BrokerLog.url``.
        """
        if self.log_url is not None:
            return self.log_url
        if self.cluster is not None:
            raise ConfigError(
                cluster_key(self.cluster, LOG_URL), "", f"name the cluster's log: {BY_NAME[LOG_URL].allowed}"
            )
        if self.broker_log is None:
            raise ConfigError(LOG_URL, "", f"name the metadata log to replay: {BY_NAME[LOG_URL].allowed}")
        return self.broker_log.url


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str | None] | None = None,
) -> Config:
    """Read and validate the configuration, with defaults only if ``path`` is None.

    Of the environment (``os.environ`` if None) those of ``BY_VARIABLE`` count, and ``ACLOG_KAFKA_...`` and
    ``ACLOG_DECISION_LOG_KAFKA_...`` for client settings. ``flags`` are texts by key name; None is ignored.
    ConfigError: an unreadable file, an unknown ``aclog.`` key, a value that is not allowed.
    """
    set_flags = {name: text for name, text in (flags or {}).items() if text is not None}
    in_file = {} if path is None else read_properties(path)
    variables = os.environ if environ is None else environ
    clusters = set_flags.get(CLUSTERS, variables.get(variable_of(CLUSTERS), in_file.get(CLUSTERS)))
    in_environment = _from_environment(variables, BY_NAME[CLUSTERS].read(clusters))
    config = ConfigInputs(path, in_file, in_environment, set_flags).config()
    for cluster in config.clusters:
        config.of_cluster(cluster)
    return config


def _config(inputs: ConfigInputs, merged: Mapping[str, str], sources: Mapping[str, str]) -> Config:
    java = _java_client(merged.get(COMMAND_CONFIG))
    keys = ClientKeys()
    if java is not None:
        overridden = _below(CLIENT_PREFIX, merged)
        java_keys = {name: key for name, key in java.java_keys.items() if name not in overridden}
        keys = ClientKeys(merged[COMMAND_CONFIG], java_keys)
        from_java = {f"{CLIENT_PREFIX}{name}": text for name, text in java.settings.items()}
        if java.log_url is not None and not is_broker_file(inputs.file):
            from_java[LOG_URL] = java.log_url
        merged = {**from_java, **merged}
        sources = {**dict.fromkeys(from_java, sources[COMMAND_CONFIG]), **sources}
    values = {key.name: key.read(merged.get(key.name)) for key in KEYS}
    _refuse_unknown(merged, values[CLUSTERS])
    refuse_mistyped_keys(inputs.file)
    if values[BYTES_IN_FLIGHT] < values[REQUEST_BYTES]:
        allowed = f"as many as {REQUEST_BYTES} or more: else the largest body would never have room"
        raise ConfigError(BYTES_IN_FLIGHT, values[BYTES_IN_FLIGHT], allowed)
    controllers: tuple[str, ...] = values[CONTROLLER_LISTENER_NAMES]
    admin_listeners = _admin_endpoints(inputs, ADMIN_LISTENERS, merged.get(ADMIN_LISTENERS), merged)
    process_admin_listeners = admin_listeners
    if values[CLUSTERS]:
        if admin_listeners and inputs.cluster is None:
            allowed = (
                f"unset with {CLUSTERS}: such a listener serves one cluster. Name the listeners of each in "
                f"{cluster_key('NAME', ADMIN_LISTENERS)}"
            )
            raise ConfigError(ADMIN_LISTENERS, merged[ADMIN_LISTENERS], allowed)
        process_admin_listeners = _admin_endpoints_of_clusters(inputs, merged, values[CLUSTERS])
    listeners_key, listeners = _listeners(inputs, merged, controllers, process_admin_listeners)
    require_complete_authentication(values, listeners, process_admin_listeners)
    return Config(
        values=MappingProxyType({key.attribute: values[key.name] for key in KEYS}),
        early_start_listeners=_early_start(
            merged, values[EARLY_START_LISTENERS], controllers, (*listeners, *process_admin_listeners)
        ),
        listeners=listeners,
        listeners_key=listeners_key,
        admin_listeners=admin_listeners,
        process_admin_listeners=process_admin_listeners,
        console_listeners=console_listeners(values[CONSOLE_LISTENERS], listeners, key=CONSOLE_LISTENERS),
        broker_log=broker_log_of(inputs.file) if inputs.cluster is None else None,
        kafka=NamedSettings(_below(CLIENT_PREFIX, merged), keys),
        unused_client_keys=() if java is None else java.unused_keys,
        decision_log_kafka=_below(DECISION_CLIENT_PREFIX, merged),
        properties=MappingProxyType(
            merged if inputs.cluster is None else {**merged, CLUSTER_NAME: inputs.cluster}
        ),
        sources=MappingProxyType(dict(sources)),
        inputs=inputs,
    )


def _java_client(path: str | None) -> JavaClientSettings | None:
    if path is None:
        return None
    # Few configurations have one.
    from authorizer.configuration.client_properties.client_settings import (  # noqa: PLC0415
        java_client_settings,
    )

    properties = read_properties(path, COMMAND_CONFIG)
    try:
        return java_client_settings(properties)
    except ConfigError as error:
        where = _line_of(path, error.key) if error.key in properties else path
        located = ConfigError(error.key, error.value, error.allowed, where)
        # Under aclog's key: the file may have names that are also keys of a listener.
        raise ConfigError(COMMAND_CONFIG, path, str(located)) from error


def _admin_endpoints_of_clusters(
    inputs: ConfigInputs, merged: Mapping[str, str], clusters: tuple[str, ...]
) -> tuple[Endpoint, ...]:
    """Return the listeners of Kafka's protocol of all clusters; names and ports are distinct."""
    found: tuple[Endpoint, ...] = ()
    for cluster in clusters:
        key = cluster_key(cluster, ADMIN_LISTENERS)
        texts = (each[key] for each in (inputs.flags, inputs.environment, inputs.file) if key in each)
        text = next(texts, None)
        found += _admin_endpoints(inputs, key, text, merged)
        require_distinct(found, text or "", key)
    return found


def _admin_endpoints(
    inputs: ConfigInputs, key: str, text: str | None, merged: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    if text is None:
        return ()
    protocols = {}
    if PROTOCOL_MAP in merged:
        protocols = parse_protocol_map(merged[PROTOCOL_MAP], key=PROTOCOL_MAP)
    if is_broker_file(inputs.file):  # as in _listeners
        protocols = {**protocols, **DEFAULT_PROTOCOL_MAP}
    return parse_listeners(
        text,
        key=key,
        protocols={**DEFAULT_PROTOCOL_MAP, **protocols},
        allowed=ADMIN_LISTENERS_ALLOWED,
        distinct_ports=key != ADMIN_ADVERTISED_LISTENERS,
    )


def _listeners(
    inputs: ConfigInputs,
    merged: Mapping[str, str],
    controllers: tuple[str, ...],
    admin_listeners: tuple[Endpoint, ...],
) -> tuple[str, tuple[Endpoint, ...]]:
    is_in_flags = LISTENERS in inputs.flags
    is_broker = is_broker_file(inputs.file)
    key = ACLOG_LISTENERS if ACLOG_LISTENERS in merged and not is_in_flags else LISTENERS
    text = merged.get(key)
    if text is None or (key == LISTENERS and is_broker and not is_in_flags):
        text = str(BY_NAME[LISTENERS].default)
    if PROTOCOL_MAP in merged:
        protocols = {**parse_protocol_map(merged[PROTOCOL_MAP], key=PROTOCOL_MAP)}
        # A broker's map does not hold for aclog's own listener, even if it has the same name.
        if is_broker:
            protocols = {**protocols, **DEFAULT_PROTOCOL_MAP}
        elif key == ACLOG_LISTENERS or text != merged.get(LISTENERS):
            protocols = {**DEFAULT_PROTOCOL_MAP, **protocols}
    else:
        protocols = with_controller_listeners(DEFAULT_PROTOCOL_MAP, controllers, text)
    listeners = parse_listeners(text, key=key, protocols=protocols)
    if not is_broker:
        # Listeners of a flag replace those of the file, which may have had TLS.
        has_tls = key in inputs.flags or any(
            endpoint.security_protocol in WITH_TLS for endpoint in (*listeners, *admin_listeners)
        )
        refuse_client_keys(inputs.file, has_tls_listener=has_tls)
    return key, listeners


def read_properties(path: str | os.PathLike[str], key: str = CONFIG_FLAG) -> dict[str, str]:
    r"""Return the keys and texts of a Java properties file; of equal keys the last one counts, as in Java.

    The bytes are decoded as UTF-8 if they are valid UTF-8, else as Latin-1, as in Java; ``\uXXXX`` works in
    both. ``key`` names the file in errors.

    Raises:
        ConfigError: the file cannot be read, or has a malformed ``\u`` escape.
    """
    text = _read_text(path, key)
    try:
        return parse_properties(text)
    except ValueError as error:
        raise ConfigError(key, os.fspath(path), f"{_FILE_ALLOWED}: {error}") from error


def _line_of(path: str | os.PathLike[str], key: str) -> str:
    try:
        number = property_lines(_read_text(path, CONFIG_FLAG)).get(key)
    except (ConfigError, ValueError):
        number = None
    return os.fspath(path) if number is None else f"{os.fspath(path)} line {number}"


def _read_text(path: str | os.PathLike[str], key: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - any path-like
            data = file.read()
    except OSError as error:
        raise ConfigError(key, os.fspath(path), f"{_FILE_ALLOWED}: {error.strerror}") from error
    if (control := _CONTROL.search(data)) is not None:
        number = data.count(b"\n", 0, control.start()) + 1
        raise ConfigError(
            key,
            os.fspath(path),
            f"{_FILE_ALLOWED}: it is not a text, line {number} has the byte 0x{control[0].hex()}",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _below(prefix: str, merged: Mapping[str, str]) -> Mapping[str, str]:
    """Return the texts of keys with a prefix, without the prefix, except those of the table."""
    below = {
        name.removeprefix(prefix): text
        for name, text in merged.items()
        if name.startswith(prefix) and name not in BY_NAME
    }
    return MappingProxyType(below)


def _from_environment(environ: Mapping[str, str], clusters: tuple[str, ...]) -> dict[str, str]:
    """Return the texts by key name. An unknown variable is ignored unless it is similar to a known one."""
    clients = [(variable_of(prefix), prefix) for prefix in CLIENT_PREFIXES]
    texts: dict[str, str] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable in BY_VARIABLE:
            texts[BY_VARIABLE[variable].name] = text
        elif written := cluster_key_of_variable(variable, clusters):
            texts[written] = text
        elif client := next((each for each in clients if variable.startswith(each[0])), None):
            texts[client[1] + variable.removeprefix(client[0]).lower().replace("_", ".")] = text
        # Others are ignored: Kubernetes sets ACLOG_SERVICE_HOST and others for a service named aclog.
        elif similar := difflib.get_close_matches(variable, BY_VARIABLE, n=1, cutoff=SIMILARITY_MIN):
            raise ConfigError(variable, text, f"there is no such variable; did you mean {similar[0]}?")
    return texts


def _refuse_unknown(merged: Mapping[str, str], clusters: tuple[str, ...]) -> None:
    """Raise ConfigError for an ``aclog.`` key that does not exist."""
    for name, text in merged.items():
        if is_cluster_key(name):
            require_cluster_key(name, text, clusters)
            continue
        if not name.startswith(ACLOG_PREFIX) or name in BY_NAME or name.startswith(CLIENT_PREFIXES):
            continue
        known_keys = [known for known in BY_NAME if known.startswith(ACLOG_PREFIX)]
        without_prefix = name.removeprefix(ACLOG_PREFIX)
        similar = (
            [without_prefix]
            if without_prefix in BY_NAME
            else difflib.get_close_matches(name, known_keys, n=1)
        )
        hint = f"did you mean `{similar[0]}`?" if similar else f"the keys are {', '.join(known_keys)}"
        raise ConfigError(name, text, f"there is no such key; {hint}")


def _early_start(
    merged: Mapping[str, str],
    names: tuple[str, ...] | None,
    controllers: tuple[str, ...],
    listeners: tuple[Endpoint, ...],
) -> frozenset[str]:
    """Return KafkaConfig.earlyStartListeners: by default the controllers' listeners."""
    if names is None:
        return frozenset(controllers)
    # A broker's file has listeners that are not the sidecar's.
    in_file = {part.partition("://")[0].strip().upper() for part in merged.get(LISTENERS, "").split(",")}
    known = in_file.union(controllers, (str(endpoint.listener_name) for endpoint in listeners))
    for name in names:
        if name not in known:
            raise ConfigError(
                EARLY_START_LISTENERS,
                merged[EARLY_START_LISTENERS],
                f"listener {name} is not in {LISTENERS}, {ADMIN_LISTENERS} or {CONTROLLER_LISTENER_NAMES}",
            )
    return frozenset(names)
