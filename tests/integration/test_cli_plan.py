"""`aclog plan` and `aclog apply`: a plan is applied completely as printed, or not at all."""

from __future__ import annotations

import gzip
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from authorizer.api.acl_json import acl_json
from authorizer.cli.main import cli
from authorizer.cli.workspace import wait_until_readable
from authorizer.node.writing.acl_control import apply_plan
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.codecs.json import to_json
from records.entries import AccessControlEntryRecord
from records.ids import content_uuid
from records.log.directory import DirectoryLog
from records.log.open import open_cluster_acls, open_log
from support.json_acls import acl, json_lines
from support.kafka_authorizer import ask_kafka_authorizer
from support.kafka_broker import Broker
from support.kafka_tools import java_command
from support.nodes import SOON_S, running_node, sidecar_of
from support.topic_logs import new_topic

ALTER_THIS = {
    "resourceType": "CLUSTER",
    "resourceName": "kafka-cluster",
    "principal": "User:ANONYMOUS",
    "operation": "ALL",
}
#: Ends itself with SIGKILL where it would sync for the nth time.
KILLED_AT_SYNC = """
import os, signal, sys
import records.log.directory.appender as appender, records.log.directory.files as storage
left = [int(sys.argv[1])]
def killing(sync):
    def counted(*args):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return sync(*args)
    return counted
from authorizer.cli.main import main
for module in (appender, storage):
    for name in ("sync_data",):
        if hasattr(module, name):
            setattr(module, name, killing(getattr(module, name)))
os.fsync = killing(os.fsync)
main(sys.argv[2:])
"""
KILLED_BEFORE_COMMIT = """
import os, signal, sys
from authorizer.cli.main import main
from records.log.topic.writer import TopicWriter
TopicWriter._commit = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def aclog(*args: object, code: int = 0, stdin: str | None = None) -> Result:
    # A test plans several times into one file.
    force = ("--force",) if "--output" in args else ()
    result = CliRunner().invoke(cli, [*map(str, args), *force], input=stdin)
    assert result.exit_code == code, result.output
    return result


def rows(result: Result) -> list[dict[str, Any]]:
    """The JSON among what was printed: a node in this process says things, too."""
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def record(content: dict[str, str]) -> AccessControlEntryRecord:
    values = (
        ResourceType[content["resourceType"]].value,
        content["resourceName"],
        PatternType[content["patternType"]].value,
        content["principal"],
        content["host"],
        AclOperation[content["operation"]].value,
        AclPermissionType[content["permissionType"]].value,
    )
    return AccessControlEntryRecord(content_uuid(values), *values)


def new_log(path: Path, *acls: dict[str, str]) -> Path:
    with DirectoryLog.open(path, mode="create") as log:
        log.append([record(each) for each in acls])
    return path


def listed(log: object) -> list[dict[str, str]]:
    found = rows(aclog("acls", "--log", log, "--list", "--json"))[0]["acls"]
    return sorted(({**each, "id": ""} for each in found), key=str)


def as_listed(*acls: dict[str, str]) -> list[dict[str, str]]:
    return sorted(({**acl_json(record(each)), "id": ""} for each in acls), key=str)


ORDERS, PAYMENTS, BOB, EVE = acl("orders"), acl("payments"), acl("orders", "User:bob"), acl("e", "User:eve")
PII = acl("pii-", "User:bob", patternType="PREFIXED")


def test_every_file_format_makes_the_same_plan(tmp_path: Path) -> None:
    """Changes as command lines and as JSON lines; the set that is wanted, as lines and as a listing."""
    log = new_log(tmp_path / "log", ORDERS, PAYMENTS)
    commands = tmp_path / "commands"
    commands.write_text(
        "# what is to be\n"
        "bin/kafka-acls.sh --bootstrap-server x:9092 --remove --force \\\n"
        "  --allow-principal User:alice --operation Read --topic payments\n"
        "--add --allow-principal User:bob --operation Read --topic orders\n",
        encoding="utf-8",
    )
    wanted = new_log(tmp_path / "wanted", ORDERS, BOB)
    (tmp_path / "listing").write_text(aclog("acls", "--log", wanted, "--list").stdout, encoding="utf-8")
    exported = tmp_path / "kip11"
    aclog("snapshot", "export", "--log", wanted, "--format", "kip11", "--output", exported)
    (tmp_path / "diff").write_text(aclog("diff", log, wanted, "--json", code=1).stdout, encoding="utf-8")
    changes = json_lines(tmp_path / "changes", {"acl": "removed", **PAYMENTS}, {"acl": "added", **BOB})
    forms: list[tuple[object, ...]] = [
        (commands,),
        (changes,),
        (tmp_path / "diff",),
        (json_lines(tmp_path / "set", ORDERS, BOB), "--all"),
        (tmp_path / "listing", "--all"),
        (exported, "--topic", "*"),
    ]
    plans, plan = [], tmp_path / "plan.json"
    for form in forms:
        found = rows(aclog("plan", *form, "--log", log, "--json", "--output", plan, code=1))
        assert found[0]["counts"] == {
            "acls": 2,
            "toRemove": 1,
            "toAdd": 1,
            "removedPercent": 50.0,
            "isMassRemoval": False,
        }
        changed = [(row["acl"], row["resourceName"]) for row in found[1:3]]
        assert changed == [("removed", "payments"), ("added", "orders")]
        plans.append(plan.read_bytes())
    assert len(set(plans)) == 1
    applied = rows(aclog("apply", plan, "--log", log, "--json"))
    assert [each["resourceName"] for each in applied[0]["added"]] == ["orders"]
    assert listed(log) == as_listed(ORDERS, BOB)
    assert rows(aclog("apply", plan, "--log", log, "--json")) == [
        {
            "applied": False,
            "aclsBefore": 2,
            "aclsRemoved": 0,
            "aclsAdded": 0,
            "removedPercent": 0.0,
            "endOffset": 4,
            "removed": [],
            "added": [],
        }
    ]
    assert "nothing to do" in aclog("apply", plan, "--log", log).stdout
    for form in forms:
        assert rows(aclog("plan", *form, "--log", log, "--json"))[-1]["aclsAdded"] == 0


def test_acls_outside_of_the_scope_do_not_change(tmp_path: Path) -> None:
    """Without a scope nothing is removed; with one, only what is in it."""
    there = [ORDERS, PAYMENTS, BOB, PII, acl("pii-x"), acl("pii-y", resourceType="GROUP"), acl("*")]
    log = new_log(tmp_path / "log", *there)
    wanted = json_lines(tmp_path / "wanted", acl("new"), acl("pii-new"))

    def removed(*scope: object) -> set[tuple[str, str]]:
        result = aclog("plan", wanted, *scope, "--allow-empty", "--log", log, "--json", code=1)
        found = [row for row in rows(result) if row.get("acl") == "removed"]
        return {(row["principal"], row["resourceName"]) for row in found}

    assert removed() == set()
    assert "7 ACLs exist and are not in" in " ".join(
        aclog("plan", wanted, "--log", log, code=1).stderr.split()
    )
    assert len(removed("--all")) == 7
    assert removed("--principal", "User:bob", "--principal", "User:alice", "--topic", "pii-*") == {
        ("User:bob", "pii-"),
        ("User:alice", "pii-x"),
    }
    assert removed("--topic", "orders", "--topic", "new") == {
        ("User:alice", "orders"),
        ("User:bob", "orders"),
    }
    assert removed("--principal", "User:alice", "--group", "*") >= {("User:alice", "pii-y")}
    assert "without --principal" in aclog("plan", wanted, "--all", "--cluster", "--log", log, code=2).stderr
    changes = json_lines(tmp_path / "changes", {"acl": "added", **acl("new")})
    assert "cannot be used with a scope" in aclog("plan", changes, "--all", "--log", log, code=2).stderr


SCRIPT = """
import sys
from authorizer.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize("scope", [("--all",), ("--principal", "User:alice"), ("--topic", "*"), ()])
def test_a_failed_command_in_a_pipe_removes_nothing(tmp_path: Path, scope: tuple[str, ...]) -> None:
    """`false | aclog plan -`: nothing was read, so nothing is planned."""
    log, plan = new_log(tmp_path / "log", ORDERS, PAYMENTS), tmp_path / "plan.json"
    command = [sys.executable, "-c", SCRIPT, "plan", "-", *scope, "--log", str(log), "--output", str(plan)]
    with subprocess.Popen(["false"], stdout=subprocess.PIPE) as failed:
        done = subprocess.run(
            command, stdin=failed.stdout, capture_output=True, text=True, check=False, timeout=SOON_S
        )
    assert done.returncode == 4
    assert "stdin ended without a single byte" in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert not plan.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("diff", "-", "LOG"),
        ("lint", "--acls", "-"),
        ("who-can", "--operation", "Read", "--topic", "t", "--acls", "-"),
    ],
)
def test_empty_stdin_is_not_an_empty_set(tmp_path: Path, command: tuple[str, ...]) -> None:
    log = new_log(tmp_path / "log", ORDERS)
    words = [str(log) if word == "LOG" else word for word in command]
    assert "without a single byte" in " ".join(aclog(*words, stdin="", code=4).stderr.split())
    assert "without a single byte" not in CliRunner().invoke(cli, words, input="[]").stderr


