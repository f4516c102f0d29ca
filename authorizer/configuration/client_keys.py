"""Refuses Kafka client settings without their prefix, in a file that is not a broker's.

Without the prefix ``aclog.kafka.``, the settings of a client.properties (Kafka's ``--command-config``) would
be ignored, and a TLS port would be contacted in the clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.key import CLIENT_PREFIX
from authorizer.configuration.keys.names import COMMAND_CONFIG

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
#: Keys with the prefix ``sasl.`` that only a broker has.
_BROKER_SASL: Final = (
    "sasl.enabled.mechanisms",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.mechanism.controller.protocol",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.oauthbearer.expected.",
    "sasl.server.",
)
#: Also keys of aclog's listeners with TLS.
_STORES: Final = ("ssl.truststore.", "ssl.keystore.", "ssl.key.")

#: Prefixes of keys that librdkafka, and so ``aclog.kafka.``, does not have.
_JAVA_ONLY: Final = (
    "bootstrap.",
    "metadata.broker.list",
    "sasl.jaas.config",
    "ssl.keystore.",
    "ssl.truststore.",
)


def refuse_client_keys(properties: Mapping[str, str], *, has_tls_listener: bool) -> None:
    """Raise ConfigError for the first key that only a Kafka client would read, in a file of no broker.

    ``has_tls_listener``: whether ``ssl.truststore.*`` and the like are read, by a listener.
    """
    refused = [name for name in properties if _is_client_key(name, has_tls_listener=has_tls_listener)]
    if not refused:
        return
    name = refused[0]
    prefixed = "" if name.startswith(_JAVA_ONLY) else f", or write {CLIENT_PREFIX}{name}"
    more = f". The same applies to {', '.join(refused[1:])}" if len(refused) > 1 else ""
    raise ConfigError(
        name,
        properties[name],
        "without a prefix it is a setting of a Kafka client, which --config does not read: give Kafka's own "
        f"file with --command-config (or as {COMMAND_CONFIG}){prefixed}{more}",
    )


def _is_client_key(name: str, *, has_tls_listener: bool) -> bool:
    if name.startswith(_SASL):
        return not name.startswith(_BROKER_SASL)
    return name in _CLIENT_KEYS or (name.startswith(_STORES) and not has_tls_listener)
