"""`aclog lint`: what it prints, that its commands mend what it finds, and what a file of rules leaves out."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import Result

from support.aclog_command import checked_aclog as aclog
from support.data import real_log

LISTING = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`:
\t(principal=User:alice, host=10.0.0.1, operation=READ, permissionType=ALLOW)
\t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW)
\t(principal=User:bob, host=*, operation=CREATE, permissionType=ALLOW)
\t(principal=User:bob, host=*, operation=ALL, permissionType=DENY)
\t(principal=User:carol, host=broker1, operation=READ, permissionType=ALLOW)

Current ACLs for resource `ResourcePattern(resourceType=GROUP, name=app, patternType=PREFIXED)`:
\t(principal=Group:admins, host=*, operation=READ, permissionType=ALLOW)
"""
RULES = {
    "principal-type": "Group:admins",
    "dead": "User:carol",
    "shadowed": "User:bob",
    "broader-twin": "User:alice",
    "redundant": "User:alice",
    "idle-deny": "User:bob",
}


@pytest.fixture
def acls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "acls.txt"
    path.write_text(LISTING, encoding="utf-8")
    return path


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def rules_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / ".aclog-lint.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_findings_are_printed_as_json_text_and_junit(tmp_path: Path, acls: Path) -> None:
    report = tmp_path / "report.xml"
    given = ("lint", "--acls", acls, "--strict")
    *findings, last = rows(aclog(*given, "--json", "--junit", report, code=1))
    assert {each["finding"]: each["acl"]["principal"] for each in findings} == RULES
    twin = next(each for each in findings if each["finding"] == "broader-twin")
    assert [each["host"] for each in twin["by"]] == ["*"]
    redundant = next(each for each in findings if each["finding"] == "redundant")
    assert redundant["byResourceType"] == "may differ"
    assert [each["finding"] for each in findings if not each["alone"]] == ["idle-deny"]
    assert [each["finding"] for each in findings if not each["canGo"]] == ["principal-type"]
    assert (last["clean"], last["acls"], last["needed"]) == (False, 7, 2)
    assert last["findings"] == {
        rule: int(rule in RULES) for rule in (*RULES, "duplicate", "unknown-code", "topic-gone", "super-user")
    }
    suite = ET.parse(report).getroot()
    assert {case.attrib["name"] for case in suite if len(case)} == RULES.keys()
    text = aclog(*given, code=1).stdout
    assert "5 of 7 ACLs can be removed together" in text
    assert "`broker1` is never a client's host" in text


def test_the_commands_and_the_changes_fix_the_findings(tmp_path: Path, acls: Path) -> None:
    """On a log: the commands in their order; the ACLs that are left mean what all did."""
    log, changes = tmp_path / "log", tmp_path / "changes.jsonl"
    aclog("log", "create", "--log", log)
    for acl in rows(aclog("diff", log, acls, "--json", code=1)):
        if "acl" in acl:
            permission = acl["permissionType"].lower()
            kind = acl["resourceType"].lower()
            pattern = ("--resource-pattern-type", acl["patternType"])
            who = (f"--{permission}-principal", acl["principal"], f"--{permission}-host", acl["host"])
            words = (*who, "--operation", acl["operation"], f"--{kind}", acl["resourceName"], *pattern)
            aclog("acls", "--log", log, "--add", *words)
    rules = rules_file(tmp_path, 'principal_types = ["User", "Group"]')
    given = ("lint", "--log", log, "--strict", "--rules", rules)
    *findings, _ = rows(aclog(*given, "--changes", changes, "--json", code=1))
    removed = rows_of(changes)
    assert all(each.pop("acl") == "removed" for each in removed)
    assert removed == sorted((each["acl"] for each in findings), key=removed.index)
    planned = rows(aclog("plan", changes, "--log", log, "--json", code=1))
    assert sum(each.get("acl") == "removed" for each in planned) == 5
    assert planned[-1]["same"]
    for each in findings:
        (command,) = each["commands"]
        name, *flags = shlex.split(command)
        assert (name, flags[:3]) == ("aclog", ["acls", "--log", str(log)])
        aclog(*flags)
    aclog("diff", acls, log)
    assert "clean" in aclog(*given).stdout
    (listed,) = rows(aclog("acls", "--log", log, "--list", "--json"))
    assert len(listed["acls"]) == 2


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_a_guarding_deny_is_no_defect(tmp_path: Path, strict: tuple[str, ...]) -> None:
    """The README's own example: information, no command and exit code 0, in every format; or a defect."""
    log, report, changes = f"file:{tmp_path}/acls", tmp_path / "report.xml", tmp_path / "changes.jsonl"
    aclog("log", "create", "--log", log)
    alice = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    mallory = ("--deny-principal", "User:mallory", "--operation", "All", "--topic", "*")
    for flags in (alice, mallory):
        aclog("acls", "--log", log, "--add", *flags)
    code = int(bool(strict))
    given = ("lint", "--log", log, *strict)

    text = aclog(*given, "--junit", report, "--changes", changes, code=code).stdout
    idle, last = rows(aclog(*given, "--json", code=code))

    assert "DENY User:mallory ALL on TOPIC:LITERAL:* from *" in text
    assert ("idle-deny (information, no defect)" in text, "clean: no defects in 2 ACLs" in text) == (
        (False, False) if strict else (True, True)
    )
    assert (idle["finding"], idle["severity"], idle["canGo"], last["clean"]) == (
        *(("idle-deny", "warning", True, False) if strict else ("idle-deny", "info", False, True)),
    )
    assert (len(idle["commands"]), "--remove" in text, last["needed"]) == (code, bool(strict), 2 - code)
    assert len(rows_of(changes)) == code
    failed = {case.attrib["name"] for case in ET.parse(report).getroot() if len(case)}
    assert failed == ({"idle-deny"} if strict else set())


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_rules_are_read_from_a_file(tmp_path: Path, acls: Path) -> None:
    """One in the working directory is taken by itself; what it accepts stays."""
    rules_file(
        tmp_path,
        """
        off = ["idle-deny", "shadowed"]
        [[accept]]
        rules = ["dead", "principal-type"]
        principal = "*:[ac]*"
        reason = "known"
        [[accept]]
        principal = "User:al*"
        resource_type = "topic"
        resource_name = "ord*"
        """,
    )
    result = aclog("lint", "--acls", acls)
    assert ".aclog-lint.toml" in result.stderr
    assert "5 findings are accepted" in result.stdout