@pytest.mark.parametrize(
    ("scope", "emptied"),
    [
        (("--all",), "3 of 3"),
        (("--principal", "User:alice"), "2 of 3"),
        (("--topic", "orders"), "2 of 3"),
        (("--principal", "User:bob", "--topic", "*"), "1 of 3"),
    ],
)
def test_a_scope_is_emptied_only_with_a_flag(tmp_path: Path, scope: tuple[str, ...], emptied: str) -> None:
    """In every form that an empty set has; what is outside of the scope is none of it."""
    log, plan = new_log(tmp_path / "log", ORDERS, PAYMENTS, BOB), tmp_path / "plan.json"
    csv_header = "id,resourceType,resourceName,patternType,principal,host,operation,permissionType\n"
    texts = ["", "\n", "[]", '{"acls": []}', '{"resources": []}', csv_header, "ACLs for principal `User:x`\n"]
    if scope != ("--all",):
        texts.append(json.dumps(acl("z", "User:zoe")) + "\n")
    for text in texts:
        file = tmp_path / "empty"
        file.write_text(text, encoding="utf-8")
        refused = aclog("plan", file, *scope, "--log", log, "--output", plan, code=2)
        assert f"would remove all that are in it: {emptied} ACLs" in " ".join(refused.stderr.split())
        assert not plan.exists()
        wanted = aclog("plan", file, *scope, "--allow-empty", "--log", log, "--json", code=1)
        assert rows(wanted)[0]["counts"]["toRemove"] == int(emptied[0])
    # There is nothing in this one, so that nothing can be emptied.
    aclog("plan", tmp_path / "empty", "--topic", "nobody-has-this", "--log", log)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[{"resourceType": "TOPIC"', "not JSON"),
        ('{"acls": [', "not JSON"),
        (
            "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:\n",
            "not complete",
        ),
    ],
)
def test_input_that_ended_early_is_not_an_empty_set(tmp_path: Path, text: str, complaint: str) -> None:
    log, file = new_log(tmp_path / "log", ORDERS), tmp_path / "cut"
    file.write_text(text, encoding="utf-8")
    refused = aclog("plan", file, "--all", "--allow-empty", "--log", log, code=4)
    assert complaint in " ".join(refused.stderr.split())


