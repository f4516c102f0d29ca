"""Keys of the sidecar: listeners, principals, AuthZEN names, console and authentication."""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizer.api.principal_lists import PRINCIPALS_ALLOWED
from authorizer.configuration.keys.key import (
    ConfigKey,
    KeyGroup,
    OptionalKey,
    boolean_key,
    integer_key,
    list_key,
    text_key,
)
from authorizer.configuration.keys.names import (
    ACLOG_LISTENERS,
    ADMIN_LISTENERS,
    AUTH_OIDC_AUDIENCE,
    AUTH_OIDC_ISSUER,
    AUTH_OIDC_JWKS,
    AUTH_REQUIRED_LISTENERS,
    AUTH_TOKENS_FILE,
    CONSOLE_COUNTS,
    CONSOLE_HISTORY,
    CONSOLE_LINT_RULES,
    CONSOLE_LISTENERS,
    CONSOLE_NAME_TEAMS,
    CONSOLE_PEERS,
    CONSOLE_REQUESTS,
    CONSOLE_TEAMS,
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
)
from authorizer.configuration.keys.values import (
    NAME_TEAMS_ALLOWED,
    TEAMS_ALLOWED,
    address,
    aliases,
    base_url,
    code_aliases,
    jwks,
    names,
    networks,
    principals,
    required_text,
    sidecars,
    some_of,
    team_pattern,
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


class SidecarKeys(KeyGroup):
    """Keys of the sidecar, but its limits."""

    aclog_listeners_text = OptionalKey(
        name=ACLOG_LISTENERS,
        type_name="list",
        allowed=LISTENERS_ALLOWED,
        doc=f"Addresses on which the sidecar listens, instead of {LISTENERS}: the key to add to a broker's "
        "own file.",
        parse=str,
    )
    workers = integer_key(
        WORKERS,
        1,
        "Number of worker processes of `aclog serve` that share the listeners, one for each core that should "
        "decide. Each worker follows the log and holds all ACLs in its memory. 1 is a single process. With "
        f"more, or with {CONSOLE_LISTENERS}, a supervisor process restarts workers that die.",
        minimum=1,
        maximum=64,
    )
    workers_hang_timeout_ms = integer_key(
        "aclog.workers.hang.timeout.ms",
        60_000,
        f"With several {WORKERS}, or {CONSOLE_LISTENERS}: a process with an event loop that has not run "
        "for this time is killed and restarted. Of one process /livez fails if the event loop of Kafka's "
        "protocol has not run for this time. 0: never.",
        minimum=0,
        unit="milliseconds",
        is_dynamic=True,
    )
    allow_plaintext_beyond_loopback = boolean_key(
        "aclog.allow.plaintext.beyond.loopback",
        "Whether PLAINTEXT listeners may have other addresses than loopback. Every client of such a listener "
        "is User:ANONYMOUS, and everyone on the network path can read and change requests and answers.",
    )
    unix_principals = list_key(
        UNIX_PRINCIPALS,
        "uid:NUMBER=Type:name or gid:NUMBER=Type:name, separated by semicolons, such as "
        "uid:1000=User:gateway;gid:200=User:ops",
        "Principals of the processes that connect to Unix sockets, by their user or group id, which the "
        "kernel reports; the user id wins. A process that is not listed is User:ANONYMOUS. "
        "`aclog.sock` in a log's directory is not affected: only the directory's owner can open it.",
        unix_principals,
    )
    ssl_spiffe_mapping_rules = list_key(
        SPIFFE_RULES,
        RULES_ALLOWED,
        "The principal of a client whose certificate has a SPIFFE id (`spiffe://...` as a URI in the "
        f"subject alternative name): rules as in {SSL_PRINCIPAL_RULES}, on that id, whose scheme and trust "
        "domain are in lower case. DEFAULT is the id itself. A client that no rule matches gets no answer; "
        "neither does one whose certificate has several SPIFFE ids or an invalid one. Unset: the subject "
        "determines the principal of every client.",
        str,
    )
    ssl_spiffe_required = boolean_key(
        SPIFFE_REQUIRED,
        "Refuse clients whose certificate has no SPIFFE id. If false, the subject of such a certificate "
        f"determines the principal, by {SSL_PRINCIPAL_RULES}.",
        allowed=f"true or false; true only with {SPIFFE_RULES}",
    )
    sidecar_default_host = OptionalKey(
        name="aclog.sidecar.default.host",
        type_name="string",
        allowed="an IP address",
        doc="The host of an AuthZEN request that has none. Unset: such a request is refused.",
        parse=address,
        is_per_cluster=True,
    )
    authzen_subject_aliases = list_key(
        "aclog.authzen.subject.aliases",
        "alias:type pairs, separated by semicolons, such as user:User;service:User",
        "Names of AuthZEN clients for principal types. Kafka's own are `User` and those of a principal "
        "builder; they are case-sensitive.",
        aliases(str),
        is_per_cluster=True,
    )
    authzen_resource_aliases = list_key(
        "aclog.authzen.resource.aliases",
        "alias:TYPE pairs, separated by semicolons, such as stream:TOPIC;record:TOPIC",
        "Names of AuthZEN clients for resource types, in addition to Kafka's own names in any case.",
        code_aliases(ResourceType),
        is_per_cluster=True,
    )
    authzen_action_aliases = list_key(
        "aclog.authzen.action.aliases",
        "alias:OPERATION pairs, separated by semicolons, such as can_read:READ;can_write:WRITE",
        "Names of AuthZEN clients for operations, in addition to Kafka's own names in any case. An "
        "action search returns an operation's aliases, or Kafka's name if it has none.",
        code_aliases(AclOperation),
        is_per_cluster=True,
    )
    search_resource_names = text_key(
        RESOURCE_NAMES,
        "a file with a resource a line, its type and its name: TOPIC orders",
        "The existing resources, for resource searches. The file is read again when it changes. Where it is "
        "unset or has no resource of a type: a cluster's topics if the log is a cluster's metadata log, else "
        "the names of literal ACLs.",
        is_per_cluster=True,
    )
    sidecar_public_url = OptionalKey(
        name=PUBLIC_URL,
        type_name="url",
        allowed="an http or https URL without query and fragment, such as https://acls.example.org",
        doc="The URL at which clients reach the sidecar through a proxy, for "
        "/.well-known/authzen-configuration. Unset: the address of the listener. The request's Host "
        "header is never repeated.",
        parse=base_url,
    )
    trusted_proxies = list_key(
        TRUSTED_PROXIES,
        "IP addresses and networks, separated by commas, such as 127.0.0.1,10.1.0.0/16",
        "Proxies whose X-Forwarded-For header is trusted: the address in the header, not the proxy's, is "
        "then the caller's address, which ACL hosts are matched against. Name only proxies that set or "
        "overwrite that header. Unset: the header has no effect.",
        networks,
    )
    describe_principals = list_key(
        DESCRIBE_PRINCIPALS,
        PRINCIPALS_ALLOWED,
        "Principals that may send requests about other principals without an ACL. Other callers need "
        "Describe on the cluster for that; every caller may send requests about itself. This key gives no "
        "right to list or change ACLs. "
        "`User:ANONYMOUS` is every caller of a plaintext listener; `User:*` is an ordinary name here.",
        partial(principals, key=DESCRIBE_PRINCIPALS),
        is_dynamic=True,
        is_per_cluster=True,
    )
    auth_required_listeners = list_key(
        AUTH_REQUIRED_LISTENERS,
        f"names out of {LISTENERS} or {ADMIN_LISTENERS}, separated by commas",
        "Listeners that answer User:ANONYMOUS only on /livez, /readyz and /openapi.json: any other "
        "request without a token, on a connection without a principal, gets 401. A listener of Kafka's "
        "protocol closes such connections.",
        names,
    )
    console_listener_names = list_key(
        CONSOLE_LISTENERS,
        f"names out of {LISTENERS}, separated by commas; or * for all",
        "Listeners with the web console at `/`: who may do what, why, and since when. The page itself "
        "contains no ACLs; it requests them as any client does, and a caller that may not describe the "
        "cluster sees only its own access. A separate process computes the console's answers; it holds all "
        "ACLs in its memory as well.",
        names,
    )
    console_teams = OptionalKey(
        name=CONSOLE_TEAMS,
        type_name="string",
        allowed=TEAMS_ALLOWED,
        doc="The team of a principal in the console and in `aclog report`: the group of the expression. It "
        "must match the entire principal, with its type; it is matched in linear time, so it has no "
        "lookaheads and no backreferences. Principals that it does not match are grouped by the start of "
        "their names up to a separator, as all are if it is unset.",
        parse=partial(team_pattern, key=CONSOLE_TEAMS, allowed=TEAMS_ALLOWED),
        is_per_cluster=True,
    )
    console_name_teams = OptionalKey(
        name=CONSOLE_NAME_TEAMS,
        type_name="string",
        allowed=NAME_TEAMS_ALLOWED,
        doc="The team of a name (of a topic, a group, ...) in the console's matrix: the group of the "
        "expression. It must match the entire name, or the entire prefix of an ACL, and is matched in linear "
        "time. Names that it does not match are grouped by their start up to a separator, as all are if it "
        "is unset.",
        parse=partial(team_pattern, key=CONSOLE_NAME_TEAMS, allowed=NAME_TEAMS_ALLOWED),
        is_per_cluster=True,
    )
    console_lint_rules = text_key(
        CONSOLE_LINT_RULES,
        "a file of rules as of `aclog lint --rules`, in TOML",
        "The rules of the findings in the console and in `aclog report`. The console lists findings that the "
        "file accepts apart, and does not count them. The file is read again when it changes.",
        is_per_cluster=True,
    )
    console_requests = text_key(
        CONSOLE_REQUESTS,
        "a file as of `aclog review --requests`, such as one that `aclog review --distinct` writes",
        "Requests of an authorizer's log: the console shows with each right when it was last used. The file "
        "is read again when it changes; it has at most 256 MB.",
        is_per_cluster=True,
    )
    console_peers = list_key(
        CONSOLE_PEERS,
        "addresses of sidecars, separated by commas: http(s)://HOST:PORT, with /clusters/NAME behind "
        "it for one of several clusters, or unix:PATH",
        "Other nodes of the same log: the console shows the status of each, and whether it has the same "
        "ACLs at the same offset. The node requests /v1/state from them while the console is open.",
        sidecars,
        is_per_cluster=True,
    )
    console_peers_token_file = text_key(
        "aclog.console.peers.token.file",
        "a file with a bearer token and nothing else",
        f"The token for requests to {CONSOLE_PEERS}, if their listeners accept one. The file is read for "
        "each request. The token is sent only over https, a Unix socket or to this machine.",
        is_per_cluster=True,
    )
    console_peers_ca_file = text_key(
        "aclog.console.peers.ca.file",
        "a file in PEM",
        f"Authorities trusted to sign the certificates of {CONSOLE_PEERS}. Unset: the system's.",
        is_per_cluster=True,
    )
    console_peers_certificate_file = text_key(
        "aclog.console.peers.certificate.file",
        "a file in PEM, with its key",
        f"The client certificate for {CONSOLE_PEERS} (mutual TLS).",
        is_per_cluster=True,
    )
    console_history = text_key(
        CONSOLE_HISTORY,
        "the --output of `aclog spark changes`, as a path or a URL that fsspec supports",
        "A history for the console's timeline: the time before the log's start, and the gaps of a compacted "
        "topic. It is read from the job's Parquet files, without Spark, when the console is opened for the "
        "first time: up to 20,000 states.",
        is_per_cluster=True,
    )
    console_counts = text_key(
        CONSOLE_COUNTS,
        "the --output of `aclog spark counts`, as a path or a URL that fsspec supports",
        "Counts for the console's charts, from the first record that the job has read, also where the log no "
        "longer has it. They are read from the job's Parquet files, without Spark, when the console is "
        "opened; Delta Lake tables are not supported.",
        is_per_cluster=True,
    )
    auth_tokens_file = text_key(
        AUTH_TOKENS_FILE,
        "a file that `aclog token create --file` makes",
        "Hashes of bearer tokens, one line each: PRINCIPAL:HASH. A changed file takes effect within about a "
        "second; a token that is no longer in it is refused from then on. An unusable file changes nothing.",
    )
    auth_oidc_jwks = OptionalKey(
        name=AUTH_OIDC_JWKS,
        type_name="url",
        allowed="a file, or an https URL (http on a loopback address), of a JSON Web Key Set",
        doc="The keys with which an issuer signs its tokens (OpenID Connect's jwks_uri). If set, JSON Web "
        f"Tokens signed with one of them are accepted. It requires {AUTH_OIDC_ISSUER}, {AUTH_OIDC_AUDIENCE} "
        "and `pip install '.[oidc]'`. A changed file takes effect within about a second. A URL is "
        "requested every aclog.auth.oidc.jwks.refresh.ms, and for a token with an unknown key at most every "
        "ten seconds. If that fails, the previous keys stay valid. Redirects are not followed.",
        parse=jwks,
    )
    auth_oidc_jwks_refresh_ms = integer_key(
        "aclog.auth.oidc.jwks.refresh.ms",
        5 * 60 * 1000,
        f"Interval between requests of {AUTH_OIDC_JWKS}, if it is a URL: a key that the issuer has withdrawn "
        "is accepted for at most this time.",
        minimum=1000,
        unit="milliseconds",
    )
    auth_oidc_issuer = text_key(
        AUTH_OIDC_ISSUER,
        "the issuer's `iss`, such as https://login.example.org/realms/kafka",
        "The issuer whose tokens are accepted: their exact `iss`.",
    )
    auth_oidc_audience = list_key(
        AUTH_OIDC_AUDIENCE,
        "values of `aud`, separated by commas",
        "Accepted audiences: a token's `aud` must contain one of them.",
        lambda text: tuple(split_list(text)),
    )
    auth_oidc_principal_claim = ConfigKey(
        name="aclog.auth.oidc.principal.claim",
        type_name="string",
        default="sub",
        allowed="the name of a claim whose value is a string",
        doc="The claim that names the principal: `User:` and its value.",
        parse=required_text,
    )
    auth_oidc_algorithms = list_key(
        "aclog.auth.oidc.algorithms",
        f"some of {', '.join(TOKEN_ALGORITHMS)}, separated by commas",
        "Accepted signature algorithms of tokens: never `none`, and never one with a shared secret.",
        some_of(TOKEN_ALGORITHMS),
        default=",".join(TOKEN_ALGORITHMS),
    )
    auth_oidc_leeway_ms = integer_key(
        "aclog.auth.oidc.leeway.ms",
        30_000,
        "Tolerated difference between the issuer's clock and this one: a token is accepted this much earlier "
        "and later.",
        minimum=0,
        maximum=300_000,
        unit="milliseconds",
    )
