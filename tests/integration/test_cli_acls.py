"""`aclog acls` where it goes beyond kafka-acls: JSON, atomicity, strange records, and where it stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorizer.api.kafka_version import NETWORKS_LEVEL
from authorizer.cli.main import cli
from records.entries import METADATA_VERSION_FEATURE, AccessControlEntryRecord, FeatureLevelRecord
from records.ids import Uuid
from records.log.directory import DirectoryLog


def acls(log: Path, *args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["acls", "--log", str(log), *map(str, args)], input=stdin)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An empty aclog-managed log."""
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    return tmp_path / "log"


def batch_sizes(log: Path) -> list[int]:
    with DirectoryLog.open(log) as opened:
        return [len(batch.records) for batch in opened.read(0)]


def test_add_is_one_atomic_batch(log: Path) -> None:
    """Several resources and entries of one command become visible together."""
    args = ("--add", "--topic", "a", "--topic", "b", "--group", "g", "--allow-principal", "User:x")
    assert acls(log, *args, "--operation", "Read", "--operation", "Describe").exit_code == 0
    assert batch_sizes(log) == [6]
    assert acls(log, "--remove", "--topic", "a", "--group", "g", "--force").exit_code == 0
    assert batch_sizes(log) == [6, 4]


def test_adding_an_existing_acl_writes_nothing(log: Path) -> None:
    """An equal ACL is a success without a record."""
    args = ("--add", "--topic", "a", "--allow-principal", "User:x")
    acls(log, *args)
    again = acls(log, *args)
    assert again.exit_code == 0
    assert again.stdout == (
        "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=a, patternType=LITERAL), "
        "entry=(principal=User:x, host=*, operation=ALL, permissionType=ALLOW)) already exists.\n"
    )
    assert batch_sizes(log) == [1]


def test_json_reports_the_changes(log: Path) -> None:
    """--add, --list and --remove give the ACLs with ids, and the end offset."""
    args = ("--topic", "ä", "--allow-principal", "User:x", "--operation", "Read")
    added = json.loads(acls(log, "--add", *args, "--json").stdout)
    (acl,) = added["added"]
    assert added["endOffset"] == 1
    assert acl == {
        "id": acl["id"],
        "resourceType": "TOPIC",
        "resourceName": "ä",
        "patternType": "LITERAL",
        "principal": "User:x",
        "host": "*",
        "operation": "READ",
        "permissionType": "ALLOW",
    }
    assert json.loads(acls(log, "--list", "--json").stdout) == {"endOffset": 1, "acls": [acl]}
    assert json.loads(acls(log, "--add", *args, "--json").stdout) == {"endOffset": 1, "added": []}
    removed = json.loads(acls(log, "--remove", *args, "--force", "--json").stdout)
    assert removed == {"endOffset": 2, "removed": [acl]}
    assert json.loads(acls(log, "--list", "--json").stdout) == {"endOffset": 2, "acls": []}


def test_json_listing_of_principals(log: Path) -> None:
    """--principal chooses in JSON too."""
    for name in ("User:x", "User:y"):
        acls(log, "--add", "--topic", "a", "--allow-principal", name)
    listed = json.loads(acls(log, "--list", "--principal", "User:y", "--json").stdout)
    assert [acl["principal"] for acl in listed["acls"]] == ["User:y"]


def test_a_removal_asks_for_confirmation(log: Path) -> None:
    """y removes, also with --json, whose stdout holds the answer alone; no answer at all is an error."""
    for stdin, more, code, left in (("", (), 2, 1), ("n\n", (), 0, 1), ("Y\n", ("--json",), 0, 0)):
        acls(log, "--add", "--topic", "a", "--allow-principal", "User:x")
        done = acls(log, "--remove", "--topic", "a", *more, stdin=stdin)
        assert done.exit_code == code
        assert len(json.loads(acls(log, "--list", "--json").stdout)["acls"]) == left
        if more:
            assert len(json.loads(done.stdout)["removed"]) == 1
            assert "Are you sure" in done.stderr
    assert "--force" in acls(log, "--remove", "--topic", "a", stdin="").stderr


