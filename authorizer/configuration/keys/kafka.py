"""Kafka's own keys, as in a broker's server.properties."""

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
from authorizer.configuration.keys.key import (
    ConfigKey,
    KeyGroup,
    OptionalKey,
    choice_key,
    integer_key,
    list_key,
)
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    ADMIN_LISTENERS,
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
    PROTOCOL_MAP,
    SSL_CIPHER_SUITES,
    SSL_CLIENT_AUTH,
    SSL_PRINCIPAL_RULES,
    SSL_PROTOCOLS,
    TRUSTSTORE_CERTIFICATES,
    TRUSTSTORE_LOCATION,
    TRUSTSTORE_TYPE,
)
from authorizer.configuration.keys.values import names
from authorizer.configuration.listeners import LISTENERS_ALLOWED, PROTOCOL_MAP_ALLOWED
from authorizer.configuration.principal_rules import RULES_ALLOWED

#: Values of ``ssl.client.auth``.
CLIENT_AUTHS: Final = ("none", "requested", "required")

_LOG_DIR_ALLOWED: Final = "a directory with the broker's `__cluster_metadata-0` in it"
_LISTENER_PREFIX_DOC: Final = (
    f"With the prefix `{LISTENER_PREFIX}<name in lower case>.` this key and the other `ssl.*` ones hold for "
    "that listener only, and win there. Keys with the prefix have no variables."
)


