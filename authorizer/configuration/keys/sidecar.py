"""Keys of the sidecar: where it listens, who may ask, in which words."""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizer.api.principal_lists import PRINCIPALS_ALLOWED, parse_principals
from authorizer.configuration.keys.key import ConfigKey
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    ALLOW_PLAINTEXT,
    AUTH_OIDC_AUDIENCE,
    AUTH_OIDC_ISSUER,
    AUTH_OIDC_JWKS,
    AUTH_REQUIRED_LISTENERS,
    AUTH_TOKENS_FILE,
    CONSOLE_COUNTS,
    CONSOLE_HISTORY,
    CONSOLE_LISTENERS,
    CONSOLE_PEERS,
    CONSOLE_PEERS_CA,
    CONSOLE_PEERS_CERTIFICATE,
    CONSOLE_PEERS_TOKEN,
    DESCRIBE_PRINCIPALS,
    LISTENERS,
    PUBLIC_URL,
    RESOURCE_NAMES,
    SPIFFE_REQUIRED,
    SPIFFE_RULES,
    SSL_PRINCIPAL_RULES,
    TRUSTED_PROXIES,
    UNIX_PRINCIPALS,
    WORKERS,
    WORKERS_HANG_MS,
)
from authorizer.configuration.keys.values import (
    address,
    aliases,
    base_url,
    boolean,
    code_aliases,
    integer,
    jwks,
    names,
    networks,
    optional_text,
    required_text,
    sidecars,
    some_of,
    unix_principals,
)
from authorizer.configuration.listeners import LISTENERS_ALLOWED, split_list
from authorizer.configuration.principal_rules import RULES_ALLOWED
from records.acl import AclOperation, ResourceType

#: Values of ``aclog.auth.oidc.algorithms``: asymmetric ones only, so that no public key is ever a secret.
TOKEN_ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

