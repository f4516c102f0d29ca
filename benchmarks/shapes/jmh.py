"""The shape of Kafka's own AuthorizerBenchmark."""

from __future__ import annotations

from random import Random

from benchmarks.shapes.drawing import (
    ALLOW,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    Acl,
    Query,
    Workload,
    with_queries,
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

    workload = with_queries(random, acls, draw, distinct=queries, pool=10_000, zipf=30_000)
    workload.queries["jmh"] = [Query(base, "127.0.0.1", WRITE, TOPIC, f"{prefix}95")]
    return workload
