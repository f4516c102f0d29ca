"""`aclog test`: a true expectation is proven, a false one has a witness that `aclog check` confirms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from support.aclog_command import checked_aclog as aclog

LISTING = """\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=pii-, patternType=PREFIXED)`:
\t(principal=User:team, host=*, operation=ALL, permissionType=ALLOW)
\t(principal=User:audit, host=10.0.0.1, operation=READ, permissionType=ALLOW)

Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=pii-keys, patternType=LITERAL)`:
\t(principal=User:team, host=10.1.2.3, operation=READ, permissionType=DENY)
"""
EXPECTED = """
[[expect]]
name = "only the team and its audit read"
only = ["User:team", "User:audit"]
operation = "Read"
topic = "pii-*"

[[expect]]
name = "only the team reads"
only = ["User:team"]
operation = "read"
topic = "pii-*"

[[expect]]
name = "only the team reads, elsewhere"
only = ["User:team"]
operation = "Read"
topic = "pii-*"
host = "10.0.0.2/31"

[[expect]]
name = "the team reads and writes everything"
allow = ["User:team"]
operation = ["Read", "Write"]
topic = "pii-*"

[[expect]]
name = "the team reads, from our network"
allow = ["User:team"]
operation = "Read"
topic = "pii-*"
host = "10.0.0.0/16"

[[expect]]
name = "the audit writes nothing"
deny = ["User:audit"]
operation = ["Write", "Delete"]
topic = "*"

[[expect]]
name = "the audit does not describe"
deny = ["User:audit"]
operation = "Describe"
topic = "pii-x"

[[expect]]
name = "nobody alters the cluster"
only = []
operation = "Alter"
cluster = true
"""
FAILING = {
    "only the team reads": ("User:audit", "READ", "10.0.0.1"),
    "the team reads and writes everything": ("User:team", "READ", "10.1.2.3"),
    "the audit does not describe": ("User:audit", "DESCRIBE", "10.0.0.1"),
}


def test_a_witness_of_only_is_not_a_listed_principal(tmp_path: Path) -> None:
    """Whatever they are called: the class leaves them and super users out, and so does its witness."""
    acls, tests, config = tmp_path / "acls", tmp_path / "tests.toml", tmp_path / "config"
    wildcard = {"principal": "User:*", "operation": "READ", "permissionType": "ALLOW"}
    acls.write_text(json.dumps({"resourceType": "TOPIC", "resourceName": "t", **wildcard}), encoding="utf-8")
    tests.write_text(
        '[[expect]]\nname = "x"\nonly = ["User:somebody", "User:z"]\noperation = "Read"\ntopic = "t"\n',
        encoding="utf-8",
    )
    config.write_text("super.users=User:somebody1\n", encoding="utf-8")
    result = aclog("test", tests, "--acls", acls, "--config", config, "--json", code=1)
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["witness"]["principal"] == "User:somebody11"
    assert violation["principalsExcept"] == ["User:somebody", "User:somebody1", "User:z"]
    tests.write_text(
        '[[expect]]\nname = "x"\nonly = ["User:*"]\noperation = "Read"\ntopic = "t"\n', encoding="utf-8"
    )
    assert "which means every principal" in aclog("test", tests, "--acls", acls, code=2).stderr


@pytest.fixture
def acls(tmp_path: Path) -> Path:
    path = tmp_path / "acls.txt"
    path.write_text(LISTING, encoding="utf-8")
    return path


def expecting(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_true_and_false_expectations_are_reported(tmp_path: Path, acls: Path) -> None:
    """Each that fails has a class and a witness, whose operation, host and name are those of the entry."""
    report = tmp_path / "report.xml"
    given = ("test", expecting(tmp_path, EXPECTED), "--acls", acls)
    printed = aclog(*given, "--json", "--junit", report, code=1).stdout
    rows: dict[str, Any] = {row["name"]: row for row in map(json.loads, printed.splitlines())}
    assert {name for name, row in rows.items() if not row["holds"]} == FAILING.keys()
    for name, (principal, operation, host) in FAILING.items():
        (violation,) = rows[name]["violations"]
        witness = violation["witness"]
        assert (witness["principal"], witness["operation"], witness["host"]) == (principal, operation, host)
    names = [each["names"] for each in rows["the team reads and writes everything"]["violations"]]
    assert names == [[{"name": "pii-keys"}]]
    suite = ET.parse(report).getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("8", "3")
    assert {case.attrib["name"] for case in suite if len(case)} == FAILING.keys()
    text = aclog(*given, code=1).stdout
    assert "holds    nobody alters the cluster" in text
    assert "FAILED   only the team reads\n" in text


def test_super_users_are_exempt_only_from_only(tmp_path: Path, acls: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:root\n", encoding="utf-8")
    entries = """
[[expect]]
name = "only"
only = ["User:team", "User:audit"]
operation = "Read"
topic = "pii-*"

[[expect]]
name = "deny"
deny = ["User:root"]
operation = "Read"
topic = "orders"
"""
    printed = aclog(
        "test", expecting(tmp_path, entries), "--acls", acls, "--config", config, "--json", code=1
    ).stdout
    assert [json.loads(line)["holds"] for line in printed.splitlines()] == [True, False]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[expect]]\nname = = 1", "line 2"),
        ("", "expect"),
        ("expect = []", "there is no [[expect]] in it"),
        ('[[expect]]\nname = "a"\noperation = "Read"\ntopic = "t"', "exactly one of allow, deny, only"),
        ('[[expect]]\nname = "a"\noperation = "Reed"\ntopic = "t"\nonly = []', "`Reed` is no operation"),
        ('[[expect]]\nname = "a"\noperation = "Read"\nonly = []', "exactly one of topic, group"),
        ('[[expect]]\nname = "a"\noperation = "Read"\ntopic = "t"\nallow = []', "names no principal"),
        ('[[expect]]\nname = "a"\noperation = "Read"\ntopic = "t"\nallow = ["bob"]', "bob"),
        (
            '[[expect]]\nname = "a"\noperation = "Read"\ntopic = "t"\nonly = []\nhost = "10.0.0.1/8"',
            "neither an address nor a network",
        ),
        ('[[expect]]\nname = "a"\noperation = "Read"\ntopics = "t"\nonly = []', "topics"),
    ],
)
def test_a_bad_file_is_reported(tmp_path: Path, acls: Path, text: str, complaint: str) -> None:
    result = aclog("test", expecting(tmp_path, text), "--acls", acls, code=2)
    assert complaint in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
