"""`aclog who-can` and `aclog what-can`: the real Kafka allows every witness, and none beside the classes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from support.aclog_command import checked_aclog as aclog
from support.data import real_log
from support.json_acls import acl

SMALL = real_log("kraft-small")
LISTING = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=pii-, patternType=PREFIXED)`:
\t(principal=User:team, host=*, operation=ALL, permissionType=ALLOW)
\t(principal=User:audit, host=10.0.0.1, operation=READ, permissionType=ALLOW)

Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=pii-keys, patternType=LITERAL)`:
\t(principal=User:team, host=*, operation=READ, permissionType=DENY)

Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=pii-public, patternType=LITERAL)`:
\t(principal=User:*, host=*, operation=READ, permissionType=ALLOW)
"""


@pytest.fixture
def acls(tmp_path: Path) -> Path:
    path = tmp_path / "acls.txt"
    path.write_text(LISTING, encoding="utf-8")
    return path


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_who_can_answers_for_a_prefix(acls: Path) -> None:
    """Each with exactly the names and hosts; a DENY takes a name away."""
    found = rows(aclog("who-can", "--acls", acls, "--operation", "Read", "--topic", "pii-*", "--json"))
    reported = {
        row["principal"]: (row["names"], row["hosts"]) for row in found if row["hosts"]["host"] == "*"
    }
    everywhere = {"host": "*", "except": []}
    assert reported["*"] == ([{"name": "pii-public"}], everywhere)
    assert reported["User:team"] == ([{"prefix": "pii-", "except": [{"name": "pii-keys"}]}], everywhere)
    (audit,) = [row for row in found if row["hosts"] == {"host": "10.0.0.1"}]
    assert audit["principal"] == "User:audit"
    assert audit["names"] == [{"prefix": "pii-", "except": [{"name": "pii-public"}]}]
    assert audit["acl"]["resourceName"] == "pii-"
    assert {row["result"] for row in found} == {"ALLOWED"}


def test_who_can_answers_for_a_name(acls: Path) -> None:
    found = aclog("who-can", "--acls", acls, "--operation", "Write", "--topic", "pii-keys").stdout
    assert found.splitlines()[0] == "User:team: Write on TOPIC pii-keys from any host"
    nobody = aclog("who-can", "--acls", acls, "--operation", "Write", "--topic", "orders", code=1)
    assert nobody.stdout == ""
    assert "no such request is allowed" in nobody.stderr


def test_what_can_lists_the_rights_of_a_principal(acls: Path) -> None:
    """A principal has the rights of wildcard-principal ACLs."""
    table = list(
        csv.reader(io.StringIO(aclog("what-can", "--acls", acls, "--principal", "User:x", "--csv").stdout))
    )
    assert table[0][0] == "principal"
    assert table[1][:5] == ["User:x", "Read, Describe", "TOPIC", "pii-public", "any host"]
    assert len(table) == 2
    team = aclog("what-can", "--acls", acls, "--principal", "User:team").stdout
    assert "User:team: every operation on TOPIC pii-* (but pii-keys) from any host" in team


def test_an_acl_that_decides_a_part_of_a_row_is_not_shown_for_all(tmp_path: Path) -> None:
    """In text, JSON and CSV: the first one is named with its request, and the others after it."""
    acls = tmp_path / "acls.jsonl"
    given = [
        acl("a", "User:x", operation="READ"),
        acl("b", "User:*", operation="READ"),
        acl("c", "User:x", operation="READ", patternType="PREFIXED"),
        acl("d", "User:x", operation="WRITE"),
        acl("e", "User:other", operation="READ"),
    ]
    acls.write_text("".join(json.dumps(each) + "\n" for each in given), encoding="utf-8")
    what_can = ("what-can", "--acls", acls, "--principal", "User:x")
    text = aclog(*what_can).stdout
    reads, writes = text.split("User:x: Write", 1)
    assert "Read, Describe on TOPIC a, b, c* from any host" in reads
    assert "such as User:x Read TOPIC a from 192.0.2.1: by MatchingAcl (ALLOW " in reads
    assert "other requests of the class by 2 more ACLs:" in reads
    assert [each in reads for each in ("TOPIC:LITERAL:a ", "TOPIC:LITERAL:b ", "TOPIC:PREFIXED:c ")] == [
        True
    ] * 3
    assert ":e from" not in text
    # An ACL that alone decides a complete row is marked as such.
    assert "    by MatchingAcl (ALLOW " in writes
    assert "other requests" not in writes
    found = rows(aclog(*what_can, "--json"))
    reported = {
        (row["operation"], row["acl"]["resourceName"]): (
            sorted(each["resourceName"] for each in row["otherAcls"]),
            row["otherAclsComplete"],
        )
        for row in found
    }
    assert reported[("READ", "a")] == (["b", "c"], True)
    assert reported[("WRITE", "d")] == ([], True)
    table = list(csv.reader(io.StringIO(aclog(*what_can, "--csv").stdout)))
    decided = {row[1]: row[5] for row in table[1:]}
    assert (
        "for User:x Read TOPIC a from 192.0.2.1; other requests by 2 more ACLs" in decided["Read, Describe"]
    )
    # Of very many some are named, and the number of the others is printed.
    many = [acl(f"t-{number:02}", "User:x", operation="READ") for number in range(40)]
    acls.write_text("".join(json.dumps(each) + "\n" for each in many), encoding="utf-8")
    assert "other requests of the class by at least 20 more ACLs" in aclog(*what_can).stdout