def test_truncated_gzip_is_refused(tmp_path: Path) -> None:
    log, file = new_log(tmp_path / "log", ORDERS), tmp_path / "cut.gz"
    file.write_bytes(gzip.compress(b"[]" + b" " * 1000)[:-9])
    for command in (("plan", file, "--all", "--log", log), ("diff", file, log)):
        assert "not complete gzip" in " ".join(aclog(*command, code=4).stderr.split())


def test_a_plan_that_removes_more_than_half_needs_a_flag(tmp_path: Path) -> None:
    """What it removes and the share stand first; the share may be set by a flag and by a key."""
    there = [acl(f"t-{number}") for number in range(5)]
    log, plan, config = new_log(tmp_path / "log", *there), tmp_path / "plan.json", tmp_path / "config"
    wanted = json_lines(tmp_path / "wanted", *there[:2])
    planned = aclog("plan", wanted, "--all", "--log", log, "--output", plan, code=1)
    first, second = planned.stdout.splitlines()[:2]
    assert first == "plan     removes 3 of 5 ACLs (60 %), adds 0"
    assert "more than 50 %" in second
    assert "--allow-mass-removal" in planned.stderr
    refused = aclog("apply", plan, "--log", log, code=2).stderr
    assert "removes 3 of 5 ACLs (60 %), adds 0: more than the 50 %" in " ".join(refused.split())
    config.write_text("aclog.plan.max.removed.percent=60\n", encoding="utf-8")
    lower = ("apply", plan, "--log", log, "--config", config, "--max-removed-percent", "59")
    assert "more than the 59 %" in " ".join(aclog(*lower, code=2).stderr.split())
    assert listed(log) == as_listed(*there)
    applied = aclog("apply", plan, "--log", log, "--config", config)
    assert applied.stdout.startswith("applied: 3 ACLs removed, 0 added, 60 % of 5 ACLs removed; ")
    assert listed(log) == as_listed(*there[:2])
    # By the flag; exactly half needs none.
    aclog("plan", json_lines(tmp_path / "w", there[0]), "--all", "--log", log, "--output", plan, code=1)
    aclog("apply", plan, "--log", log)
    aclog(
        "plan", json_lines(tmp_path / "w"), "--all", "--allow-empty", "--log", log, "--output", plan, code=1
    )
    aclog("apply", plan, "--log", log, code=2)
    done = rows(aclog("apply", plan, "--allow-mass-removal", "--log", log, "--json"))[0]
    assert (done["aclsBefore"], done["aclsRemoved"], done["removedPercent"]) == (1, 1, 100.0)


