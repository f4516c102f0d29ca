"""`aclog acls` beside Kafka's own kafka-acls: same flags, same effect, same text, same refusals."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from records.ids import binding_uuid
from records.log.directory import DirectoryLog
from support.kafka_acls import Acl, Answer, Question, ask_kafka_acls, blocks


def acl(
    name: str,
    principal: str,
    operation: str,
    *,
    resource_type: str = "TOPIC",
    pattern_type: str = "LITERAL",
    host: str = "*",
    permission: str = "ALLOW",
) -> Acl:
    return {
        "resourceType": resource_type,
        "resourceName": name,
        "patternType": pattern_type,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permissionType": permission,
    }


EXISTING = (
    acl("orders", "User:alice", "READ"),
    acl("orders", "User:alice", "WRITE", host="10.0.0.1"),
    acl("orders", "User:bob", "ALL", permission="DENY"),
    acl("ord", "User:bob", "READ", pattern_type="PREFIXED"),
    acl("*", "User:*", "DESCRIBE"),
    acl("app", "User:alice", "READ", resource_type="GROUP"),
    acl("kafka-cluster", "User:alice", "CREATE", resource_type="CLUSTER"),
    acl("tx", "User:alice", "WRITE", resource_type="TRANSACTIONAL_ID", pattern_type="PREFIXED"),
    acl("token", "User:alice", "DESCRIBE", resource_type="DELEGATION_TOKEN"),
    acl("User:alice", "User:bob", "CREATE_TOKENS", resource_type="USER"),
    acl("zürich-日本", "User:a:b,c=d", "READ"),
)

RESOURCES = (
    "--topic orders",
    "--topic orders --topic ord",
    "--group app",
    "--cluster",
    "--transactional-id tx-1",
    "--delegation-token token",
    "--user-principal User:alice",
    "--topic * --group *",
)

LISTINGS = [
    "--list",
    "--list --principal User:alice",
    "--list --principal User:alice --principal User:bob",
    "--list --principal User:nobody",
    "--list --topic zürich-日本",
    "--list --operation Read --force",
    *(
        f"--list {resource} --resource-pattern-type {kind}"
        for resource, kind in itertools.product(RESOURCES, ("literal", "prefixed", "any", "MATCH"))
    ),
    "--list --topic orders --resource-pattern-type match --principal User:bob",
]

ADDITIONS = [
    "--add --topic orders --allow-principal User:alice --operation Read",
    "--add --topic orders --allow-principal User:alice --operation Read --operation write",
    "--add --topic new --allow-principal User:carol",
    "--add --topic new --allow-principal User:carol --allow-host 10.0.0.1 --allow-host 10.0.0.2",
    "--add --topic new --deny-principal User:carol --deny-host 10.0.0.1 --operation All",
    "--add --topic new --allow-principal User:a --deny-principal User:b --deny-host h",
    "--add --topic new --allow-principal User:a --deny-host h",
    "--add --topic n --topic m --group g --allow-principal User:a --operation Describe",
    "--add --topic n --resource-pattern-type prefixed --allow-principal User:a --operation DescribeConfigs",
    "--add --cluster --allow-principal User:a --operation ClusterAction",
    "--add --topic n --cluster --allow-principal User:a",
    "--add --transactional-id t --allow-principal User:a --operation TwoPhaseCommit",
    "--add --delegation-token t --allow-principal User:a --operation Describe",
    "--add --user-principal User:x --allow-principal User:a --operation createtokens",
    "--add --topic n --producer --allow-principal User:a",
    "--add --topic n --producer --idempotent --allow-principal User:a",
    "--add --topic n --transactional-id t --producer --allow-principal User:a",
    "--add --topic n --resource-pattern-type prefixed --producer --idempotent --allow-principal User:a",
    "--add --topic n --group g --consumer --allow-principal User:a",
    "--add --topic n --group g --producer --consumer --allow-principal User:a --allow-host h",
    "--add --topic n --group g --cluster --transactional-id t --producer --consumer --allow-principal User:a",
    "--add --topic n --cluster --producer --allow-principal User:a",
    "--add --topic n --allow-principal :",
    "--add --topic n --allow-principal User:",
    "--add --topic n --allow-principal User:a:b,c",
    "--add --topic zürich-日本 --allow-principal User:a:b,c=d --operation Read",
]

REMOVALS = [
    "--remove --topic orders --force",
    "--remove --topic orders --resource-pattern-type any --force",
    "--remove --topic orders --resource-pattern-type match --force",
    "--remove --topic ord --resource-pattern-type prefixed --force",
    "--remove --topic orders --allow-principal User:alice --operation Read --force",
    "--remove --topic orders --allow-principal User:alice --force",
    "--remove --topic orders --deny-principal User:bob --force",
    "--remove --topic orders --topic ord --group app --force",
    "--remove --topic orders --group app --consumer --allow-principal User:alice --force",
    "--remove --cluster --force",
    "--remove --topic nothing-here --force",
]

REFUSALS = [
    "",
    "--add --list",
    "--add --remove --topic t",
    "--topic t",
    "--add --allow-principal User:a",
    "--add --topic t",
    "--add --topic t --allow-host h",
    "--add --topic t --producer",
    "--add --topic t --resource-pattern-type match --allow-principal User:a",
    "--add --topic t --resource-pattern-type any --allow-principal User:a",
    "--add --topic t --allow-principal alice",
    "--add --topic t --deny-principal alice",
    "--add --topic t --operation foo --allow-principal User:a",
    "--add --topic t --operation any --allow-principal User:a",
    "--add --topic t --operation Any --operation CreateTokens --allow-principal User:a",
    "--add --topic t --group g --operation Write --allow-principal User:a",
    "--add --topic t --operation CreateTokens --allow-principal User:a",
    "--add --group t --operation Write --allow-principal User:a",
    "--add --cluster --operation Write --allow-principal User:a",
    "--add --transactional-id t --operation Read --allow-principal User:a",
    "--add --delegation-token t --operation Read --allow-principal User:a",
    "--add --user-principal User:t --operation Read --allow-principal User:a",
    "--add --cluster --resource-pattern-type prefixed --allow-principal User:a",
    "--add --topic t --producer --operation Read --allow-principal User:a",
    "--add --topic t --consumer --deny-principal User:a",
    "--add --topic t --producer --allow-principal User:a --deny-host h",
    "--add --group t --producer --allow-principal User:a",
    "--add --topic t --idempotent --allow-principal User:a",
    "--add --topic t --consumer --allow-principal User:a",
    "--add --topic t --group g --cluster --consumer --allow-principal User:a",
    "--add --topic t --group g --transactional-id t --consumer --allow-principal User:a",
    "--add --topic t --principal User:a --allow-principal User:a",
    "--remove --topic t --principal User:a --force",
    "--remove --force",
    "--remove --topic t --operation any --allow-principal User:a --force",
    "--add --operation any --allow-principal User:a",
    "--remove --topic t --operation CreateTokens --allow-principal User:a --force",
    "--list --topic t --producer",
    "--list --topic t --consumer",
    "--list --topic t --allow-principal User:a",
    "--list --topic t --deny-host h",
    "--list --idempotent",
    "--list --principal foo",
]

COMMANDS = [*LISTINGS, *ADDITIONS, *REMOVALS, *REFUSALS]


@pytest.fixture(scope="module")
def kafka() -> dict[str, Answer]:
    """What kafka-acls does with each command line."""
    answers = ask_kafka_acls([Question(tuple(command.split()), EXISTING) for command in COMMANDS])
    return dict(zip(COMMANDS, answers, strict=True))


def binding(existing: Acl) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            ResourceType[existing["resourceType"]],
            existing["resourceName"],
            PatternType[existing["patternType"]],
        ),
        AccessControlEntry(
            existing["principal"],
            existing["host"],
            AclOperation[existing["operation"]],
            AclPermissionType[existing["permissionType"]],
        ),
    )


def aclog(command: str, directory: Path) -> tuple[Result, list[Acl]]:
    """Run `aclog acls` on a log that holds EXISTING; the ACLs afterwards come from its JSON listing."""
    url = f"file:{directory / 'log'}"
    with DirectoryLog.open(url, mode="create") as log:
        bindings = map(binding, EXISTING)
        log.append([AccessControlEntryRecord.from_binding(binding_uuid(each), each) for each in bindings])
    runner = CliRunner()
    result = runner.invoke(cli, ["acls", "--log", url, *command.split()])
    listed = json.loads(runner.invoke(cli, ["acls", "--log", url, "--list", "--json"]).stdout)["acls"]
    return result, [{key: value for key, value in each.items() if key != "id"} for each in listed]


def as_set(acls: list[Acl]) -> set[tuple[tuple[str, str], ...]]:
    return {tuple(sorted(each.items())) for each in acls}


@pytest.mark.parametrize("command", [*LISTINGS, *ADDITIONS, *REMOVALS])
def test_same_text_and_same_effect(command: str, kafka: dict[str, Answer], tmp_path: Path) -> None:
    """Output is Kafka's, but for its order, and so is what is in the log afterwards."""
    expected = kafka[command]
    result, acls = aclog(command, tmp_path)
    assert (result.exit_code, result.stderr) == (expected.exit, expected.err) == (0, "")
    assert blocks(result.stdout) == blocks(expected.out)
    assert len(result.stdout) == len(expected.out)
    assert as_set(acls) == as_set(expected.acls)


