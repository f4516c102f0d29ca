"""Every configuration key in one table: name, type, default, what is allowed, what it is for.

``load.py`` reads values by it, ``reference.py`` writes docs/configuration.md from it. A key's
environment variable is ``ACLOG_`` and its name in capitals, dots as underscores, without a leading
``aclog.``: ``ACLOG_LOG_URL`` sets ``aclog.log.url``, ``ACLOG_SUPER_USERS`` sets ``super.users``.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from authorizer.configuration.broker_file import BROKER_KEYS, LOG_DIR, LOG_DIRS, METADATA_LOG_DIR
from authorizer.configuration.listeners import (
    LISTENERS_ALLOWED,
    PROTOCOL_MAP_ALLOWED,
    is_loopback,
    split_list,
)
from authorizer.configuration.principal_rules import RULES_ALLOWED
from authorizer.configuration.super_users import (
    ALLOW_EVERYONE_CONFIG,
    PRINCIPALS_ALLOWED,
    SUPER_USERS_CONFIG,
    parse_allow_everyone,
    parse_principals,
    parse_super_users,
)
from authorizer.decisions.audit_levels import AUDIT_LEVELS
from authorizer.errors import ConfigError
from records.acl import AclOperation, ResourceType
from records.principal import parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from records.principal import KafkaPrincipal
_Term = TypeVar("_Term")
_Code = TypeVar("_Code", AclOperation, ResourceType)

ACLOG_PREFIX: Final = "aclog."
ENVIRONMENT_PREFIX: Final = "ACLOG_"
#: Settings for the Kafka client, passed through as they are.
CLIENT_PREFIX: Final = "aclog.kafka."

LISTENERS: Final = "listeners"
ACLOG_LISTENERS: Final = "aclog.listeners"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
CONTROLLER_LISTENER_NAMES: Final = "controller.listener.names"
EARLY_START_LISTENERS: Final = "early.start.listeners"
NODE_ID: Final = "node.id"
LOG_URL: Final = "aclog.log.url"
LOG_MODE: Final = "aclog.log.mode"
SNAPSHOT_STORE: Final = "aclog.snapshot.store"
AUDIT_LEVEL: Final = "aclog.audit.level"
AUDIT_QUEUE: Final = "aclog.audit.queue.max.lines"
DESCRIBE_PRINCIPALS: Final = "aclog.describe.principals"
AUTH_REQUIRED_LISTENERS: Final = "aclog.auth.required.listeners"
AUTH_TOKENS_FILE: Final = "aclog.auth.tokens.file"
AUTH_OIDC_JWKS: Final = "aclog.auth.oidc.jwks"
AUTH_OIDC_ISSUER: Final = "aclog.auth.oidc.issuer"
AUTH_OIDC_AUDIENCE: Final = "aclog.auth.oidc.audience"
TRUSTED_PROXIES: Final = "aclog.trusted.proxies"
PUBLIC_URL: Final = "aclog.sidecar.public.url"
ALLOW_PLAINTEXT: Final = "aclog.allow.plaintext.beyond.loopback"
UNIX_PRINCIPALS: Final = "aclog.unix.principals"

KEYSTORE_TYPE: Final = "ssl.keystore.type"
KEYSTORE_LOCATION: Final = "ssl.keystore.location"
KEYSTORE_CHAIN: Final = "ssl.keystore.certificate.chain"
KEYSTORE_KEY: Final = "ssl.keystore.key"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - a key's name
TRUSTSTORE_TYPE: Final = "ssl.truststore.type"
TRUSTSTORE_LOCATION: Final = "ssl.truststore.location"
TRUSTSTORE_CERTIFICATES: Final = "ssl.truststore.certificates"
SSL_CLIENT_AUTH: Final = "ssl.client.auth"
SSL_PROTOCOLS: Final = "ssl.enabled.protocols"
SSL_CIPHER_SUITES: Final = "ssl.cipher.suites"
SSL_PRINCIPAL_RULES: Final = "ssl.principal.mapping.rules"
SPIFFE_RULES: Final = "aclog.ssl.spiffe.mapping.rules"
#: Before an `ssl.*` key, or that of SPIFFE ids: for the listener of that name (in lower case) alone.
LISTENER_PREFIX: Final = "listener.name."
RESOURCE_NAMES: Final = "aclog.search.resource.names"

#: Values of ``aclog.log.mode``.
LOG_MODES: Final = ("auto", "read", "write", "create")
#: Values of ``aclog.logging.format``; auto is console on a terminal and json elsewhere.
LOGGING_FORMATS: Final = ("auto", "console", "json")
#: Values of ``aclog.logging.level``.
LOGGING_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

#: Values of ``ssl.client.auth``.
CLIENT_AUTHS: Final = ("none", "requested", "required")
#: Values of ``aclog.auth.oidc.algorithms``: asymmetric ones only, so that no public key is ever a secret.
TOKEN_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

_MEGABYTE: Final = 1024 * 1024
_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key.

    Attributes:
        name: in the file.
        type: for people: ``string``, ``list``, ``int``, ...
        default: as it would be written in a file; None means unset.
        allowed: for people and for ConfigError.
        doc: what it is for, in full sentences.
        parse: text to value; ValueError means not allowed.
        environment: whether a variable sets it: ``listeners`` leaves its variable to ``aclog.listeners``.
    """

    name: str
    type: str
    default: str | None
    allowed: str
    doc: str
    parse: Callable[[str], Any] = str
    environment: bool = True

    @property
    def field(self) -> str:
        """The attribute of Config that has its value, if there is one."""
        return self.name.removeprefix(ACLOG_PREFIX).replace(".", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return ENVIRONMENT_PREFIX + self.name.removeprefix(ACLOG_PREFIX).upper().replace(".", "_")

    def read(self, text: str | None) -> Any:
        """The value of ``text``, or of the default if there is none.

        Raises:
            ConfigError: with the key, the text and what is allowed.
        """
        text = self.default if text is None else text
        if text is None:
            return None
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(self.name, text, self.allowed) from error


def _text(text: str) -> str | None:
    return text.strip() or None


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text.strip()


def _address(text: str) -> str:
    return str(ipaddress.ip_address(text.strip()))


def _networks(text: str) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(part)) for part in split_list(text))


