"""Functions for drawing all shapes: ACLs, requests, ids, and Zipf's law."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
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


def with_queries(
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