def test_super_users_and_allow_everyone_are_read_from_the_configuration(tmp_path: Path, acls: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:alice\nallow.everyone.if.no.acl.found=true\n", encoding="utf-8")
    *_, last = rows(aclog("lint", "--acls", acls, "--config", config, "--json", code=1))
    # Of those on the topic only one is left, and it is not the one that is for a super user.
    assert (last["findings"]["super-user"], last["needed"]) == (3, 2)


def test_acls_that_authorize_by_resource_type_needs_are_kept(acls: Path) -> None:
    *findings, last = rows(aclog("lint", "--acls", acls, "--keep-by-resource-type", "--json", code=1))
    assert last["findings"]["redundant"] == 0
    assert {each["byResourceType"] for each in findings} == {"same"}


def test_removable_acls_of_a_real_log_are_found(tmp_path: Path) -> None:
    """The file of changes has what the summary counts; a limit leaves out what people see only."""
    log, changes = real_log("kraft-small"), tmp_path / "changes.jsonl"
    *_, last = rows(aclog("lint", "--log", log, "--strict", "--changes", changes, "--json", code=1))
    assert len(rows_of(changes)) == last["acls"] - last["needed"] > 10
    short, whole = (aclog("lint", "--log", log, "--limit", limit, code=1).stdout for limit in (1, 0))
    assert "of them not shown" in short
    assert "of them not shown" not in whole
    assert len(short) < len(whole)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("off = = 1", "line 1"),
        ('off = ["dull"]', "dull"),
        ('[[accept]]\nresource_type = "Tropic"', "[[accept]] 1: `Tropic` is no resource type"),
        ('[[accept]]\nprincipals = "User:a"', "principals"),
    ],
)
def test_a_bad_file_of_rules_is_reported(tmp_path: Path, acls: Path, text: str, complaint: str) -> None:
    result = aclog("lint", "--acls", acls, "--rules", rules_file(tmp_path, text), code=2)
    assert complaint in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_kafkas_tool_is_named_for_a_log_that_aclog_cannot_write(acls: Path) -> None:
    """A file, a broker's log, an earlier state."""
    for found in (
        rows(aclog("lint", "--acls", acls, "--json", code=1)),
        rows(aclog("lint", "--acls", f"{real_log('kraft-small')}@200", "--json", code=1)),
        rows(aclog("lint", "--log", real_log("kraft-small"), "--json", code=1)),
    ):
        commands = [command for each in found for command in each.get("commands", ())]
        assert commands
        assert all(command.startswith("kafka-acls --bootstrap-server ") for command in commands)