def test_suspicious_changes_are_warned_about(tmp_path: Path) -> None:
    log = new_log(tmp_path / "log", ORDERS, PAYMENTS, BOB)
    changes = tmp_path / "changes"
    changes.write_text(
        "--remove --topic orders\n"
        "--add --deny-principal User:* --operation Write --topic orders\n"
        "--add --allow-principal User:carol --cluster\n",
        encoding="utf-8",
    )
    found = rows(aclog("plan", changes, "--log", log, "--json", code=1))
    warned = {(row["warning"], row["principal"]) for row in found if "warning" in row}
    # Of alice there is another one.
    assert warned == {
        ("deny-everybody", "User:*"),
        ("cluster-alter", "User:carol"),
        ("last-allow", "User:bob"),
    }
    assert found[-1]["warnings"] == 3
    assert "warning  User:bob loses its last ALLOW" in aclog("plan", changes, "--log", log, code=1).stdout


def test_recorded_requests_that_a_plan_denies_are_reported(tmp_path: Path) -> None:
    """By what is decided now and then, whatever the line says decided it."""
    log = new_log(tmp_path / "log", ORDERS, PAYMENTS, BOB)
    changes = tmp_path / "changes"
    changes.write_text("--remove --topic orders\n", encoding="utf-8")
    line = (
        "Principal = {} is Allowed operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:{} "
        "for request = Fetch with resourceRefCount = 1 based on rule MatchingAcl\n"
    )
    requests = [("User:alice", "orders"), ("User:alice", "payments"), ("User:nobody", "orders")] * 3
    lines = tmp_path / "kafka-authorizer.log"
    lines.write_text("".join(line.format(*each) for each in requests), encoding="utf-8")
    found = rows(aclog("plan", changes, "--log", log, "--requests", lines, "--json", code=1))
    (warned,) = [row for row in found if row.get("warning") == "denied-traffic"]
    assert warned["principal"] == "User:alice"
    assert warned["message"] == (
        "3 recorded requests of User:alice would be denied, such as Read TOPIC orders from 10.0.0.1"
    )


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("--add --allow-principal User:a --topic t\n--add --topic t\n", 2, "You must specify one of"),
        ("--add --allow-principal a --topic t\n", 1, "in format principalType:principalName"),
        ("--add --allow-principal User:a --operation Reed --topic t\n", 1, "only supports operations"),
        ("# x\n\n--list\n", 3, "--list changes nothing"),
        ("--add 'x\n", 1, "not a command line: No closing quotation"),
        ("--add --allow-principal User:a \\\n--topic t \\\n", 1, "continues after the end"),
        ("--add --nonsense\n", 1, "nonsense is not a recognized option"),
        (json.dumps({"acl": "added", **ORDERS}) + '\n{"acl": "addition"}', 2, "neither"),
        (json.dumps({"acl": "added", **ORDERS}) + "\n{", 2, "not JSON"),
        (json.dumps({"acl": "added", **ORDERS, "operation": "REED"}), 1, "`REED` is no operation"),
        (json.dumps(ORDERS) + "\n" + json.dumps(acl("t", "alice")), 2, "no colon is present"),
        (json.dumps(acl("c", resourceType="CLUSTER")), 1, "only valid name for the CLUSTER"),
    ],
)
def test_a_bad_file_is_reported_with_its_line(tmp_path: Path, text: str, line: int, complaint: str) -> None:
    log = new_log(tmp_path / "log", PAYMENTS)
    path, plan = tmp_path / "bad", tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    result = aclog("plan", path, "--log", log, "--output", plan, code=4)
    message = " ".join(result.stderr.split())
    assert complaint in message
    assert f"(in {path} line {line})" in message
    assert result.stdout == ""
    assert not plan.exists()


