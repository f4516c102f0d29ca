"""Many teams on one cluster: dotted names, a third of the ACLs prefixed, some for one host, a few denying."""

from __future__ import annotations

from random import Random

from benchmarks.shapes.drawing import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Acl,
    Query,
    Workload,
    with_queries,
)

_EVENTS = [
    "created", "updated", "deleted", "shipped", "paid", "refunded", "failed", "retried", "opened",
    "closed", "login", "logout", "viewed", "clicked", "scored", "ranked", "indexed", "synced",
    "imported", "exported", "audited", "archived", "billed", "settled", "matched", "priced",
    "quoted", "reserved", "released", "expired", "renewed",
]  # fmt: skip
_DOMAINS = [
    "orders", "payments", "users", "catalog", "search", "billing", "shipping", "inventory", "fraud",
    "risk", "ads", "feed", "chat", "media", "pricing", "audit", "ledger", "identity", "notify",
    "metrics",
]  # fmt: skip
_REGIONS = ("eu", "us", "ap", "sa")
_STAGES = ("raw", "enriched", "dlq", "retry")
_HOSTS = [f"10.0.{i // 4}.{10 + i}" for i in range(8)]
_TOPIC_OPERATIONS = [READ, WRITE, DESCRIBE, CREATE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL]
_TOPIC_OPERATION_WEIGHTS = [40, 25, 12, 5, 4, 2, 6, 3, 3]


