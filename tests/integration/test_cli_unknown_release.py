"""Commands about sets of ACLs whose release is not known: what holds is what holds for every release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from support.aclog_command import aclog

pytestmark = pytest.mark.integration

SAYS_HOW = "say which by aclog.kafka.version or --as"


def acl(
    host: str, *, permission: str = "ALLOW", principal: str = "User:alice", name: str = "t"
) -> dict[str, str]:
    return {
        "resourceType": "TOPIC",
        "resourceName": "t",
        "patternType": "LITERAL",
        "principal": principal,
        "host": host,
        "operation": "READ",
        "permissionType": permission,
    }


def set_of(path: Path, *acls: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in acls))
    return path


def flips(done: Result) -> list[tuple[str, str | None]]:
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        (each["flip"], each["releases"]) for each in lines if "flip" in each and each["operation"] == "READ"
    ]


def test_diff_names_the_releases_of_a_difference(tmp_path: Path) -> None:
    """An ALLOW for a network grants since 4.4 alone; a DENY for one revokes since then alone."""
    plain = set_of(tmp_path / "plain", acl("*"), acl("10.1.2.3", principal="User:bob"))
    networks = set_of(
        tmp_path / "networks",
        acl("*"),
        acl("10.0.0.0/8", permission="DENY"),
        acl("10.0.0.0/8", principal="User:bob"),
    )
    done = aclog("diff", plain, networks, "--json")
    assert done.exit_code == 1
    assert sorted(flips(done), key=str) == [
        ("granted", "from Kafka 4.4 on"),
        ("revoked", "before Kafka 4.4"),
        ("revoked", "from Kafka 4.4 on"),
    ]
    assert SAYS_HOW in done.stderr
    text = aclog("diff", plain, networks)
    assert "GRANTED (from Kafka 4.4 on)" in text.stdout
    # Each is decided by the release that it is about.
    assert "A: DENIED" in text.stdout.partition("GRANTED")[2]
    assert "B: ALLOWED" in text.stdout.partition("GRANTED")[2]
    for version, expected in (("4.3", ["revoked"]), ("4.4", ["granted", "revoked"])):
        known = aclog("diff", plain, networks, "--as", version, "--json")
        assert sorted(direction for direction, _ in flips(known)) == expected
        assert {releases for _, releases in flips(known)} == {None}
        assert SAYS_HOW not in known.stderr
    # Without networks there is nothing to say.
    same = aclog("diff", plain, plain)
    assert (same.exit_code, same.stderr) == (0, "")


def kafkas_log(directory: Path, level: int, host: str) -> Path:
    """A log of polls, as one of a cluster whose release is known; its ACL is for a network."""
    records: list[dict[str, Any]] = [
        {
            "type": "FEATURE_LEVEL_RECORD",
            "version": 0,
            "data": {"name": "metadata.version", "featureLevel": 7},
        },
        {
            "type": "REGISTER_BROKER_RECORD",
            "version": 0,
            "data": {
                "brokerId": 1,
                "features": [
                    {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": level}
                ],
            },
        },
        {
            "type": "ACCESS_CONTROL_ENTRY_RECORD",
            "version": 0,
            "data": {
                "id": "AAAAAAAAAAAAAAAAAAAAAQ",
                "resourceType": 2,
                "resourceName": "t",
                "patternType": 3,
                "principal": "User:alice",
                "host": host,
                "operation": 3,
                "permissionType": 3,
            },
        },
    ]
    lines = directory.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps(each) + "\n" for each in records))
    assert aclog("log", "create", "--log", directory).exit_code == 0
    done = aclog("log", "append", lines, "--log", directory)
    assert done.exit_code == 0, done.output
    return directory


@pytest.mark.parametrize(("level", "code"), [(30, 0), (33, 1)])
def test_a_file_is_compared_under_the_clusters_release(tmp_path: Path, level: int, code: int) -> None:
    """What the other set is followed by; so a file with another network differs in 4.4 only."""
    log = kafkas_log(tmp_path / "log", level, "10.0.0.0/8")
    wanted = set_of(tmp_path / "wanted", acl("10.0.0.0/8"))
    for pair in ((log, wanted), (wanted, log)):
        done = aclog("diff", *pair)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
    other = set_of(tmp_path / "other", acl("11.0.0.0/8"))
    done = aclog("diff", log, other, "--json")
    assert done.exit_code == code, done.output
    assert {releases for _, releases in flips(done)} <= {None}


def test_expectations_must_hold_in_every_release(tmp_path: Path) -> None:
    acls = set_of(tmp_path / "acls", acl("10.0.0.0/8"))
    expected = {"only = ['User:bob']": 1, "allow = ['User:alice']": 1, "deny = ['User:carol']": 0}
    tests = tmp_path / "access.toml"
    for kind, code in expected.items():
        tests.write_text(
            f"[[expect]]\nname = 'x'\n{kind}\noperation = 'Read'\ntopic = 't'\nhost = '10.1.0.0/16'\n"
        )
        done = aclog("test", tests, "--acls", acls)
        assert done.exit_code == code, (kind, done.output)
        assert SAYS_HOW in done.stderr
    tests.write_text("[[expect]]\nname = 'x'\nonly = ['User:bob']\noperation = 'Read'\ntopic = 't'\n")
    assert aclog("test", tests, "--acls", acls, "--as", "4.3").exit_code == 0
    assert aclog("test", tests, "--acls", acls, "--as", "4.4").exit_code == 1


def own_log(directory: Path, *acls: tuple[str, ...]) -> Path:
    assert aclog("log", "create", "--log", directory).exit_code == 0
    for each in acls:
        done = aclog("acls", "--log", directory, "--add", *each, "--operation", "Read", "--topic", "t")
        assert done.exit_code == 0, done.output
    return directory


ALICE_FROM_NETWORK = ("--allow-principal", "User:alice", "--allow-host", "10.0.0.0/8")
BOB = ("--allow-principal", "User:bob")


def test_a_plan_depends_on_the_permissions_in_every_release(tmp_path: Path) -> None:
    """What another write changes in 4.4 alone makes it outdated, too."""
    log, plan = own_log(tmp_path / "log", BOB), tmp_path / "plan.json"
    changes = set_of(tmp_path / "changes", {**acl("*", principal="User:carol"), "acl": "added"})
    done = aclog("plan", changes, "--log", log, "--output", plan)
    assert done.exit_code == 1, done.output
    assert json.loads(plan.read_text())["kafkaVersion"] == "unknown"
    added = ("--add", *ALICE_FROM_NETWORK, "--operation", "Read", "--topic", "t")
    assert aclog("acls", "--log", log, *added).exit_code == 0
    refused = aclog("apply", plan, "--log", log)
    assert "the effective permissions have changed" in refused.output, refused.output
    assert refused.exit_code == 1, refused.output
    done = aclog("plan", changes, "--log", log, "--output", plan, "--force", "--json")
    assert done.exit_code == 1, done.output
    assert flips(done) == [("granted", None)]
    assert aclog("apply", plan, "--log", log).exit_code == 0


def test_lint_keeps_acls_that_a_release_needs(tmp_path: Path) -> None:
    """Dead before 4.4, and a reason for the other one to go since: neither goes."""
    acls = set_of(tmp_path / "acls", acl("10.0.0.0/8"), acl("10.1.2.3"))
    found = {
        version: sorted(
            json.loads(line)["acl"]["host"]
            for line in aclog("lint", "--acls", acls, "--json", *flags).stdout.splitlines()
            if '"host"' in line
        )
        for version, flags in {"": (), "4.3": ("--as", "4.3"), "4.4": ("--as", "4.4")}.items()
    }
    assert found == {"": [], "4.3": ["10.0.0.0/8"], "4.4": ["10.1.2.3"]}


def test_a_review_without_a_known_release_is_refused(tmp_path: Path) -> None:
    acls, requests = set_of(tmp_path / "acls", acl("10.0.0.0/8"), acl("*")), tmp_path / "requests.log"
    requests.write_text(
        "[2026-11-24 10:00:00,000] DEBUG Principal = User:alice is Allowed operation = READ "
        "from host = 10.1.2.3 on resource = Topic:LITERAL:t for request = Fetch with "
        "resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl[resourceType=TOPIC, "
        "resourceName=t, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW]) (kafka.authorizer.logger)\n"
    )
    done = aclog("review", "--requests", requests, "--acls", acls)
    assert (done.exit_code, SAYS_HOW in done.output) == (2, True), done.output
    known = aclog("review", "--requests", requests, "--acls", acls, "--as", "4.3")
    assert known.exit_code == 1, known.output


def test_report_decides_a_change_by_the_rules_of_its_release(tmp_path: Path) -> None:
    """An ALLOW for a network grants since 4.4 alone, so the rules of 4.4 decide its witness."""
    log = tmp_path / "log"
    assert aclog("log", "copy", set_of(tmp_path / "before", acl("*")), log, "--create").exit_code == 0
    after = set_of(tmp_path / "after", acl("*"), acl("10.0.0.0/8", principal="User:bob"))
    assert aclog("log", "copy", after, log).exit_code == 0
    report = aclog("report", "--log", log, "--since", 0, "--format", "json", "--output", "-")
    lines = [json.loads(line) for line in report.stdout.splitlines()]
    (read,) = [each for each in lines if "flip" in each and each["operation"] == "READ"]
    assert (read["flip"], read["before"]["result"], read["after"]["result"]) == (
        "granted",
        "DENIED",
        "ALLOWED",
    )
    table = aclog("report", "--log", log, "--since", 0, "--format", "csv", "--output", "-")
    assert "before DENIED by " in table.stdout
    assert "after ALLOWED by " in table.stdout
