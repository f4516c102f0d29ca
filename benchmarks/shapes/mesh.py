"""A mesh of services: X.509 principals, most ACLs for one host, one in five denying."""

from __future__ import annotations

from random import Random

from benchmarks.shapes.drawing import (
    ALL,
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

_HOSTS = [f"10.{i // 256 + 1}.{i % 256}.7" for i in range(512)]
_ACLS_OF_NAME = 60
_ACLS_OF_SERVICE = 80
_SERVICES_OF_NAMESPACE = 25
_OPERATIONS, _WEIGHTS = (READ, WRITE, DESCRIBE, ALL), (45, 30, 15, 10)


def mesh(size: int) -> Workload:
    """Services of many namespaces, on names that each have some sixty ACLs."""
    random = Random(509)
    services = max(_SERVICES_OF_NAMESPACE, size // _ACLS_OF_SERVICE)
    principals = [_principal(number) for number in range(services)]
    names = [
        f"{_namespace(random.randrange(services))}.events.{number:05}"
        for number in range(max(20, size // _ACLS_OF_NAME))
    ]
    acls: dict[Acl, None] = {}
    while len(acls) < size:
        kind, name = random.random(), random.choice(names)
        prefixed = kind < 0.2
        if prefixed:
            name = name[: -random.randrange(1, 4)]
        acl = Acl(
            GROUP if kind > 0.9 else TOPIC,
            name,
            PREFIXED if prefixed else LITERAL,
            random.choice(principals),
            random.choice(_HOSTS) if random.random() < 0.6 else "*",
            random.choices(_OPERATIONS, _WEIGHTS)[0],
            DENY if random.random() < 0.2 else ALLOW,
        )
        acls[acl] = None
    all_acls = list(acls)

    def draw() -> Query:
        """Two thirds ask for what an ACL is about, from its host; the others for anything, from anywhere."""
        host = random.choice(_HOSTS)
        if random.random() < 0.67:
            aim = random.choice(all_acls)
            name = aim.resource_name + (f"{random.randrange(1_000)}" if aim.pattern_type == PREFIXED else "")
            operation = random.choice((READ, WRITE)) if aim.operation == ALL else aim.operation
            aimed_host = host if aim.host == "*" else aim.host
            return Query(aim.principal, aimed_host, operation, aim.resource_type, name)
        return Query(
            random.choice(principals), host, random.choice((READ, WRITE)), TOPIC, random.choice(names)
        )

    return with_queries(random, acls, draw, distinct=min(100_000, size), pool=20_000, zipf=100_000)


def _principal(number: int) -> str:
    """As KafkaPrincipal has a client certificate's subject."""
    namespace = _namespace(number)
    return (
        f"User:CN=service-{number:05}.{namespace}.mesh.example.com,OU={namespace},O=Example Corporation,C=DE"
    )


def _namespace(number: int) -> str:
    return f"namespace-{number // _SERVICES_OF_NAMESPACE:03}"
