"""Keys of the server of Kafka's protocol."""

from __future__ import annotations

from typing import Final

from authorizer.configuration.keys.key import (
    KeyGroup,
    OptionalKey,
    choice_key,
    integer_key,
    list_key,
    text_key,
)
from authorizer.configuration.keys.names import (
    ADMIN_ADVERTISED_LISTENERS,
    ADMIN_CREDENTIALS_FILE,
    ADMIN_LISTENERS,
    ADMIN_REQUEST_RATE,
    ADMIN_SCRAM_CREDENTIALS,
    MAX_REAUTH_MS,
    PROTOCOL_MAP,
    SASL_MECHANISMS,
)
from authorizer.configuration.keys.values import names
from authorizer.configuration.listeners import ADMIN_LISTENERS_ALLOWED

#: What the server of Kafka's protocol offers; a broker's own file may name others.
SERVED_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class AdminKeys(KeyGroup):
    """Keys of the server of Kafka's protocol."""

    admin_listeners_text = OptionalKey(
        name=ADMIN_LISTENERS,
        type_name="list",
        allowed=ADMIN_LISTENERS_ALLOWED,
        doc="Addresses on which `aclog serve` speaks Kafka's protocol: kafka-acls, AdminClients and "
        "Terraform list and change ACLs there as on a broker. Each has a unique listener name; "
        f"{PROTOCOL_MAP} gives its protocol. PLAINTEXT and SASL_PLAINTEXT are served on loopback "
        "addresses only. Unset: none.",
        parse=str,
        is_per_cluster=True,
    )
    admin_advertised_listeners_text = OptionalKey(
        name=ADMIN_ADVERTISED_LISTENERS,
        type_name="list",
        allowed=ADMIN_LISTENERS_ALLOWED,
        doc="Addresses that Metadata gives to clients of Kafka's protocol, by listener name, as Kafka's "
        "advertised.listeners: behind a load balancer, or in a container. Unset: the listener's own address.",
        parse=str,
        is_per_cluster=True,
    )
    admin_connections_max_idle_ms = integer_key(
        "aclog.admin.connections.max.idle.ms",
        600_000,
        "Idle time after which a connection of Kafka's protocol is closed, as Kafka's "
        "connections.max.idle.ms.",
        minimum=1,
        maximum=24 * 60 * 60 * 1000,
        unit="milliseconds",
        is_dynamic=True,
    )
    admin_quota_request_rate = integer_key(
        ADMIN_REQUEST_RATE,
        0,
        "Requests a second of a principal over Kafka's protocol, as an average: 11 seconds' worth may come "
        "together, as with Kafka's controller_mutation_rate (KIP-599). Each ACL of CreateAcls and each "
        "filter of DeleteAcls counts as a request; logins, ApiVersions and requests that a broker forwards "
        "do not count. The answer to a request beyond it has throttle_time_ms, and nothing more is read from "
        "the principal's connections for that time (KIP-219). The processes of aclog.workers count together. "
        "0: no quota.",
        minimum=0,
        maximum=1_000_000_000,
        is_dynamic=True,
        is_per_cluster=True,
    )
    admin_credentials_file = text_key(
        ADMIN_CREDENTIALS_FILE,
        "a file that `aclog credentials add --file` makes",
        "Users that log in by PLAIN or SCRAM on listeners with SASL, one line each: hashes, never passwords. "
        "A changed file takes effect within about a second. An unusable file changes nothing.",
        is_per_cluster=True,
    )
    admin_scram_credentials = choice_key(
        ADMIN_SCRAM_CREDENTIALS,
        ("file", "log"),
        "file",
        f"What verifies logins by PLAIN and SCRAM: the file in {ADMIN_CREDENTIALS_FILE}, or the credentials "
        "that kafka-configs stores in the cluster's metadata log (UserScramCredentialRecord). `log` needs a "
        "kraft:// log or a broker's directory. Each process then reads the log a second time and keeps the "
        "hashes in memory only; a changed user takes effect when that reader has read the change.",
        is_per_cluster=True,
    )
    sasl_enabled_mechanisms = list_key(
        SASL_MECHANISMS,
        f"some of {', '.join(SERVED_MECHANISMS)}, separated by commas",
        "Mechanisms that listeners with SASL offer, also as listener.name.<name>.sasl.enabled.mechanisms."
        f" PLAIN and SCRAM are verified as {ADMIN_SCRAM_CREDENTIALS} says, OAUTHBEARER with the keys of "
        "aclog.auth.oidc.",
        names,
        default="SCRAM-SHA-256,SCRAM-SHA-512",
    )
    connections_max_reauth_ms = integer_key(
        MAX_REAUTH_MS,
        0,
        "Longest session of a client that logged in by SASL: it must authenticate again before that, or its "
        "next request closes the connection (KIP-368). 0: as long as its token, if it has one.",
        minimum=0,
        unit="milliseconds",
    )
