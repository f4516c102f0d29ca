"""The real StandardAuthorizer, run from the jars, on states made to be awkward."""

from __future__ import annotations

import random
from typing import Any

import pytest

from authorizer.engine.batch_query import answer_query
from records.acl import AclOperation, ResourceType
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from support.kafka_authorizer import ask_kafka_authorizer
from support.oracle import Replayed

SEED = 504
STATES = 200
QUESTIONS = 100

# Sorted apart by UTF-16 code unit and by code point: U+1F600 is D83D DE00, below U+FF61.
LETTERS = ("a", "b", "é", "\uff61", "\U0001f600")
PRINCIPALS = (
    "User:a",
    "User:b",
    "User:*",
    "Group:a",
    "Group:*",
    "User:\uff61",
    "User:\U0001f600",
    "User:",
    ":a",
)
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
REQUEST_HOSTS = ("10.0.0.1", "10.0.0.2", "::1", "10.9.9.9")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = [operation for operation in AclOperation if operation >= AclOperation.ALL]


def names(rng: random.Random, letters: tuple[str, ...]) -> str:
    return "".join(rng.choices(letters, k=rng.choice((0, 1, 1, 2, 2, 3))))


def acl(rng: random.Random, letters: tuple[str, ...], *, odd: bool) -> dict[str, Any]:
    """Fields of a record; few values, so that many match.

    Of codes without a name there is one each, because Java takes them for equal. An unknown pattern type has
    no empty name: there Kafka may name another of several ACLs that allow, which is not copied.
    """
    pattern_type = rng.choice((3, 3, 4, 4, 77) if odd else (3, 4))
    name = rng.choice(("*", names(rng, letters), names(rng, letters)))
    return {
        "resourceType": int(rng.choice(TYPES)),
        "resourceName": name or "a" if pattern_type == 77 else name,
        "patternType": pattern_type,
        "principal": rng.choice(PRINCIPALS),
        "host": rng.choice(HOSTS),
        "operation": rng.choice((2, 3, 4, 8, 10, 11, 15, 99) if odd else (2, 3, 4, 8, 10, 11, 15)),
        "permissionType": rng.choice((2, 3, 3, 9) if odd else (2, 3, 3)),
    }


def question(rng: random.Random, letters: tuple[str, ...]) -> dict[str, Any]:
    query = {
        # A session principal `User:*` makes Kafka throw (docs/compatibility.md, difference 3).
        "principal": rng.choice([each for each in PRINCIPALS if each != "User:*"]),
        "host": rng.choice(REQUEST_HOSTS),
        "operation": rng.choice(OPERATIONS).name,
        "resourceType": rng.choice(TYPES).name,
    }
    if rng.random() < 0.25:
        return query
    return {**query, "resourceName": rng.choice(("*", *[names(rng, letters)] * 5))}


def state(rng: random.Random) -> dict[str, Any]:
    letters = LETTERS[: rng.randint(1, len(LETTERS))]
    odd = rng.random() < 0.3
    wanted = rng.choice((2, 5, 15, 60))
    acls = {tuple(each.values()): each for each in (acl(rng, letters, odd=odd) for _ in range(wanted))}
    return {
        "superUsers": rng.choice(("", "User:b;Group:*")),
        "allowEveryone": rng.choice((True, False)),
        "acls": list(acls.values()),
        "queries": [question(rng, letters) for _ in range(QUESTIONS)],
    }


def aclog_answer(replayed: Replayed, query: dict[str, Any]) -> dict[str, str]:
    """aclog's, in AskAuthorizer's shape."""
    if "resourceName" not in query:
        by_type = answer_query(replayed.authorizer, {**query, "kind": "authorizeByResourceType"})
        return {"result": by_type["result"]}
    decided = answer_query(replayed.authorizer, {**query, "audit": True})
    return {"result": decided["result"], "rule": decided["rule"], "level": decided["audit"]["level"]}


@pytest.mark.integration
@pytest.mark.slow
def test_unusual_states_have_the_real_authorizers_answers() -> None:
    """Result, named ACL, audit level and by-resource-type, where order, empty names and codes matter most."""
    rng = random.Random(SEED)
    states = [state(rng) for _ in range(STATES)]
    for case, expected in zip(states, ask_kafka_authorizer(states), strict=True):
        replayed = Replayed(
            {
                "super.users": case["superUsers"],
                "allow.everyone.if.no.acl.found": str(case["allowEveryone"]),
            }
        )
        replayed.apply(
            AccessControlEntryRecord(Uuid(number.to_bytes(16)), *each.values())
            for number, each in enumerate(case["acls"])
        )
        for each, wanted in zip(case["queries"], expected, strict=True):
            assert aclog_answer(replayed, each) == wanted, (each, case["acls"])
