"""Translates a Java client.properties (``--command-config``) to the settings of aclog's clients.

These have librdkafka's names, as ``aclog.kafka.*``: the topic's clients, the protocol client and Spark's
connector all take them. Key stores become PEM texts. A key that cannot be translated is an error that names
the key and the alternative; one that has no effect here is reported, never ignored silently.
Source: org.apache.kafka.common.config.{SaslConfigs,SslConfigs}, AdminClientConfig, 4.4.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from authorizer.api.errors import ConfigError
from authorizer.api.secret_keys import HIDDEN
from authorizer.configuration.client_properties.jaas import LoginModule, parse_jaas
from records.install_command import install_command
from records.log.protocol.settings import MECHANISMS, PROTOCOLS

if TYPE_CHECKING:
    from authorizer.configuration.client_properties.key_store import KeyStore

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_PASSWORD_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULE: Final = "OAuthBearerLoginModule"  # noqa: S105 - no password
_LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_TOKEN_HANDLERS: Final = ("OAuthBearerLoginCallbackHandler", "")
_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_HOST_NAMES: Final = "ssl.endpoint.identification.algorithm"

#: Options of OAuthBearerLoginModule, or the keys that Kafka 4.1 has in their place (KIP-1139).
_TOKEN_OPTIONS: Final = (
    ("clientId", "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    ("clientSecret", "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
    ("scope", "sasl.oauthbearer.scope", "sasl.oauthbearer.scope"),
)
#: Settings with Java's names; sasl.* and ssl.* stand for all of them in errors.
_SAME_NAMES: Final = (_PROTOCOL, _MECHANISM, _ENDPOINT, _HOST_NAMES, "sasl.*", "ssl.*")
#: The keys of a store, by the settings that it becomes.
_STORE_KEYS: Final = {
    "ca": ("ssl.truststore.location", "ssl.truststore.certificates"),
    "certificate": ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
    "key": ("ssl.keystore.location", "ssl.keystore.key"),
}
#: What names a cluster, and the log that this means.
_SCHEMES: Final = (("bootstrap.servers", "describe"), ("bootstrap.controllers", "kraft"))
_TRANSLATED: Final = frozenset(
    {
        _PROTOCOL,
        _MECHANISM,
        _JAAS,
        _LOGIN_HANDLER,
        _ENDPOINT,
        _HOST_NAMES,
        *(key for _, key, _ in _TOKEN_OPTIONS),
        *(key for key, _ in _SCHEMES),
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.truststore.certificates",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.protocol",
        "ssl.enabled.protocols",
    }
)
#: A less similar key is none of these.
_SIMILARITY_MIN: Final = 0.85
#: Keys that change how a connection is secured and that aclog cannot honour, with what to do instead.
_REFUSED: Final = {
    "config.providers": "write the value itself, or set it by an environment variable ACLOG_KAFKA_...",
    "sasl.client.callback.handler.class": "remove it; aclog has no Java classes",
    "sasl.kerberos.": "aclog has no Kerberos: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    "sasl.login.class": "remove it; aclog has no Java classes",
    "sasl.oauthbearer.assertion.": "aclog sends client credentials only: set clientId and clientSecret",
    "sasl.oauthbearer.jwt.retriever.class": "remove it; aclog has no Java classes",
    "security.providers": "remove it; aclog has no Java classes",
    "ssl.cipher.suites": "remove it; OpenSSL's defaults of this machine apply",
    "ssl.engine.factory.class": "remove it; aclog has no Java classes",
    "ssl.provider": "remove it; aclog has no Java classes",
}
#: Keys of clients that do not change what is read or how a connection is secured.
_WITHOUT_EFFECT: Final = (
    "acks",
    "allow.auto.create.topics",
    "auto.",
    "batch.size",
    "buffer.memory",
    "check.crcs",
    "client.",
    "compression.",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.",
    "group.",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "isolation.level",
    "key.",
    "linger.ms",
    "max.",
    "metadata.",
    "metric.reporters",
    "metrics.",
    "partition",
    "receive.buffer.bytes",
    "reconnect.",
    "request.timeout.ms",
    "retries",
    "retry.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.header.urlencode",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.",
    "ssl.keymanager.algorithm",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "transaction",
    "value.",
)


@dataclass(frozen=True, slots=True)
class JavaClientSettings:
    """A translated client.properties.

    Attributes:
        settings: by librdkafka's names; they hold secrets.
        java_keys: the file's keys, by the names of the settings that they decide.
        unused_keys: names of keys that have no effect here, to be reported.
    """

    settings: Mapping[str, str] = field(repr=False)
    java_keys: Mapping[str, str]
    log_url: str | None
    unused_keys: tuple[str, ...]


def java_client_settings(properties: Mapping[str, str]) -> JavaClientSettings:
    """Translate the properties of a Java client.

    A ConfigError names a key that is unknown, that aclog cannot honour or whose value is not allowed, and
    what to write instead; it contains no secrets.
    """
    for name in properties:
        if name not in _TRANSLATED and not name.startswith(_WITHOUT_EFFECT):
            # The value may be a secret under a mistyped name.
            raise ConfigError(name, HIDDEN, _way_out(name))
    protocol = _one_of(properties, _PROTOCOL, "PLAINTEXT", [each.upper() for each in PROTOCOLS])
    settings = {_PROTOCOL: protocol}
    ignored_prefixes: list[str] = []
    if protocol.startswith("SASL_"):
        settings |= _login(properties)
    else:
        ignored_prefixes.append("sasl.")
    if protocol.endswith("SSL"):
        settings |= _tls(properties)
    else:
        ignored_prefixes.append("ssl.")
    urls = [f"{scheme}://{properties[key]}" for key, scheme in _SCHEMES if key in properties]
    unused = [
        name for name in properties if name not in _TRANSLATED or name.startswith(tuple(ignored_prefixes))
    ]
    return JavaClientSettings(settings, _java_keys(properties), urls[0] if urls else None, tuple(unused))


def _java_keys(properties: Mapping[str, str]) -> dict[str, str]:
    stores = {
        f"ssl.{kind}": next((key for key in keys if key in properties), keys[0])
        for kind, keys in _STORE_KEYS.items()
    }
    return {
        **{name: name for name in _SAME_NAMES},
        "sasl.username": _JAAS,
        "sasl.password": _JAAS,
        **{name: key if key in properties else _JAAS for _, key, name in _TOKEN_OPTIONS},
        **{f"{kind}.{form}": key for kind, key in stores.items() for form in ("location", "pem")},
    }


def _way_out(name: str) -> str:
    for begin, way_out in _REFUSED.items():
        if name.startswith(begin):
            return f"aclog cannot honour this key: {way_out}"
    similar = difflib.get_close_matches(name, _TRANSLATED, n=1, cutoff=_SIMILARITY_MIN)
    meant = f"did you mean `{similar[0]}`?" if similar else "correct or remove it"
    return f"this is not a key of Kafka's clients that aclog knows: {meant}"


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = _one_of(properties, _MECHANISM, "GSSAPI", MECHANISMS)
    if _JAAS not in properties:
        raise ConfigError(_JAAS, "", f"{_MECHANISM}={mechanism} needs a login module with its options")
    try:
        modules = parse_jaas(properties[_JAAS])
    except ValueError as error:
        raise ConfigError(_JAAS, "", str(error)) from error
    module = modules[0]
    if len(modules) > 1:
        raise ConfigError(_JAAS, "", "a client has one login module")
    if mechanism == "OAUTHBEARER":
        return {_MECHANISM: mechanism, **_token_settings(properties, module)}
    if module.name not in _PASSWORD_MODULES:
        raise ConfigError(
            _JAAS, module.name, f"{_MECHANISM}={mechanism} needs {' or '.join(_PASSWORD_MODULES)}"
        )
    for option in ("username", "password"):
        if option not in module.options:
            raise ConfigError(_JAAS, module.name, f"the option {option} is missing")
    if module.options.get("tokenauth", "false").lower() == "true":
        raise ConfigError(_JAAS, "tokenauth", "aclog has no login by delegation token: use a SCRAM user")
    return {
        _MECHANISM: mechanism,
        "sasl.username": module.options["username"],
        "sasl.password": module.options["password"],
    }


def _token_settings(properties: Mapping[str, str], module: LoginModule) -> dict[str, str]:
    if module.name != _TOKEN_MODULE:
        raise ConfigError(_JAAS, module.name, f"{_MECHANISM}=OAUTHBEARER needs {_TOKEN_MODULE}")
    handler = properties.get(_LOGIN_HANDLER, "")
    if handler.rpartition(".")[2] not in _TOKEN_HANDLERS:
        raise ConfigError(_LOGIN_HANDLER, handler, f"aclog gets tokens as {_TOKEN_HANDLERS[0]} does")
    if _ENDPOINT not in properties:
        raise ConfigError(_ENDPOINT, "", "the URL of the token endpoint, or file:PATH of a token")
    found = {"sasl.oauthbearer.method": "oidc", _ENDPOINT: properties[_ENDPOINT]}
    for option, key, name in _TOKEN_OPTIONS:
        value = properties.get(key, module.options.get(option))
        if value is not None:
            found[name] = value
    return found


def _tls(properties: Mapping[str, str]) -> dict[str, str]:
    for key in ("ssl.protocol", "ssl.enabled.protocols"):
        versions = [text.strip() for text in properties.get(key, "TLSv1.3").split(",")]
        if not {"TLS", "TLSv1.2", "TLSv1.3"} & set(versions):
            raise ConfigError(key, properties[key], "aclog speaks TLSv1.2 and TLSv1.3")
    algorithm = properties.get(_HOST_NAMES, "https")
    if algorithm.lower() not in ("https", ""):
        raise ConfigError(
            _HOST_NAMES, algorithm, "https, or nothing to accept a certificate of any host name"
        )
    settings = {_HOST_NAMES: "https" if algorithm else "none"}
    trust = _store(properties, "truststore", "ssl.truststore.certificates")
    if trust is not None:
        authorities = trust.authorities + trust.chain
        if not authorities:
            raise ConfigError(
                "ssl.truststore.location", _named(properties, "truststore"), "it has no certificate"
            )
        settings["ssl.ca.pem"] = authorities
    keys = _store(properties, "keystore", "ssl.keystore.certificate.chain", "ssl.keystore.key")
    if keys is not None:
        if not keys.key or not keys.chain:
            raise ConfigError(
                "ssl.keystore.location", _named(properties, "keystore"), "it has no private key"
            )
        settings |= {"ssl.certificate.pem": keys.chain, "ssl.key.pem": keys.key}
    return settings


def _store(properties: Mapping[str, str], kind: str, *text_keys: str) -> KeyStore | None:
    location = properties.get(f"ssl.{kind}.location")
    texts = [properties[key] for key in text_keys if key in properties]
    if location is None and not texts:
        return None
    if location is not None and texts:
        raise ConfigError(f"ssl.{kind}.location", location, f"not together with {text_keys[0]}")
    try:
        # 50 ms, and an extra: only what has stores needs it.
        from authorizer.configuration.client_properties import key_store  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"ssl.{kind}.location",
            location,
            f"the package cryptography is missing: {install_command('kraft')}",
        ) from error
    key_password = properties.get("ssl.key.password")
    try:
        if location is None:
            return key_store.pem_store("\n".join(texts), key_password)
        return key_store.read_key_store(location, properties.get(f"ssl.{kind}.password"), key_password)
    except key_store.KeyStoreError as error:
        raise ConfigError(f"ssl.{kind}.location", location or "", str(error)) from error


def _named(properties: Mapping[str, str], kind: str) -> str:
    return properties.get(f"ssl.{kind}.location", "")


def _one_of(properties: Mapping[str, str], key: str, default: str, allowed: Sequence[str]) -> str:
    value = properties.get(key, default).upper()
    if value not in allowed:
        raise ConfigError(key, value, f"one of {', '.join(allowed)}")
    return value
