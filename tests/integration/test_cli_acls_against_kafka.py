"""`aclog acls` and aclog-kafka-acls beside Kafka's own kafka-acls: same flags, effect, text and refusals."""

from __future__ import annotations

import itertools
import json
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorizer.analysis.files.kafka_acls_flags import VALUES_BY_FLAG
from authorizer.cli.acls.kafka_acls_script import main, run
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
from support.kafka_acls import Acl, Answer, KafkaAclsRun, ask_kafka_acls, blocks


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

ROOT = Path(__file__).resolve().parents[2]

COMMANDS = [*LISTINGS, *ADDITIONS, *REMOVALS, *REFUSALS]

BOOTSTRAP = "--bootstrap-server 127.0.0.1:1"

# Complete command lines that only aclog-kafka-acls accepts, or refuses, as kafka-acls does.
SCRIPTS = [
    "",
    "--help",
    "--version",
    "--version --add --list",
    "--list",
    "--bootstrap-controller 127.0.0.1:1 --list",
    *(
        f"{BOOTSTRAP} {command}"
        for command in (
            "--help --list",
            "--bootstrap-controller 127.0.0.1:2 --list",
            "--bootstrap-server 127.0.0.1:2 --list",
            "--bootstrap-server 127.0.0.1:2 --list --principal foo",
            "--command-config --list",
            "--list --command-config",
            "--list --cluster kafka-cluster",
            "--add --cluster kafka-cluster --operation Create --allow-principal User:c",
            "--remove --cluster kafka-cluster --force",
            "--list orders - app",
            "-list -topic orders",
            "-list -topic=orders",
            "--list --topic=orders --topic= app",
            "--list --user-principal=User:alice",
            "--list --topic orders -- --nope",
            "--list --force=true --list",
            "--list --topic --list",
            "--list --nope",
            "--list --top orders",
            "--list -l",
            "--list -ltopic orders",
            "--list --topic",
            "--add --topic t --allow-principal User:a --allow-host",
            "--list --resource-pattern-type foo",
            "--list --resource-pattern-type unknown --principal User:a",
            "--list --resource-pattern-type any --resource-pattern-type any",
            "--list --resource-pattern-type foo --producer",
        )
    ),
]


@pytest.fixture(scope="module")
def kafka() -> dict[str, Answer]:
    """The result of kafka-acls for each complete command line."""
    lines = [*map(complete, COMMANDS), *SCRIPTS]
    answers = ask_kafka_acls([KafkaAclsRun(words(line), EXISTING) for line in lines])
    return dict(zip(lines, answers, strict=True))


def complete(command: str) -> str:
    return f"{BOOTSTRAP} {command}".rstrip()


def words(line: str) -> tuple[str, ...]:
    return tuple(line.split(" ")) if line else ()


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


def log_with_existing(directory: Path) -> str:
    url = f"file:{directory / 'log'}"
    with DirectoryLog.open(url, mode="create") as log:
        bindings = map(binding, EXISTING)
        log.append([AccessControlEntryRecord.from_binding(binding_uuid(each), each) for each in bindings])
    return url


def acls_of(url: str) -> list[Acl]:
    listed = json.loads(CliRunner().invoke(cli, ["acls", "--log", url, "--list", "--json"]).stdout)["acls"]
    return [{key: value for key, value in each.items() if key != "id"} for each in listed]


def aclog(command: str, directory: Path) -> tuple[Result, list[Acl]]:
    """Run `aclog acls` on a log that holds EXISTING; the ACLs afterwards come from its JSON listing."""
    url = log_with_existing(directory)
    return CliRunner().invoke(cli, ["acls", "--log", url, *command.split()]), acls_of(url)


def as_set(acls: list[Acl]) -> set[tuple[tuple[str, str], ...]]:
    return {tuple(sorted(each.items())) for each in acls}


