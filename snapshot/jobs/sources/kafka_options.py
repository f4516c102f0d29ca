"""How Spark's Kafka connector reaches a cluster: ``aclog.kafka.*`` by the names of the Java client.

aclog's own clients are librdkafka's, and the connector's is Java's. What both have is translated, so that one
configuration serves the node and the jobs. What cannot be translated is refused, not guessed; the user then
says it by Java's name (``--kafka-option KEY=VALUE``), and may say by ``--kafka-option NAME=`` that Spark does
without a librdkafka setting.

Certificates and keys are read on the driver and handed over as text: executors need no files. Values appear
in no message: any of them may be a secret.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from records.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX: Final = "aclog.kafka."
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
#: Translated below, with others or by their values.
_MECHANISMS: Final = ("sasl.mechanism", "sasl.mechanisms")
_SECURITY: Final = frozenset(
    {
        "security.protocol",
        *_MECHANISMS,
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.endpoint.identification.algorithm",
    }
)
#: How librdkafka works inside: another client has nothing of the kind, and reads the same without.
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
_PKCS1: Final = ("BEGIN RSA PRIVATE KEY", "BEGIN EC PRIVATE KEY", "BEGIN DSA PRIVATE KEY")

_GROUP: Final = "Spark reads by assignment, and chooses the name of its group"
_READING: Final = "what is read must be committed and complete"
#: Why a setting of the connector is not the user's.
_OURS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bootstrap.servers": "the log's URL says where the cluster is",
        "isolation.level": _READING,
        "check.crcs": _READING,
        "auto.offset.reset": "an offset that is not there is an error, never a jump",
        "key.deserializer": "keys and values are bytes to Spark",
        "value.deserializer": "keys and values are bytes to Spark",
        "interceptor.classes": _READING,
        "allow.auto.create.topics": "a topic is made with `aclog log create`",
        "enable.auto.commit": _GROUP,
        "group.id": _GROUP,
        "group.instance.id": _GROUP,
        "group.protocol": _GROUP,
    }
)


def connector_options(client: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Client settings for Spark's Kafka source, by Java's names, without its prefix ``kafka.``.

    Args:
        client: ``aclog.kafka.*`` without that prefix.
        options: the user's own by Java's names, which win; or by a name of ``client``, with an empty value:
            Spark does without it.

    Raises:
        LogError: a setting that cannot be translated, that is not the user's, or whose file cannot be read.
    """
    for name in options:
        if name.startswith("kafka."):
            raise LogError(f"{_FLAG} {name}: write Java's own name, {name.removeprefix('kafka.')}")
        if name in _OURS:
            raise LogError(f"{_FLAG} {name} cannot be set: {_OURS[name]}")
    left_out = {name for name, value in options.items() if not value and name in client}
    told = {name: value for name, value in client.items() if name not in left_out}
    own = {name: value for name, value in options.items() if name not in left_out}
    for name in sorted(told):
        if name not in _NAMES and name not in _SECURITY and name not in _INTERNAL:
            raise _untranslatable(name)
    translated = {_NAMES[name]: value for name, value in told.items() if name in _NAMES}
    return translated | _protocol(told) | _login(told, own) | _trust(told) | _key(told, own) | own


def _protocol(client: Mapping[str, str]) -> dict[str, str]:
    found = {}
    if protocol := client.get("security.protocol"):
        found["security.protocol"] = protocol.upper()
    if (algorithm := client.get("ssl.endpoint.identification.algorithm")) is not None:
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return found


def _login(client: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    named = [client[name] for name in _MECHANISMS if name in client]
    mechanism = named[0].upper() if named else None
    found = {} if mechanism is None else {"sasl.mechanism": mechanism}
    username, password = client.get("sasl.username"), client.get("sasl.password")
    if "sasl.jaas.config" in own or (username is None and password is None):
        return found
    module = _LOGIN_MODULES.get(mechanism or "")
    if module is None or username is None or password is None:
        raise LogError(
            f"{_PREFIX}sasl.username and {_PREFIX}sasl.password go together, with {_PREFIX}sasl.mechanism "
            f"one of {', '.join(_LOGIN_MODULES)}. For another login give Spark {_FLAG} sasl.jaas.config=..."
        )
    login = f"{module} required username={_quoted(username)} password={_quoted(password)};"
    return found | {"sasl.jaas.config": login}


def _quoted(text: str) -> str:
    """As java.io.StreamTokenizer reads it back."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _trust(client: Mapping[str, str]) -> dict[str, str]:
    authorities = _pem(client, "ssl.ca")
    if authorities is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}


def _key(client: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    certificate, key = _pem(client, "ssl.certificate"), _pem(client, "ssl.key")
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise LogError(
            f"{_PREFIX}ssl.certificate.location and {_PREFIX}ssl.key.location (or .pem) go together"
        )
    if "ssl.keystore.key" not in own and any(form in key for form in _PKCS1):
        raise LogError(
            f"{_PREFIX}ssl.key.location: Java reads private keys as PKCS#8 only: "
            "`openssl pkcs8 -topk8 -in KEY -out NEW` makes one"
        )
    # An encrypted one goes with ssl.key.password; Java 17 knows only PBES1 (openssl pkcs8 -v1 PBE-SHA1-3DES).
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }


def _pem(client: Mapping[str, str], what: str) -> str | None:
    """The text of ``<what>.pem``, or of the file that ``<what>.location`` names."""
    if text := client.get(f"{what}.pem"):
        return text
    location = client.get(f"{what}.location")
    if not location:
        return None
    try:
        text = Path(location).read_text(encoding="ascii")
    except OSError as error:
        raise LogError(f"{_PREFIX}{what}.location: {location}: {error.strerror}") from error
    except UnicodeDecodeError:
        text = ""
    if "-----BEGIN" not in text:
        raise LogError(
            f"{_PREFIX}{what}.location: {location} is not a PEM file; give Spark what its client takes by "
            f"{_FLAG} ssl...=..., and {_FLAG} {what}.location= to leave this out"
        )
    return text


def _untranslatable(name: str) -> LogError:
    if name in _OURS:
        return LogError(f"{_PREFIX}{name} cannot be set: {_OURS[name]}")
    return LogError(
        f"{_PREFIX}{name} is librdkafka's, and aclog does not know what it is to Spark's client, which "
        f"is Java's. Give that by Java's name with {_FLAG} KEY=VALUE, and leave this one out with "
        f"{_FLAG} {name}="
    )
