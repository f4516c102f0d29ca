"""Kafka's own kafka-acls against a node, beside the same command lines against a real broker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from authorizer.admin_server.server import AdminServer
from support.kafka_acls import blocks
from support.kafka_broker import jar_broker
from support.kafka_jars import KAFKA_VERSION, kafka_libs
from support.kafka_tools import ACLS, ToolRun, run_tools
from support.nodes import config_of, running_node

#: In order: each finds what the ones before it left.
LINES = (
    "--list",
    "--add --allow-principal User:alice --operation Read --operation Describe --topic orders",
    "--add --deny-principal User:bob --operation All --topic ord --resource-pattern-type prefixed",
    "--add --deny-principal User:bob --deny-host 10.0.0.1 --operation All --topic orders",
    "--add --allow-principal User:app --producer --topic payments --transactional-id tx --idempotent",
    "--add --allow-principal User:app --consumer --topic payments --group team-",
    "--add --allow-principal User:ops --operation Alter --cluster",
    "--add --allow-principal User:ops --operation Describe --delegation-token token",
    "--add --allow-principal User:ops --operation CreateTokens --user-principal User:alice",
    "--add --allow-principal nobody --operation Read --topic orders",
    "--add --allow-principal User:alice --operation Read --topic orders",
    "--list",
    "--list --principal User:alice",
    "--list --topic orders",
    "--list --topic orders --resource-pattern-type match",
    "--list --group team-",
    "--list --cluster",
    "--list --topic nothing",
    "--remove --force --allow-principal User:alice --operation Read --topic orders",
    "--remove --force --topic payments",
    "--remove --force --topic nothing",
    "--list",
)


@pytest.mark.parametrize("version", [KAFKA_VERSION, pytest.param("3.9.2", marks=pytest.mark.long)])
def test_kafka_acls_prints_the_same(tmp_path: Path, version: str) -> None:
    with jar_broker(version=version) as broker:
        expected = run_lines(broker.bootstrap_servers, version)
    assert_equal(node_runs(tmp_path / "log", version), expected)


def node_runs(log: Path, version: str) -> list[ToolRun]:
    with (
        running_node(log, log_mode="create", kafka_version=version.rpartition(".")[0]) as node,
        AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server,
    ):
        node.authorizer.reconfigure(
            {"super.users": "User:ANONYMOUS", "aclog.kafka.version": version.rpartition(".")[0]}
        )
        server.start(node)
        found = run_lines(server.addresses[0], version)
        if version == "3.9.2":  # it has no --bootstrap-controller
            return found
        controller = [["--bootstrap-controller", server.addresses[0], *LINES[-1].split()]]
        (listed,) = run_tools(tool_of(version), controller, libs=kafka_libs(version))
        assert blocks(listed.out) == blocks(found[-1].out), listed
        return found


def run_lines(address: str, version: str) -> list[ToolRun]:
    lines = [["--bootstrap-server", address, *line.split()] for line in LINES]
    return run_tools(tool_of(version), lines, libs=kafka_libs(version))


def tool_of(version: str) -> str:
    # Scala, and in another package, until Kafka 4.0.
    return "kafka.admin.AclCommand" if version == "3.9.2" else ACLS


def assert_equal(found: Sequence[ToolRun], expected: Sequence[ToolRun]) -> None:
    assert len(found) == len(expected) == len(LINES)
    for line, ours, theirs in zip(LINES, found, expected, strict=True):
        assert ours.exit == theirs.exit, (line, ours, theirs)
        # Kafka prints in the order of hash tables.
        assert blocks(ours.out) == blocks(theirs.out), line
        assert first_error(ours.err) == first_error(theirs.err), line


def first_error(text: str) -> str:
    return re.sub(r"\[[^\]]*\]", "[]", text.partition("\n")[0])
