"""Confluent's own Go library, with the calls of its Terraform provider, against a running sidecar."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from authorizer.node.node import Node
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from records.acl import CLUSTER_NAME, AclOperation, ResourceType
from records.principal import KafkaPrincipal
from support.go_programs import CONFLUENT_ACLS
from support.node_acls import ANY_ACL, acl, names, topic_acl
from support.nodes import SOON_S, create, running_node, sidecar_of

pytestmark = pytest.mark.integration

ORDERS = {
    "resource_type": "TOPIC",
    "resource_name": "orders & more",
    "pattern_type": "PREFIXED",
    "principal": "User:CN=a,O=b+c/ä",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
}
READER = {**ORDERS, "resource_type": "GROUP", "resource_name": "*", "pattern_type": "LITERAL"}
INVALID = {**ORDERS, "resource_type": "CLUSTER"}

Send = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Node, Send]]:
    """A node, and a function that sends requests with the token of User:terraform by default."""
    directory = CONFLUENT_ACLS.directory()
    if directory is None:
        pytest.skip(CONFLUENT_ACLS.missing_reason())
    program = directory / CONFLUENT_ACLS.name
    tokens, (token, stored) = tmp_path / "tokens", new_token(KafkaPrincipal("User", "terraform"))
    TOKENS_FILE.put(tokens, stored)
    with (
        running_node(tmp_path / "log", log_mode="create") as node,
        sidecar_of(node, auth_tokens_file=tokens, auth_required_listeners="PLAINTEXT") as url,
    ):
        create(
            node,
            [
                acl("User:terraform", operation, CLUSTER_NAME, kind=ResourceType.CLUSTER)
                for operation in (AclOperation.DESCRIBE, AclOperation.ALTER)
            ],
        )

        def send(
            *requests: tuple[str, list[Mapping[str, str]]], secret: str = token, cluster: str | None = None
        ) -> list[dict[str, Any]]:
            identity = node.status().identity
            assert identity is not None
            ran = subprocess.run(
                [program, url, cluster or identity.cluster_id, "the-api-key", secret],
                input="".join(json.dumps({"do": name, "acls": acls}) + "\n" for name, acls in requests),
                capture_output=True,
                text=True,
                check=True,
                timeout=SOON_S,
            )
            return [json.loads(line) for line in ran.stdout.splitlines()]

        yield node, send


def fields(found: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{name: each[name] for name in ORDERS} for each in found["value"]["data"]]


def test_confluents_library_creates_lists_and_deletes(served: tuple[Node, Send]) -> None:
    """What the provider does for ``terraform apply``, a refresh, and ``terraform destroy``."""
    node, send = served
    cluster, created, read, again, batch, listed = send(
        ("cluster", []),
        ("create", [ORDERS]),
        ("read", [ORDERS]),
        ("create", [ORDERS]),
        ("batch", [ORDERS, READER]),
        ("list", []),
    )
    assert (cluster["status"], cluster["value"]["kind"]) == (200, "KafkaCluster")
    assert [each["status"] for each in (created, again, batch)] == [201, 201, 201]
    assert (fields(read), read["error"]) == ([ORDERS], "")
    assert {each["resource_name"] for each in fields(listed)} == {CLUSTER_NAME, "orders & more", "*"}
    assert names(node.authorizer.acls(ANY_ACL)) == {CLUSTER_NAME, "orders & more", "*"}

    deleted, reread, repeated = send(("delete", [ORDERS]), ("read", [ORDERS]), ("delete", [ORDERS]))
    assert fields(deleted) == [ORDERS]
    assert reread["value"]["data"] == repeated["value"]["data"] == []
    assert names(node.authorizer.acls(ANY_ACL)) == {CLUSTER_NAME, "*"}


def test_confluents_library_reads_every_listing(served: tuple[Node, Send]) -> None:
    """Also one of several parts, and with an ACL whose type it does not know."""
    node, send = served
    create(node, [topic_acl(f"t{number}") for number in range(600)])
    create(node, [acl("User:a", AclOperation.CREATE_TOKENS, "User:b", kind=ResourceType.USER)])
    (listed,) = send(("list", []))
    assert (listed["error"], len(listed["value"]["data"])) == ("", 603)


def test_confluents_library_understands_the_errors(served: tuple[Node, Send]) -> None:
    """The provider prints their messages; it forgets an ACL only after a 404."""
    node, send = served
    (refused,) = send(("create", [INVALID]))
    assert (refused["status"], refused["model"]) == (
        400,
        {"error_code": 40002, "message": "The only valid name for the CLUSTER resource is kafka-cluster"},
    )
    (unknown,) = send(("read", [ORDERS]), cluster="other")
    assert unknown["status"] == 404
    (wrong,) = send(("list", []), secret="wrong")
    assert (wrong["status"], wrong["model"]["error_code"]) == (401, 40101)
    (nobody,) = send(("create", [ORDERS]), secret="")
    assert (nobody["status"], nobody["model"]["error_code"]) == (401, 40101)
    assert names(node.authorizer.acls(ANY_ACL)) == {CLUSTER_NAME}
