"""Networks: a third of the ACLs are for nested networks (KIP-1276): regions, sites, floors and racks."""

from __future__ import annotations

from random import Random

from benchmarks.shapes.drawing import (
    ALL,
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

_ACLS_OF_TEAM = 100
_NAMES_OF_TEAM = 40
# Lengths of prefixes: the company, a region, a site, a floor, a rack, an address.
_LENGTHS, _WEIGHTS = (8, 12, 16, 20, 24, 32), (1, 4, 15, 25, 45, 10)


def networks(size: int) -> Workload:
    """Teams of a hundred ACLs on names of their own; networks are shared, as sites are."""
    random = Random(1276)
    teams = max(1, size // _ACLS_OF_TEAM)
    acls: dict[Acl, None] = {}
    while len(acls) < size:
        team = random.randrange(teams)
        name, is_prefix = f"team-{team}.stream-{random.randrange(_NAMES_OF_TEAM):02}", random.random() < 0.2
        acl = Acl(
            TOPIC,
            name[: -random.randrange(1, 3)] if is_prefix else name,
            PREFIXED if is_prefix else LITERAL,
            "User:*" if random.random() < 0.02 else f"User:team-{team}-{random.randrange(3)}",
            _network(random) if random.random() < 1 / 3 else "*",
            random.choices((READ, WRITE, ALL), (5, 4, 1))[0],
            DENY if random.random() < 0.1 else ALLOW,
        )
        acls[acl] = None

    def draw() -> Query:
        principal = f"User:team-{(team := random.randrange(teams))}-{random.randrange(3)}"
        name = f"team-{team}.stream-{random.randrange(_NAMES_OF_TEAM):02}"
        return Query(principal, _network(random, 32), random.choice((READ, WRITE)), TOPIC, name)

    return with_queries(random, acls, draw, distinct=min(10_000, size), pool=2_000, zipf=10_000)


def _network(random: Random, length: int | None = None) -> str:
    """One of 16 regions, 256 sites, 1,024 floors, 4,096 racks or 16,384 addresses."""
    if length is None:
        (length,) = random.choices(_LENGTHS, _WEIGHTS)
    region, site, floor, rack, address = (random.randrange(each) for each in (16, 16, 4, 4, 4))
    number = 10 << 24 | region << 20 | site << 16 | floor << 12 | rack << 8 | address + 1
    if length < 32:
        number &= -1 << (32 - length)
    text = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    return text if length == 32 else f"{text}/{length}"
