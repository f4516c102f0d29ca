"""Kafka's own keys, as a broker's server.properties has them."""

from __future__ import annotations

from typing import Final

from authorizer.api.principal_lists import (
    ALLOW_EVERYONE_CONFIG,
    PRINCIPALS_ALLOWED,
    SUPER_USERS_CONFIG,
    parse_allow_everyone,
    parse_super_users,
)
from authorizer.configuration.broker_file import BROKER_KEYS, LOG_DIR, LOG_DIRS, METADATA_LOG_DIR
from authorizer.configuration.keys.key import ConfigKey
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    CONTROLLER_LISTENER_NAMES,
    EARLY_START_LISTENERS,
    KEY_PASSWORD,
    KEYSTORE_CHAIN,
    KEYSTORE_KEY,
    KEYSTORE_LOCATION,
    KEYSTORE_TYPE,
    LISTENER_PREFIX,
    LISTENERS,
    LOG_URL,
    NODE_ID,
    PROTOCOL_MAP,
    SSL_CIPHER_SUITES,
    SSL_CLIENT_AUTH,
    SSL_PRINCIPAL_RULES,
    SSL_PROTOCOLS,
    TRUSTSTORE_CERTIFICATES,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_TYPE,
)
from authorizer.configuration.keys.values import integer, names, one_of
from authorizer.configuration.listeners import LISTENERS_ALLOWED, PROTOCOL_MAP_ALLOWED
from authorizer.configuration.principal_rules import RULES_ALLOWED

#: Values of ``ssl.client.auth``.
CLIENT_AUTHS: Final = ("none", "requested", "required")

_LOG_DIR_ALLOWED: Final = "a directory with the broker's `__cluster_metadata-0` in it"
_OF_A_LISTENER: Final = (
    f"This key and the other `ssl.*` ones may have `{LISTENER_PREFIX}<name in lower case>.` before them: "
    "then they are for that listener alone, and win there. Those have no variables."
)

