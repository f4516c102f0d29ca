"""`aclog blame`: every turn of an answer, the records that made it, and what the real Kafka says of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from records.acl import AclPermissionType
from records.batch import encode_batch
from records.entries import (
    AccessControlEntryRecord,
    BrokerRecord,
    RemoveAccessControlEntryRecord,
    SupportedLevels,
)
from records.ids import uuid_to_string
from records.log.directory import DirectoryLog
from support.acl_strategies import IDS
from support.aclog_command import aclog
from support.column_logs import frame_of
from support.data import real_log
from support.directory_logs import TIMESTAMP_MS, write_segment

SMALL, TRIMMED = real_log("kraft-small"), real_log("kraft-trimmed")
ALICE = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")


def blame(*args: object, code: int) -> Result:
    result = aclog("blame", *args)
    assert result.exit_code == code, result.output
    return result


def rows(*args: object, code: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in blame(*args, "--json", code=code).stdout.splitlines()]


def acl(number: int, name: str = "orders", principal: str = "User:alice", **other: Any) -> Any:
    usual: dict[str, Any] = {
        "resource_type": 2,
        "pattern_type": 3,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AccessControlEntryRecord(id=IDS[number], resource_name=name, principal=principal, **usual | other)


def a_log(directory: Path, *batches: list[Any]) -> Path:
    with DirectoryLog.open(directory, mode="create", cluster_id="one") as log:
        for batch in batches:
            log.append(batch)
    return directory


def test_blame_follows_a_request_through_the_log(tmp_path: Path) -> None:
    """Granted by two ACLs, of which one goes; denied to all hosts but one; open again; and others pass by."""
    deny = acl(3, "ord", "User:*", pattern_type=4, permission_type=int(AclPermissionType.DENY))
    log = a_log(
        tmp_path / "log",
        [acl(0), acl(9, "payments")],
        [acl(1, "*")],
        [RemoveAccessControlEntryRecord(IDS[0]), acl(9, "payments", operation=4)],
        [deny],
        [acl(3, "ord", "User:*", pattern_type=4, host="10.0.0.9")],
        [acl(8, principal="User:bob")],
    )
    begin, granted, by_two, by_one, revoked, again, end = rows("--log", log, *ALICE, code=0)
    assert begin == {
        "begin": 0,
        "origin": "the log's start",
        "whole": True,
        "result": "DENIED",
        "rule": "DefaultDeny",
        "acl": None,
    }
    assert (granted["flip"], granted["endOffset"]) == ("granted", 2)
    ((record,)) = granted["records"]
    assert (record["change"], record["offset"], record["acl"]["id"]) == ("added", 0, uuid_to_string(IDS[0]))
    assert record["timestamp"] > 0
    assert (granted["before"]["rule"], granted["after"]["acl"]["offset"]) == ("DefaultDeny", 0)
    for row, change in ((by_two, ("added", 2)), (by_one, ("removed", 3))):
        assert row["flip"] is None
        assert [(each["change"], each["offset"]) for each in row["records"]] == [change]
    assert again["flip"] == "granted"
    assert [(each["change"], each["was"]["permissionType"]) for each in again["records"]] == [
        ("replaced", "DENY")
    ]
    assert (end["result"], end["since"], [each["offset"] for each in end["by"]]) == ("ALLOWED", 6, [2])
    assert (revoked["flip"], revoked["after"]["acl"]["principal"]) == ("revoked", "User:*")
    text = blame("--log", log, *ALICE, code=0).stdout
    assert "first    DENIED by DefaultDeny" in text
    assert "GRANTED  DENIED by DefaultDeny, then ALLOWED by the ACL of offset 0" in text
    assert "now      ALLOWED by the ACL of offset 2" in text


def test_blame_finds_an_acl_by_id_and_by_content(tmp_path: Path) -> None:
    """The same content under two ids is in force until both are gone (I8)."""
    log = a_log(
        tmp_path / "log",
        [acl(0, "ord", pattern_type=4), acl(1, "ord", pattern_type=4)],
        [RemoveAccessControlEntryRecord(IDS[0])],
    )
    by_id = rows("--log", log, "--id", uuid_to_string(IDS[0]), code=1)
    assert [row["flip"] for row in by_id[1:-1]] == ["added", "removed"]
    assert by_id[-1] == {"end": 3, "since": 2, "knownFrom": 0, "inForce": False, "by": []}
    acl_arguments = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "ord")
    assert rows("--log", log, *acl_arguments, code=1)[-1]["since"] is None
    by_content = rows("--log", log, *acl_arguments, "--resource-pattern-type", "prefixed", code=0)
    assert [row["flip"] for row in by_content[1:-1]] == ["added", None]
    assert [each["offset"] for each in by_content[-1]["by"]] == [1]


@pytest.mark.parametrize(
    ("subject", "notes"),
    [
        (
            ("--principal", "user:Alice", "--operation", "Read", "--topic", "ordesr"),
            (
                "no ACL names user:Alice, and principals are case-sensitive; did you mean User:alice?",
                "no ACL names topic ordesr; did you mean orders?",
            ),
        ),
        (("--principal", "User:alice", "--operation", "Write", "--topic", "orders"), ()),
        (ALICE, ()),
        (
            ("--allow-principal", "User:alcie", "--operation", "Read", "--topic", "orders"),
            ("no ACL names User:alcie; did you mean User:alice?",),
        ),
        (("--deny-principal", "User:*", "--operation", "Read", "--topic", "*"), ()),
        (
            ("--id", uuid_to_string(IDS[7])),
            (f"this history has no ACL with the id {uuid_to_string(IDS[7])}",),
        ),
        (("--id", uuid_to_string(IDS[0])), ()),
    ],
)
def test_a_subject_that_no_acl_names_has_notes(
    tmp_path: Path, subject: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    """As those of `aclog check`, unless the answer has a history."""
    log = a_log(tmp_path / "log", [acl(0)])
    is_in_force = subject in (ALICE, ("--id", uuid_to_string(IDS[0])))
    result = blame("--log", log, *subject, "--json", code=0 if is_in_force else 1)
    assert result.stderr.splitlines() == [f"note: {each}" for each in notes]


def test_a_request_whose_acls_were_removed_has_its_history_and_no_note(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [acl(0)], [RemoveAccessControlEntryRecord(IDS[0])])
    assert blame("--log", log, *ALICE, code=1).stderr == ""


def test_an_acls_principal_without_a_type_is_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [acl(0)])
    result = blame(
        "--log", log, "--allow-principal", "alice", "--operation", "Read", "--topic", "orders", code=2
    )
    assert "User:alice" in result.stderr


def test_records_before_a_trimmed_log_are_reported_as_unknown() -> None:
    """It begins with its checkpoint, in which ACLs have no offsets."""
    request = ("--principal", "User:ops", "--operation", "Read", "--topic", "t", "--host", "203.0.113.9")
    first, last = rows("--log", TRIMMED, *request, code=1)
    assert (first["begin"], first["whole"], first["origin"].split()[0]) == (1890, False, "checkpoint")
    assert (last["since"], last["knownFrom"], last["by"][0]["offset"]) == (None, 1890, None)
    text = blame("--log", TRIMMED, *request, code=1).stdout
    assert "since offset 1890 at the latest; earlier records are not in this history" in text


def test_each_row_is_decided_by_the_release_of_its_time(tmp_path: Path) -> None:
    """A broker of 4.4 takes the host for a network, one of 4.3 does not; what is configured counts more."""
    written = [
        acl(0, host="127.0.0.0/8"),
        BrokerRecord(0, 4, 1, SupportedLevels(7, 30)),
        BrokerRecord(0, 4, 1, SupportedLevels(7, 32)),
    ]
    frames = [
        encode_batch([frame_of(record)], base_offset=offset, epoch=1, timestamp_ms=TIMESTAMP_MS)
        for offset, record in enumerate(written)
    ]
    log = tmp_path / "log"
    write_segment(log, 0, *frames)
    # Before there are brokers, and with one of 4.3, it is denied.
    _, granted, end = rows("--log", log, *ALICE, code=0)
    assert granted["flip"] == "granted"
    assert granted["records"] == [
        {"change": "release", "offset": 2, "timestamp": TIMESTAMP_MS, "release": "4.4", "was": "4.3"}
    ]
    assert (end["since"], end["result"]) == (2, "ALLOWED")
    text = blame("--log", log, *ALICE, code=0).stdout
    assert "by the rules of Kafka 4.4 from here on, as brokers registered; before that, of 4.3" in " ".join(
        text.split()
    )
    first, _, _ = rows("--log", log, "--from", 2, *ALICE, code=0)
    assert (first["begin"], first["result"]) == (2, "DENIED")
    config = tmp_path / "config"
    config.write_text("aclog.kafka.version=4.3\n", encoding="utf-8")
    first, last = rows("--log", log, "--config", config, *ALICE, code=1)
    assert last["since"] is None


def test_blame_starts_at_an_offset(tmp_path: Path) -> None:
    """The first row is the state at that offset; an offset at the end or beyond is reported."""
    log = a_log(tmp_path / "log", [acl(0)], [RemoveAccessControlEntryRecord(IDS[0])], [acl(1)])
    whole = rows("--log", log, *ALICE, code=0)
    assert rows("--log", log, "--from", 0, *ALICE, code=0) == whole
    first, *turns, end = rows("--log", log, "--from", 1, *ALICE, code=0)
    assert (first["begin"], first["origin"], first["whole"]) == (1, "offset 1", False)
    assert (first["result"], first["acl"]["offset"]) == ("ALLOWED", 0)
    assert turns == whole[2:-1]
    assert (end["since"], end["knownFrom"]) == (2, 1)
    text = blame("--log", log, "--from", 3, *ALICE, code=0).stdout
    assert "since offset 3 at the latest; earlier records are not in this history" in text
    assert "no state at offset 4" in blame("--log", log, "--from", 5, *ALICE, code=2).stderr


def test_settings_change_the_decision(tmp_path: Path) -> None:
    """Super users ignore ACLs; any ACL ends allow.everyone on its resource."""
    config = tmp_path / "config"
    config.write_text("super.users=User:root\nallow.everyone.if.no.acl.found=true\n", encoding="utf-8")
    log = a_log(tmp_path / "log", [acl(0, principal="User:bob", host="10.0.0.9")])
    found = rows("--log", log, "--config", config, *ALICE, code=1)
    assert [(row["flip"], row["before"]["rule"]) for row in found[1:-1]] == [("revoked", "DefaultAllow")]
    root = ("--principal", "User:root", *ALICE[2:])
    result = blame("--log", log, "--config", config, *root, code=0)
    assert "is a super user: no ACL affects it" in result.stderr
    assert "ALLOWED by SuperUser, since the beginning" in result.stdout


def test_an_archive_of_spark_is_an_option_of_spark(tmp_path: Path) -> None:
    """It is passed to Spark's session, and names no field of the ACL."""
    archive = tmp_path / "aclog.tar.gz"
    archive.touch()
    missing = tmp_path / "history"
    result = blame("--history", missing, "--id", uuid_to_string(IDS[1]), "--archives", archive, code=2)
    assert "does not exist" in result.stderr


def test_wrong_usage_is_reported(tmp_path: Path) -> None:
    for args, complaint in (
        ((), "Name exactly one of --principal, --allow-principal, --deny-principal, --id"),
        (("--id", "x"), "--id"),
        (
            ("--id", uuid_to_string(IDS[0]), "--topic", "t"),
            "--id identifies the ACL: name no other of its fields",
        ),
        (("--principal", "User:a", "--topic", "t"), "Missing option '--operation'"),
        (("--principal", "User:a", "--operation", "Read"), "Name exactly one resource"),
        ((*ALICE, "--host", "localhost"), "the broker sees addresses, never names"),
        ((*ALICE, "--cluster-id", "x"), "--cluster-id names a cluster of --history"),
        (
            ("--allow-principal", *ALICE[1:], "--resource-pattern-type", "any"),
            "an ACL is LITERAL or PREFIXED",
        ),
    ):
        assert complaint in blame("--log", SMALL, *args, code=2).stderr, args
    assert "no" in blame("--log", tmp_path / "nowhere", *ALICE, code=2).stderr
