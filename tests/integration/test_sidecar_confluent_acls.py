"""/kafka/v3/clusters: Confluent's Kafka REST API for ACLs, on a node's own sidecar and on a fleet's."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from authorizer.authentication.rate_limits import FAILURES_MAX
from authorizer.node.node import Node
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from records.acl import AclOperation, ResourceType
from records.principal import KafkaPrincipal
from support.fleets import member_with_client
from support.node_acls import ANY_ACL, acl, names, on_cluster, topic_acl
from support.nodes import SOON_S, config_of, create, node_with_client, running_node, sidecar_of

CLUSTERS = "/kafka/v3/clusters"
# The ACLs of kafka-rest's AclsResourceIntegrationTest.
ALICE = {
    "resource_type": "TOPIC",
    "resource_name": "*",
    "pattern_type": "LITERAL",
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
ALICE_QUERY = (
    "?resource_type=TOPIC&resource_name=*&pattern_type=LITERAL&principal=User%3Aalice&host=*"
    "&operation=READ&permission=ALLOW"
)
BOB = {
    "resource_type": "TOPIC",
    "resource_name": "topic-",
    "pattern_type": "PREFIXED",
    "principal": "User:bob",
    "host": "1.2.3.4",
    "operation": "WRITE",
    "permission": "ALLOW",
}
CAROL = {
    "resource_type": "GROUP",
    "resource_name": "workers",
    "pattern_type": "LITERAL",
    "principal": "User:carol",
    "host": "*",
    "operation": "DELETE",
    "permission": "DENY",
}
ALL_CLUSTER_RIGHTS = [on_cluster(AclOperation.DESCRIBE), on_cluster(AclOperation.ALTER)]
TOPICS = {"resource_type": "TOPIC", "pattern_type": "ANY", "operation": "ANY", "permission": "ANY"}

OpenNode = Callable[..., AbstractContextManager[tuple[Node, httpx.Client]]]


@pytest.fixture(params=[node_with_client, member_with_client], ids=["alone", "in a fleet"])
def open_node(request: pytest.FixtureRequest) -> OpenNode:
    found: OpenNode = request.param
    return found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Node, httpx.Client]]:
    with node_with_client(tmp_path / "log", ALL_CLUSTER_RIGHTS) as (node, client):
        yield node, client


def acls_path(node: Node) -> str:
    identity = node.status().identity
    assert identity is not None
    return f"{CLUSTERS}/{identity.cluster_id}/acls"


def contents(answer: httpx.Response) -> list[dict[str, str]]:
    """The ACLs of an answer, without what is the same for all."""
    assert answer.status_code == 200, answer.text
    return [{field: each[field] for field in ALICE} for each in answer.json()["data"]]


def test_clusters_are_shown_to_every_caller(tmp_path: Path, open_node: OpenNode) -> None:
    with open_node(tmp_path) as (node, client):
        path = acls_path(node).removesuffix("/acls")
        url = str(client.base_url).rstrip("/") + path
        listed, shown = client.get(CLUSTERS).json(), client.get(path).json()
        assert listed == {
            "kind": "KafkaClusterList",
            "metadata": {"self": url.rpartition("/")[0]},
            "data": [shown],
        }
        assert (shown["kind"], shown["cluster_id"]) == ("KafkaCluster", path.rpartition("/")[2])
        assert shown["metadata"] == {"self": url}
        assert shown["acls"] == {"related": f"{url}/acls"}
        assert shown["partition_reassignments"] == {"related": f"{url}/topics/-/partitions/-/reassignment"}


def test_acls_are_created_listed_and_removed(tmp_path: Path, open_node: OpenNode) -> None:
    """By kafka-rest's own scenario, and visible to decisions and to ``/v1/acls`` when they are answered."""
    with open_node(tmp_path, ALL_CLUSTER_RIGHTS) as (node, client):
        path = acls_path(node)
        url = str(client.base_url).rstrip("/") + path
        matching = {"resource_type": "topic", "resource_name": "topic-1", "pattern_type": "match"}
        assert contents(client.get(path, params=matching)) == []

        for wanted in (ALICE, BOB, ALICE):
            created = client.post(path, json=wanted)
            assert (created.status_code, created.content) == (201, b"")
            assert client.get(created.headers["location"]).json()["data"][0].items() >= wanted.items()
        assert client.post(path, json=ALICE).headers["location"] == url + ALICE_QUERY
        assert node.status().acl_count == 4

        found = client.get(path, params=matching)
        assert {frozenset(each.items()) for each in contents(found)} == {
            frozenset(each.items()) for each in (ALICE, BOB)
        }
        listed = found.json()
        assert listed["kind"] == "KafkaAclList"
        assert listed["metadata"]["self"] == (
            f"{url}?resource_type=topic&resource_name=topic-1&pattern_type=match&principal=&host="
            "&operation=ANY&permission=ANY"
        )
        of_alice = next(each for each in listed["data"] if each["principal"] == "User:alice")
        cluster_id = path.split("/")[-2]
        assert of_alice == {
            "kind": "KafkaAcl",
            "metadata": {"self": url + ALICE_QUERY},
            "cluster_id": cluster_id,
            **ALICE,
        }

        removed = client.delete(of_alice["metadata"]["self"])
        assert removed.json() == {"data": [of_alice]}
        assert client.delete(of_alice["metadata"]["self"]).json() == {"data": []}
        assert contents(client.delete(path, params=TOPICS)) == [BOB]
        assert names(node.authorizer.acls(ANY_ACL)) == {"kafka-cluster"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, "abc"),
        ({"resource_type": "GROUP"}, "c"),
        ({"resource_type": "any", "resource_name": ""}, "abc"),
        ({"resource_name": "topic-"}, "b"),
        ({"resource_name": "topic-9", "pattern_type": "MATCH"}, "ab"),
        ({"pattern_type": "PREFIXED"}, "b"),
        ({"principal": "User:carol"}, "c"),
        ({"host": "1.2.3.4"}, "b"),
        ({"operation": "delete"}, "c"),
        ({"permission": "DENY"}, "c"),
        ({"permission": "ALLOW", "host": "*"}, "a"),
    ],
    ids=str,
)
def test_each_filter_narrows_a_listing(
    served: tuple[Node, httpx.Client], query: dict[str, str], found: str
) -> None:
    node, client = served
    path = acls_path(node)
    known = {"a": ALICE, "b": BOB, "c": CAROL}
    assert client.post(f"{path}:batch", json={"data": list(known.values())}).status_code == 201
    listed = [each for each in contents(client.get(path, params=query)) if each["resource_type"] != "CLUSTER"]
    assert sorted(listed, key=str) == sorted((known[name] for name in found), key=str)


