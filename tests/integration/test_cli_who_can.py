"""`aclog who-can` and `aclog what-can`: the real Kafka allows every witness, and none beside the classes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from support.data import real_log

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


def aclog(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, args)])
    assert result.exit_code == code, result.output
    return result


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_who_can_on_a_prefix(acls: Path) -> None:
    """Each with exactly the names and hosts; a DENY takes a name away."""
    found = rows(aclog("who-can", "--acls", acls, "--operation", "Read", "--topic", "pii-*", "--json"))
    said = {row["principal"]: (row["names"], row["hosts"]) for row in found if row["hosts"]["host"] == "*"}
    everywhere = {"host": "*", "except": []}
    assert said["*"] == ([{"name": "pii-public"}], everywhere)
    assert said["User:team"] == ([{"prefix": "pii-", "except": [{"name": "pii-keys"}]}], everywhere)
    (audit,) = [row for row in found if row["hosts"] == {"host": "10.0.0.1"}]
    assert audit["principal"] == "User:audit"
    assert audit["names"] == [{"prefix": "pii-", "except": [{"name": "pii-public"}]}]
    assert audit["acl"]["resourceName"] == "pii-"
    assert {row["result"] for row in found} == {"ALLOWED"}


def test_who_can_on_a_name(acls: Path) -> None:
    found = aclog("who-can", "--acls", acls, "--operation", "Write", "--topic", "pii-keys").stdout
    assert found.splitlines()[0] == "User:team: Write on TOPIC pii-keys from any host"
    nobody = aclog("who-can", "--acls", acls, "--operation", "Write", "--topic", "orders", code=1)
    assert nobody.stdout == ""
    assert "no question of these is allowed" in nobody.stderr


def test_what_can(acls: Path) -> None:
    """Everybody's rights are a principal's too."""
    table = list(
        csv.reader(io.StringIO(aclog("what-can", "--acls", acls, "--principal", "User:x", "--csv").stdout))
    )
    assert table[0][0] == "principal"
    assert table[1][:5] == ["User:x", "Read, Describe", "TOPIC", "pii-public", "any host"]
    assert len(table) == 2
    team = aclog("what-can", "--acls", acls, "--principal", "User:team").stdout
    assert "User:team: every operation on TOPIC pii-* (but pii-keys) from any host" in team


def test_it_is_what_check_answers() -> None:
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


def test_wrong_usage(acls: Path) -> None:
    said = aclog("who-can", "--acls", acls, "--operation", "Read", code=2).stderr
    assert "Name exactly one resource" in said
    assert "Missing option '--log'" in aclog("what-can", "--principal", "User:a", code=2).stderr


def test_what_is_denied_is_none_of_every_operation(tmp_path: Path) -> None:
    """A DENY of Read denies Read, and not ALL, which is an operation of its own."""
    path = tmp_path / "acls.txt"
    path.write_text(
        "Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`:\n"
        "\t(principal=User:a, host=*, operation=ALL, permissionType=ALLOW)\n"
        "\t(principal=User:a, host=*, operation=READ, permissionType=DENY)\n",
        encoding="utf-8",
    )
    said = aclog("what-can", "--acls", path, "--principal", "User:a").stdout
    assert "every operation but Read on TOPIC orders" in said
