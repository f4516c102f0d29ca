"""Client settings of Spark's Kafka connector: translates librdkafka's names to the Java client's.

aclog's clients use librdkafka, the connector uses the Java client. Settings that both have are translated,
so that one configuration serves the node and the jobs. A setting that cannot be translated is refused: give
it by Java's name (``--kafka-option KEY=VALUE``), or leave it out for Spark with ``--kafka-option NAME=``.

Certificates and keys are read on the driver and passed as text: executors need no files. Messages contain no
values, because any of them may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from records.errors import LogError
from records.log.client_keys import ClientKeys, keys_of

_FLAG: Final = "--kafka-option"

#: librdkafka's name -> Java's.
_SAME: Final = {
    name: name
    for name in (
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        "ssl.key.password",
    )
}
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **_SAME,
        "fetch.message.max.bytes": "max.partition.fetch.bytes",
        "fetch.wait.max.ms": "fetch.max.wait.ms",
        "socket.receive.buffer.bytes": "receive.buffer.bytes",
        "socket.send.buffer.bytes": "send.buffer.bytes",
        "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    }
)
#: Translated below, in combination or by their values.
_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
_TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - no password
#: Options of the login module, with their settings.
_TOKEN_OPTIONS: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_SECURITY: Final = frozenset(
    {
        "security.protocol",
        *_MECHANISMS,
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.method",
        _TOKEN_ENDPOINT,
        *_TOKEN_OPTIONS.values(),
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.endpoint.identification.algorithm",
    }
)
#: Internals of librdkafka without a Java equivalent; they do not affect which records are read.
_INTERNAL: Final = frozenset(
    {
        "api.version.request",
        "broker.address.family",
        "broker.address.ttl",
        "debug",
        "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "message.max.bytes",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "receive.message.max.bytes",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
        "transaction.timeout.ms",
    }
)
_LOGIN_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    }
)
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
_PKCS1: Final = ("BEGIN RSA PRIVATE KEY", "BEGIN EC PRIVATE KEY", "BEGIN DSA PRIVATE KEY")

_GROUP: Final = "Spark assigns partitions itself, and chooses the name of its group"
_READING: Final = "the records read must be committed and complete"
#: Settings that users cannot change, with the reason.
_FIXED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bootstrap.servers": "the log's URL has the bootstrap servers",
        "isolation.level": _READING,
        "check.crcs": _READING,
        "auto.offset.reset": "a missing offset must be an error",
        "key.deserializer": "Spark reads keys and values as bytes",
        "value.deserializer": "Spark reads keys and values as bytes",
        "interceptor.classes": _READING,
        "allow.auto.create.topics": "topics are created with `aclog log create`",
        "enable.auto.commit": _GROUP,
        "group.id": _GROUP,
        "group.instance.id": _GROUP,
        "group.protocol": _GROUP,
    }
)


def connector_options(client: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Client settings for Spark's Kafka source, by Java's names, without its prefix ``kafka.``.

    Args:
        client: by librdkafka's names.
        options: the user's settings by Java's names, which have priority; or a name of ``client`` with an
            empty value, to leave it out.

    Raises:
        LogError: a setting that cannot be translated or changed, or whose file cannot be read.
    """
    for name in options:
        if name.startswith("kafka."):
            raise LogError(f"{_FLAG} {name}: write it as the Java client does, {name.removeprefix('kafka.')}")
        if name in _FIXED:
            raise LogError(f"{_FLAG} {name} cannot be set: {_FIXED[name]}")
    keys = keys_of(client)
    left_out = {name for name, value in options.items() if not value and name in client}
    settings = {name: value for name, value in client.items() if name not in left_out}
    overrides = {name: value for name, value in options.items() if name not in left_out}
    for name in sorted(settings):
        if name not in _NAMES and name not in _SECURITY and name not in _INTERNAL:
            raise _untranslatable(name, keys)
    return {
        **{_NAMES[name]: value for name, value in settings.items() if name in _NAMES},
        **_protocol(settings),
        **_login(settings, overrides, keys),
        **_trust(settings, keys),
        **_key(settings, overrides, keys),
        **overrides,
    }