def test_a_batch_is_one_change(served: tuple[Node, httpx.Client]) -> None:
    node, client = served
    path, before = f"{acls_path(node)}:batch", node.status().end_offset
    created = client.post(path, json={"data": [ALICE, BOB, CAROL, BOB]})
    assert (created.status_code, created.content) == (201, b"")
    changes = []
    with client.stream("GET", "/v1/changes", headers={"last-event-id": str(before)}) as stream:
        for line in stream.iter_lines():
            changes += [line] if line == "event: change" else []
            if line == "event: current":
                break
    assert (len(changes), node.status().end_offset) == (1, before + 3)
    assert client.post(path, json={"data": []}).status_code == 201
    too_many = client.post(path, json={"data": [ALICE] * 10_001})
    assert (too_many.status_code, too_many.json()["error_code"]) == (413, 413)


def test_a_refused_acl_does_not_stop_the_others(served: tuple[Node, httpx.Client]) -> None:
    """As Kafka's CreateAcls; the error is Kafka's, and says which one and what became of the others."""
    node, client = served
    bad = {**ALICE, "resource_type": "CLUSTER", "resource_name": "x"}
    kafkas = "The only valid name for the CLUSTER resource is kafka-cluster"
    one = client.post(acls_path(node), json=bad)
    assert (one.status_code, one.json()) == (400, {"error_code": 40002, "message": kafkas})
    several = client.post(f"{acls_path(node)}:batch", json={"data": [ALICE, bad, CAROL]})
    assert several.status_code == 400
    assert several.json()["message"] == f"data[1]: {kafkas} (2 of 3 ACLs are in force)"
    assert names(node.authorizer.acls(ANY_ACL)) == {"kafka-cluster", "*", "workers"}


@pytest.mark.parametrize("missing", ["resource_type", "pattern_type", "operation", "permission"])
@pytest.mark.parametrize("value", [None, "UNKNOWN"])
def test_a_removal_must_name_its_types(
    served: tuple[Node, httpx.Client], missing: str, value: str | None
) -> None:
    node, client = served
    before = node.status().end_offset
    query = {name: text for name, text in TOPICS.items() if name != missing}
    answer = client.delete(acls_path(node), params=query if value is None else {**query, missing: value})
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40002)
    assert missing in answer.json()["message"]
    assert client.delete(acls_path(node)).status_code == 400
    assert node.status().end_offset == before


