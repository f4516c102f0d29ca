"""AuthZEN's searches over real HTTP: what they find, in pages, on one state; and who may search."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError
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
from support.nodes import create, delete, node_with_client

SUBJECT = "/access/v1/search/subject"
RESOURCE = "/access/v1/search/resource"
ACTION = "/access/v1/search/action"
CONTEXT = {"host": "10.0.0.1"}
ORDERS = {"type": "TOPIC", "id": "orders"}
SEARCHES: Mapping[str, dict[str, Any]] = {
    SUBJECT: {
        "subject": {"type": "User"},
        "action": {"name": "READ"},
        "resource": ORDERS,
        "context": CONTEXT,
    },
    RESOURCE: {
        "subject": {"type": "User", "id": "a"},
        "action": {"name": "READ"},
        "resource": {"type": "topic"},
        "context": CONTEXT,
    },
    ACTION: {"subject": {"type": "User", "id": "a"}, "resource": ORDERS, "context": CONTEXT},
}
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


def acl(
    principal: str,
    name: str,
    *,
    prefixed: bool = False,
    permission: AclPermissionType = ALLOW,
    operation: AclOperation = READ,
    kind: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    pattern = ResourcePattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)
    return AclBinding(pattern, AccessControlEntry(principal, "*", operation, permission))


MAY_LIST = acl("User:ANONYMOUS", CLUSTER_NAME, operation=DESCRIBE, kind=ResourceType.CLUSTER)
ACLS = [
    *(acl(f"User:{name}", "orders") for name in "abc"),
    acl("User:c", "orders", permission=DENY),
    acl("User:d", "order", prefixed=True),
    acl("User:e", "payments"),
    acl("Group:g", "orders"),
    acl("User:a", "pay", prefixed=True),
    acl("User:a", "pay.secret", prefixed=True, permission=DENY),
    acl("User:a", "pay.secret.a"),
]
#: The end of the log, with the ACL by which the caller may search.
END = len(ACLS) + 1


@pytest.fixture
def node_and_client(tmp_path: Path) -> Iterator[tuple[Node, httpx.Client]]:
    """The caller may describe the cluster."""
    with node_with_client(tmp_path / "log", ACLS) as (node, client):
        create(node, [MAY_LIST])
        yield node, client


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [result.get("id") or result["name"] for result in answer.json()["results"]]


def test_permitted_subjects_are_found(node_and_client: tuple[Node, httpx.Client]) -> None:
    """Principals that ACLs name, but for those that a DENY names; and whether everyone may."""
    node, client = node_and_client
    answer = client.post(SUBJECT, json=SEARCHES[SUBJECT])
    assert ids(answer) == ["a", "b", "d"]
    assert answer.json()["results"][0] == {"type": "User", "id": "a"}
    assert answer.json()["context"] == {"offset": END, "end_offset": END, "everyone": False}
    assert [*answer.json()] == ["page", "context", "results"]
    assert ids(client.post(SUBJECT, json={**SEARCHES[SUBJECT], "subject": {"type": "Group"}})) == ["g"]
    ignored = {**SEARCHES[SUBJECT], "subject": {"type": "User", "id": "b"}}
    assert ids(client.post(SUBJECT, json=ignored)) == ["a", "b", "d"]
    create(node, [acl("User:*", "orders")])
    answer = client.post(SUBJECT, json=SEARCHES[SUBJECT])
    assert (ids(answer), answer.json()["context"]["everyone"]) == (["ANONYMOUS", "a", "b", "d", "e"], True)


def test_super_users_are_found(tmp_path: Path) -> None:
    with node_with_client(tmp_path / "log", ACLS, describe_principals="") as (node, client):
        node.authorizer.configure({"super.users": "User:root;User:ANONYMOUS"})
        assert ids(client.post(SUBJECT, json=SEARCHES[SUBJECT])) == ["ANONYMOUS", "a", "b", "d", "root"]


def test_permitted_resources_are_found(node_and_client: tuple[Node, httpx.Client]) -> None:
    """Names that literal ACLs mention, for any principal; and of all other names, by which prefixes."""
    _, client = node_and_client
    answer = client.post(RESOURCE, json=SEARCHES[RESOURCE])
    assert ids(answer) == ["orders", "payments"]
    assert answer.json()["context"] == {
        "offset": END,
        "end_offset": END,
        "names": "acls",
        "prefixes": {"allowed": ["pay"], "denied": ["pay.secret"]},
    }
    assert answer.json()["results"][0] == {"type": "topic", "id": "orders"}
    cluster = {**SEARCHES[RESOURCE], "resource": {"type": "CLUSTER"}, "action": {"name": "DESCRIBE"}}
    cluster["subject"] = {"type": "User", "id": "ANONYMOUS"}
    assert ids(client.post(RESOURCE, json=cluster)) == [CLUSTER_NAME]


def test_existing_names_are_read_from_a_file(tmp_path: Path) -> None:
    """Read again when it changes, kept while it cannot be read; other types are as without one."""
    file = tmp_path / "names"
    file.write_text("TOPIC pay.1\n\ntopic pay.secret.1\nTOPIC other\n", encoding="utf-8")
    with node_with_client(tmp_path / "log", ACLS, search_resource_names=file) as (node, client):
        create(node, [MAY_LIST, acl("User:a", "g", kind=ResourceType.GROUP)])
        answer = client.post(RESOURCE, json=SEARCHES[RESOURCE])
        assert (ids(answer), answer.json()["context"]["names"]) == (["pay.1"], "existing")
        groups = {**SEARCHES[RESOURCE], "resource": {"type": "GROUP"}}
        assert ids(client.post(RESOURCE, json=groups)) == ["g"]
        file.write_text("TOPIC pay.1\nTOPIC pay.22\n", encoding="utf-8")
        assert ids(client.post(RESOURCE, json=SEARCHES[RESOURCE])) == ["pay.1", "pay.22"]
        with capture_logs() as lines:
            file.write_text("TOPIC\n", encoding="utf-8")
            assert ids(client.post(RESOURCE, json=SEARCHES[RESOURCE])) == ["pay.1", "pay.22"]
            file.unlink()
            assert ids(client.post(RESOURCE, json=SEARCHES[RESOURCE])) == ["pay.1", "pay.22"]
        assert [line["event"] for line in lines] == ["resource_names_not_read"] * 2
    with pytest.raises(ConfigError, match=r"aclog\.search\.resource\.names"):
        node_with_client(tmp_path / "log", ACLS, search_resource_names=file).__enter__()


def test_a_literal_of_a_name_that_does_not_exist_yet_is_listed(tmp_path: Path) -> None:
    """Beside the names that exist: where its answer is another than that of its prefixes."""
    file = tmp_path / "names"
    file.write_text("TOPIC pay.1\nTOPIC orders\n", encoding="utf-8")
    with node_with_client(tmp_path / "log", ACLS, search_resource_names=file) as (node, client):
        create(node, [MAY_LIST, acl("User:a", "later"), acl("User:a", "pay.later"), acl("User:b", "others")])
        create(node, [acl("User:a", "pay.not", permission=AclPermissionType.DENY)])
        answer = client.post(RESOURCE, json=SEARCHES[RESOURCE])
        assert ids(answer) == ["orders", "pay.1"]
        shown = answer.json()["context"]
        assert shown["prefixes"] == {"allowed": ["pay"], "denied": ["pay.secret"]}
        # pay.later has the answer of its prefix.
        assert shown["literals"] == {"allowed": ["later"], "denied": ["pay.not"]}
        for name, allowed in (("later", True), ("pay.not", False), ("pay.later", True), ("others", False)):
            evaluation = {**SEARCHES[RESOURCE], "resource": {"type": "TOPIC", "id": name}}
            assert client.post("/access/v1/evaluation", json=evaluation).json()["decision"] is allowed
        # It stands on the first page, as prefixes do.
        first = client.post(RESOURCE, json={**SEARCHES[RESOURCE], "page": {"limit": 1}}).json()
        assert first["context"]["literals"] == shown["literals"]
        page = {"token": first["page"]["next_token"]}
        assert (
            "literals"
            not in client.post(RESOURCE, json={**SEARCHES[RESOURCE], "page": page}).json()["context"]
        )


def test_permitted_actions_are_found(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    answer = client.post(ACTION, json=SEARCHES[ACTION])
    assert answer.json()["results"] == [{"name": "DESCRIBE"}, {"name": "READ"}]
    assert answer.json()["context"] == {"offset": END, "end_offset": END}


@pytest.mark.parametrize("path", SEARCHES)
def test_all_pages_show_one_state(
    node_and_client: tuple[Node, httpx.Client], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """What changes between two pages is in neither; when the state is not held any more it is 410."""
    node, client = node_and_client
    whole = ids(client.post(path, json=SEARCHES[path]))
    found, token = [], ""
    for number in range(10):
        page = {"limit": 1, "token": token}
        answer = client.post(path, json={**SEARCHES[path], "page": page})
        found += ids(answer)
        token = answer.json()["page"]["next_token"]
        assert answer.json()["page"]["count"] == len(ids(answer)) == 1
        assert answer.json()["context"]["offset"] == len(ACLS) + 1
        if not token:
            break
        create(node, [acl(f"User:{number}", "orders"), acl("User:a", f"o{number}")])
        delete(node, "pay.secret.a")
    assert found == whole
    first = client.post(path, json={**SEARCHES[path], "page": {"limit": 1}}).json()
    monkeypatch.setattr(recent_states, "STATES_MAX", 2)
    for number in range(3):
        create(node, [acl("User:z", f"z{number}")])
    page = {"token": first["page"]["next_token"]}
    expired = client.post(path, json={**SEARCHES[path], "page": page})
    assert (expired.status_code, expired.headers["aclog-error"]) == (410, "OFFSET_NOT_HELD")
    assert "without the token" in expired.json()


def test_a_page_of_zero_results_continues_at_the_start(node_and_client: tuple[Node, httpx.Client]) -> None:
    _, client = node_and_client
    none = client.post(SUBJECT, json={**SEARCHES[SUBJECT], "page": {"limit": 0}})
    assert ids(none) == []
    token = none.json()["page"]["next_token"]
    assert ids(client.post(SUBJECT, json={**SEARCHES[SUBJECT], "page": {"token": token}})) == ["a", "b", "d"]


def test_a_page_token_belongs_to_one_search(node_and_client: tuple[Node, httpx.Client]) -> None:
    """AuthZEN 8.2.1: with a token everything else is the same; a 400 otherwise."""
    _, client = node_and_client
    page = client.post(SUBJECT, json={**SEARCHES[SUBJECT], "page": {"limit": 1}}).json()["page"]
    for change in ({"action": {"name": "WRITE"}}, {"context": {"host": "10.0.0.2"}}):
        body = {**SEARCHES[SUBJECT], **change, "page": {"token": page["next_token"]}}
        answer = client.post(SUBJECT, json=body)
        assert (answer.status_code, "of another search" in answer.json()) == (400, True)
    for token in ("x", "é", page["next_token"][:-4]):
        assert client.post(SUBJECT, json={**SEARCHES[SUBJECT], "page": {"token": token}}).status_code == 400


def test_an_earlier_state_is_searched(node_and_client: tuple[Node, httpx.Client]) -> None:
    node, client = node_and_client
    end = node.status().end_offset
    delete(node, "orders")
    before = {**SEARCHES[SUBJECT], "context": {**CONTEXT, "at_offset": end - 1}}
    assert ids(client.post(SUBJECT, json=before)) == ["a", "b", "d"]
    assert ids(client.post(SUBJECT, json=SEARCHES[SUBJECT])) == ["d"]


def test_searches_require_describe(tmp_path: Path) -> None:
    """About itself anyone; about others, who may ask about others; who may do it, who may list ACLs."""
    with node_with_client(tmp_path / "log", ACLS) as (node, client):
        assert {
            path: client.post(path, json=body).status_code for path, body in SEARCHES.items()
        } == dict.fromkeys(SEARCHES, 403)
        for path in (RESOURCE, ACTION):
            itself = {**SEARCHES[path], "subject": {"type": "User", "id": "ANONYMOUS"}}
            assert ids(client.post(path, json=itself)) == []
        create(node, [MAY_LIST])
        assert {client.post(path, json=body).status_code for path, body in SEARCHES.items()} == {200}
        token = client.post(SUBJECT, json={**SEARCHES[SUBJECT], "page": {"limit": 1}}).json()["page"]
        delete(node, CLUSTER_NAME)
        page = {"token": token["next_token"]}
        # The token's state is one in which the caller might.
        assert client.post(SUBJECT, json={**SEARCHES[SUBJECT], "page": page}).status_code == 403


def test_the_right_to_query_others_does_not_list_principals(tmp_path: Path) -> None:
    with node_with_client(tmp_path / "log", ACLS, describe_principals="User:ANONYMOUS") as (_, client):
        statuses = {path: client.post(path, json=body).status_code for path, body in SEARCHES.items()}
        assert statuses == {SUBJECT: 403, RESOURCE: 200, ACTION: 200}


def test_unknown_types_have_no_results(node_and_client: tuple[Node, httpx.Client]) -> None:
    """Certification 4.6.2; an action that Kafka does not know is a mistake, and so is what is absent."""
    _, client = node_and_client
    for path, part in (
        (SUBJECT, "subject"),
        (SUBJECT, "resource"),
        (RESOURCE, "resource"),
        (ACTION, "resource"),
    ):
        body = {**SEARCHES[path], part: {**SEARCHES[path][part], "type": "spaceship"}}
        assert ids(client.post(path, json=body)) == []
    for path in (SUBJECT, RESOURCE):
        assert client.post(path, json={**SEARCHES[path], "action": {"name": "FLY"}}).status_code == 400
    for path, search in SEARCHES.items():
        for part in search:
            body = {name: value for name, value in search.items() if name != part}
            assert client.post(path, json=body).status_code == 400, (path, part)
        as_of = {**search, "context": {**CONTEXT, "as_of": 3}}
        assert "at_offset" in client.post(path, json=as_of).json()
        plain = client.post(path, content=json.dumps(search), headers={"content-type": "text/plain"})
        assert (plain.status_code, plain.headers["aclog-error"]) == (400, "INVALID_HEADER")
