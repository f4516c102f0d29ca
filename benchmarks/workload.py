"""Seeded ACLs and queries; the same bytes come out every time.

    w3    500 ACLs        a small cluster with six teams
    w1s   2,431 ACLs      w1 in small
    w1    606,201 ACLs    the shape of Kafka's own AuthorizerBenchmark: ten principals with 40,000 names each
    w2    1,000,000 ACLs  many tenants: dotted names, 30 % prefixed, 5 % deny, some hosts
    tenant-N              w2's shape with N ACLs

A workload is a directory with ``acls.jsonl`` (payloads as kafka-dump-log prints them) and query lists:
``distinct`` (all different), ``zipf`` (repeats as Zipf's law has them) and, for w1 and w1s, ``jmh`` (the one
query that AuthorizerBenchmark.testAuthorizer issues). What is drawn, and in which order, is pinned by a test:
figures of two runs are comparable only over equal bytes.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType

TOPIC, GROUP = int(ResourceType.TOPIC), int(ResourceType.GROUP)
CLUSTER, TRANSACTIONAL_ID = int(ResourceType.CLUSTER), int(ResourceType.TRANSACTIONAL_ID)
LITERAL, PREFIXED = int(PatternType.LITERAL), int(PatternType.PREFIXED)
ALL, READ, WRITE = int(AclOperation.ALL), int(AclOperation.READ), int(AclOperation.WRITE)
CREATE, DELETE, ALTER = int(AclOperation.CREATE), int(AclOperation.DELETE), int(AclOperation.ALTER)
DESCRIBE, IDEMPOTENT_WRITE = int(AclOperation.DESCRIBE), int(AclOperation.IDEMPOTENT_WRITE)
DESCRIBE_CONFIGS = int(AclOperation.DESCRIBE_CONFIGS)
ALTER_CONFIGS = int(AclOperation.ALTER_CONFIGS)
DENY, ALLOW = int(AclPermissionType.DENY), int(AclPermissionType.ALLOW)

ZIPF_EXPONENT = 1.1
#: A query generator that keeps repeating itself is stopped after this many draws for each query asked for.
DRAWS_PER_QUERY = 40

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


class Acl(NamedTuple):
    """One ACL without its id; codes are Kafka's."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class Query(NamedTuple):
    """May this principal do this, from this host?"""

    principal: str
    host: str
    operation: int
    resource_type: int
    resource_name: str


class Workload(NamedTuple):
    """What a generator gives: ACLs without repeats, and queries by the name of their list."""

    acls: list[tuple[str, Acl]]
    queries: dict[str, list[Query]]


def workload_directory(cache: Path, name: str) -> Path:
    """The directory with the named workload, written on the first call. KeyError: no such workload."""
    make = _generator(name)
    directory = cache / name
    if not directory.is_dir():
        unfinished = cache / f"{name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write_workload(make(), unfinished)
        unfinished.rename(directory)
    return directory


def write_workload(workload: Workload, directory: Path) -> None:
    """Write ``acls.jsonl`` and one file for each list of queries."""
    with (directory / "acls.jsonl").open("w", encoding="ascii") as file:
        file.writelines(map(_acl_line, workload.acls))
    for name, queries in workload.queries.items():
        with (directory / f"{name}.jsonl").open("w", encoding="ascii") as file:
            file.writelines(map(_query_line, queries))


def make_workload(name: str) -> Workload:
    """The named workload. KeyError: no such workload."""
    return _generator(name)()


def _generator(name: str) -> Callable[[], Workload]:
    if name.startswith("tenant-"):
        return lambda: tenant_of_size(int(name.removeprefix("tenant-")))
    return {"w3": _w3, "w1s": _w1s, "w1": jmh_shape, "w2": _w2}[name]


def _w3() -> Workload:
    return tenant(500, topics=60, principals=30, teams=6, seed=3, queries=20_000, wildcard_principals=3)


def _w2() -> Workload:
    return tenant(
        1_000_000,
        topics=100_000,
        principals=5_000,
        teams=300,
        seed=2,
        queries=100_000,
        wildcard_principals=20,
    )


def _w1s() -> Workload:
    return jmh_shape(resources=200, queries=20_000)


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


