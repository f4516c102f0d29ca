"""Kafka's own kafka-acls against a node, beside the same command lines against a real broker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from authorizer.admin_server.server import AdminServer
from support.kafka_acls import blocks
from support.kafka_broker import jar_broker
from support.kafka_jars import KAFKA_VERSION
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


_PRINCIPALS = (
    "User:test2",
    "User:CN=writer,OU=Unknown,O=Unknown,C=Unknown",
    "User:CN=\\#name with special characters : (\\, \\+ \" \\ \\< \\> \\; ')",
)
_RESOURCES = {
    "--topic test-1 --topic test-2": "Read Write Create Describe Delete DescribeConfigs AlterConfigs Alter",
    "--cluster": "Create ClusterAction DescribeConfigs AlterConfigs IdempotentWrite Alter Describe",
    "--group group-1 --group group-2": "Read Describe Delete",
    "--transactional-id t0 --transactional-id t1": "Describe Write",
    "--delegation-token token1 --delegation-token token2": "Describe",
    "--user-principal User:test-1 --user-principal User:test-2": "CreateTokens DescribeTokens",
}
_ROLES = {
    "--producer": "--topic test-1 --topic test-2 --transactional-id t0 --transactional-id t1",
    "--producer --idempotent": "--topic test-1 --topic test-2 --transactional-id t0",
    "--consumer": "--topic test-1 --topic test-2 --group group-1 --group group-2",
    "--producer --consumer": "--topic test-1 --topic test-2 --group group-1 --group group-2",
    "--producer --idempotent --consumer": "--topic test-1 --topic test-2 --group group-1",
}


def scenarios() -> Iterator[list[str]]:
    """The scenarios of Kafka's AclCommandTest, but those that send nothing, and those of the wrong listener.

    A node answers `--bootstrap-server` and `--bootstrap-controller` on one listener.
    """
    for kind in ("allow", "deny"):
        users = [f"--{kind}-host", "host1", f"--{kind}-host", "host2"]
        users += [part for each in _PRINCIPALS for part in (f"--{kind}-principal", each)]
        for resource, operations in _RESOURCES.items():
            wanted = [part for each in operations.split() for part in ("--operation", each)]
            yield ["--add", *users, *resource.split(), *wanted]
            yield ["--list"]
            yield ["--remove", "--force", *resource.split()]
            yield ["--list"]
        if kind == "allow":
            for role, resource in _ROLES.items():
                yield ["--add", *users, *role.split(), *resource.split()]
                yield ["--list"]
                yield ["--remove", "--force", *role.split(), *resource.split()]
                yield ["--list"]
    # KIP-939; 3.9's command does not know it.
    two_phases = ["--transactional-id", "t0", "--transactional-id", "t1"]
    yield ["--add", "--allow-principal", "User:test2", "--operation", "TwoPhaseCommit", *two_phases]
    yield ["--list"]
    yield ["--remove", "--force", *two_phases]
    prefixed = [
        "--allow-principal",
        "User:test2",
        "--producer",
        "--topic",
        "Test-",
        "--resource-pattern-type",
        "Prefixed",
    ]
    yield ["--add", *prefixed]
    yield ["--list", "--topic", "Test-", "--resource-pattern-type", "Prefixed"]
    yield ["--remove", "--force", *prefixed]
    for pattern in ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"):
        of_type = ["--topic", "Test", "--resource-pattern-type", pattern]
        yield ["--add", "--allow-principal", "User:test2", "--producer", *of_type]
        yield ["--list", *of_type]
        yield ["--remove", "--force", *of_type]
    duplicate = ["--add", "--topic", "test", "--allow-principal", "User:Alice", "--operation", "Read"]
    yield from (duplicate, duplicate)
    # Refused by the command itself.
    for refused in (
        "--bootstrap-controller localhost:9092 --list",
        "--add --list",
        "--add --list --remove",
        "--add --principal User:CN=client",
        "--add --producer",
        "--add --idempotent",
        "--add --consumer",
        "--list --producer",
        "--add --producer --operation all",
        "--add --consumer --operation --topic test --group test",
        "--add --allow-principal User:a --topic test --operation Commit",
    ):
        yield refused.split()
    yield ["--list"]


#: With properties of the client: testAclCliWithClientId.
WITH_CONFIG = (
    "--add --deny-principal User:test2 --operation Read --operation Write --topic test-1 --topic test-2",
    "--list",
    "--remove --force --topic test-1 --topic test-2",
    "--list",
)
SCENARIOS = tuple(scenarios())
#: Releases of the command, of the broker and of the node. 3.9's command has no `--bootstrap-controller`.
#: KAFKA_VERSION is between two with both options, and its broker lists by both in the gate.
CROSS_PRODUCT = [
    ("3.9.2", "--bootstrap-server"),
    ("4.0.2", "--bootstrap-server"),
    ("4.0.2", "--bootstrap-controller"),
    (KAFKA_VERSION, "--bootstrap-server"),
    ("4.4.0", "--bootstrap-server"),
    ("4.4.0", "--bootstrap-controller"),
]


#: A broker answers a change before it has replayed it, so a listing may lack it: the last of several counts.
LISTINGS: Final = 4


def test_kafka_acls_prints_the_same(tmp_path: Path) -> None:
    """In the gate: the lines without Kafka's scenarios, by one release."""
    assert_prints_the_same(tmp_path, KAFKA_VERSION, "--bootstrap-server", [line.split() for line in LINES])