@pytest.mark.parametrize(
    ("method", "query", "body", "message"),
    [
        ("GET", {"resource_type": "teapot"}, None, "resource_type `teapot` is none of ANY, TOPIC"),
        ("GET", {"operation": "UNKNOWN"}, None, "operation `UNKNOWN` is none of"),
        ("GET", {"resourceType": "TOPIC"}, None, "unknown field `resourceType`"),
        ("DELETE", {**TOPICS, "resource": "x"}, None, "unknown field `resource`"),
        ("POST", {"principal": "x"}, ALICE, "takes no query string"),
        ("POST", {}, {"resource_type": "TOPIC"}, "missing required field `resource_name`"),
        ("POST", {}, {**ALICE, "host": 7}, "Expected `str`, got `int`"),
        ("POST", {}, {**ALICE, "operation": "EAT"}, "operation `EAT` is none of"),
        ("POST", {}, {**ALICE, "permission": "ANY"}, "permission"),
        ("POST", {}, {**ALICE, "pattern_type": "MATCH"}, "MATCH"),
        ("POST", {}, [], "Expected `object`, got `array`"),
    ],
    ids=str,
)
def test_invalid_requests_are_refused(
    served: tuple[Node, httpx.Client], method: str, query: dict[str, str], body: object, message: str
) -> None:
    """400 for an unknown type, too: kafka-rest's 404 would make Terraform forget the ACL."""
    node, client = served
    given: dict[str, Any] = {} if body is None else {"json": body}
    answer = client.request(method, acls_path(node), params=query, **given)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40002), answer.text
    assert message in answer.json()["message"]
    assert answer.headers["content-type"] == "application/json"


def test_errors_have_the_form_of_confluents_api(served: tuple[Node, httpx.Client]) -> None:
    node, client = served
    other = f"{CLUSTERS}/other"
    for answer in (
        client.get(other),
        client.get(f"{other}/acls"),
        client.post(f"{other}/acls", json=ALICE),
        client.post(f"{other}/acls:batch", json={"data": [ALICE]}),
        client.delete(f"{other}/acls", params=ALICE),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (404, 404)
        assert answer.json()["message"].startswith("Cluster other cannot be found")
    assert client.get(f"{CLUSTERS}/other/topics").json()["error_code"] == 404
    wrong_method = client.put(acls_path(node))
    assert (wrong_method.status_code, wrong_method.json()["error_code"]) == (405, 405)
    assert client.post(acls_path(node), content=b"{").json()["error_code"] == 400
    page = client.delete(acls_path(node), params=ALICE, headers={"origin": "http://127.0.0.1:8180"})
    assert (page.status_code, page.json()["error_code"]) == (403, 40301)
    assert "web page" in page.json()["message"]


def test_rights_and_records_are_those_of_v1_acls(tmp_path: Path) -> None:
    """Describe lists and Alter changes; changes are logged as those of ``/v1/acls``."""
    with node_with_client(tmp_path / "log") as (node, client):
        path = acls_path(node)

        def statuses() -> list[int]:
            return [
                client.get(path).status_code,
                client.post(path, json=ALICE).status_code,
                client.post(f"{path}:batch", json={"data": [BOB]}).status_code,
                client.delete(path, params=TOPICS).status_code,
            ]

        assert statuses() == [403] * 4
        refused = client.post(path, content=b"{")
        assert (refused.status_code, refused.json()["error_code"]) == (403, 40301)
        assert "needs Alter on the cluster" in refused.json()["message"]
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        assert statuses() == [200, 403, 403, 403]
        create(node, [on_cluster(AclOperation.ALTER)])
        with capture_logs() as logged:
            assert statuses() == [200, 201, 201, 200]
        changes = [each for each in logged if each["event"] == "acls_changed"]
        assert [(each["request"], each["caller"], each["created"], each["deleted"]) for each in changes] == [
            ("CreateAcls", "User:ANONYMOUS", 1, 0),
            ("CreateAcls", "User:ANONYMOUS", 1, 0),
            ("DeleteAcls", "User:ANONYMOUS", 0, 2),
        ]


def test_nothing_is_answered_before_the_node_is_ready(tmp_path: Path) -> None:
    config = config_of(log_url=tmp_path / "log", log_mode="create")
    with Node.open(config) as node, sidecar_of(node) as url, httpx.Client(base_url=url) as client:
        path = acls_path(node)
        for answer in (
            client.get(CLUSTERS),
            client.get(path.removesuffix("/acls")),
            client.get(path),
            client.post(path, json=ALICE),
            client.post(f"{path}:batch", json={"data": [ALICE]}),
            client.delete(path, params=ALICE),
        ):
            assert (answer.status_code, answer.json()["error_code"]) == (503, 503)
            assert answer.headers["aclog-error"] == "AUTHORIZER_NOT_READY"
        assert node.log.high_watermark() == 0


def test_a_read_only_node_cannot_change_acls(tmp_path: Path) -> None:
    with (
        node_with_client(tmp_path / "log", ALL_CLUSTER_RIGHTS),
        running_node(tmp_path / "log", log_mode="read") as reader,
        sidecar_of(reader) as url,
    ):
        answer = httpx.post(url + acls_path(reader), json=ALICE)
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50003)
        assert answer.headers["aclog-error"] == "NOT_CONTROLLER"
        assert "write through the node that owns it" in answer.json()["message"]


