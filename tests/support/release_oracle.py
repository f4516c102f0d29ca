"""The answers of each Kafka release to the same queries, recorded from its jars.

As a program (`python tests/support/release_oracle.py`) it records all of tests/data/oracle/releases anew:
`states.jsonl` has the ACLs, settings and queries; `VERSION.jsonl` has that release's table of supported
operations (AclEntry), and then a line of answers for each state.
"""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from records.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType
from support.kafka_authorizer import ask_kafka_authorizer
from support.kafka_jars import KAFKA_VERSION, OTHER_VERSIONS

Json = dict[str, Any]

RELEASES: Final = Path(__file__).resolve().parents[1] / "data" / "oracle" / "releases"
VERSIONS: Final = tuple(sorted((KAFKA_VERSION, *OTHER_VERSIONS)))
STATES: Final = 16
QUERIES: Final = 40

_HOSTS: Final = ("*", "10.1.2.3", "10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32", "10.0.0.0/33")
_ADDRESSES: Final = ("10.1.2.3", "10.9.9.9", "11.0.0.1", "2001:db8:0:0:0:0:0:1")
_PRINCIPALS: Final = ("User:a", "User:b", "User:admin")


def generated_states() -> list[Json]:
    """Random states; each call returns the same ones."""
    rng = random.Random(2025)
    return [_state(rng) for _ in range(STATES)]


def _state(rng: random.Random) -> Json:
    acls = [_acl(rng) for _ in range(rng.randint(2, 14))]
    return {
        "superUsers": "User:admin",
        "allowEveryone": str(rng.random() < 0.25).lower(),
        "acls": list({json.dumps(each): each for each in acls}.values()),
        "queries": [_query(rng) for _ in range(QUERIES)],
    }


def _acl(rng: random.Random) -> Json:
    kind = rng.choice([*SUPPORTED_OPERATIONS])
    return {
        "resourceType": int(kind),
        "resourceName": _name(rng, kind) if rng.random() < 0.8 else "*",
        "patternType": rng.choice((3, 3, 4)),
        "principal": rng.choice(("User:a", "User:a", "User:*")),
        "host": rng.choice(_HOSTS),
        "operation": int(rng.choice((AclOperation.ALL, *SUPPORTED_OPERATIONS[kind]))),
        "permissionType": rng.choice((2, 3, 3, 3)),
    }


def _query(rng: random.Random) -> Json:
    kind = rng.choice([*SUPPORTED_OPERATIONS])
    request = {
        "principal": rng.choice(_PRINCIPALS),
        "host": rng.choice(_ADDRESSES),
        "resourceType": kind.name,
    }
    # A release has no name for an operation that came after it.
    known = [each for each in SUPPORTED_OPERATIONS[kind] if each is not AclOperation.TWO_PHASE_COMMIT]
    operation = rng.choice(known).name
    match rng.randrange(4):
        case 0:
            return {**request, "resourceName": _name(rng, kind), "operation": operation}
        case 1:
            return {**request, "operation": operation}
        case _:
            return {**request, "kind": "authorizedOperations", "resourceName": _name(rng, kind)}


def _name(rng: random.Random, kind: ResourceType) -> str:
    return "kafka-cluster" if kind is ResourceType.CLUSTER else rng.choice(("a", "ab", "b"))


@cache
def recorded(version: str) -> tuple[Json, list[list[Any]]]:
    """The recording of one release: supported operations by resource type, and the answers."""
    lines = (RELEASES / f"{version}.jsonl").read_text(encoding="ascii").splitlines()
    table, *answers = map(json.loads, lines)
    return table, answers


@cache
def recorded_states() -> list[Json]:
    """The states of the recording."""
    return [json.loads(line) for line in (RELEASES / "states.jsonl").read_text(encoding="ascii").splitlines()]


def record(version: str) -> tuple[Json, list[list[Any]]]:
    """Record one release from its jars, in the form of ``recorded``."""
    (table,), *answers = ask_kafka_authorizer([{"operations": True}, *generated_states()], version)
    return dict(table), [[each.get("result", each.get("bits")) for each in found] for found in answers]


def _write(name: str, rows: list[Any]) -> None:
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (RELEASES / f"{name}.jsonl").write_text(text, encoding="ascii")


def main() -> None:
    """Record all releases."""
    RELEASES.mkdir(exist_ok=True)
    _write("states", generated_states())
    for version in VERSIONS:
        table, answers = record(version)
        _write(version, [table, *answers])


if __name__ == "__main__":
    main()
