"""Which right each route takes: a row for each operation of ``/openapi.json``; it is asked for first.

All of it on a node's own sidecar, and on a fleet's where the other cluster's ACLs allow everything.

A route without a row fails here, and so does one whose guard is gone, or asks for less than its row says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from authorizer.engine.decisions.authorize import authorize_actions
from authorizer.engine.explanation.explain import explain as explain_decision
from authorizer.node.node import Node
from authorizer.sidecar.app import NODE_OPERATIONS
from authorizer.sidecar.routes.confluent_acls import CLUSTERS_PATH
from records.acl import (
    CLUSTER_NAME,
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.principal import ANONYMOUS
from support.fleets import member_with_client
from support.node_acls import topic_acl
from support.nodes import create, node_with_client

CLUSTER = f"{CLUSTERS_PATH}/{{cluster_id}}"


class Needs(Enum):
    """What a caller must have: a right on the cluster, or none."""

    NOTHING = None
    DESCRIBE_FOR_OTHERS = AclOperation.DESCRIBE, "others"
    DESCRIBE = AclOperation.DESCRIBE, "all"
    ALTER = AclOperation.ALTER, "all"
    DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS, "all"
    ALTER_CONFIGS = AclOperation.ALTER_CONFIGS, "all"


NEEDS = {
    ("GET", "/"): Needs.NOTHING,
    ("GET", "/livez"): Needs.NOTHING,
    ("GET", "/readyz"): Needs.NOTHING,
    ("GET", "/metrics"): Needs.NOTHING,
    ("GET", "/openapi.json"): Needs.NOTHING,
    ("GET", "/.well-known/authzen-configuration"): Needs.NOTHING,
    ("POST", "/access/v1/evaluation"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/access/v1/evaluations"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/access/v1/search/resource"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/access/v1/search/action"): Needs.DESCRIBE_FOR_OTHERS,
    ("GET", "/v1/authorized-operations"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/v1/authorized-operations"): Needs.DESCRIBE_FOR_OTHERS,
    ("GET", "/v1/authorize-by-resource-type"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/v1/authorize-by-resource-type"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/v1/filter"): Needs.DESCRIBE_FOR_OTHERS,
    ("GET", "/v1/explain"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/v1/explain"): Needs.DESCRIBE_FOR_OTHERS,
    ("POST", "/access/v1/search/subject"): Needs.DESCRIBE,
    ("GET", "/v1/state"): Needs.DESCRIBE,  # for the digest of the meaning alone, which its example asks for
    ("GET", "/v1/acls"): Needs.DESCRIBE,
    ("GET", "/v1/acls/{id}"): Needs.DESCRIBE,
    ("GET", "/v1/changes"): Needs.DESCRIBE,
    ("POST", "/v1/acls"): Needs.ALTER,
    ("DELETE", "/v1/acls"): Needs.ALTER,
    ("POST", "/v1/plans"): Needs.ALTER,
    ("GET", CLUSTERS_PATH): Needs.NOTHING,
    ("GET", CLUSTER): Needs.NOTHING,
    ("GET", f"{CLUSTER}/acls"): Needs.DESCRIBE,
    ("POST", f"{CLUSTER}/acls"): Needs.ALTER,
    ("POST", f"{CLUSTER}/acls:batch"): Needs.ALTER,
    ("DELETE", f"{CLUSTER}/acls"): Needs.ALTER,
    ("GET", "/v1/config"): Needs.DESCRIBE_CONFIGS,
    ("PUT", "/v1/config"): Needs.ALTER_CONFIGS,
}
#: What the examples of some get that may ask: there is no such ACL, and no plan has such a checksum.
ADMITTED = {
    ("GET", "/v1/acls/{id}"): 404,
    ("POST", "/v1/plans"): 400,
    ("POST", f"{CLUSTER}/acls"): 201,
    ("POST", f"{CLUSTER}/acls:batch"): 201,
}
GUARDED = [needs for needs in Needs if needs.value is not None]
#: By which others a right comes, where it does.
IMPLIED_BY = {
    AclOperation.DESCRIBE: IMPLIES_DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS: IMPLIES_DESCRIBE_CONFIGS,
}


OpenNode = Callable[..., AbstractContextManager[tuple[Node, httpx.Client]]]


@pytest.fixture(params=[node_with_client, member_with_client], ids=["alone", "in a fleet"])
def open_node(request: pytest.FixtureRequest) -> OpenNode:
    found: OpenNode = request.param
    return found


def on_cluster(operation: AclOperation) -> AclBinding:
    cluster = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    return AclBinding(cluster, AccessControlEntry("User:ANONYMOUS", "*", operation, AclPermissionType.ALLOW))


def all_but(needed: AclOperation) -> list[AclBinding]:
    """Every right on the cluster that does not come with this one."""
    enough = {needed, AclOperation.ALL, *IMPLIED_BY.get(needed, ())}
    return [on_cluster(each) for each in AclOperation if each >= AclOperation.ALL and each not in enough]


def ask(client: httpx.Client, method: str, path: str, about: str = "User:alice") -> tuple[int, Any]:
    """Send the example about another principal; returns the status, or that of a refused batch."""
    operation = NODE_OPERATIONS[method, path]
    example = renamed(operation.example, about)
    in_query = method == "GET" or operation.in_query
    given: dict[str, Any] = {"params": example} if in_query else {"json": example}
    cluster_id = client.get("/v1/state").json()["cluster_id"]
    path = path.format(id="AAAAAAAAAAAAAAAAAAAAAQ", cluster_id=cluster_id)
    with client.stream(method, path, **given) as answer:
        if answer.status_code == HTTPStatus.CREATED:
            return answer.status_code, None
        if answer.headers["content-type"].startswith("text/event-stream"):
            return answer.status_code, None
        answer.read()
    body = answer.text if answer.headers["content-type"].startswith("text/") else answer.json()
    if answer.status_code == 200 and isinstance(body, dict) and "evaluations" in body:
        errors = [each["context"].get("error", {}).get("status") for each in body["evaluations"]]
        return (403 if set(errors) == {403} else 200), body
    return answer.status_code, body


def renamed(example: Any, principal: str) -> Any:
    """The same request about another principal."""
    if isinstance(example, dict):
        return {name: renamed(value, principal) for name, value in example.items()}
    if isinstance(example, list):
        return [renamed(value, principal) for value in example]
    return {"User:alice": principal, "alice": principal.partition(":")[2]}.get(example, example)


@contextmanager
def recorded_checks(node: Node) -> Iterator[list[str]]:
    """Whom decisions and explanations are made about meanwhile."""
    about: list[str] = []
    with (
        patch("authorizer.node.standard_authorizer.authorize_actions", wraps=authorize_actions) as authorize,
        patch("authorizer.node.standard_authorizer.explain", wraps=explain_decision) as explain,
        patch.object(node.authorizer, "acls", side_effect=AssertionError("it listed ACLs")),
    ):
        yield about
        about += [str(call.args[1].principal) for call in (*authorize.mock_calls, *explain.mock_calls)]


def test_every_route_has_a_guard_test() -> None:
    assert set(NEEDS) == set(NODE_OPERATIONS)


def test_unguarded_routes_are_answered(tmp_path: Path, open_node: OpenNode) -> None:
    with open_node(tmp_path) as (_, client):
        for (method, path), needs in NEEDS.items():
            if needs is Needs.NOTHING:
                assert ask(client, method, path)[0] == 200, path
        assert client.get("/v1/state").status_code == 200


@pytest.mark.parametrize("needs", GUARDED)
def test_a_route_requires_exactly_its_right(tmp_path: Path, open_node: OpenNode, needs: Needs) -> None:
    """With every other right on the cluster it is refused, with that one it is not."""
    right, _ = needs.value
    rows = [row for row, each in NEEDS.items() if each is needs]
    with open_node(tmp_path, [topic_acl("orders"), *all_but(right)]) as (node, client):
        for row in rows:
            with recorded_checks(node) as about:
                assert ask(client, *row)[0] == 403, row
            assert set(about) <= {str(ANONYMOUS)}, row
        create(node, [on_cluster(right)])
        for row in rows:
            assert ask(client, *row)[0] == ADMITTED.get(row, 200), row


def test_callers_need_no_right_to_query_themselves(tmp_path: Path, open_node: OpenNode) -> None:
    with open_node(tmp_path, [topic_acl("orders")]) as (_, client):
        for row, needs in NEEDS.items():
            status, _ = ask(client, *row, about=str(ANONYMOUS))
            expected = 200 if needs in {Needs.NOTHING, Needs.DESCRIBE_FOR_OTHERS} else 403
            assert status == expected, row


def test_a_refusal_reveals_nothing_about_the_principal(tmp_path: Path, open_node: OpenNode) -> None:
    """One who may everything, one who may nothing, one that is not there: the same words but for the name."""
    with open_node(tmp_path, [topic_acl("orders")], describe_principals="User:x") as (node, client):
        node.reconfiguration.put({"super.users": "User:root"}, "the test")
        for row, needs in NEEDS.items():
            if needs is not Needs.NOTHING:
                refusals = {
                    str(ask(client, *row, about=f"User:{name}")[1]).replace(f"User:{name}", "NAME")
                    for name in ("root", "a", "nowhere")
                }
                assert len(refusals) == 1, row