def tenant_of_size(acls: int) -> Workload:
    """W2's shape and proportions with another number of ACLs."""
    return tenant(
        acls,
        topics=acls // 10,
        principals=max(20, acls // 200),
        teams=max(6, acls * 3 // 10_000),
        seed=2,
        queries=20_000,
        wildcard_principals=3,
    )


def tenant(
    size: int,
    *,
    topics: int,
    principals: int,
    teams: int,
    seed: int,
    queries: int,
    wildcard_principals: int,
) -> Workload:
    """Many teams on one cluster: ``<team>.<domain>.<event>`` topics, a team's groups and transactions."""
    random = Random(seed)
    team_names = [f"team{i:03}" if i % 3 else f"org-{chr(97 + i % 26)}{i}" for i in range(teams)]
    topic_names, topics_of = _topics(random, team_names, topics)
    principal_names = [f"User:svc-{team_names[i % teams]}-{i}" for i in range(principals)]
    principals_of = {team: principal_names[j::teams] for j, team in enumerate(team_names)}
    acls: dict[Acl, None] = {}

    for i in range(wildcard_principals):
        monitor = f"User:monitor-{i}"
        acls[Acl(TOPIC, "*", LITERAL, monitor, "*", DESCRIBE if i % 2 else DESCRIBE_CONFIGS, ALLOW)] = None
        acls[Acl(GROUP, "*", LITERAL, monitor, "*", DESCRIBE, ALLOW)] = None
    for principal in principal_names[: max(5, principals // 50)]:
        acls[Acl(CLUSTER, "kafka-cluster", LITERAL, principal, "*", IDEMPOTENT_WRITE, ALLOW)] = None

    while len(acls) < size:
        team = random.choice(team_names)
        kind, prefixed = random.random(), random.random() < 0.30
        if kind < 0.85:
            resource_type = TOPIC
            operation = random.choices(_TOPIC_OPERATIONS, _TOPIC_OPERATION_WEIGHTS)[0]
            if not topics_of[team]:
                continue
            name = random.choice(topics_of[team])
            if prefixed:
                name = _topic_prefix(random, name)
        elif kind < 0.95:
            resource_type = GROUP
            operation = random.choices([READ, DESCRIBE, DELETE, ALL], [75, 15, 5, 5])[0]
            name = f"{team}.{random.choice(_DOMAINS)}-app"
            if not prefixed:
                name += f"-{random.randrange(40)}"
            elif random.random() < 0.5:
                name = f"{team}."
        else:
            resource_type = TRANSACTIONAL_ID
            operation = random.choices([WRITE, DESCRIBE, ALL], [80, 15, 5])[0]
            name = f"{team}.{random.choice(_DOMAINS)}-txn"
            if not prefixed:
                name += f"-{random.randrange(20)}"
        principal = _grantee(random, principals_of[team], principal_names)
        host = "*" if random.random() < 0.9 else random.choice(_HOSTS)
        permission = DENY if random.random() < 0.05 else ALLOW
        pattern_type = PREFIXED if prefixed else LITERAL
        acls[Acl(resource_type, name, pattern_type, principal, host, operation, permission)] = None

    all_acls = list(acls)
    denying = [acl for acl in all_acls if acl.permission_type == DENY]

    def draw() -> Query:
        kind = random.random()
        host = (
            random.choice(_HOSTS)
            if random.random() < 0.5
            else f"10.9.{random.randrange(4)}.{random.randrange(1, 50)}"
        )
        if kind < 0.70:  # aimed at an ACL, at one that denies more often than they occur
            aim = random.choice(denying if kind < 0.12 else all_acls)
            return _query_at(random, aim, host, topic_names, topics_of, principal_names)
        if kind < 0.95:  # anybody, any topic: mostly a miss
            return Query(
                random.choice(principal_names),
                host,
                random.choice([READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS]),
                TOPIC,
                random.choice(topic_names),
            )
        # No ACL covers the topic, except those on `*`.
        nobody = random.choice(principal_names)
        return Query(nobody, host, READ, TOPIC, f"tmp-{random.randrange(10**6)}.nothing")

    return with_queries(random, acls, draw, distinct=queries, pool=20_000, zipf=100_000)


def _topics(random: Random, teams: list[str], count: int) -> tuple[list[str], dict[str, list[str]]]:
    """This many different topics in the order drawn, and those of each team."""
    names: list[str] = []
    names_of: dict[str, list[str]] = {team: [] for team in teams}
    while len(names) < count:
        team = random.choice(teams)
        name = f"{team}.{random.choice(_DOMAINS)}.{random.choice(_EVENTS)}"
        kind = random.randrange(12)
        if kind < 4:
            name += f".v{kind}"
        elif kind < 8:
            name += f"-{random.choice(_REGIONS)}"
        else:
            name += f".{random.choice(_STAGES)}.v{kind - 8}"
        if names_of[team] and random.random() < 0.02:
            name += f"-{random.randrange(1000)}"
        names_of[team].append(name)
        names.append(name)
        if len(names) == count:
            names = list(dict.fromkeys(names))  # and go on, if some were repeats
    for team in teams:
        names_of[team] = list(dict.fromkeys(names_of[team]))
    return names, names_of


def _topic_prefix(random: Random, topic: str) -> str:
    """All topics of the team, of its domain, or those that differ in their last letters."""
    kind = random.random()
    team, domain, *_ = topic.split(".")
    if kind < 0.15:
        return f"{team}."
    if kind < 0.6:
        return f"{team}.{domain}."
    return topic[: len(topic) - random.randrange(1, 4)]


def _grantee(random: Random, of_team: list[str], everyone: list[str]) -> str:
    kind = random.random()
    if kind < 0.005:
        return "User:*"
    return random.choice(of_team) if kind < 0.8 and of_team else random.choice(everyone)


def _query_at(
    random: Random,
    aim: Acl,
    any_host: str,
    topics: list[str],
    topics_of: dict[str, list[str]],
    principals: list[str],
) -> Query:
    """A request that ``aim`` decides, as far as hosts and other ACLs permit."""
    name = aim.resource_name
    if aim.pattern_type == PREFIXED:
        if aim.resource_type == TOPIC:
            candidates = topics_of.get(name.split(".")[0])
            topic = random.choice(candidates) if candidates else name
            if topic.startswith(name):
                name = topic
            else:
                name += random.choice(["x", "v1", "created-eu", "ed.v2", "-17"])
        else:
            name += f"-{random.randrange(60)}"
    elif name == "*":
        name = random.choice(topics)
    operation = random.choice([READ, WRITE, DESCRIBE]) if aim.operation == ALL else aim.operation
    principal = random.choice(principals) if aim.principal == "User:*" else aim.principal
    return Query(principal, any_host if aim.host == "*" else aim.host, operation, aim.resource_type, name)