@pytest.mark.parametrize("command", [*LISTINGS, *ADDITIONS, *REMOVALS])
def test_output_and_effect_equal_kafkas(command: str, kafka: dict[str, Answer], tmp_path: Path) -> None:
    """Output is Kafka's, but for its order, and so is what is in the log afterwards."""
    expected = kafka[complete(command)]
    result, acls = aclog(command, tmp_path)
    assert (result.exit_code, result.stderr) == (expected.exit, expected.err) == (0, "")
    assert blocks(result.stdout) == blocks(expected.out)
    assert len(result.stdout) == len(expected.out)
    assert as_set(acls) == as_set(expected.acls)


@pytest.mark.parametrize("command", REFUSALS)
def test_refusals_equal_kafkas(command: str, kafka: dict[str, Answer], tmp_path: Path) -> None:
    """What kafka-acls refuses is refused in its words, with exit code 2, and nothing is changed."""
    expected = kafka[complete(command)]
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
def test_a_removal_asks_as_kafka_does(command: str, answer: str, tmp_path: Path) -> None:
    """Without --force the prompt is Kafka's, and any answer but y removes nothing."""
    (expected,) = ask_kafka_acls([KafkaAclsRun(words(complete(command)), EXISTING)])
    question = expected.out.partition("Error while executing")[0]  # the recorder has no console to answer on
    url = log_with_existing(tmp_path)
    result = CliRunner().invoke(cli, ["acls", "--log", url, *command.split()], input=f"{answer}\n")
    assert (result.exit_code, result.stdout) == (0, question)
    with DirectoryLog.open(url) as log:
        assert log.high_watermark() == len(EXISTING)


def script(
    line: str, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str, list[Acl]]:
    """Run aclog-kafka-acls as `aclog` is run above: exit code, stdout, stderr, and the ACLs afterwards."""
    url = log_with_existing(directory)
    monkeypatch.setenv("ACLOG_LOG_URL", url)
    code = run(words(line))
    printed = capsys.readouterr()
    return code, printed.out, printed.err, acls_of(url)


@pytest.mark.parametrize("line", [*map(complete, COMMANDS), *SCRIPTS])
def test_a_script_for_kafka_acls_runs_unchanged(
    line: str,
    kafka: dict[str, Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """aclog-kafka-acls: exit code, stdout, the first line of stderr and the effect are kafka-acls' own."""
    expected = kafka[line]
    code, out, err, acls = script(line, tmp_path, monkeypatch, capsys)
    assert code == expected.exit
    assert same_words(err.partition("\n")[0], expected.err)
    assert blocks(out) == blocks(expected.out)
    assert len(out) == len(expected.out)
    assert as_set(acls) == as_set(expected.acls)


def test_a_script_that_finds_no_log_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever goes wrong is kafka-acls' 1, said on stdout as there; how to mend it is on stderr."""
    monkeypatch.delenv("ACLOG_LOG_URL", raising=False)
    assert run([*BOOTSTRAP.split(), "--list"]) == 1
    assert capsys.readouterr().out == (
        "Error while executing ACL command: "
        "Variable ACLOG_LOG_URL is not set. Set it to the URL of the log.\n"
    )
    monkeypatch.setenv("ACLOG_LOG_URL", str(tmp_path / "missing"))
    assert run([*BOOTSTRAP.split(), "--list"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith(f"Error while executing ACL command: {tmp_path / 'missing'}")
    assert "aclog log create" in printed.err


def test_wrong_usage_lists_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """After its message stderr names every flag of kafka-acls."""
    assert run(["--nope"]) == 1
    listed = {word for word in capsys.readouterr().err.split() if word.startswith("--")}
    known = {f"--{name}" for name in VALUES_BY_FLAG}
    assert known <= listed


def test_the_script_is_installed() -> None:
    """Under its name, with the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["scripts"]["aclog-kafka-acls"].partition(":")
    assert getattr(import_module(module), function) is main