class KafkaKeys(KeyGroup):
    """Kafka's own keys."""

    super_users = list_key(
        SUPER_USERS_CONFIG,
        PRINCIPALS_ALLOWED,
        "Principals that may do everything, whatever the ACLs are, and also before the log is loaded. "
        "`User:*` is an ordinary name here.",
        parse_super_users,
        is_dynamic=True,
        is_per_cluster=True,
    )
    allow_everyone_if_no_acl_found = ConfigKey(
        name=ALLOW_EVERYONE_CONFIG,
        type_name="boolean",
        default="false",
        allowed="`true` in any case; everything else is false, as in Kafka",
        doc="Whether every principal may access a resource that no ACL covers. A single ACL that covers the "
        "resource, for any principal, ends that.",
        parse=parse_allow_everyone,
        is_dynamic=True,
        is_per_cluster=True,
    )
    early_start_listener_names = OptionalKey(
        name=EARLY_START_LISTENERS,
        type_name="list",
        allowed=f"names out of {LISTENERS}, {ADMIN_LISTENERS} or {CONTROLLER_LISTENER_NAMES}, "
        "separated by commas",
        doc="Listeners that accept connections before the log is loaded: super users get decisions there, "
        f"other principals get AUTHORIZER_NOT_READY. Of {ADMIN_LISTENERS} only those of "
        f"{CONTROLLER_LISTENER_NAMES} do so, as on a broker. Unset: those of {CONTROLLER_LISTENER_NAMES}.",
        parse=names,
    )
    controller_listener_names = list_key(
        CONTROLLER_LISTENER_NAMES,
        "listener names, separated by commas",
        f"Listeners of controllers: the default of {EARLY_START_LISTENERS}. Those of {ADMIN_LISTENERS} "
        "also answer Envelope, with which a principal that has ClusterAction on the cluster forwards a "
        "request of any principal (KIP-590).",
        names,
    )
    listeners_text = ConfigKey(
        name=LISTENERS,
        type_name="list",
        default="PLAINTEXT://127.0.0.1:8180",
        allowed=LISTENERS_ALLOWED,
        doc="Addresses on which the sidecar listens, each with a unique listener name: PLAINTEXT on loopback "
        "addresses, SSL, and Unix sockets (`NAME:///path`, PLAINTEXT whatever the name). Without a host the "
        "listener binds every IPv4 and IPv6 address; an IPv6 address is IPv6 only. The file of a broker or "
        f"controller is one that sets {', '.join(BROKER_KEYS[:-1])} or {BROKER_KEYS[-1]}. There this key has "
        f"the broker's listeners, and aclog uses {ACLOG_LISTENERS} or the default.",
        parse=str,
        environment=False,
    )
    listener_security_protocol_map = OptionalKey(
        name=PROTOCOL_MAP,
        type_name="list",
        allowed=PROTOCOL_MAP_ALLOWED,
        doc="The security protocol of each listener name. Unset: a name is its own protocol, and "
        "controller listeners are PLAINTEXT if nothing else is SSL or SASL.",
        parse=str,
    )
    ssl_keystore_type = ConfigKey(
        name=KEYSTORE_TYPE,
        type_name="string",
        default="PEM",
        allowed="PEM; JKS and PKCS12 can be converted, the error shows the command",
        doc=f"Format of the server's key and certificate. Kafka's own default is JKS. {_LISTENER_PREFIX_DOC}",
        parse=str,
    )
    ssl_keystore_location = OptionalKey(
        name=KEYSTORE_LOCATION,
        type_name="string",
        allowed="a PEM file with the private key and the certificate chain",
        doc="The server's key and certificate, for listeners with TLS. The file is checked every two "
        "seconds: once it has changed, new connections use its new content. If that is unusable, they use "
        "the previous content, a warning is logged and `aclog_tls_reload_failed` is 1.",
        parse=str,
    )
    ssl_keystore_certificate_chain = OptionalKey(
        name=KEYSTORE_CHAIN,
        type_name="string",
        allowed="certificates in PEM, the server's own first",
        doc=f"The certificate chain itself, in place of {KEYSTORE_LOCATION}.",
        parse=str,
    )
    ssl_keystore_key = OptionalKey(
        name=KEYSTORE_KEY,
        type_name="password",
        allowed="a private key in PEM",
        doc=f"The private key itself, with {KEYSTORE_CHAIN}.",
        parse=str,
    )
    ssl_key_password = OptionalKey(
        name=KEY_PASSWORD,
        type_name="password",
        allowed="the password of the private key",
        doc="Password of an encrypted private key.",
        parse=str,
    )
    ssl_truststore_type = ConfigKey(
        name=TRUSTSTORE_TYPE,
        type_name="string",
        default="PEM",
        allowed="PEM; JKS and PKCS12 can be converted, the error shows the command",
        doc="Format of the trusted authorities. Kafka's own default is JKS.",
        parse=str,
    )
    ssl_truststore_location = OptionalKey(
        name=TRUSTSTORE_LOCATION,
        type_name="string",
        allowed="a PEM file of certificates",
        doc="Certificate authorities whose clients are admitted. The file is checked every two seconds, as "
        "the keystore.",
        parse=str,
    )
    ssl_truststore_certificates = OptionalKey(
        name=TRUSTSTORE_CERTIFICATES,
        type_name="string",
        allowed="certificates in PEM",
        doc=f"The certificate authorities themselves, in place of {TRUSTSTORE_LOCATION}.",
        parse=str,
    )
    ssl_client_auth = choice_key(
        SSL_CLIENT_AUTH,
        CLIENT_AUTHS,
        "none",
        "Whether a client of a listener with TLS must present a certificate. `required`: no connection "
        "without one; `requested`: a client without one is User:ANONYMOUS; `none`: every client is.",
    )
    ssl_enabled_protocols = list_key(
        SSL_PROTOCOLS,
        "TLSv1.2, TLSv1.3 or both, separated by commas",
        "Enabled versions of TLS.",
        str,
        default="TLSv1.2,TLSv1.3",
    )
    ssl_cipher_suites = list_key(
        SSL_CIPHER_SUITES,
        "nothing",
        "A broker's file may set it. aclog always uses OpenSSL's default cipher suites: if this key is "
        "set, a listener with TLS does not start, unless the listener's own key is empty.",
        str,
    )
    ssl_principal_mapping_rules = list_key(
        SSL_PRINCIPAL_RULES,
        RULES_ALLOWED,
        "The principal of a client with a certificate: `User:` and the result of the first matching rule "
        "on the certificate's subject, in Java's notation (`CN=a,OU=b,O=c`). DEFAULT is the subject itself. "
        "A client that no rule matches gets no answer. Patterns are Java's, matched by RE2 in linear time; "
        "the few that RE2 cannot express stop the start. No pattern matches a subject with a line break, or "
        "of more than 4,096 characters.",
        str,
        default="DEFAULT",
    )
    metadata_log_dir = OptionalKey(
        name=METADATA_LOG_DIR,
        type_name="string",
        allowed=_LOG_DIR_ALLOWED,
        doc="In the file of a broker or controller: directory of its metadata log. aclog reads that log if "
        f"neither --log nor {LOG_URL} names one, and never writes to it.",
        parse=str,
        environment=False,
    )
    log_dirs = OptionalKey(
        name=LOG_DIRS,
        type_name="list",
        allowed=f"{_LOG_DIR_ALLOWED}; the first of several counts, as in Kafka",
        doc=f"Used if {METADATA_LOG_DIR} is not set.",
        parse=str,
        environment=False,
    )
    log_dir = OptionalKey(
        name=LOG_DIR,
        type_name="string",
        allowed=_LOG_DIR_ALLOWED,
        doc=f"Used if {LOG_DIRS} is not set.",
        parse=str,
        environment=False,
    )
    node_id = integer_key(
        "node.id",
        -1,
        "Number of this node in log lines, and for clients of Kafka's protocol (0 if it is -1).",
        minimum=-1,
        maximum=2**31 - 1,
    )
