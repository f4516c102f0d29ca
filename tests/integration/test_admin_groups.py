"""Requests of Kafka's protocol about groups and transactions, with and without rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from records.acl import AclOperation, ResourceType
from records.principal import ANONYMOUS
from support.admin_requests import ask, decoded, request_frame
from support.admin_sockets import admin_server
from support.node_acls import acl
from support.nodes import create, running_node

GROUP_TYPE, TRANSACTION_TYPE = 0, 1


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node on which anonymous clients may do some operations to a group and a transactional id."""
    with running_node(tmp_path / "log", log_mode="create") as node:
        caller = str(ANONYMOUS)
        create(
            node,
            [
                acl(caller, AclOperation.DESCRIBE, "mine", kind=ResourceType.GROUP),
                acl(caller, AclOperation.DELETE, "mine", kind=ResourceType.GROUP),
                acl(caller, AclOperation.DESCRIBE, "mine", kind=ResourceType.TRANSACTIONAL_ID),
            ],
        )
        yield node


def answer(server: AdminServer, name: str, version: int, requested: dict[str, Any]) -> Any:
    return decoded(name, version, ask(server.addresses[0], request_frame(name, version, requested)))


def test_operations_on_a_group_are_those_of_its_acls(node: Node) -> None:
    """KIP-430"""
    requested = {"groups": ["mine", "other"], "include_authorized_operations": True}
    with admin_server(node) as server:
        # Denied groups come first, as on a broker.
        other, described = answer(server, "describe_groups", 5, requested).groups

    assert (described.error_code, described.group_state) == (ErrorCode.none, "Dead")
    assert described.authorized_operations == 1 << AclOperation.DESCRIBE | 1 << AclOperation.DELETE
    assert other.error_code is ErrorCode.group_authorization_failed
    assert other.authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("name", "version", "field"),
    [("describe_groups", 6, "groups"), ("consumer_group_describe", 1, "group_ids")],
)
def test_an_unknown_group_is_named_only_with_the_right(
    node: Node, name: str, version: int, field: str
) -> None:
    requested = {field: ["mine", "other"], "include_authorized_operations": True}
    with admin_server(node) as server:
        other, described = answer(server, name, version, requested).groups

    assert (described.error_code, described.error_message) == (
        ErrorCode.group_id_not_found,
        "Group mine not found.",
    )
    assert other.error_code is ErrorCode.group_authorization_failed


@pytest.mark.parametrize(
    ("key_type", "of_described", "of_other"),
    [
        (GROUP_TYPE, ErrorCode.none, ErrorCode.group_authorization_failed),
        (
            TRANSACTION_TYPE,
            ErrorCode.coordinator_not_available,
            ErrorCode.transactional_id_authorization_failed,
        ),
    ],
)
@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_coordinator_needs_describe(
    node: Node, version: int, key_type: int, of_described: ErrorCode, of_other: ErrorCode
) -> None:
    with admin_server(node) as server:
        found = []
        for key in ("mine", "other"):
            requested = {"key": key, "coordinator_keys": [key], "key_type": key_type}
            (one,) = coordinators(answer(server, "find_coordinator", version, requested))
            found.append(one.error_code)

    assert found == [of_described, of_other]


def coordinators(answered: Any) -> Any:
    return getattr(answered, "coordinators", (answered,))