def _base_url(text: str) -> str:
    url = urlsplit(text.strip())
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
        raise ValueError(text)
    return url.geturl().rstrip("/")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.upper() for name in split_list(text))


def _aliases(parse: Callable[[str], _Term]) -> Callable[[str], Mapping[str, _Term]]:
    """``alias:TERM;alias:TERM``, by alias."""

    def parse_all(text: str) -> Mapping[str, _Term]:
        found: dict[str, _Term] = {}
        for part in filter(None, map(str.strip, text.split(";"))):
            alias, colon, name = map(str.strip, part.rpartition(":"))
            if not (alias and colon and name) or alias in found:
                raise ValueError(part)
            found[alias] = parse(name)
        return MappingProxyType(found)

    return parse_all


def _code_aliases(kind: type[_Code]) -> Callable[[str], Mapping[str, _Code]]:
    def code(name: str) -> _Code:
        known = kind.from_name(name)
        if known <= kind.ANY:
            raise ValueError(name)
        return known

    def parse_all(text: str) -> Mapping[str, _Code]:
        found = _aliases(code)(text)
        for alias, meant in found.items():
            # READ for WRITE would be a trap for who reads a request.
            if kind.from_name(alias) not in (kind(0), meant):
                raise ValueError(alias)
        return found

    return parse_all


def _integer(at_least: int, at_most: int = _INT64_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text.strip())
        if not at_least <= value <= at_most:
            raise ValueError(text)
        return value

    return parse


def _one_of(choices: Sequence[str]) -> Callable[[str], str]:
    by_lower = {choice.lower(): choice for choice in choices}

    def parse(text: str) -> str:
        try:
            return by_lower[text.strip().lower()]
        except KeyError:
            raise ValueError(text) from None

    return parse


def _boolean(text: str) -> bool:
    return _one_of(("true", "false"))(text) == "true"


