"""Keys of the server of Kafka's protocol."""

from __future__ import annotations

from authorizer.configuration.keys.key import KeyGroup, OptionalKey, integer_key, text_key
from authorizer.configuration.keys.names import (
    ADMIN_ADVERTISED_LISTENERS,
    ADMIN_CREDENTIALS_FILE,
    ADMIN_IDLE_MS,
    ADMIN_LISTENERS,
    PROTOCOL_MAP,
)
from authorizer.configuration.listeners import LISTENERS_ALLOWED


class AdminKeys(KeyGroup):
    """Keys of the server of Kafka's protocol."""

    admin_listeners_text = OptionalKey(
        name=ADMIN_LISTENERS,
        type_name="list",
        allowed=LISTENERS_ALLOWED,
        doc="Addresses on which `aclog serve` speaks Kafka's protocol: kafka-acls, AdminClients and "
        "Terraform list and change ACLs there as on a broker. Each has a unique listener name; "
        f"{PROTOCOL_MAP} gives its protocol. PLAINTEXT and SASL_PLAINTEXT are served on loopback "
        "addresses only. Unset: none.",
        parse=str,
    )
    admin_advertised_listeners_text = OptionalKey(
        name=ADMIN_ADVERTISED_LISTENERS,
        type_name="list",
        allowed=LISTENERS_ALLOWED,
        doc="Addresses that Metadata gives to clients of Kafka's protocol, by listener name, as Kafka's "
        "advertised.listeners: behind a load balancer, or in a container. Unset: the listener's own address.",
        parse=str,
    )
    admin_connections_max_idle_ms = integer_key(
        ADMIN_IDLE_MS,
        600_000,
        "Idle time after which a connection of Kafka's protocol is closed, as Kafka's "
        "connections.max.idle.ms.",
        minimum=1,
        maximum=24 * 60 * 60 * 1000,
        unit="milliseconds",
        is_dynamic=True,
    )
    admin_credentials_file = text_key(
        ADMIN_CREDENTIALS_FILE,
        "a file that `aclog credentials add --file` makes",
        "Users that log in by PLAIN or SCRAM on listeners with SASL, one line each: hashes, never passwords. "
        "A changed file takes effect within about a second. An unusable file changes nothing.",
    )