def jmh_shape(*, resources: int = 50_000, queries: int = 30_000) -> Workload:
    """The shape of AuthorizerBenchmark (kafka/jmh-benchmarks), whose parameters are these defaults.

    Ten principals have READ on every resource, one in five of them denied as well; every fifth resource is
    prefixed; ``*`` has an ACL for each of 5,000 hosts.
    """
    principals, deny_percent, prefix, base = 10, 20.0, "foo-bar35_resource-", "User:test-user"
    random = Random(801)
    acls: dict[Acl, None] = {}

    def allow(resource_type: int, name: str, pattern_type: int, principal: str, host: str) -> None:
        """ALLOW READ; and often DENY READ beside it."""
        for permission in (ALLOW, DENY):
            if permission == ALLOW or random.random() * 100.0 < deny_percent:
                acls[Acl(resource_type, name, pattern_type, principal, host, READ, permission)] = None

    for i in range(resources):
        for k in range(principals):
            principal = base + (str(k) if k else "")
            pattern_type = LITERAL if i % 5 else PREFIXED
            allow(TOPIC if i % 10 else GROUP, prefix + str(i), pattern_type, principal, "*")
    for i in range(10):
        allow(TOPIC, prefix, PREFIXED, base, f"127.0.0.{i}")
    for i in range(resources // 10):
        host = f"127.0.0{i}"  # sic: AuthorizerBenchmark leaves out the dot
        if host != "127.0.0.2":
            allow(TOPIC, "*", LITERAL, base, host)

    def draw() -> Query:
        kind = random.random()
        k = random.randrange(principals + 1)  # the last one is a user without ACLs
        i = random.randrange(int(resources * 1.1))  # and one resource in eleven has none
        operation = READ if kind < 0.55 else DESCRIBE if kind < 0.8 else WRITE
        return Query(
            base + (str(k) if k else ""),
            f"127.0.0.{random.randrange(12)}",
            operation,
            GROUP if random.random() < 0.15 else TOPIC,
            prefix + str(i),
        )

    workload = _with_queries(random, acls, draw, distinct=queries, pool=10_000, zipf=30_000)
    workload.queries["jmh"] = [Query(base, "127.0.0.1", WRITE, TOPIC, f"{prefix}95")]
    return workload


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

    return _with_queries(random, acls, draw, distinct=queries, pool=20_000, zipf=100_000)


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
    """A question that ``aim`` answers, as far as hosts and other ACLs let it."""
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


def _with_queries(
    random: Random, acls: Iterable[Acl], draw: Callable[[], Query], *, distinct: int, pool: int, zipf: int
) -> Workload:
    """Give the ACLs their ids and draw the queries, in the order that the generator's state asks for."""
    with_ids = [(_uuid(random), acl) for acl in acls]
    different: dict[Query, None] = {}
    for _ in range(distinct * DRAWS_PER_QUERY):
        if len(different) == distinct:
            break
        different[draw()] = None
    shuffled = list(different)
    random.shuffle(shuffled)
    popular = shuffled[:pool]
    weight, cumulative = 0.0, []
    for rank in range(1, len(popular) + 1):
        weight += 1.0 / rank**ZIPF_EXPONENT
        cumulative.append(weight)
    repeated = random.choices(popular, cum_weights=cumulative, k=zipf)
    return Workload(with_ids, {"distinct": list(different), "zipf": repeated})


def _uuid(random: Random) -> str:
    """Kafka's Uuid.randomUuid as text; it never begins with a dash, so that it can be an argument."""
    while True:
        text = base64.urlsafe_b64encode(random.randbytes(16)).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def _acl_line(acl: tuple[str, Acl]) -> str:
    acl_id, (resource_type, name, pattern_type, principal, host, operation, permission) = acl
    return (
        f'{{"type":"ACCESS_CONTROL_ENTRY_RECORD","version":0,"data":{{"id":"{acl_id}",'
        f'"resourceType":{resource_type},"resourceName":{json.dumps(name)},"patternType":{pattern_type},'
        f'"principal":{json.dumps(principal)},"host":"{host}","operation":{operation},'
        f'"permissionType":{permission}}}}}\n'
    )


def _query_line(query: Query) -> str:
    return (
        f'{{"principal":{json.dumps(query.principal)},"host":"{query.host}","operation":{query.operation},'
        f'"resourceType":{query.resource_type},"resourceName":{json.dumps(query.resource_name)}}}\n'
    )