SIDECAR_KEYS: Final = (
    ConfigKey(
        name=ACLOG_LISTENERS,
        type="list",
        default=None,
        allowed=LISTENERS_ALLOWED,
        doc=f"Where the sidecar listens, over {LISTENERS}: the key to add to a broker's own file.",
    ),
    ConfigKey(
        name=WORKERS,
        type="int",
        default="1",
        allowed="a whole number, 1 to 64",
        doc="How many processes of `aclog serve` answer, on the same listeners: one for each core that is to "
        "decide. Each follows the log by itself and has all ACLs in its memory. With 1 there is one process "
        f"in all; with more, or with {CONSOLE_LISTENERS}, another one sees to them, and starts one again "
        "that dies.",
        parse=integer(1, 64),
    ),
    ConfigKey(
        name=WORKERS_HANG_MS,
        type="int",
        default="60000",
        allowed="a whole number, 0 or more",
        doc=f"With several {WORKERS}, or {CONSOLE_LISTENERS}: one whose event loop has not turned for so "
        "long hangs. It is ended, and started again as one that dies. 0: never.",
        parse=integer(0),
        dynamic=True,
    ),
    ConfigKey(
        name=ALLOW_PLAINTEXT,
        type="boolean",
        default="false",
        allowed="true or false",
        doc="Whether PLAINTEXT listeners may be on other addresses than loopback. Everyone who reaches one "
        "is User:ANONYMOUS, and everyone on the way reads and changes what is said.",
        parse=boolean,
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
        parse=unix_principals,
    ),
    ConfigKey(
        name=SPIFFE_RULES,
        type="list",
        default="",
        allowed=RULES_ALLOWED,
        doc="What a client is called whose certificate has a SPIFFE id (`spiffe://...` as a URI in the "
        f"subject alternative name): as {SSL_PRINCIPAL_RULES}, from that id, whose scheme and trust domain "
        "are in lower case; DEFAULT is the id itself. Who no rule matches may ask nothing, nor may a "
        "certificate with several SPIFFE ids, or with one that is not well-formed. Unset: the subject "
        "counts, for all clients.",
    ),
    ConfigKey(
        name=SPIFFE_REQUIRED,
        type="boolean",
        default="false",
        allowed=f"true or false; true only with {SPIFFE_RULES}",
        doc="Refuse clients whose certificate has no SPIFFE id. Otherwise the subject of such a certificate "
        f"counts, by {SSL_PRINCIPAL_RULES}.",
        parse=boolean,
    ),
    ConfigKey(
        name="aclog.sidecar.default.host",
        type="string",
        default=None,
        allowed="an IP address",
        doc="The host that an AuthZEN request is decided for when it carries none. Unset: such a request "
        "is refused.",
        parse=address,
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.authzen.subject.aliases",
        type="list",
        default="",
        allowed="alias:type pairs, separated by semicolons, such as user:User;service:User",
        doc="What AuthZEN's clients call principal types. Kafka's own are `User` and what a principal "
        "builder makes; their case matters.",
        parse=aliases(str),
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.authzen.resource.aliases",
        type="list",
        default="",
        allowed="alias:TYPE pairs, separated by semicolons, such as stream:TOPIC;record:TOPIC",
        doc="What AuthZEN's clients call resource types, beside Kafka's own names in any case.",
        parse=code_aliases(ResourceType),
        of_cluster=True,
    ),
    ConfigKey(
        name="aclog.authzen.action.aliases",
        type="list",
        default="",
        allowed="alias:OPERATION pairs, separated by semicolons, such as can_read:READ;can_write:WRITE",
        doc="What AuthZEN's clients call operations, beside Kafka's own names in any case. An action search "
        "answers with an operation's aliases, and with Kafka's name where it has none.",
        parse=code_aliases(AclOperation),
        of_cluster=True,
    ),
    ConfigKey(
        name=RESOURCE_NAMES,
        type="string",
        default=None,
        allowed="a file with a resource a line, its type and its name: TOPIC orders",
        doc="Which resources exist, for resource searches. The file is read again when it changes. Unset, "
        "and for a type that the file has none of: a cluster's topics where the log is the cluster's own, "
        "else the names that literal ACLs mention.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=PUBLIC_URL,
        type="url",
        default=None,
        allowed="an http or https URL without query and fragment, such as https://acls.example.org",
        doc="Where clients reach the sidecar, if that is through a proxy: what "
        "/.well-known/authzen-configuration says. Unset: the address of the listener. The request's Host "
        "header is never repeated.",
        parse=base_url,
    ),
    ConfigKey(
        name=TRUSTED_PROXIES,
        type="list",
        default="",
        allowed="IP addresses and networks, separated by commas, such as 127.0.0.1,10.1.0.0/16",
        doc="Peers whose X-Forwarded-For header is believed: the address in it, not the peer's own, is then "
        "the caller's, which ACL hosts are matched against. Name only what sets or overwrites that header. "
        "Unset: the header changes nothing.",
        parse=networks,
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
        dynamic=True,
        of_cluster=True,
    ),
    ConfigKey(
        name=AUTH_REQUIRED_LISTENERS,
        type="list",
        default="",
        allowed=f"names out of {LISTENERS}, separated by commas",
        doc="Listeners that answer User:ANONYMOUS nothing but /livez, /readyz and /openapi.json: a request "
        "without a token, on a connection without a principal of its own, gets 401.",
        parse=names,
    ),
    ConfigKey(
        name=CONSOLE_LISTENERS,
        type="list",
        default="",
        allowed=f"names out of {LISTENERS}, separated by commas; or * for all",
        doc="Listeners with a page for people at `/`: who may do what, why, and since when. The page itself "
        "says nothing of any ACL; what it shows it asks for as any client does, and who may not describe the "
        "cluster sees their own answers alone. It is worked out in a process of its own, which has all ACLs "
        "in its memory, too.",
        parse=names,
    ),
    ConfigKey(
        name=CONSOLE_PEERS,
        type="list",
        default="",
        allowed="addresses of sidecars, separated by commas: http(s)://HOST:PORT, where it follows several "
        "clusters with /clusters/NAME behind it, or unix:PATH",
        doc="Other nodes of the same log: the console shows where each stands, and whether it has the same "
        "ACLs at the same offset. The node asks them for /v1/state, when the console is looked at.",
        parse=sidecars,
        of_cluster=True,
    ),
    ConfigKey(
        name=CONSOLE_PEERS_TOKEN,
        type="string",
        default=None,
        allowed="a file with a bearer token and nothing else",
        doc=f"The token that {CONSOLE_PEERS} are asked with, where their listeners take one. It is read anew "
        "each time, and sent over https, a Unix socket or to this machine only.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=CONSOLE_PEERS_CA,
        type="string",
        default=None,
        allowed="a file in PEM",
        doc=f"Who may have signed the certificates of {CONSOLE_PEERS}. Unset: the system's authorities.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=CONSOLE_PEERS_CERTIFICATE,
        type="string",
        default=None,
        allowed="a file in PEM, with its key",
        doc=f"The certificate that is shown to {CONSOLE_PEERS} (mutual TLS).",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=CONSOLE_HISTORY,
        type="string",
        default=None,
        allowed="what --output of `aclog spark changes` named, as a path or a URL that fsspec knows",
        doc="A history for the console's track of time: what was before the log's own beginning, and where "
        "a compacted topic has holes. It is read without Spark, in the job's Parquet files, when the console "
        "is looked at for the first time: up to 20,000 moments.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=CONSOLE_COUNTS,
        type="string",
        default=None,
        allowed="what --output of `aclog spark counts` named, as a path or a URL that fsspec knows",
        doc="Counts that the console draws over time: from the first record that the job has read, where the "
        "log itself has forgotten it. They are read without Spark, in the job's Parquet files, when the "
        "console is looked at; tables of Delta Lake are not.",
        parse=optional_text,
        of_cluster=True,
    ),
    ConfigKey(
        name=AUTH_TOKENS_FILE,
        type="string",
        default=None,
        allowed="a file that `aclog token create --file` makes",
        doc="Bearer tokens by their hashes, one line each: PRINCIPAL:HASH. A changed file is taken up within "
        "about a second, and a token that is no longer in it is refused from then on; a file that cannot be "
        "used changes nothing.",
        parse=optional_text,
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
        parse=jwks,
    ),
    ConfigKey(
        name="aclog.auth.oidc.jwks.refresh.ms",
        type="long",
        default=str(5 * 60 * 1000),
        allowed="a whole number of milliseconds, 1000 or more",
        doc=f"How often {AUTH_OIDC_JWKS} is asked, if it is a URL: a key that the issuer has withdrawn is "
        "believed for so long.",
        parse=integer(1000),
    ),
    ConfigKey(
        name=AUTH_OIDC_ISSUER,
        type="string",
        default=None,
        allowed="the issuer's `iss`, such as https://login.example.org/realms/kafka",
        doc="Whose tokens are taken: `iss`, as it is in them.",
        parse=optional_text,
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
        parse=required_text,
    ),
    ConfigKey(
        name="aclog.auth.oidc.algorithms",
        type="list",
        default=",".join(TOKEN_ALGORITHMS),
        allowed=f"some of {', '.join(TOKEN_ALGORITHMS)}, separated by commas",
        doc="With which algorithms tokens may be signed: never none, and never with a shared secret.",
        parse=some_of(TOKEN_ALGORITHMS),
    ),
    ConfigKey(
        name="aclog.auth.oidc.leeway.ms",
        type="long",
        default="30000",
        allowed="a whole number of milliseconds, 0 to 300000",
        doc="How far the issuer's clock may be from this one's: so much longer a token is taken, and so much "
        "earlier.",
        parse=integer(0, 300_000),
    ),
)
