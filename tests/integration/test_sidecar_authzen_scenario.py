"""AuthZEN's certification scenario, against a real node: tests/data/authzen/README.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.routes.request_bodies import bindings_of
from authorizer.sidecar.server import Sidecar
from support.data import TESTS
from support.nodes import SOON_S, create

SCENARIO = json.loads((TESTS / "data" / "authzen" / "scenario.json").read_text(encoding="utf-8"))
PERMITTED = SCENARIO["tests"][0]
METADATA = "/.well-known/authzen-configuration"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a node with the scenario's settings and ACLs; the harness has no credentials, but may ask all."""
    flags = {
        "aclog.log.url": str(tmp_path_factory.mktemp("authzen") / "log"),
        "aclog.log.mode": "create",
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        **SCENARIO["settings"],
    }
    cluster = {
        "resourceType": "CLUSTER",
        "resourceName": "kafka-cluster",
        "principal": "User:ANONYMOUS",
        "operation": "DESCRIBE",
        "permissionType": "ALLOW",
    }
    config = load_config(environ={}, flags=flags)
    with ExitStack() as stack:
        node = stack.enter_context(Node.open(config))
        sidecar = stack.enter_context(Sidecar(config))
        node.start()
        assert node.wait_until_ready(SOON_S)
        create(node, bindings_of(json.dumps({"acls": [*SCENARIO["acls"], cluster]}).encode()))
        sidecar.start(node)
        yield stack.enter_context(httpx.Client(base_url=sidecar.urls[0], timeout=SOON_S))


def ask(client: httpx.Client, test: dict[str, Any], **headers: str) -> httpx.Response:
    content = test.get("content", json.dumps(test["request"]))
    kind = test.get("content_type", "application/json")
    return client.post(test["path"], content=content, headers={"content-type": kind, **headers})


@pytest.mark.parametrize("test", SCENARIO["tests"], ids=[test["id"] for test in SCENARIO["tests"]])
def test_the_scenario_is_decided_as_specified(client: httpx.Client, test: dict[str, Any]) -> None:
    """Status, form and values of each answer; X-Request-ID on all of them (2.5.1)."""
    answer = ask(client, test, **{"x-request-id": "r-1"})
    assert answer.status_code == test.get("status", 200), answer.text
    assert answer.headers["x-request-id"] == "r-1"
    assert answer.headers["content-type"] == "application/json"
    if answer.status_code != 200:
        assert isinstance(answer.json(), str)
        return
    found = answer.json()
    assert isinstance(found.get("context", {}), dict)
    if "decision" in test:
        assert found["decision"] is test["decision"]
    elif "decisions" in test:
        assert [each["decision"] for each in found["evaluations"]] == test["decisions"]
        assert "decision" not in found
    else:
        assert [each for each in test["results"] if each not in found["results"]] == []
        assert not test.get("only") or found["results"] == test["results"]
        of_type = test["request"].get("subject" if test["path"].endswith("subject") else "resource", {})
        fields = {"name"} if test["path"].endswith("action") else {"type", "id"}
        assert all(set(each) == fields for each in found["results"])
        assert {each.get("type", of_type["type"]) for each in found["results"]} <= {of_type["type"]}


def test_results_are_paged(client: httpx.Client) -> None:
    """4.5: a token goes on, and an empty one is the end."""
    (test,) = [test for test in SCENARIO["tests"] if test["id"] == "4.5.1"]
    first = ask(client, test).json()
    assert len(first["results"]) == 1
    token = first["page"]["next_token"]
    assert isinstance(token, str)
    assert token
    rest = ask(client, {**test, "request": {**test["request"], "page": {"token": token}}}).json()
    assert [each["id"] for each in first["results"] + rest["results"]] == ["alice", "bob"]
    assert rest["page"]["next_token"] == ""


def test_the_same_request_has_the_same_answer(client: httpx.Client) -> None:
    """2.6; and without X-Request-ID there is no failure (2.5.2)."""
    assert {ask(client, PERMITTED).json()["decision"] for _ in range(5)} == {True}


def test_the_metadata_is_discovered(client: httpx.Client) -> None:
    """6: below the base URL by which clients come, over HTTPS."""
    answer = client.get(METADATA)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    base = SCENARIO["settings"]["aclog.sidecar.public.url"]
    assert answer.json() == {
        "policy_decision_point": base,
        "access_evaluation_endpoint": f"{base}/access/v1/evaluation",
        "access_evaluations_endpoint": f"{base}/access/v1/evaluations",
        "search_subject_endpoint": f"{base}/access/v1/search/subject",
        "search_resource_endpoint": f"{base}/access/v1/search/resource",
        "search_action_endpoint": f"{base}/access/v1/search/action",
    }
    paths = client.get("/").json()["paths"]
    assert {url.removeprefix(base) for url in answer.json().values()} - {""} <= set(paths)