def test_answers_equal_those_of_check() -> None:
    """Of a real log: each witness is allowed there."""
    found = rows(aclog("what-can", "--log", SMALL, "--principal", "User:alice", "--json"))
    assert len(found) > 10
    flags = {"TOPIC": "--topic", "GROUP": "--group", "TRANSACTIONAL_ID": "--transactional-id"}
    for row in found[::7]:
        witness = row["witness"]
        if witness["resourceType"] in flags:
            resource = (flags[witness["resourceType"]], witness["resourceName"])
            given = ("--principal", witness["principal"], "--operation", witness["operation"])
            aclog("check", "--log", SMALL, *given, *resource, "--host", witness["host"])


def test_wrong_usage_is_reported(acls: Path) -> None:
    reported = aclog("who-can", "--acls", acls, "--operation", "Read", code=2).stderr
    assert "Name exactly one resource" in reported
    assert "Missing option '--log'" in aclog("what-can", "--principal", "User:a", code=2).stderr


def test_denied_operations_are_excluded_from_every_operation(tmp_path: Path) -> None:
    """A DENY of Read denies Read, and not ALL, which is an operation of its own."""
    path = tmp_path / "acls.txt"
    path.write_text(
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`:\n"
        "\t(principal=User:a, host=*, operation=ALL, permissionType=ALLOW)\n"
        "\t(principal=User:a, host=*, operation=READ, permissionType=DENY)\n",
        encoding="utf-8",
    )
    reported = aclog("what-can", "--acls", path, "--principal", "User:a").stdout
    assert "every operation but Read on TOPIC orders" in reported


@pytest.fixture
def odd_log(tmp_path: Path) -> Path:
    """Groups may be called anything."""
    log = tmp_path / "log"
    aclog("log", "create", "--log", log)
    flags = [word for name in ODD_NAMES for word in ("--group", name)]
    aclog("acls", "--log", log, "--add", "--allow-principal", "User:a", "--operation", "Read", *flags)
    return log


ODD_NAMES = ("=1+1", "+1", "-1", "@x", "'=1", "'quoted'", "a\x1b[2J\u202e")


def cells(*command: object) -> set[str]:
    text = aclog(*command).stdout
    return {cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row}


@pytest.mark.parametrize(
    "command",
    ["what-can --principal User:a --csv", "who-can --operation Read --group =1+1 --csv"],
)
def test_no_cell_of_classes_is_a_formula(command: str, odd_log: Path) -> None:
    """Nor does one hold a control character; --raw-cells writes names as they are."""
    words = [*command.split(), "--log", str(odd_log)]
    found, raw = cells(*words), cells(*words, "--raw-cells")
    assert not [cell for cell in found if cell.startswith(("=", "+", "-", "@")) or "\x1b" in cell]
    assert found != raw


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("report --format csv --output -", "'a\\x1b[2J\\u202e"),
        ("snapshot export --format csv", "'a\x1b[2J\u202e"),
    ],
)
def test_no_cell_of_csv_is_a_formula(command: str, last: str, odd_log: Path) -> None:
    """What a program reads back keeps its characters, and what people read does not."""
    words = [*command.split(), "--log", str(odd_log)]
    found = cells(*words)
    assert {"'=1+1", "'+1", "'-1", "'@x", "''=1", "'quoted'", last} <= found
    assert not [cell for cell in found if cell.startswith(("=", "+", "@"))]
    assert set(ODD_NAMES) <= cells(*words, "--raw-cells")


def test_exported_files_are_read_back(odd_log: Path, tmp_path: Path) -> None:
    """`diff` and `plan` take the mark away again."""
    exported = tmp_path / "acls.csv"
    aclog("snapshot", "export", "--log", odd_log, "--format", "csv", "--output", exported)
    assert "same" in aclog("diff", odd_log, exported).stdout