def _protocol(client: Mapping[str, str]) -> dict[str, str]:
    found = {}
    if protocol := client.get("security.protocol"):
        found["security.protocol"] = protocol.upper()
    if (algorithm := client.get("ssl.endpoint.identification.algorithm")) is not None:
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return found


def _login(client: Mapping[str, str], overrides: Mapping[str, str], keys: ClientKeys) -> dict[str, str]:
    named = [client[name] for name in _MECHANISMS if name in client]
    mechanism = named[0].upper() if named else None
    found = {} if mechanism is None else {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER" and "sasl.jaas.config" not in overrides and _TOKEN_ENDPOINT in client:
        return found | _token_login(client)
    username, password = client.get("sasl.username"), client.get("sasl.password")
    if "sasl.jaas.config" in overrides or (username is None and password is None):
        return found
    module = _LOGIN_MODULES.get(mechanism or "")
    if module is None or username is None or password is None:
        raise LogError(
            f"{keys.named('sasl.username', 'sasl.password')} must be set together, and "
            f"{keys.named('sasl.mechanism')} must be one of {', '.join(_LOGIN_MODULES)}. For another login "
            f"give {_FLAG} sasl.jaas.config=..."
        )
    return found | {"sasl.jaas.config": _jaas(module, {"username": username, "password": password})}


def _token_login(client: Mapping[str, str]) -> dict[str, str]:
    """The Java client's login by a token from an issuer, or from a file."""
    options = {option: client[name] for option, name in _TOKEN_OPTIONS.items() if name in client}
    return {
        "sasl.jaas.config": _jaas(f"{_OAUTH}LoginModule", options),
        "sasl.login.callback.handler.class": f"{_OAUTH}LoginCallbackHandler",
        _TOKEN_ENDPOINT: client[_TOKEN_ENDPOINT],
    }


def _jaas(module: str, options: Mapping[str, str]) -> str:
    return (
        " ".join([module, "required", *(f"{name}={_quoted(text)}" for name, text in options.items())]) + ";"
    )


def _quoted(text: str) -> str:
    """Quote for java.io.StreamTokenizer."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _trust(client: Mapping[str, str], keys: ClientKeys) -> dict[str, str]:
    authorities = _pem(client, "ssl.ca", keys)
    if authorities is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}


def _key(client: Mapping[str, str], overrides: Mapping[str, str], keys: ClientKeys) -> dict[str, str]:
    certificate, key = _pem(client, "ssl.certificate", keys), _pem(client, "ssl.key", keys)
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise LogError(
            f"{keys.named('ssl.certificate.location', 'ssl.key.location')} (or .pem) must be set together"
        )
    if "ssl.keystore.key" not in overrides and any(form in key for form in _PKCS1):
        raise LogError(
            f"{keys.named('ssl.key.location')}: Java reads private keys as PKCS#8 only. Convert it: "
            "`openssl pkcs8 -topk8 -in KEY -out NEW`"
        )
    # An encrypted key needs ssl.key.password; Java 17 reads only PBES1 (openssl pkcs8 -v1 PBE-SHA1-3DES).
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }


def _pem(client: Mapping[str, str], what: str, keys: ClientKeys) -> str | None:
    """The text of ``<what>.pem``, or of the file that ``<what>.location`` names."""
    if text := client.get(f"{what}.pem"):
        return text
    location = client.get(f"{what}.location")
    if not location:
        return None
    try:
        text = Path(location).read_text(encoding="ascii")
    except OSError as error:
        raise LogError(f"{keys.named(f'{what}.location')}: {location}: {error.strerror}") from error
    except UnicodeDecodeError:
        text = ""
    if "-----BEGIN" not in text:
        raise LogError(
            f"{keys.named(f'{what}.location')}: {location} is not a PEM file. Give the Java client's "
            f"setting with {_FLAG} ssl...=..., and {_FLAG} {what}.location= to leave this one out"
        )
    return text


def _untranslatable(name: str, keys: ClientKeys) -> LogError:
    if name in _FIXED:
        return LogError(f"{keys.named(name)} cannot be set: {_FIXED[name]}")
    return LogError(
        f"{keys.named(name)} is a librdkafka setting that aclog cannot translate for Spark's Java "
        f"client. Give the Java client's setting with {_FLAG} KEY=VALUE, and leave this one out with {_FLAG} "
        f"{name}="
    )
