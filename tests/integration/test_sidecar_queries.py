"""Kafka's queries over real HTTP, with a real node on a real log, and their authorization."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from authorizer.api.audit_levels import AUDIT_LOGGER_NAME
from authorizer.cli.main import cli
from authorizer.node import recent_states
from authorizer.node.node import Node
from records.acl import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from support.node_acls import acl as any_acl
from support.node_acls import topic_acl
from support.nodes import create, delete, node_with_client, running_node, sidecar_of

OPERATIONS = "/v1/authorized-operations"
BY_TYPE = "/v1/authorize-by-resource-type"
FILTER = "/v1/filter"
EXPLAIN = "/v1/explain"
WHO = {"principal": "User:a", "host": "10.0.0.1", "resourceType": "TOPIC"}
#: A query about User:a for each path.
QUERIES: Mapping[str, dict[str, Any]] = {
    OPERATIONS: {**WHO, "resourceName": "orders"},
    BY_TYPE: {**WHO, "operation": "READ"},
    FILTER: {**WHO, "operation": "READ", "resourceNames": ["orders", "other"]},
    EXPLAIN: {**WHO, "operation": "READ", "resourceName": "orders"},
}
ANONYMOUS = "User:ANONYMOUS"


def acl(principal: str, operation: AclOperation, pattern: ResourcePattern) -> AclBinding:
    return AclBinding(pattern, AccessControlEntry(principal, "*", operation, AclPermissionType.ALLOW))


CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
ORDERS = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)


ACLS = [topic_acl("orders"), topic_acl("payments", operation=AclOperation.WRITE)]


@pytest.fixture
def node_and_client(tmp_path: Path) -> Iterator[tuple[Node, httpx.Client]]:
    """The caller may describe the cluster; User:a may READ orders and WRITE payments."""
    with node_with_client(tmp_path / "log", ACLS) as (node, client):
        create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
        yield node, client


def test_each_query_is_answered_with_its_offset(node_and_client: tuple[Node, httpx.Client]) -> None:
    """KIP-430, KIP-679, a filter of names; by the body of a POST as by the query of a GET."""
    _, client = node_and_client
    expected = {
        OPERATIONS: {
            "offset": 3,
            "end_offset": 3,
            "operations": ["READ", "DESCRIBE"],
            "bits": (1 << 3) | (1 << 8),
        },
        BY_TYPE: {"offset": 3, "end_offset": 3, "result": "ALLOWED"},
        FILTER: {"offset": 3, "end_offset": 3, "allowed": ["orders"]},
    }
    for path, answer in expected.items():
        assert client.post(path, json=QUERIES[path]).json() == answer
    for path in (OPERATIONS, BY_TYPE):
        assert client.get(path, params=QUERIES[path]).json() == expected[path]
    assert client.get(EXPLAIN, params=QUERIES[EXPLAIN]).json()["result"] == "ALLOWED"
    denied = {**QUERIES[BY_TYPE], "operation": "DELETE"}
    assert client.post(BY_TYPE, json=denied).json()["result"] == "DENIED"


def test_an_explanation_equals_the_commands(node_and_client: tuple[Node, httpx.Client]) -> None:
    """``aclog check --explain --json``, key by key: allowed, denied, with near misses and a way out.

    Only the command notes that a name may be mistyped.
    """
    node, client = node_and_client
    mistyped = ["no ACL names topic order; did you mean orders?"]
    for operation, name, notes in (
        ("READ", "orders", []),
        ("WRITE", "orders", []),
        ("CREATE", "order", mistyped),
    ):
        question = {**QUERIES[EXPLAIN], "operation": operation, "resourceName": name}
        arguments = ["check", "--log", node.log.url, "--principal", "User:a", "--operation", operation]
        arguments += ["--topic", name, "--host", "10.0.0.1", "--explain", "--json"]
        printed = json.loads(CliRunner().invoke(cli, arguments).stdout)
        assert printed["notes"] == notes
        assert client.post(EXPLAIN, json=question).json() == {**printed, "notes": []}


@pytest.mark.parametrize(
    ("kind", "unit", "length_max"), [("TOPIC", "x", 249), ("GROUP", "x", 32_767), ("GROUP", "ß", 16_383)]
)
def test_an_explanation_refuses_invalid_names(
    node_and_client: tuple[Node, httpx.Client], kind: str, unit: str, length_max: int
) -> None:
    """The answer repeats it: of a name of a megabyte it would have five."""
    _, client = node_and_client
    question = {**QUERIES[EXPLAIN], "resourceType": kind}
    answer = client.post(EXPLAIN, json={**question, "resourceName": unit * length_max})
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"] == "DENIED"
    for length in (length_max + 1, 1_000_000):
        refused = client.post(EXPLAIN, json={**question, "resourceName": unit * length})
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_REQUEST")
        assert len(refused.content) < 1000


def test_an_explanation_refuses_invalid_principals(
    node_and_client: tuple[Node, httpx.Client],
) -> None:
    node, client = node_and_client
    create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
    name = f"User:{'a' * 32_762}"
    assert client.post(EXPLAIN, json={**QUERIES[EXPLAIN], "principal": name}).status_code == 200
    refused = client.post(EXPLAIN, json={**QUERIES[EXPLAIN], "principal": name + "a"})
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_REQUEST")


def test_an_explanation_names_the_assumed_host_and_other_answers(tmp_path: Path) -> None:
    with node_with_client(tmp_path / "log", ACLS, sidecar_default_host="10.0.0.1") as (node, client):
        create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
        create(node, [any_acl("User:a", AclOperation.READ, "orders", deny=True, host="10.0.0.9")])
        question = {key: value for key, value in QUERIES[EXPLAIN].items() if key != "host"}
        for given, is_assumed in ((question, True), ({**question, "host": "10.0.0.1"}, False)):
            answer = client.post(EXPLAIN, json=given).json()
            assert (answer["result"], answer["host"], answer["hostAssumed"]) == (
                "ALLOWED",
                "10.0.0.1",
                is_assumed,
            )
            assert answer["reason"] == (
                "an ACL allows it from 10.0.0.1 and none denies it from there; from 10.0.0.9 it is DENIED"
            )
            assert (answer["otherHosts"]["result"], answer["otherHosts"]["hosts"]) == ("DENIED", ["10.0.0.9"])


def test_one_acl_is_read_by_its_id(node_and_client: tuple[Node, httpx.Client]) -> None:
    """As a listing has it, and where it was written; 404 for one that is not in force."""
    node, client = node_and_client
    for listed in client.get("/v1/acls").json()["acls"]:
        answer = client.get(f"/v1/acls/{listed['id']}").json()
        shown = answer["acl"]
        assert (answer["offset"], 0 <= shown.pop("offset") < 3, shown.pop("timestamp") > 0) == (3, True, True)
        assert shown == listed
    removed = next(acl for acl in client.get("/v1/acls").json()["acls"] if acl["resourceName"] == "orders")
    delete(node, "orders")
    missing = client.get(f"/v1/acls/{removed['id']}")
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
    assert removed["id"] in missing.json()["detail"]
    before = client.get(f"/v1/acls/{removed['id']}", params={"at_offset": 2})
    assert before.json()["acl"]["resourceName"] == "orders"
    assert client.get("/v1/acls/none").status_code == 400
    assert client.post(f"/v1/acls/{removed['id']}").headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", QUERIES)
def test_queries_about_others_require_describe(tmp_path: Path, path: str) -> None:
    """The caller's right is checked before anything about another principal is read."""
    with node_with_client(tmp_path / "log", ACLS) as (node, client):
        refused = client.post(path, json=QUERIES[path])
        assert (refused.status_code, refused.json()["code"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        assert client.post(path, json={**QUERIES[path], "principal": ANONYMOUS}).status_code == 200
        create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
        assert client.post(path, json=QUERIES[path]).status_code == 200


def test_an_acl_is_shown_only_with_the_right_to_list(tmp_path: Path) -> None:
    """Not to who may only ask about others."""
    with node_with_client(tmp_path / "log", ACLS, describe_principals=ANONYMOUS) as (node, client):
        acl_id = next(iter(node.authorizer.state.index.image)).record.id
        path = f"/v1/acls/{acl_id.hex()[:22]}"
        assert client.get(path).status_code == 403
        create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
        assert client.get(path).status_code == 404


def test_an_explanation_shows_acls_of_others_only_with_the_right_to_list(tmp_path: Path) -> None:
    """A query about oneself or others does not show the ACLs of a third principal."""
    with node_with_client(tmp_path / "log", ACLS, describe_principals=ANONYMOUS) as (node, client):
        create(node, [acl("User:*", AclOperation.WRITE, ORDERS)])

        def missed(principal: str) -> set[str]:
            question = {**QUERIES[EXPLAIN], "principal": principal}
            misses = client.post(EXPLAIN, json=question).json()["nearMisses"]
            return {each["acl"]["principal"] for each in misses}

        assert missed(ANONYMOUS) == missed("User:b") == {"User:*"}
        create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
        assert missed(ANONYMOUS) == missed("User:b") == {"User:*", "User:a"}


def test_queries_at_an_offset_use_the_current_rights(tmp_path: Path) -> None:
    """Who may not describe the cluster any more does not, by asking about the time when it might."""
    with node_with_client(tmp_path / "log", ACLS) as (node, client):
        create(node, [acl(ANONYMOUS, AclOperation.DESCRIBE, CLUSTER)])
        past = {**QUERIES[OPERATIONS], "at_offset": 2}
        delete(node, "orders")
        assert client.post(OPERATIONS, json=past).json()["operations"] == ["READ", "DESCRIBE"]
        assert client.post(OPERATIONS, json=QUERIES[OPERATIONS]).json()["operations"] == []
        listing = client.get("/v1/acls", params={"at_offset": 2}).json()
        assert (listing["offset"], len(listing["acls"])) == (3, 3)
        delete(node, CLUSTER_NAME)
        assert client.post(OPERATIONS, json=past).status_code == 403
        assert client.get("/v1/acls", params={"at_offset": 2}).status_code == 403


def test_an_offset_that_is_not_held_is_a_410(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """410, with the command that asks the log; an offset within a batch was never a state."""
    node, client = node_and_client
    for offset in (0, 1, 2):
        answer = client.post(OPERATIONS, json={**QUERIES[OPERATIONS], "at_offset": offset})
        if offset == 0:
            assert (answer.status_code, answer.json()["code"]) == (410, "OFFSET_NOT_HELD")
            assert f"aclog check --log {node.log.url} --at-offset 0" in answer.json()["detail"]
        else:
            assert answer.json()["end_offset"] == offset + 1
    monkeypatch.setattr(recent_states, "STATES_MAX", 3)
    for number in range(3):
        create(node, [topic_acl(f"t{number}")])
    offsets = [2, 3, 4, 5]
    listings = [client.get("/v1/acls", params={"at_offset": offset}) for offset in offsets]
    assert [answer.status_code for answer in listings] == [410, 200, 200, 200]


def test_queries_are_audited_at_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A query is TRACE with any result; the caller's right is decided, and counted, once."""
    with node_with_client(tmp_path / "log", ACLS, describe_principals=ANONYMOUS, audit_level="DEBUG") as (
        node,
        client,
    ):
        before = node.authorizer.metrics.allowed + node.authorizer.metrics.denied
        for path in (OPERATIONS, FILTER):
            client.post(path, json=QUERIES[path])
        client.post(EXPLAIN, json=QUERIES[EXPLAIN])
        counted = node.authorizer.metrics.allowed + node.authorizer.metrics.denied - before
    lines = [line for line in caplog.records if line.name == AUDIT_LOGGER_NAME]
    assert lines == []
    # Eight operations, two names, and whether the one that explains may list.
    assert counted == 11


@pytest.mark.parametrize(
    ("path", "change", "message"),
    [
        (OPERATIONS, {"principal": "a"}, "principal: expected a string in format principalType"),
        (OPERATIONS, {"resourceType": "ANY"}, "resourceType `ANY` is not a Kafka resource type"),
        (OPERATIONS, {"host": "broker"}, "host: `broker` is not an IP address"),
        (OPERATIONS, {"host": None}, "the request has no host"),
        (OPERATIONS, {"hots": "10.0.0.2"}, "unknown field `hots`"),
        (OPERATIONS, {"at_offset": -1}, ">= 0"),
        (BY_TYPE, {"operation": "ANY"}, "operation `ANY` is not a Kafka operation"),
        (FILTER, {"operation": "FLY"}, "operation `FLY` is not a Kafka operation"),
        (EXPLAIN, {"resourceName": None}, "missing required field `resourceName`"),
    ],
)
def test_an_invalid_query_is_a_400_that_names_the_field(
    node_and_client: tuple[Node, httpx.Client], path: str, change: dict[str, object], message: str
) -> None:
    _, client = node_and_client
    body = {key: value for key, value in {**QUERIES[path], **change}.items() if value is not None}
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert message in answer.json()["detail"]


def test_five_thousand_names_are_one_request(node_and_client: tuple[Node, httpx.Client]) -> None:
    """In order; at most 10,000."""
    node, client = node_and_client
    prefixed = ResourcePattern(ResourceType.TOPIC, "t-1", PatternType.PREFIXED)
    create(node, [acl("User:a", AclOperation.READ, prefixed)])
    names = [f"t-{number}" for number in range(5_000)]
    answer = client.post(FILTER, json={**QUERIES[FILTER], "resourceNames": names}).json()
    assert answer["allowed"] == [name for name in names if name.startswith("t-1")]
    too_many = client.post(FILTER, json={**QUERIES[FILTER], "resourceNames": names * 3})
    assert (too_many.status_code, too_many.json()["code"]) == (413, "CONTENT_TOO_LARGE")


def test_queries_are_refused_before_the_node_is_ready(tmp_path: Path) -> None:
    """503 for all, never an empty list."""
    with running_node(tmp_path / "log", log_mode="create") as node, sidecar_of(node) as url:
        node.authorizer.on_not_ready("for a test")
        for path, question in QUERIES.items():
            answer = httpx.post(url + path, json=question)
            assert (answer.status_code, answer.json()["code"]) == (503, "AUTHORIZER_NOT_READY")
        assert httpx.get(f"{url}/v1/acls/x").status_code == 503