def test_a_plan_is_applied_as_printed(tmp_path: Path) -> None:
    """Not one that was changed, is of another version, or no plan; nor to another log."""
    log, other = new_log(tmp_path / "log", ORDERS), new_log(tmp_path / "other", ORDERS)
    plan, changes = tmp_path / "plan.json", json_lines(tmp_path / "changes", {"acl": "added", **BOB})
    aclog("plan", changes, "--log", log, "--output", plan, code=1)
    text = plan.read_text(encoding="utf-8")
    for wrong, complaint in (
        (text.replace("User:bob", "User:eve"), "checksum mismatch"),
        (text.replace('"aclogPlan": 1', '"aclogPlan": 2'), "version 2"),
        (text[:-20], "not a plan"),
        ("[]", "not a plan"),
    ):
        bad = tmp_path / "bad.json"
        bad.write_text(wrong, encoding="utf-8")
        assert complaint in " ".join(aclog("apply", bad, "--log", log, code=4).stderr.split())
    assert "created for another log" in " ".join(aclog("apply", plan, "--log", other, code=1).stderr.split())
    assert (listed(log), listed(other)) == (as_listed(ORDERS), as_listed(ORDERS))


def test_changed_permissions_make_a_plan_outdated(tmp_path: Path) -> None:
    """Any other decision: refused. Other ACLs with equal permissions: applied."""
    log = new_log(tmp_path / "log", ORDERS, acl("ord", patternType="PREFIXED"))
    plan = tmp_path / "plan.json"
    aclog("plan", json_lines(tmp_path / "c", {"acl": "added", **BOB}), "--log", log, "--output", plan, code=1)
    with DirectoryLog.open(log, mode="write") as writing:
        writing.append([record(PII)])
    assert "the effective permissions have changed" in aclog("apply", plan, "--log", log, code=1).stderr
    aclog(
        "acls",
        "--log",
        log,
        "--remove",
        "--force",
        *["--topic", "pii-", "--resource-pattern-type", "prefixed"],
    )
    # The prefix says it, too.
    aclog("acls", "--log", log, "--remove", "--force", "--topic", "orders")
    assert "applied: 0 ACLs removed, 1 added" in aclog("apply", plan, "--log", log).stdout
    # The same meaning, on which the same changes would mean something else.
    clean = tmp_path / "clean.json"
    log = new_log(tmp_path / "log2", ORDERS, acl("ord", patternType="PREFIXED"))
    away = json_lines(
        tmp_path / "c", {"acl": "removed", **acl("ord", patternType="PREFIXED")}, {"acl": "added", **PAYMENTS}
    )
    aclog("plan", away, "--log", log, "--output", clean, code=1)
    aclog("acls", "--log", log, "--remove", "--force", "--topic", "orders")
    assert "the plan would have another result" in " ".join(
        aclog("apply", clean, "--log", log, code=1).stderr.split()
    )
    # The help says that it can be, too, and does not promise otherwise.
    help_ = " ".join(aclog("apply", "--help").stdout.split())
    assert "So a write that changes no answer can be a reason, too" in help_
    assert "other writes do not matter" not in help_


def test_a_plan_can_be_read_as_a_set(tmp_path: Path) -> None:
    """`aclog test`, `who-can` and `diff` take a plan as a set, unless the permissions have changed."""
    log, plan = new_log(tmp_path / "log", ORDERS), tmp_path / "plan.json"
    access = tmp_path / "access.toml"
    access.write_text(
        '[[expect]]\nname = "bob reads"\nallow = ["User:bob"]\noperation = "Read"\ntopic = "orders"\n',
        encoding="utf-8",
    )
    aclog("plan", json_lines(tmp_path / "c", {"acl": "added", **BOB}), "--log", log, "--output", plan, code=1)
    aclog("test", access, "--log", log, code=1)
    aclog("test", access, "--acls", plan)
    assert (
        "--log and --acls cannot be used"
        in aclog("test", access, "--acls", plan, "--log", log, code=2).stderr
    )
    (added, *_) = rows(aclog("diff", log, plan, "--json", code=1))
    assert (added["acl"], added["principal"]) == ("added", "User:bob")
    aclog("acls", "--log", log, "--remove", "--force", "--topic", "orders")
    assert "the effective permissions have changed" in aclog("test", access, "--acls", plan, code=2).stderr


def random_acl(rng: random.Random) -> dict[str, str]:
    return acl(
        rng.choice(["*", "a", "ab", "abc", "b", "b-", "c"]),
        rng.choice(["User:a", "User:*", "User:b"]),
        resourceType=rng.choice(["TOPIC", "GROUP"]),
        patternType=rng.choice(["LITERAL", "PREFIXED"]),
        host=rng.choice(["*", "*", "10.0.0.1", "10.0.0.2"]),
        operation=rng.choice(["READ", "WRITE", "ALTER_CONFIGS", "ALL"]),
        permissionType=rng.choice(["ALLOW", "ALLOW", "DENY"]),
    )


