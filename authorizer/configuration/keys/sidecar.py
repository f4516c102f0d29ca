"""Keys of the sidecar: where it listens, who may ask, in which words."""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizer.configuration.keys.key import ConfigKey
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    ALLOW_PLAINTEXT,
    AUTH_OIDC_AUDIENCE,
    AUTH_OIDC_ISSUER,
    AUTH_OIDC_JWKS,
    AUTH_REQUIRED_LISTENERS,
    AUTH_TOKENS_FILE,
    DESCRIBE_PRINCIPALS,
    LISTENERS,
    PUBLIC_URL,
    RESOURCE_NAMES,
    SPIFFE_RULES,
    SSL_PRINCIPAL_RULES,
    TRUSTED_PROXIES,
    UNIX_PRINCIPALS,
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
    some_of,
    unix_principals,
)
from authorizer.configuration.listeners import LISTENERS_ALLOWED, split_list
from authorizer.configuration.principal_rules import RULES_ALLOWED
from authorizer.configuration.super_users import PRINCIPALS_ALLOWED, parse_principals
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
        parse=address,
    ),
    ConfigKey(
        name="aclog.authzen.subject.aliases",
        type="list",
        default="",
        allowed="alias:type pairs, separated by semicolons, such as user:User;service:User",
        doc="What AuthZEN's clients call principal types. Kafka's own are `User` and what a principal "
        "builder makes; their case matters.",
        parse=aliases(str),
    ),
    ConfigKey(
        name="aclog.authzen.resource.aliases",
        type="list",
        default="",
        allowed="alias:TYPE pairs, separated by semicolons, such as stream:TOPIC;record:TOPIC",
        doc="What AuthZEN's clients call resource types, beside Kafka's own names in any case.",
        parse=code_aliases(ResourceType),
    ),
    ConfigKey(
        name="aclog.authzen.action.aliases",
        type="list",
        default="",
        allowed="alias:OPERATION pairs, separated by semicolons, such as can_read:READ;can_write:WRITE",
        doc="What AuthZEN's clients call operations, beside Kafka's own names in any case. An action search "
        "answers with an operation's aliases, and with Kafka's name where it has none.",
        parse=code_aliases(AclOperation),
    ),
    ConfigKey(
        name=RESOURCE_NAMES,
        type="string",
        default=None,
        allowed="a file with a resource a line, its type and its name: TOPIC orders",
        doc="Which resources exist, for resource searches: the log of ACLs does not know which topics there "
        "are. The file is read again when it changes. Unset, and for a type that the file has none of: the "
        "names that literal ACLs mention.",
        parse=optional_text,
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