def test_the_controllers_refusals_are_refused(log: Path) -> None:
    """The controller's own checks follow those of kafka-acls."""
    for args in (("--topic", ""), ("--topic", "", "--json")):
        refused = acls(log, "--add", *args, "--allow-principal", "User:x")
        assert refused.exit_code == 2
        assert "Invalid empty resource name; nothing was written" in refused.stderr
        assert refused.stdout == ""
    assert batch_sizes(log) == []


def test_a_refused_acl_does_not_stop_the_others(log: Path) -> None:
    """As in Kafka's createAcls: the valid ACLs are one batch, and the refused one is reported."""
    with DirectoryLog.open(log, mode="write") as opened:
        opened.append([FeatureLevelRecord(METADATA_VERSION_FEATURE, NETWORKS_LEVEL - 1)])
    names = ("--add", "--topic", "a", "--topic", "b", "--allow-principal", "User:x")
    hosts = ("--allow-host", "10.0.0.1", "--allow-host", "10.0.0.0/8")
    refused = acls(log, *names, *hosts)
    assert refused.exit_code == 2
    assert refused.stdout.count("host=10.0.0.1") == 2
    assert "/8" not in refused.stdout
    assert "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher." in refused.stderr
    assert (
        "2 of 4 ACLs refused, the first (pattern=ResourcePattern(resourceType=TOPIC, name=a,"
        in refused.stderr
    )
    assert "the others are in force" in refused.stderr
    assert batch_sizes(log) == [1, 2]
    again = acls(log, *names, *hosts, "--allow-host", "10.0.0.2", "--json")
    assert again.exit_code == 2
    answer = json.loads(again.stdout)
    assert [each["host"] for each in answer["added"]] == ["10.0.0.2", "10.0.0.2"]
    first, _ = answer["refused"]
    assert (first["resourceName"], first["host"]) == ("a", "10.0.0.0/8")
    assert first["error"]["name"] == "UnsupportedVersionException"


def test_codes_without_a_name_are_listed_by_number(log: Path) -> None:
    """What a newer Kafka wrote is shown with its codes, not hidden (architecture 8.4)."""
    record = AccessControlEntryRecord(Uuid(bytes(16)), 9, "n", 17, "User:x", "*", 99, -3)
    with DirectoryLog.open(log, mode="write") as opened:
        opened.append([record])
    assert acls(log, "--list").stdout == (
        "Current ACLs for resource `ResourcePattern(resourceType=9, name=n, patternType=17)`:\n"
        "\t(principal=User:x, host=*, operation=99, permissionType=-3)\n\n"
    )
    (listed,) = json.loads(acls(log, "--list", "--json").stdout)["acls"]
    assert (listed["resourceType"], listed["operation"]) == ("9", "99")


def test_a_resource_name_cannot_forge_output(log: Path) -> None:
    """Line ends and escape sequences in names are shown, not obeyed; JSON has them as they are."""
    evil = "t`:\n\t(principal=User:admin)\x1b[2J"
    acls(log, "--add", "--topic", evil, "--allow-principal", "User:x\r")
    listing = acls(log, "--list").stdout
    assert listing.count("\n") == 3
    assert "\x1b" not in listing
    (listed,) = json.loads(acls(log, "--list", "--json").stdout)["acls"]
    assert listed["resourceName"] == evil


def test_equal_acls_under_two_ids_are_one_line_and_removed_together(log: Path) -> None:
    """I8: both ids are kept until both are removed; a listing shows the ACL once, JSON each id."""
    with DirectoryLog.open(log, mode="write") as opened:
        for number in (1, 2):
            opened.append(
                [AccessControlEntryRecord(Uuid(bytes(15) + bytes([number])), 2, "t", 3, "User:x", "*", 3, 3)]
            )
    assert acls(log, "--list").stdout.count("principal=User:x") == 1
    assert len(json.loads(acls(log, "--list", "--json").stdout)["acls"]) == 2
    acls(log, "--remove", "--topic", "t", "--force")
    assert json.loads(acls(log, "--list", "--json").stdout)["acls"] == []


@pytest.mark.parametrize("flag", ["--bootstrap-server", "--bootstrap-controller"])
def test_a_log_and_a_cluster_are_not_named_together(flag: str, log: Path) -> None:
    refused = acls(log, "--list", flag, "localhost:9092")
    assert refused.exit_code == 2
    assert f"--log and {flag} cannot be used together" in refused.stderr
