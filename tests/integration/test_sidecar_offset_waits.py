"""Requests that wait for an offset: who may not ask does not wait, and nobody waits for what cannot come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from authorizer.node.node import Node
from authorizer.sidecar.routes import request_state
from authorizer.sidecar.routes.request_state import AHEAD_MAX
from records.acl import CLUSTER_NAME, AclOperation
from support.node_acls import acl, on_cluster, topic_acl
from support.nodes import SOON_S, create, delete, running_node, sidecar_of
from support.waiting import wait_until

SUBJECT = {"type": "User", "id": "another"}
RESOURCE = {"type": "TOPIC", "id": "orders"}
EVALUATION = {"subject": SUBJECT, "action": {"name": "READ"}, "resource": RESOURCE}
KAFKA = {"principal": "User:another", "host": "10.0.0.1", "operation": "READ", "resourceType": "TOPIC"}
AN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

#: Path and body of requests about another principal or about all ACLs; without a body it is a GET.
QUESTIONS: dict[str, dict[str, Any] | None] = {
    "/v1/acls": None,
    f"/v1/acls/{AN_ID}": None,
    "/access/v1/evaluation": EVALUATION,
    "/access/v1/evaluations": {"evaluations": [EVALUATION] * 2},
    "/access/v1/search/subject": {**EVALUATION, "subject": {"type": "User"}},
    "/access/v1/search/resource": {**EVALUATION, "resource": {"type": "TOPIC"}},
    "/access/v1/search/action": {"subject": SUBJECT, "resource": RESOURCE},
    "/v1/authorized-operations": {k: v for k, v in KAFKA.items() if k != "operation"} | {"resourceName": "x"},
    "/v1/authorize-by-resource-type": KAFKA,
    "/v1/explain": {**KAFKA, "resourceName": "orders"},
    "/v1/filter": {**KAFKA, "resourceNames": ["orders"]},
}


def send_request(client: httpx.Client, path: str, offset: int) -> httpx.Response:
    """Send a request that needs a state at the offset or later."""
    body = QUESTIONS[path]
    if body is None:
        return client.get(path, params={"min_offset": offset})
    if path.startswith("/access/"):
        return client.post(path, json={**body, "context": {"host": "10.0.0.1", "min_offset": offset}})
    return client.post(path, json={**body, "min_offset": offset})


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """Whose requests wait longer than any test does."""
    monkeypatch.setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 3600.0)
    with running_node(tmp_path_factory.mktemp("waits") / "log", log_mode="create") as node:
        create(node, [topic_acl("orders")])
        yield node


@pytest.mark.parametrize("path", QUESTIONS)
def test_an_unauthorized_caller_does_not_wait(node: Node, path: str) -> None:
    with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        answer = send_request(client, path, node.status().end_offset + 1)
        assert (answer.status_code, answer.headers["aclog-error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")
        assert not node.loader._waiting


@pytest.mark.parametrize("path", QUESTIONS)
def test_an_offset_far_beyond_the_end_is_a_bad_request(node: Node, path: str) -> None:
    create(node, [on_cluster(AclOperation.DESCRIBE)])
    with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        answer = send_request(client, path, node.status().end_offset + AHEAD_MAX + 1)
        assert (answer.status_code, answer.headers["aclog-error"]) == (400, "INVALID_REQUEST"), answer.text
        assert "beyond the end of the log" in answer.text


@pytest.mark.parametrize("path", QUESTIONS)
def test_a_right_that_is_removed_during_the_wait_is_refused(node: Node, path: str) -> None:
    create(node, [on_cluster(AclOperation.DESCRIBE)])
    answers = []
    with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        wanted = node.status().end_offset + 1
        asking = threading.Thread(target=lambda: answers.append(send_request(client, path, wanted)))
        asking.start()
        wait_until(lambda: node.loader._waiting)
        delete(node, CLUSTER_NAME)
        asking.join()
    (answer,) = answers
    if path == "/access/v1/evaluations":
        assert [each["decision"] for each in answer.json()["evaluations"]] == [False, False]
        assert "may ask about itself only" in answer.text
    else:
        assert (answer.status_code, answer.headers["aclog-error"]) == (403, "CLUSTER_AUTHORIZATION_FAILED")


def test_a_batch_waits_if_some_items_are_authorized(node: Node) -> None:
    answers = []
    itself = {**EVALUATION, "subject": {"type": "User", "id": "ANONYMOUS"}}
    with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        context = {"host": "10.0.0.1", "min_offset": node.status().end_offset + 1}
        body = {"evaluations": [EVALUATION, itself], "context": context}
        asking = threading.Thread(
            target=lambda: answers.append(client.post("/access/v1/evaluations", json=body))
        )
        asking.start()
        wait_until(lambda: node.loader._waiting)
        create(node, [acl("User:ANONYMOUS", AclOperation.READ, "orders")])
        asking.join()
    (answer,) = answers
    assert [each["decision"] for each in answer.json()["evaluations"]] == [False, True]
