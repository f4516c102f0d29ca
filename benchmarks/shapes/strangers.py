"""Strangers: the callers have no ACLs, and two thirds of all ACLs are nested prefixes for everyone."""

from __future__ import annotations

from random import Random

from benchmarks.shapes.drawing import (
    ALLOW,
    DENY,
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

# Of a name: what its levels are called, and how many there are to choose from, the outermost first.
_LEVELS = (
    ("corporation", 1),
    ("region", 4),
    ("country", 12),
    ("division", 8),
    ("department", 8),
    ("platform", 6),
    ("environment", 3),
    ("application", 40),
    ("component", 12),
    ("stream", 9),
)
_OPERATIONS = (READ, WRITE)
_STRANGERS = 5_000
_HAVE_ACLS = 1_000


def strangers(size: int) -> Workload:
    """Names of ten levels: every level of most is a prefix for ``User:*``; the rest are others' literals."""
    random = Random(12)
    names: list[str] = []
    acls: dict[Acl, None] = {}
    for_everyone = size * 2 // 3

    def permission() -> int:
        return DENY if random.random() < 0.05 else ALLOW

    while len(acls) < for_everyone:
        levels = [f"{level}-{random.randrange(choices):02}" for level, choices in _LEVELS]
        names.append(".".join(levels))
        for depth in range(1, len(levels) + 1):
            prefix = ".".join(levels[:depth])
            operation = random.choice(_OPERATIONS)
            acls[Acl(TOPIC, prefix, PREFIXED, "User:*", "*", operation, permission())] = None
    while len(acls) < size:
        name = f"{random.choice(names)}.{random.randrange(10)}"
        principal = f"User:application-{random.randrange(_HAVE_ACLS)}"
        acls[Acl(TOPIC, name, LITERAL, principal, "*", random.choice(_OPERATIONS), permission())] = None

    def draw() -> Query:
        """One in ten asks for a name that only the outer levels cover."""
        name = random.choice(names)
        if random.random() < 0.1:
            name = name.rsplit(".", 3)[0] + ".elsewhere"
        caller = f"User:stranger-{random.randrange(_STRANGERS)}"
        host = f"10.4.{random.randrange(16)}.{random.randrange(1, 250)}"
        return Query(caller, host, random.choice((READ, WRITE)), TOPIC, f"{name}.{random.randrange(10)}")

    return with_queries(random, acls, draw, distinct=min(100_000, size), pool=20_000, zipf=100_000)