@pytest.mark.slow
@pytest.mark.integration
def test_real_kafka_confirms_each_witness_after_apply(tmp_path: Path) -> None:
    """The new log allows granted and denies revoked witnesses, for complete sets and for changes."""
    rng = random.Random(16)
    states, wanted = [], []
    for number in range(40):
        before, after = ([random_acl(rng) for _ in range(rng.randrange(1, 8))] for _ in range(2))
        log = new_log(tmp_path / f"log-{number}", *before)
        allow_everyone = bool(number % 2)
        config, plan = tmp_path / "config", tmp_path / "plan.json"
        config.write_text(f"allow.everyone.if.no.acl.found={allow_everyone}\n", encoding="utf-8")
        changes = [{"acl": "removed", **each} for each in before[::2]] + [
            {"acl": "added", **each} for each in after
        ]
        if number % 3:
            file, scope = json_lines(tmp_path / "file", *after), ["--all"]
        else:
            file, scope = json_lines(tmp_path / "file", *changes), []
        found = CliRunner().invoke(
            cli,
            [
                *map(
                    str,
                    (
                        "plan",
                        file,
                        *scope,
                        "--log",
                        log,
                        "--config",
                        config,
                        "--json",
                        "--force",
                        "--output",
                        plan,
                    ),
                )
            ],
        )
        flips = [row for row in rows(found) if "flip" in row]
        aclog("apply", plan, "--allow-mass-removal", "--log", log)
        aclog("apply", plan, "--log", log)
        there = [record(each) for each in listed(log)]
        states.append(
            {
                "superUsers": "",
                "allowEveryone": allow_everyone,
                "acls": [to_json(each)["data"] for each in there],
                "queries": [row["witness"] for row in flips],
            }
        )
        wanted.append(["ALLOWED" if row["flip"] == "granted" else "DENIED" for row in flips])
    answers = ask_kafka_authorizer(states)
    assert [[each["result"] for each in answer] for answer in answers] == wanted
    assert sum(map(len, wanted)) > 300


