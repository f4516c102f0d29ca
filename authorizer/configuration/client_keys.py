"""Kafka client settings without their prefix, in a file that is no broker's: refused, as nothing reads them.

A client.properties as Kafka's own tools take it (``--command-config``) says how to reach the cluster. Without
the prefix ``aclog.kafka.`` its settings were ignored, and a port with TLS was spoken to in the clear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.key import CLIENT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLIENT_KEYS: Final = frozenset(
    {
        "bootstrap.controllers",
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "default.api.timeout.ms",
        "enable.ssl.certificate.verification",
        "group.id",
        "https.ca.location",
        "metadata.broker.list",
        "request.timeout.ms",
        "security.protocol",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.pem",
    }
)
_SASL: Final = "sasl."
#: Those of ``sasl.`` that only a broker has.
_BROKERS_SASL: Final = (
    "sasl.enabled.mechanisms",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.expected.",
    "sasl.server.",
)
#: Also the keys of aclog's own listeners with TLS.
_STORES: Final = ("ssl.truststore.", "ssl.keystore.", "ssl.key.")

_SERVERS: Final = "--log kafka://HOST:PORT/TOPIC, kraft://HOST:PORT or describe://HOST:PORT says where it is"
_USER: Final = f"write {CLIENT_PREFIX}sasl.username and {CLIENT_PREFIX}sasl.password"
_AUTHORITIES: Final = f"write {CLIENT_PREFIX}ssl.ca.location, the authorities in PEM"
_CERTIFICATE: Final = (
    f"write {CLIENT_PREFIX}ssl.certificate.location and {CLIENT_PREFIX}ssl.key.location, files in PEM"
)
#: What the client library calls otherwise than Java's, by the beginning of Java's name.
_OTHER_NAMES: Final = {
    "bootstrap.": _SERVERS,
    "metadata.broker.list": _SERVERS,
    "sasl.jaas.config": _USER,
    "ssl.truststore.": _AUTHORITIES,
    "ssl.keystore.": _CERTIFICATE,
}


def refuse_client_keys(in_file: Mapping[str, str], *, has_tls_listener: bool) -> None:
    """Raise ConfigError for the first key that only a Kafka client would read.

    Args:
        in_file: the properties of a file that is no broker's.
        has_tls_listener: whether ``ssl.truststore.*`` and the like are read, by a listener.
    """
    found = [name for name in in_file if _is_clients(name, has_tls_listener=has_tls_listener)]
    if not found:
        return
    name = found[0]
    way = next((way for begins, way in _OTHER_NAMES.items() if name.startswith(begins)), None)
    others = f". The same goes for {', '.join(found[1:])}" if len(found) > 1 else ""
    raise ConfigError(
        name,
        in_file[name],
        "without a prefix it is a setting of another Kafka client, which nothing here reads; "
        f"{way or f'write {CLIENT_PREFIX}{name}'}{others}",
    )


def _is_clients(name: str, *, has_tls_listener: bool) -> bool:
    if name.startswith(_SASL):
        return not name.startswith(_BROKERS_SASL)
    return name in _CLIENT_KEYS or (name.startswith(_STORES) and not has_tls_listener)