def test_names_that_the_api_lacks_are_unknown(served: tuple[Node, httpx.Client]) -> None:
    """Confluent's library fails on a listing with another resource type."""
    node, client = served
    create(node, [acl("User:a", AclOperation.CREATE_TOKENS, "User:b", kind=ResourceType.USER)])
    (found,) = contents(client.get(acls_path(node), params={"resource_type": "USER"}))
    assert (found["resource_type"], found["operation"]) == ("UNKNOWN", "UNKNOWN")


def test_a_large_listing_is_complete(served: tuple[Node, httpx.Client]) -> None:
    """It is encoded in parts."""
    node, client = served
    create(node, [topic_acl(f"t {number:04}") for number in range(600)])
    found = contents(client.get(acls_path(node), params={"principal": "User:a"}))
    assert sorted(each["resource_name"] for each in found) == [f"t {number:04}" for number in range(600)]


def basic(user: str, password: str) -> Mapping[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def test_a_token_may_be_the_password_of_basic_credentials(tmp_path: Path) -> None:
    """As Confluent's clients send API keys, below /kafka/v3 only; failures count as those of the token."""
    tokens, (token, stored) = tmp_path / "tokens", new_token(KafkaPrincipal("User", "terraform"))
    TOKENS_FILE.put(tokens, stored)
    rights = [
        acl("User:terraform", operation, "kafka-cluster", kind=ResourceType.CLUSTER)
        for operation in (AclOperation.DESCRIBE, AclOperation.ALTER)
    ]
    settings: dict[str, Any] = {"auth_tokens_file": tokens, "auth_required_listeners": "PLAINTEXT"}
    with (
        running_node(tmp_path / "log", log_mode="create") as node,
        sidecar_of(node, **settings) as url,
        httpx.Client(base_url=url, timeout=SOON_S) as client,
    ):
        create(node, rights)
        path = acls_path(node)
        with capture_logs() as logged:
            assert client.post(path, json=ALICE, headers=basic("any", token)).status_code == 201
        assert [each["caller"] for each in logged if each["event"] == "acls_changed"] == ["User:terraform"]
        assert client.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert client.get(path, headers=basic("", token)).status_code == 200

        elsewhere = client.get("/v1/acls", headers=basic("any", token))
        assert elsewhere.status_code == 401
        assert elsewhere.headers["www-authenticate"].startswith("Bearer ")
        nobody = client.get(path)
        assert (nobody.status_code, nobody.json()["error_code"]) == (401, 40101)
        malformed = [
            basic("any", ""),
            basic(token, ""),
            basic("any", f"{token}\r\n"),
            basic("any", "päss"),
            {"authorization": "Basic"},
            {"authorization": "Basic !"},
            {"authorization": f"Basic {token}"},
            {"authorization": "Basic " + base64.b64encode(token.encode()).decode()},
        ]
        for headers in malformed * (FAILURES_MAX // 3):
            assert client.get(path, headers=headers).status_code == 401, headers
        wrong = basic("any", f"{token[:-1]}{'A' if token[-1] != 'A' else 'B'}")
        answers = [client.get(path, headers=wrong) for _ in range(FAILURES_MAX + 5)]
        assert answers[0].json() == {
            "error_code": 40101,
            "message": "the token is not known here, or was revoked",
        }
        assert answers[-1].status_code == 429
        assert client.get(path, headers=basic("any", token)).status_code == 200