@pytest.mark.long
@pytest.mark.parametrize(("version", "option"), CROSS_PRODUCT)
def test_kafka_acls_of_each_release_prints_the_same(tmp_path: Path, version: str, option: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=my-client\n")
    lines = [
        *(line.split() for line in LINES),
        ["--remove", "--force", "--cluster"],
        *SCENARIOS,
        *([*line.split(), "--command-config", str(config)] for line in WITH_CONFIG),
        ["--list", "--command-config", str(tmp_path / "missing.properties")],
    ]
    assert_prints_the_same(tmp_path, version, option, lines)


def assert_prints_the_same(tmp_path: Path, version: str, option: str, lines: Sequence[Sequence[str]]) -> None:
    with jar_broker(version=version) as broker:
        controller = option == "--bootstrap-controller"
        address = broker.controllers if controller else broker.bootstrap_servers
        assert address is not None
        repeated = [line for line in lines for _ in range(LISTINGS if line[0] == "--list" else 1)]
        runs = iter(run_lines([option, address], repeated, version))
        expected = [[next(runs) for _ in range(LISTINGS if line[0] == "--list" else 1)][-1] for line in lines]
    assert_equal(lines, node_runs(tmp_path / "log", option, lines, version), expected)


def test_kafka_acls_of_each_release_lists_the_same(tmp_path: Path) -> None:
    """A short version: one broker for all releases of the command."""
    lines = [["--add", "--allow-principal", "User:a", "--operation", "All", "--topic", "orders"], ["--list"]]
    options = ("--bootstrap-server", "--bootstrap-controller")
    with (
        jar_broker() as broker,
        serving(tmp_path / "log", KAFKA_VERSION) as address,
    ):
        assert broker.controllers is not None
        for version in ("4.0.2", "4.4.0"):
            of_node = [[option, address, *line] for option in options for line in lines]
            servers = zip(options, (broker.bootstrap_servers, broker.controllers), strict=True)
            of_broker = [[*each, *line] for each in servers for line in lines]
            runs = run_tools(ACLS, [*of_broker, *of_node], version=version)
            assert_equal(lines * 2, runs[4:], runs[:4])
            assert any("principal=User:a" in line for _, block in blocks(runs[-1].out) for line in block)


@contextmanager
def serving(log: Path, version: str) -> Iterator[str]:
    """The address of a node with an empty log, of that release."""
    release = version.rpartition(".")[0]
    with (
        running_node(log, log_mode="create", kafka_version=release) as node,
        AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server,
    ):
        node.authorizer.reconfigure({"super.users": "User:ANONYMOUS", "aclog.kafka.version": release})
        server.start(node)
        yield server.addresses[0]


def node_runs(log: Path, option: str, lines: Sequence[Sequence[str]], version: str) -> list[ToolRun]:
    with serving(log, version) as address:
        return run_lines([option, address], lines, version)


def run_lines(server: Sequence[str], lines: Sequence[Sequence[str]], version: str) -> list[ToolRun]:
    # Scala, and in another package, until Kafka 4.0.
    tool = "kafka.admin.AclCommand" if version == "3.9.2" else ACLS
    return run_tools(tool, [[*server, *line] for line in lines], version=version, timeout_s=300)


def assert_equal(
    lines: Sequence[Sequence[str]], found: Sequence[ToolRun], expected: Sequence[ToolRun]
) -> None:
    for line, ours, theirs in zip(lines, found, expected, strict=True):
        assert ours.exit == theirs.exit, (line, ours, theirs)
        # Kafka prints in the order of hash tables.
        assert blocks(ours.out) == blocks(theirs.out), line
        assert first_error(ours.err) == first_error(theirs.err), line


def first_error(text: str) -> str:
    return re.sub(r"\[[^\]]*\]", "[]", text.partition("\n")[0])
