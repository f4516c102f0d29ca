"""Keys of a file that are refused: mistyped ones, and Kafka client settings without their prefix.

Unknown keys are ignored, because a broker's own file has hundreds. So a mistyped ``super.users`` would switch
it off silently. No key of Kafka 4.4 is as similar to one of ``_CHECKED`` as a mistyped one. Without the
prefix ``aclog.kafka.``, the settings of a client.properties (Kafka's ``--command-config``) would be ignored,
and a TLS port would be contacted in the clear.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from authorizer.api.errors import ConfigError
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG, parse_allow_everyone
from authorizer.configuration.broker_file import is_broker_file
from authorizer.configuration.keys.key import ACLOG_PREFIX, CLIENT_PREFIX
from authorizer.configuration.keys.names import (
    COMMAND_CONFIG,
    EARLY_START_LISTENERS,
    SSL_CLIENT_AUTH,
    SSL_PRINCIPAL_RULES,
)
from authorizer.configuration.keys.table import BY_NAME

#: Keys that change decisions or callers.
_CHECKED: Final = (
    SUPER_USERS_CONFIG,
    ALLOW_EVERYONE_CONFIG,
    EARLY_START_LISTENERS,
    SSL_CLIENT_AUTH,
    SSL_PRINCIPAL_RULES,
)
#: A less similar name is another key.
SIMILARITY_MIN: Final = 0.85


def refuse_mistyped_keys(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for a key that is almost one of Kafka's, in a file that is not a broker's."""
    if not is_broker_file(properties):
        for name, meant in _mistyped(properties).items():
            raise ConfigError(name, properties[name], f"there is no such key; did you mean `{meant}`?")


def file_notes(properties: Mapping[str, str]) -> dict[str, str]:
    """Return notes by the key that each is about; the key "" stands for the file."""
    if properties and not any(_is_known(name) for name in properties) and not is_broker_file(properties):
        return {"": "none of its keys is a setting of aclog or of a broker"}
    notes = {
        name: f"the broker ignores the key `{name}`; did you mean `{meant}`?"
        for name, meant in _mistyped(properties).items()
    }
    everyone = properties.get(ALLOW_EVERYONE_CONFIG, "false").strip()
    if everyone.lower() != "false" and not parse_allow_everyone(everyone):
        notes[ALLOW_EVERYONE_CONFIG] = (
            f"{ALLOW_EVERYONE_CONFIG}={everyone} is false, as in Kafka: only `true` is true"
        )
    return notes


def _mistyped(properties: Mapping[str, str]) -> dict[str, str]:
    """The key that is meant, by the mistyped one."""
    found = {}
    for name in properties:
        if name in BY_NAME or name.startswith(ACLOG_PREFIX):
            continue
        meant = [known for known in _CHECKED if "." in name and known.startswith(f"{name}.")]
        meant += difflib.get_close_matches(name.lower(), _CHECKED, n=1, cutoff=SIMILARITY_MIN)
        if meant:
            found[name] = meant[0]
    return found


def _is_known(name: str) -> bool:
    return name in BY_NAME or name.startswith(ACLOG_PREFIX)


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