@pytest.mark.slow
def test_a_killed_apply_leaves_all_or_nothing(tmp_path: Path) -> None:
    """At every sync, and twice; then the same plan is carried out, once."""
    log, plan = new_log(tmp_path / "log", ORDERS), tmp_path / "plan.json"
    changes = [{"acl": "removed", **ORDERS}, *({"acl": "added", **acl(f"t-{n}")} for n in range(500))]
    aclog("plan", json_lines(tmp_path / "c", *changes), "--log", log, "--output", plan, code=1)
    apply = ("apply", str(plan), "--allow-mass-removal", "--log", str(log))
    outcomes = []
    for syncs in (0, 0, 1, 1, 2, 2, 3, 9):
        done = subprocess.run(
            [sys.executable, "-c", KILLED_AT_SYNC, str(syncs), *apply],
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        there = {each["resourceName"] for each in listed(log)}
        assert there in ({"orders"}, {f"t-{n}" for n in range(500)})
        outcomes.append((done.returncode == 0, len(there) == 500))
    # It was killed before and after the batch was in the log.
    assert (False, False) in outcomes
    assert outcomes[-1] == (True, True)
    aclog(*apply)
    with DirectoryLog.open(log) as read:
        assert read.high_watermark() == 1 + len(changes)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.integration
def test_an_apply_killed_before_a_topics_commit_leaves_nothing(tmp_path: Path, broker: Broker) -> None:
    """The same plan goes on once the cluster has given the transaction up."""
    url, plan = new_topic(broker), tmp_path / "plan.json"
    with closing(open_log(url, mode="write")) as log:
        wait_until_readable(log, log.append([record(ORDERS)]))
    changes = json_lines(tmp_path / "c", {"acl": "removed", **ORDERS}, {"acl": "added", **BOB})
    aclog("plan", changes, "--log", url, "--output", plan, code=1)
    apply = ("apply", str(plan), "--allow-mass-removal", "--log", url)
    killed = [sys.executable, "-c", KILLED_BEFORE_COMMIT, *apply]
    done = subprocess.run(killed, capture_output=True, check=False, timeout=SOON_S)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert listed(url) == as_listed(ORDERS)
    assert "1 ACLs removed, 1 added" in aclog(*apply).stdout
    assert "nothing to do" in aclog("apply", plan, "--log", url).stdout
    assert listed(url) == as_listed(BOB)


def moved_between(monkeypatch: pytest.MonkeyPatch, write: Any) -> list[int]:
    """Let another writer in, once, between the check and the append; how often it was checked."""
    checks: list[int] = []

    def checked(*args: Any) -> Any:
        change = apply_plan(*args)
        checks.append(len(change.records))
        if len(checks) == 1:
            write()
        return change

    monkeypatch.setattr("authorizer.cli.acl_sources.log_acls.apply_plan", checked)
    return checks


@pytest.mark.integration
def test_a_write_between_the_check_and_the_append_is_detected(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic, which any node writes: refused if it changes the meaning; else the plan goes behind it."""
    for foreign, code in ((PII, 1), (acl("orders", operation="DESCRIBE"), 0)):
        url, plan = new_topic(broker), tmp_path / "plan.json"
        with closing(open_log(url, mode="write")) as log:
            wait_until_readable(log, log.append([record(ORDERS)]))
            aclog(
                "plan",
                json_lines(tmp_path / "c", {"acl": "added", **BOB}),
                "--log",
                url,
                "--output",
                plan,
                code=1,
            )
            with monkeypatch.context() as patched:
                checks = moved_between(patched, partial(log.append, [record(foreign)]))
                result = aclog("apply", plan, "--log", url, code=code)
        assert len(checks) >= 1 + (code == 0)
        there = as_listed(ORDERS, foreign, *([BOB] if code == 0 else []))
        assert listed(url) == there
        if code:
            assert "the effective permissions have changed" in result.stderr
        else:
            assert "nothing to do" in aclog("apply", plan, "--log", url).stdout


def test_a_plan_is_applied_through_a_node(tmp_path: Path) -> None:
    """Beside it by its socket, and by --sidecar, where its own ACLs say who may."""
    log = new_log(tmp_path / "log", ORDERS)
    plan = tmp_path / "plan.json"
    with running_node(log, log_mode="write") as node, sidecar_of(node) as url:
        aclog(
            "plan",
            json_lines(tmp_path / "c", {"acl": "added", **BOB}),
            "--log",
            log,
            "--output",
            plan,
            code=1,
        )
        assert "needs Alter on the cluster" in aclog("apply", plan, "--sidecar", url, code=1).stderr
        assert rows(aclog("apply", plan, "--log", log, "--json"))[0]["applied"] is True
        assert "nothing to do" in aclog("apply", plan, "--log", log).stdout
        alter = json_lines(tmp_path / "c", {"acl": "added", **acl("x"), **ALTER_THIS})
        aclog("plan", alter, "--log", log, "--output", plan, code=1)
        aclog("apply", plan, "--log", log)
        away = json_lines(tmp_path / "c", {"acl": "removed", **BOB})
        aclog("plan", away, "--sidecar", url, "--output", plan, code=1)
        aclog("acls", "--sidecar", url, "--add", *["--allow-principal", "User:eve", "--topic", "t"])
        assert (
            "the effective permissions have changed" in aclog("apply", plan, "--sidecar", url, code=1).stderr
        )
        aclog("plan", away, "--sidecar", url, "--output", plan, code=1)
        assert "1 ACLs removed, 0 added" in aclog("apply", plan, "--sidecar", url).stdout
        only = json_lines(tmp_path / "w", {**acl("x"), **ALTER_THIS})
        aclog("plan", only, "--all", "--sidecar", url, "--output", plan, code=1)
        for where in (("--sidecar", url), ("--log", log)):
            refused = " ".join(aclog("apply", plan, *where, code=2).stderr.split())
            assert "removes 2 of 3 ACLs (66.6 %)" in refused
        assert "2 ACLs removed" in aclog("apply", plan, "--sidecar", url, "--allow-mass-removal").stdout
        assert "nothing to do" in aclog("apply", plan, "--sidecar", url).stdout


@pytest.fixture
def cluster(broker: Broker, tmp_path: Path) -> Iterator[str]:
    """A real cluster, without any ACLs of the principals here: another test may have left some."""

    def remove_acls() -> None:
        nothing, plan = json_lines(tmp_path / "nothing"), tmp_path / "nothing.json"
        where = ("--bootstrap-server", broker.bootstrap_servers)
        scope = [word for name in ("alice", "bob", "eve", "*") for word in ("--principal", f"User:{name}")]
        force = ("--allow-empty", "--output", str(plan), "--force")
        CliRunner().invoke(cli, ["plan", str(nothing), *scope, *where, *force])
        aclog("apply", plan, *where, "--allow-mass-removal")

    remove_acls()
    yield broker.bootstrap_servers
    remove_acls()


@pytest.mark.integration
def test_a_plan_changes_a_cluster_by_kafka_requests(cluster: str, tmp_path: Path) -> None:
    """Created, removed, refused once the effective permissions have changed, gone on with, nothing to do."""
    where, plan = ("--bootstrap-server", cluster), tmp_path / "plan.json"
    first = [ORDERS, PII, acl("orders", "User:*", permissionType="DENY", host="10.0.0.1")]
    wanted = [BOB, acl("kafka-cluster", "User:bob", resourceType="CLUSTER", operation="ALTER"), first[2]]
    scope = [word for name in ("alice", "bob", "*") for word in ("--principal", f"User:{name}")]

    def planned(*acls: dict[str, str], code: int = 1) -> list[dict[str, Any]]:
        file = json_lines(tmp_path / "wanted", *acls)
        return rows(aclog("plan", file, *scope, *where, "--json", "--output", plan, code=code))

    planned(*first)
    assert len(rows(aclog("apply", plan, *where, "--json"))[0]["added"]) == 3
    assert "nothing to do" in aclog("apply", plan, *where).stdout
    assert planned(*first, code=0)[-1]["same"] is True
    planned(*wanted)
    moved = tmp_path / "moved.json"
    aclog("plan", json_lines(tmp_path / "c", {"acl": "added", **EVE}), *where, "--output", moved, code=1)
    aclog("apply", moved, *where)
    assert "the effective permissions have changed" in aclog("apply", plan, *where, code=1).stderr
    planned(*wanted)
    # A part of it, as if a command had been ended there.
    part = open_cluster_acls(cluster)
    part.create([record(wanted[1]).content])
    deadline_s = time.monotonic() + SOON_S
    there = json_lines(tmp_path / "c", wanted[1])
    while rows(aclog("diff", there, f"describe://{cluster}", "--json", code=1))[-1]["aclsRemoved"]:
        assert time.monotonic() < deadline_s
    done = rows(aclog("apply", plan, *where, "--allow-mass-removal", "--json"))[0]
    assert [each["principal"] for each in done["added"]] == ["User:bob"]
    assert {each["resourceName"] for each in done["removed"]} == {"orders", "pii-"}
    assert planned(*wanted, code=0)[-1]["same"] is True
    # The cluster itself is a set of ACLs, and so is a plan for it.
    assert rows(aclog("diff", f"describe://{cluster}", plan, "--json"))[-1]["same"] is True
    # confluent-kafka has no names for these.
    other_acls = [
        acl("t", resourceType="DELEGATION_TOKEN", operation="DESCRIBE"),
        acl("User:x", resourceType="USER", operation="CREATE_TOKENS"),
        acl("tx", resourceType="TRANSACTIONAL_ID", operation="TWO_PHASE_COMMIT"),
    ]
    for acls in ([*wanted, *other_acls], wanted):
        planned(*acls)
        assert "nothing to do" not in aclog("apply", plan, *where, "--allow-mass-removal").stdout
        assert planned(*acls, code=0)[-1]["same"] is True


@pytest.mark.integration
def test_a_plan_reads_a_brokers_log_and_writes_to_its_cluster(
    broker: Broker, cluster: str, tmp_path: Path
) -> None:
    """What is read is the log beside the broker; by itself it is never written."""
    log, plan = broker.metadata_dir, tmp_path / "plan.json"
    if log is None:
        return  # a foreign cluster's is not on this machine
    where = ("--log", log, "--bootstrap-server", cluster)
    aclog("plan", json_lines(tmp_path / "c", {"acl": "added", **EVE}), "--log", log, "--output", plan, code=1)
    refused = " ".join(aclog("apply", plan, "--log", log, code=2).stderr.split())
    assert "--bootstrap-server" in refused
    assert "0 ACLs removed, 1 added" in aclog("apply", plan, *where).stdout
    assert "nothing to do" in aclog("apply", plan, *where).stdout
    assert "nothing to do" in aclog("apply", plan, "--bootstrap-server", cluster).stdout
    # Also ACLs on users are read from brokers and from the log.
    command = ("org.apache.kafka.tools.AclCommand", "--bootstrap-server", cluster)
    user = ("--user-principal", "User:x", "--operation", "CreateTokens", "--allow-principal", "User:bob")
    nothing = json_lines(tmp_path / "c")

    def count_there(*source: str | Path) -> int:
        counted = re.search(r"(\d+) ACLs exist", aclog("plan", nothing, *source).stderr)
        assert counted is not None
        return int(counted[1])

    def change(*action: str) -> None:
        subprocess.run(
            java_command(*command, *action, *user), check=True, capture_output=True, timeout=SOON_S
        )

    # Other tests' ACLs may be there, too.
    before = count_there(*where)
    change("--add")
    try:
        for there in (("--bootstrap-server", cluster), where):
            assert count_there(*there) == before + 1
    finally:
        change("--remove", "--force")
