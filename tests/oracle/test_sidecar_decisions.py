"""The recorded answers of Kafka 4.3.1, compared over HTTP with a node that follows the records of each case.

Each answer is compared with the recorded one; where only Java gives that (``support.oracle``,
docs/compatibility.md), with the authorizer's, which ``test_authorizer_decisions`` compares with the
definition.
Decisions are requested by ``/access/v1/evaluations``, like ``aclog check --batch --sidecar``; some are
explained, too. The audit line is not part of an HTTP answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from authorizer.api.errors import ConfigError, SidecarRequestError
from authorizer.api.ip_address import host_address
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG
from authorizer.cli.check.sidecar_authorizer import SidecarAuthorizer
from authorizer.client import AuthorizationRequest, Client, calls
from authorizer.configuration.load import load_config
from authorizer.engine.batch_query import answer_query, request_of_query
from authorizer.node.node import Node
from authorizer.sidecar.server import Sidecar
from records.acl import AclOperation, ResourceType
from records.errors import DecodeError
from records.principal import parse_kafka_principal
from support.data import REAL_LOGS
from support.nodes import SOON_S
from support.oracle import RECORDED_VERSION, Case, Replayed, case_names, load_case

Json = dict[str, Any]

#: One of this many decisions is explained.
EXPLAINED = 25
#: Records of one append.
BATCH = 5_000
#: Profiles with records that no real controller writes; only Java may give the recorded answer.
STRANGE = ("dups", "weird-records")
#: Asked before the log is loaded: over HTTP that is a 503, whatever is asked (test_sidecar_start.py).
UNREADY = ("0074-super", "0114-super")
NAMES = [name for name in case_names() if name not in UNREADY]


def cases() -> list[ParameterSet]:
    """All cases; the gate has the first of each kind, because test_authorizer_decisions has all of them."""
    kinds: set[str] = set()
    found = []
    for name in NAMES:
        kind = name.partition("-")[2]
        found.append(pytest.param(name, marks=[pytest.mark.long] if kind in kinds else []))
        kinds.add(kind)
    return found


@contextmanager
def sidecar_of_case(case: Case, home: Path) -> Iterator[tuple[Node, Client]]:
    """A node on an empty log with the case's settings, and a client without restrictions: the log's owner.

    Raises:
        ConfigError: Java's configure() throws as well.
    """
    kafkas = {key: value for key, value in case.properties.items() if not key.startswith("oracle.")}
    flags = {
        KAFKA_VERSION_CONFIG: RECORDED_VERSION,
        **kafkas,
        "aclog.log.url": str(home / "log"),
        "aclog.log.mode": "create",
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        "aclog.audit.level": "OFF",
    }
    config = load_config(environ={}, flags=flags)
    with (
        Sidecar(config) as sidecar,
        Node.open(config) as node,
        Client(f"unix:{home}/log/aclog.sock", timeout_s=SOON_S) as client,
    ):
        node.start()
        sidecar.start(node)
        client.wait_until_ready(SOON_S)
        yield node, client


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_answers_over_http_equal_those_of_kafka(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    case = load_case(name)
    found: Counter[str] = Counter()
    try:
        with sidecar_of_case(case, tmp_path) as (node, client):
            replayed = Replayed(case.properties)
            start = 0
            for end, recorded_queries in case.queries.items():
                append(node, case, start, end)
                replayed.apply(case.records[start:end])
                start = end
                found += compared(client, replayed, recorded_queries)
    except ConfigError as error:
        refusal = {"error": f"configure: IllegalArgumentException: {error.__cause__}"}
        assert all(
            expected == refusal
            for recorded_queries in case.queries.values()
            for _, expected in recorded_queries
        )
        return
    for outcome, count in found.items():
        record_property(f"oracle over HTTP: {outcome}", count)
    assert found["equal"] > 0
    if name.partition("-")[2] not in STRANGE:
        assert set(found) <= {"equal", "explained"}, found


def append(node: Node, case: Case, start: int, end: int) -> None:
    """Append these records of the case, and wait until they are visible."""
    for at in range(start, end, BATCH):
        node.log.append(case.records[at : min(at + BATCH, end)])
    assert node.visible(end).result(SOON_S)


def compared(client: Client, replayed: Replayed, recorded_queries: list[tuple[Json, Json]]) -> Counter[str]:
    """Counts of answers equal to the recorded ones, and of answers with a known difference."""
    found: Counter[str] = Counter()
    sidecar = SidecarAuthorizer(client, None)
    decisions = []
    for query, _ in recorded_queries:
        with suppress(KeyError, ValueError, DecodeError):
            if query.get("kind", "authorize") == "authorize":
                decisions.append(request_of_query(query))
    sidecar.prefetch(decisions)
    for number, (query, recorded) in enumerate(recorded_queries):
        expected = {key: value for key, value in recorded.items() if key != "audit"}
        of_library = {
            key: value for key, value in answer_query(replayed.authorizer, query).items() if key != "audit"
        }
        try:
            over_http = answer_over_http(client, sidecar, query)
        except DecodeError:
            # The HTTP API refuses these requests; the library decides them.
            assert is_not_askable_over_http(query), query
            found["not askable over HTTP"] += 1
            continue
        if over_http == expected:
            found["equal"] += 1
        else:
            assert over_http == of_library, query
            found["Java's alone"] += 1
        if number % EXPLAINED == 0 and "rule" in over_http:
            context, action = request_of_query(query)
            pattern = action.resource_pattern
            explained = client.ask(
                calls.explanation(
                    AuthorizationRequest(
                        context.principal,
                        action.operation,
                        pattern.resource_type,
                        pattern.name,
                        context.client_address,
                    )
                )
            )
            assert (explained.result, explained.rule) == (over_http["result"], over_http["rule"]), query
            found["explained"] += 1
    return found


def answer_over_http(client: Client, sidecar: SidecarAuthorizer, query: Json) -> Json:
    """KIP-430 by its endpoint, all other queries like the command."""
    if query.get("kind") != "authorizedOperations":
        return answer_query(sidecar, {key: value for key, value in query.items() if key != "audit"})
    host = host_address(query["host"])
    call = calls.authorized_operations(
        parse_kafka_principal(query["principal"]),
        ResourceType[query["resourceType"]],
        query["resourceName"],
        host=host,
    )
    try:
        operations = client.ask(call)
    except SidecarRequestError as error:
        raise DecodeError(str(error)) from error
    answer = {"bits": operations.bits, "operations": operations.operations}
    return answer if host == query["host"] else {**answer, "hostAddress": host}


def is_not_askable_over_http(query: Json) -> bool:
    """Whether it names an operation or a type that only filters and newer records have."""
    return (
        AclOperation.from_name(str(query.get("operation", "READ"))) <= AclOperation.ANY
        or ResourceType.from_name(str(query.get("resourceType", "TOPIC"))) <= ResourceType.ANY
    )


def test_no_case_is_missing_over_http() -> None:
    """195 random cases and the real logs, except for two."""
    assert len(NAMES) == 195 - len(UNREADY) + len(REAL_LOGS)