@pytest.mark.parametrize("command", REFUSALS)
def test_same_refusal(command: str, kafka: dict[str, Answer], tmp_path: Path) -> None:
    """What kafka-acls refuses is refused in its words, with exit code 2, and nothing is changed."""
    expected = kafka[command]
    assert expected.exit == 1
    message = expected.err or expected.out.partition("\n")[0].removeprefix(
        "Error while executing ACL command: "
    )
    result, acls = aclog(command, tmp_path)
    assert result.exit_code == 2
    assert same_words(result.stderr.rpartition("Error: ")[2].strip(), message.strip())
    assert as_set(acls) == as_set(list(EXISTING))


def same_words(ours: str, kafkas: str) -> bool:
    """Equal, but for the order of a Java HashSet between brackets, and the operation that we name behind."""
    if "[" in kafkas and "only supports operations" in kafkas:
        return _unordered(ours) == _unordered(kafkas)
    return ours == kafkas


def _unordered(message: str) -> tuple[str, frozenset[str]]:
    head, _, operations = message.partition("]")[0].partition("[")
    return head, frozenset(operations.split(", "))


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("--remove --topic orders", "n"),
        ("--remove --topic orders --allow-principal User:alice --operation Read", "n"),
        ("--remove --topic orders", "maybe"),
    ],
)
def test_question_before_removing(command: str, answer: str, tmp_path: Path) -> None:
    """Without --force the question is Kafka's, and anything but y removes nothing."""
    (expected,) = ask_kafka_acls([Question(tuple(command.split()), EXISTING)])
    question = expected.out.partition("Error while executing")[0]  # the recorder has no console to answer on
    url = f"file:{tmp_path / 'log'}"
    with DirectoryLog.open(url, mode="create") as log:
        bindings = map(binding, EXISTING)
        log.append([AccessControlEntryRecord.from_binding(binding_uuid(each), each) for each in bindings])
    result = CliRunner().invoke(cli, ["acls", "--log", url, *command.split()], input=f"{answer}\n")
    assert (result.exit_code, result.stdout) == (0, question)
    with DirectoryLog.open(url) as log:
        assert log.high_watermark() == len(EXISTING)