KAFKA_KEYS: Final = (
    ConfigKey(
        name=SUPER_USERS_CONFIG,
        type="list",
        default="",
        allowed=PRINCIPALS_ALLOWED,
        doc="Principals that may do everything, before the log is loaded and whatever the ACLs say. "
        "`User:*` is an ordinary name here.",
        parse=parse_super_users,
        dynamic=True,
        of_cluster=True,
    ),
    ConfigKey(
        name=ALLOW_EVERYONE_CONFIG,
        type="boolean",
        default="false",
        allowed="`true` in any case; everything else is false, as in Kafka",
        doc="Whether a resource that no ACL covers is open to everyone. Any ACL that covers it, for "
        "whomever, ends that.",
        parse=parse_allow_everyone,
        dynamic=True,
        of_cluster=True,
    ),
    ConfigKey(
        name=EARLY_START_LISTENERS,
        type="list",
        default=None,
        allowed=f"names out of {LISTENERS} or {CONTROLLER_LISTENER_NAMES}, separated by commas",
        doc="Listeners that accept before the log is loaded: super users are answered there, everyone else "
        f"gets AUTHORIZER_NOT_READY. Unset: those of {CONTROLLER_LISTENER_NAMES}.",
        parse=names,
    ),
    ConfigKey(
        name=CONTROLLER_LISTENER_NAMES,
        type="list",
        default="",
        allowed="listener names, separated by commas",
        doc=f"Only used as the default of {EARLY_START_LISTENERS}.",
        parse=names,
    ),
    ConfigKey(
        name=LISTENERS,
        type="list",
        default="PLAINTEXT://127.0.0.1:8180",
        allowed=LISTENERS_ALLOWED,
        doc="Where the sidecar listens, each under a name of its own: PLAINTEXT on loopback addresses, "
        "SSL, and Unix sockets (`NAME:///path`, PLAINTEXT whatever the name). Without a host it is every "
        "address, IPv4 and IPv6; an IPv6 address is IPv6 only. In a broker's or controller's own file (one "
        f"that sets {', '.join(BROKER_KEYS[:-1])} or {BROKER_KEYS[-1]}) they are the broker's, and aclog "
        f"uses {ACLOG_LISTENERS} or the default.",
        environment=False,
    ),
    ConfigKey(
        name=PROTOCOL_MAP,
        type="list",
        default=None,
        allowed=PROTOCOL_MAP_ALLOWED,
        doc="The security protocol of each listener name. Unset: a name is its own protocol, and "
        "controller listeners are PLAINTEXT if nothing else is SSL or SASL.",
    ),
    ConfigKey(
        name=KEYSTORE_TYPE,
        type="string",
        default="PEM",
        allowed="PEM; of JKS and PKCS12 PEM can be made, and the error says how",
        doc=f"How the server's key and certificate are stored. Kafka's own default is JKS. {_OF_A_LISTENER}",
    ),
    ConfigKey(
        name=KEYSTORE_LOCATION,
        type="string",
        default=None,
        allowed="a PEM file with the private key and the certificate chain",
        doc="The server's key and certificate, for listeners with TLS. The file is looked at every two "
        "seconds: when it has changed, new connections get what is in it; if that cannot be used, they get "
        "what was there, a warning is logged and `aclog_tls_reload_failed` is 1.",
    ),
    ConfigKey(
        name=KEYSTORE_CHAIN,
        type="string",
        default=None,
        allowed="certificates in PEM, the server's own first",
        doc=f"The certificate chain itself, in place of {KEYSTORE_LOCATION}.",
    ),
    ConfigKey(
        name=KEYSTORE_KEY,
        type="password",
        default=None,
        allowed="a private key in PEM",
        doc=f"The private key itself, with {KEYSTORE_CHAIN}.",
    ),
    ConfigKey(
        name=KEY_PASSWORD,
        type="password",
        default=None,
        allowed="the password of the private key",
        doc="If the private key is encrypted.",
    ),
    ConfigKey(
        name=TRUSTSTORE_TYPE,
        type="string",
        default="PEM",
        allowed="PEM; of JKS and PKCS12 PEM can be made, and the error says how",
        doc="How the authorities are stored. Kafka's own default is JKS.",
    ),
    ConfigKey(
        name=TRUSTSTORE_LOCATION,
        type="string",
        default=None,
        allowed="a PEM file of certificates",
        doc="The authorities whose clients are admitted. Looked at every two seconds, as the keystore.",
    ),
    ConfigKey(
        name=TRUSTSTORE_CERTIFICATES,
        type="string",
        default=None,
        allowed="certificates in PEM",
        doc=f"The authorities themselves, in place of {TRUSTSTORE_LOCATION}.",
    ),
    ConfigKey(
        name=SSL_CLIENT_AUTH,
        type="string",
        default="none",
        allowed=f"one of {', '.join(CLIENT_AUTHS)}",
        doc="Whether a client of a listener with TLS shows a certificate: `required`, or no connection; "
        "`requested`, and who shows none is User:ANONYMOUS; `none`, and everyone is.",
        parse=one_of(CLIENT_AUTHS),
    ),
    ConfigKey(
        name=SSL_PROTOCOLS,
        type="list",
        default="TLSv1.2,TLSv1.3",
        allowed="TLSv1.2, TLSv1.3 or both, separated by commas",
        doc="The versions of TLS that are spoken.",
    ),
    ConfigKey(
        name=SSL_CIPHER_SUITES,
        type="list",
        default="",
        allowed="nothing",
        doc="Of a broker's file. OpenSSL's choice cannot be changed here: where it is set, a listener with "
        "TLS does not start, unless its own is empty.",
    ),
    ConfigKey(
        name=SSL_PRINCIPAL_RULES,
        type="list",
        default="DEFAULT",
        allowed=RULES_ALLOWED,
        doc="What a client with a certificate is called: `User:` and what the first rule that matches "
        "makes of the certificate's subject, which is written as Java writes it (`CN=a,OU=b,O=c`). DEFAULT "
        "is the subject itself. Who no rule matches may ask nothing. Patterns are Java's, matched by RE2 in "
        "a time that no name can prolong; the few that RE2 cannot express stop the start. No pattern matches "
        "a subject with a line break, or of more than 4,096 characters.",
    ),
    ConfigKey(
        name=METADATA_LOG_DIR,
        type="string",
        default=None,
        allowed=_LOG_DIR_ALLOWED,
        doc=f"Of a broker's or controller's own file: where its metadata log is, which is read where neither "
        f"--log nor {LOG_URL} names one. It is never written to.",
        environment=False,
    ),
    ConfigKey(
        name=LOG_DIRS,
        type="list",
        default=None,
        allowed=f"{_LOG_DIR_ALLOWED}; the first of several counts, as in Kafka",
        doc=f"The same where {METADATA_LOG_DIR} is not set.",
        environment=False,
    ),
    ConfigKey(
        name=LOG_DIR,
        type="string",
        default=None,
        allowed=_LOG_DIR_ALLOWED,
        doc=f"The same where {LOG_DIRS} is not set.",
        environment=False,
    ),
    ConfigKey(
        name=NODE_ID,
        type="int",
        default="-1",
        allowed="a whole number, -1 or more",
        doc="Number of this node in log lines.",
        parse=integer(-1, 2**31 - 1),
    ),
)