def _unix_principals(text: str) -> Mapping[str, KafkaPrincipal]:
    """By ``uid:NUMBER`` and ``gid:NUMBER``."""
    principals: dict[str, KafkaPrincipal] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        peer, _, principal = part.partition("=")
        kind, _, number = peer.strip().partition(":")
        if kind not in ("uid", "gid") or f"{kind}:{int(number)}" in principals:
            raise ValueError(text)
        principals[f"{kind}:{int(number)}"] = parse_kafka_principal(principal.strip())
    return MappingProxyType(principals)


_OF_A_LISTENER: Final = (
    f"This key and the other `ssl.*` ones may have `{LISTENER_PREFIX}<name in lower case>.` before them: "
    "then they are for that listener alone, and win there. Those have no variables."
)


def _jwks(text: str) -> str:
    """Keys that others could replace on their way would let them in."""
    url = urlsplit(text.strip())
    if url.scheme == "file" and not url.netloc and url.path:
        return url.path
    is_path = not url.scheme and url.path
    is_https = url.scheme == "https" and url.hostname and not url.username
    is_here = url.scheme == "http" and is_loopback(url.hostname) and not url.username
    if not (is_path or is_https or is_here):
        raise ValueError(text)
    return url.geturl()


def _some_of(choices: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(split_list(text))
        if not names or not set(names) <= set(choices):
            raise ValueError(text)
        return names

    return parse


_LOG_DIR_ALLOWED: Final = "a directory with the broker's `__cluster_metadata-0` in it"

KEYS: Final = (
    ConfigKey(
        name=SUPER_USERS_CONFIG,
        type="list",
        default="",
        allowed=PRINCIPALS_ALLOWED,
        doc="Principals that may do everything, before the log is loaded and whatever the ACLs say. "
        "`User:*` is an ordinary name here.",
        parse=parse_super_users,
    ),
    ConfigKey(
        name=ALLOW_EVERYONE_CONFIG,
        type="boolean",
        default="false",
        allowed="`true` in any case; everything else is false, as in Kafka",
        doc="Whether a resource that no ACL covers is open to everyone. Any ACL that covers it, for "
        "whomever, ends that.",
        parse=parse_allow_everyone,
    ),
    ConfigKey(
        name=EARLY_START_LISTENERS,
        type="list",
        default=None,
        allowed=f"names out of {LISTENERS} or {CONTROLLER_LISTENER_NAMES}, separated by commas",
        doc="Listeners that accept before the log is loaded: super users are answered there, everyone else "
        f"gets AUTHORIZER_NOT_READY. Unset: those of {CONTROLLER_LISTENER_NAMES}.",
        parse=_names,
    ),
    ConfigKey(
        name=CONTROLLER_LISTENER_NAMES,
        type="list",
        default="",
        allowed="listener names, separated by commas",
        doc=f"Only used as the default of {EARLY_START_LISTENERS}.",
        parse=_names,
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
        parse=_one_of(CLIENT_AUTHS),
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
        "is the subject itself. Who no rule matches may ask nothing.",
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
        parse=_integer(-1, 2**31 - 1),
    ),
    ConfigKey(
        name=ACLOG_LISTENERS,
        type="list",
        default=None,
        allowed=LISTENERS_ALLOWED,
        doc=f"Where the sidecar listens, over {LISTENERS}: the key to add to a broker's own file.",
    ),
    ConfigKey(
        name=ALLOW_PLAINTEXT,
        type="boolean",
        default="false",
        allowed="true or false",
        doc="Whether PLAINTEXT listeners may be on other addresses than loopback. Everyone who reaches one "
        "is User:ANONYMOUS, and everyone on the way reads and changes what is said.",
        parse=_boolean,
    ),
    ConfigKey(
        name=UNIX_PRINCIPALS,
        type="list",
        default="",
        allowed="uid:NUMBER=Type:name or gid:NUMBER=Type:name, separated by semicolons, such as "
        "uid:1000=User:gateway;gid:200=User:ops",
        doc="What the processes that connect to Unix sockets are called, by the user or the group that "
        "they run as, which the kernel says; the user's wins. Who is not listed is User:ANONYMOUS. "
        "`aclog.sock` in a log's directory is not meant: it is the owner's.",
        parse=_unix_principals,
    ),
    ConfigKey(
        name=SPIFFE_RULES,
        type="list",
        default="",
        allowed=RULES_ALLOWED,
        doc="What a client is called whose certificate has a SPIFFE id (`spiffe://...` as a URI in the "
        f"subject alternative name): as {SSL_PRINCIPAL_RULES}, from that id; DEFAULT is the id itself. Who "
        "no rule matches may ask nothing. Unset: the subject counts, for all clients.",
    ),
    ConfigKey(
        name="aclog.sidecar.default.host",
        type="string",
        default=None,
        allowed="an IP address",
        doc="The host that an AuthZEN request is decided for when it carries none. Unset: such a request "
        "is refused.",
        parse=_address,
    ),
    ConfigKey(
        name="aclog.authzen.subject.aliases",
        type="list",
        default="",
        allowed="alias:type pairs, separated by semicolons, such as user:User;service:User",
        doc="What AuthZEN's clients call principal types. Kafka's own are `User` and what a principal "
        "builder makes; their case matters.",
        parse=_aliases(str),
    ),
    ConfigKey(
        name="aclog.authzen.resource.aliases",
        type="list",
        default="",
        allowed="alias:TYPE pairs, separated by semicolons, such as stream:TOPIC;record:TOPIC",
        doc="What AuthZEN's clients call resource types, beside Kafka's own names in any case.",
        parse=_code_aliases(ResourceType),
    ),
    ConfigKey(
        name="aclog.authzen.action.aliases",
        type="list",
        default="",
        allowed="alias:OPERATION pairs, separated by semicolons, such as can_read:READ;can_write:WRITE",
        doc="What AuthZEN's clients call operations, beside Kafka's own names in any case. An action search "
        "answers with an operation's aliases, and with Kafka's name where it has none.",
        parse=_code_aliases(AclOperation),
    ),
    ConfigKey(
        name=RESOURCE_NAMES,
        type="string",
        default=None,
        allowed="a file with a resource a line, its type and its name: TOPIC orders",
        doc="Which resources exist, for resource searches: the log of ACLs does not know which topics there "
        "are. The file is read again when it changes. Unset, and for a type that the file has none of: the "
        "names that literal ACLs mention.",
        parse=_text,
    ),
    ConfigKey(
        name=PUBLIC_URL,
        type="url",
        default=None,
        allowed="an http or https URL without query and fragment, such as https://acls.example.org",
        doc="Where clients reach the sidecar, if that is through a proxy: what "
        "/.well-known/authzen-configuration says. Unset: the address of the listener. The request's Host "
        "header is never repeated.",
        parse=_base_url,
    ),
    ConfigKey(
        name=TRUSTED_PROXIES,
        type="list",
        default="",
        allowed="IP addresses and networks, separated by commas, such as 127.0.0.1,10.1.0.0/16",
        doc="Peers whose X-Forwarded-For header is believed: the address in it, not the peer's own, is then "
        "the caller's, which ACL hosts are matched against. Name only what sets or overwrites that header. "
        "Unset: the header changes nothing.",
        parse=_networks,
    ),
    ConfigKey(
        name=DESCRIBE_PRINCIPALS,
        type="list",
        default="",
        allowed=PRINCIPALS_ALLOWED,
        doc="Principals that may ask the sidecar about others without an ACL; else that takes Describe on "
        "the cluster, and everyone may ask about themselves. They may not list or change ACLs by it. "
        "`User:ANONYMOUS` is every caller of a plaintext listener; `User:*` is an ordinary name here.",
        parse=partial(parse_principals, key=DESCRIBE_PRINCIPALS),
    ),
    ConfigKey(
        name=AUTH_REQUIRED_LISTENERS,
        type="list",
        default="",
        allowed=f"names out of {LISTENERS}, separated by commas",
        doc="Listeners that answer User:ANONYMOUS nothing but /livez and /readyz: a request without a token, "
        "on a connection without a principal of its own, gets 401.",
        parse=_names,
    ),
    ConfigKey(
        name=AUTH_TOKENS_FILE,
        type="string",
        default=None,
        allowed="a file that `aclog token create --file` makes",
        doc="Bearer tokens by their hashes, one line each: PRINCIPAL:HASH. A changed file is taken up within "
        "about a second, and a token that is no longer in it is refused from then on; a file that cannot be "
        "used changes nothing.",
        parse=_text,
    ),
    ConfigKey(
        name=AUTH_OIDC_JWKS,
        type="url",
        default=None,
        allowed="a file, or an https URL (http on a loopback address), of a JSON Web Key Set",
        doc="The keys that an issuer signs its tokens with (OpenID Connect's jwks_uri). Set, JSON Web Tokens "
        f"are taken that are signed with one of them; it takes {AUTH_OIDC_ISSUER}, {AUTH_OIDC_AUDIENCE} and "
        "`pip install 'aclog[oidc]'`. A changed file is taken up within about a second; a URL is asked again "
        "as aclog.auth.oidc.jwks.refresh.ms says, and for a token whose key is not known, at most every ten "
        "seconds. While neither gives keys, those from before stay. Redirects are not followed.",
        parse=_jwks,
    ),
    ConfigKey(
        name="aclog.auth.oidc.jwks.refresh.ms",
        type="long",
        default=str(5 * 60 * 1000),
        allowed="a whole number of milliseconds, 1000 or more",
        doc=f"How often {AUTH_OIDC_JWKS} is asked, if it is a URL: a key that the issuer has withdrawn is "
        "believed for so long.",
        parse=_integer(1000),
    ),
    ConfigKey(
        name=AUTH_OIDC_ISSUER,
        type="string",
        default=None,
        allowed="the issuer's `iss`, such as https://login.example.org/realms/kafka",
        doc="Whose tokens are taken: `iss`, as it is in them.",
        parse=_text,
    ),
    ConfigKey(
        name=AUTH_OIDC_AUDIENCE,
        type="list",
        default="",
        allowed="values of `aud`, separated by commas",
        doc="For whom tokens must be: one of these is one of the token's `aud`.",
        parse=lambda text: tuple(split_list(text)),
    ),
    ConfigKey(
        name="aclog.auth.oidc.principal.claim",
        type="string",
        default="sub",
        allowed="the name of a claim whose value is a string",
        doc="Which claim names the principal: `User:` and its value.",
        parse=_name,
    ),
    ConfigKey(
        name="aclog.auth.oidc.algorithms",
        type="list",
        default=",".join(TOKEN_ALGORITHMS),
        allowed=f"some of {', '.join(TOKEN_ALGORITHMS)}, separated by commas",
        doc="With which algorithms tokens may be signed: never none, and never with a shared secret.",
        parse=_some_of(TOKEN_ALGORITHMS),
    ),
    ConfigKey(
        name="aclog.auth.oidc.leeway.ms",
        type="long",
        default="30000",
        allowed="a whole number of milliseconds, 0 to 300000",
        doc="How far the issuer's clock may be from this one's: so much longer a token is taken, and so much "
        "earlier.",
        parse=_integer(0, 300_000),
    ),
    ConfigKey(
        name=LOG_URL,
        type="url",
        default=None,
        allowed="file:DIR or a path; or kafka://HOST:PORT[,HOST:PORT...]/TOPIC",
        doc="The metadata log to replay: a directory in Kafka's segment format, aclog's own or a broker's "
        "`__cluster_metadata-0`; or a compacted topic of its own on a Kafka cluster, which any number of "
        f"nodes read and write. `{CLIENT_PREFIX}*` says how to reach that. Unset in a broker's own file: the "
        f"broker's metadata log, see {METADATA_LOG_DIR}.",
        parse=_text,
    ),
    ConfigKey(
        name=LOG_MODE,
        type="string",
        default="auto",
        allowed=f"one of {', '.join(LOG_MODES)}",
        doc="`read` never writes. `write` takes the writer's lock of a directory that aclog made; to a topic "
        "any number of nodes write. `create` makes the log if there is none, then writes; a topic gets 3 "
        "replicas, of which 2 must be in sync (`aclog log create` makes others). `auto` writes to a topic "
        "and to a directory that aclog made, and reads a broker's.",
        parse=_one_of(LOG_MODES),
    ),
    ConfigKey(
        name=SNAPSHOT_STORE,
        type="url",
        default=None,
        allowed="a path or any URL that fsspec has a file system for",
        doc="Where snapshots are kept; a start then replays only what came after the newest one. Unset: "
        "none are written, and every start replays the log.",
        parse=_text,
    ),
    ConfigKey(
        name="aclog.snapshot.keep",
        type="int",
        default="3",
        allowed="a whole number, 1 or more",
        doc="How many snapshots are kept at least.",
        parse=_integer(1),
    ),
    ConfigKey(
        name="aclog.snapshot.max.bytes",
        type="long",
        default=str(20 * _MEGABYTE),
        allowed="a whole number of bytes, 1 or more",
        doc="A snapshot is written after this many bytes of log, as Kafka's "
        "metadata.log.max.record.bytes.between.snapshots.",
        parse=_integer(1),
    ),
    ConfigKey(
        name="aclog.snapshot.max.age.ms",
        type="long",
        default=str(60 * 60 * 1000),
        allowed="a whole number of milliseconds, 0 or more",
        doc="A snapshot is written this long after the last one if anything changed, as Kafka's "
        "metadata.log.max.snapshot.interval.ms; 0 turns this off.",
        parse=_integer(0),
    ),
    ConfigKey(
        name="aclog.max.lag.ms",
        type="long",
        default="0",
        allowed="a whole number of milliseconds, 0 or more",
        doc="A node that has been behind its log for longer than this reports not ready; decisions go on. "
        "0 never does.",
        parse=_integer(0),
    ),
    ConfigKey(
        name="aclog.acl.update.timeout.ms",
        type="long",
        default="30000",
        allowed="a whole number of milliseconds, 1 or more",
        doc="How long a creation or removal of ACLs may take until it is visible here. Past that it "
        "answers REQUEST_TIMED_OUT and says whether it may still happen.",
        parse=_integer(1),
    ),
    ConfigKey(
        name=AUDIT_LEVEL,
        type="string",
        default="INFO",
        allowed=f"one of {', '.join(AUDIT_LEVELS)}",
        doc="What the audit log (kafka.authorizer.logger) writes: INFO denials that were asked for, DEBUG "
        "also what was allowed, TRACE everything, OFF nothing.",
        parse=_one_of(tuple(AUDIT_LEVELS)),
    ),
    ConfigKey(
        name=AUDIT_QUEUE,
        type="int",
        default="50000",
        allowed="a whole number, 0 or more",
        doc="How many decisions of `aclog serve` may wait for their lines in the audit log, half a kilobyte "
        "each. Lines are written many at once, some 50 ms later, by a thread of their own; when more "
        "decisions wait, lines are left out and counted (aclog_audit_lost_total), and no decision waits. "
        "0 writes each line before its decision is answered: slower, and nothing is left out.",
        parse=_integer(0),
    ),
    ConfigKey(
        name="aclog.logging.format",
        type="string",
        default="auto",
        allowed=f"one of {', '.join(LOGGING_FORMATS)}",
        doc="`console` for people, `json` for machines; `auto` is console on a terminal and json "
        "elsewhere. Lines go to stderr.",
        parse=_one_of(LOGGING_FORMATS),
    ),
    ConfigKey(
        name="aclog.logging.level",
        type="string",
        default="INFO",
        allowed=f"one of {', '.join(LOGGING_LEVELS)}",
        doc="The lowest level that is logged; the audit log has its own.",
        parse=_one_of(LOGGING_LEVELS),
    ),
)

BY_NAME: Final = {key.name: key for key in KEYS}
BY_VARIABLE: Final = {key.variable: key for key in KEYS if key.environment}
