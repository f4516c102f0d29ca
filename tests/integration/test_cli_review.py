"""`aclog review`: from a real broker's log of its decisions, and from aclog's own, to what could go."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Consumer, Producer
from confluent_kafka import admin as kafka

from support.aclog_command import aclog
from support.json_acls import acl
from support.nodes import SOON_S
from support.request_log import LoggingBroker, logging_broker
from support.sasl_clients import sasl_client


def review(*args: object, code: int, stdin: str | None = None) -> list[dict[str, Any]]:
    result = aclog("review", *args, "--json", stdin=stdin)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def line(principal: str, operation: str, name: str, *, at: str = "06:00:00", allowed: bool = True) -> str:
    result = "Allowed" if allowed else "Denied"
    return (
        f"[2026-11-23 {at},000] DEBUG Principal = {principal} is {result} operation = {operation} "
        f"from host = 10.0.0.1 on resource = Topic:LITERAL:{name} for request = Fetch "
        "with resourceRefCount = 1 based on rule DefaultDeny (kafka.authorizer.logger)\n"
    )


@pytest.fixture
def acls(tmp_path: Path) -> Path:
    path = tmp_path / "acls.jsonl"
    given = [
        acl("orders"),
        acl("ord", patternType="PREFIXED", operation="ALL"),
        acl("pay"),
        acl("*", "User:*", permissionType="DENY", operation="DELETE"),
        acl("pii", permissionType="DENY"),
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in given), encoding="utf-8")
    return path


def notes_of(result: Result) -> list[str]:
    """The notes but those about settings."""
    return [each for each in result.stderr.splitlines() if "is unknown here" not in each]


def test_allowed_requests_that_no_acl_names_have_notes(acls: Path) -> None:
    """As those of `aclog check`: the lines may be of another cluster. Denied requests need no note."""
    lines = [
        line("User:alice", "READ", "orders"),
        line("user:ALICE", "READ", "0rders"),
        line("User:mallory", "READ", "secret", allowed=False),
    ]
    result = aclog("review", "--requests", "-", "--acls", acls, "--json", stdin="".join(lines))
    assert result.exit_code == 1, result.output
    assert notes_of(result) == [
        "note: no ACL names user:ALICE, and principals are case-sensitive; did you mean User:alice?",
        "note: no ACL names topic 0rders; did you mean orders?",
    ]


def test_a_review_prints_five_notes_about_requests(acls: Path) -> None:
    lines = [line("User:alice", "READ", "orders")]
    lines += [line(f"User:stranger{number}", "READ", "orders") for number in range(8)]
    result = aclog("review", "--requests", "-", "--acls", acls, "--json", stdin="".join(lines))
    notes = notes_of(result)
    assert notes[0] == "note: no ACL names User:stranger0"
    assert (len(notes), notes[-1]) == (6, "note: 3 more such notes are not shown")


def removed(found: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (each["resourceName"], each["principal"], each["operation"])
        for each in found
        if each.get("acl") == "removed"
    }


def reasons(found: list[dict[str, Any]]) -> dict[str, str]:
    names = {each["id"]: each["resourceName"] for each in found if each.get("acl") == "removed"}
    why = {names[each["id"]]: each["why"] for each in found if each.get("review") == "unneeded"}
    return why | {each["acl"]["resourceName"]: each["why"] for each in found if each.get("review") == "kept"}


def test_the_review_separates_removable_and_needed_acls(acls: Path, tmp_path: Path) -> None:
    """The log names the prefix's ACL, as Kafka does; the narrower one suffices."""
    log = tmp_path / "kafka-authorizer.log"
    log.write_text(line("User:alice", "READ", "orders") * 3, encoding="utf-8")
    found = review("--requests", log, "--acls", acls, code=1)
    assert reasons(found) == {
        "orders": "needed",
        "ord": "covered",
        "pay": "unused",
        "*": "denies nothing",
        "pii": "denies nothing",
    }
    remaining = next(each for each in found if each.get("review") == "kept")
    assert (remaining["requests"], remaining["example"]["resourceName"]) == (1, "orders")
    summary = found[-1]
    assert (summary["aclsUnneeded"], summary["aclsKept"], summary["least"], summary["exact"]) == (
        *(4, 1, "narrowest"),
        True,
    )
    assert summary["allowedByAcls"] == {"decisions": 3, "requests": 1}
    assert (summary["first"], summary["last"], summary["lines"]) == (
        *("2026-11-23T06:00:00Z", "2026-11-23T06:00:00Z"),
        3,
    )
    text = aclog("review", "--requests", log, "--acls", acls).stdout
    assert "5 in" in text
    assert "4 can be removed (covered 1, denies nothing 2, unused 1)" in text
    assert "1 to keep (needed 1): the narrowest that allow all that was allowed" in text
    assert "for User:alice Read TOPIC orders from 10.0.0.1" in text


def test_the_smallest_set_may_be_broader(tmp_path: Path) -> None:
    """One prefix does for what two names do more narrowly."""
    acls, log = tmp_path / "acls", tmp_path / "log"
    given = [acl("orders"), acl("order-items"), acl("ord", patternType="PREFIXED")]
    acls.write_text("".join(json.dumps(each) + "\n" for each in given))
    log.write_text(line("User:alice", "READ", "orders") + line("User:alice", "READ", "order-items"))
    narrow = review("--requests", log, "--acls", acls, code=1)
    few = review("--requests", log, "--acls", acls, "--fewest", code=1)
    assert removed(narrow) == {("ord", "User:alice", "READ")}
    assert removed(few) == {("orders", "User:alice", "READ"), ("order-items", "User:alice", "READ")}
    assert (few[-1]["least"], few[-1]["exact"]) == ("fewest", True)


def test_the_printed_plan_leads_to_the_proposed_set(acls: Path, tmp_path: Path) -> None:
    """Without what the plan removes nothing could go, and nothing was granted."""
    log, plan = tmp_path / "log", tmp_path / "plan.jsonl"
    log.write_text(line("User:alice", "READ", "orders") + line("User:alice", "DELETE", "order"))
    assert aclog("review", "--requests", log, "--acls", acls, "--changes", plan).exit_code == 1
    removals = [json.loads(each) for each in plan.read_text().splitlines()]
    assert {each.pop("acl") for each in removals} == {"removed"}
    without_id = [{key: value for key, value in each.items() if key != "id"} for each in removals]
    remaining = [each for each in map(json.loads, acls.read_text().splitlines()) if each not in without_id]
    after = tmp_path / "after.jsonl"
    after.write_text("".join(json.dumps(each) + "\n" for each in remaining))
    assert removed(review("--requests", log, "--acls", after, code=0)) == set()
    flips = [json.loads(each) for each in aclog("diff", acls, after, "--json").stdout.splitlines()]
    assert {each["flip"] for each in flips if "flip" in each} == {"revoked"}


def test_aclog_plan_accepts_the_proposed_set(tmp_path: Path) -> None:
    """Written by --changes, or all that --json prints; the commands that follow carry it out."""
    log, requests, plan = tmp_path / "log", tmp_path / "requests", tmp_path / "plan.jsonl"
    assert aclog("log", "create", "--log", log).exit_code == 0
    granted = (
        "--allow-principal",
        "User:alice",
        "--operation",
        "Read",
        "--topic",
        "orders",
        "--topic",
        "pay",
    )
    assert aclog("acls", "--log", log, "--add", *granted).exit_code == 0
    requests.write_text(line("User:alice", "READ", "orders"))
    found = aclog("review", "--requests", requests, "--log", log, "--changes", plan, "--json")
    for planned in (aclog("plan", plan, "--log", log), aclog("plan", "-", "--log", log, stdin=found.stdout)):
        assert planned.exit_code == 1, planned.output
        assert "1 removed, 0 added" in planned.stdout
        assert "TOPIC:LITERAL:pay" in planned.stdout
    not_yet = aclog("apply", plan, "--log", log)
    assert not_yet.exit_code == 4
    assert "has changes for `aclog plan` and is not a plan yet" in " ".join(not_yet.stderr.split())
    # Both commands can print what follows, and that works as it is printed.
    lint = aclog("lint", "--log", log, "--changes", tmp_path / "lint.jsonl")
    assert f"aclog plan {tmp_path / 'lint.jsonl'} --log {log}" in lint.stderr
    first, second = (
        shlex.split(each)[1:] for each in found.stderr.splitlines() if each.strip().startswith("aclog ")
    )
    assert (first[0], second[0]) == ("plan", "apply")
    assert aclog(*first).exit_code == 1
    assert "1 ACLs removed" in aclog(*second).stdout


def test_a_name_with_a_star_and_a_prefix_are_two_cells(tmp_path: Path) -> None:
    """GROUP LITERAL team* is not GROUP PREFIXED team: the table says which of them to remove."""
    acls, log = tmp_path / "acls", tmp_path / "log"
    given = [
        acl("team*", resourceType="GROUP"),
        acl("team", resourceType="GROUP", patternType="PREFIXED"),
        acl("orders"),
    ]
    acls.write_text("".join(json.dumps(each) + "\n" for each in given))
    lines = line("User:alice", "READ", "orders") + line("User:alice", "READ", "team-a").replace(
        "Topic:LITERAL", "Group:LITERAL"
    )
    log.write_text(lines)
    table = aclog("review", "--requests", log, "--acls", acls).stdout
    assert re.search(r"^remove unused +ALLOW +READ +GROUP:LITERAL:team\* ", table, re.MULTILINE)
    assert re.search(r"^keep +needed +ALLOW +READ +GROUP:PREFIXED:team ", table, re.MULTILINE)
    # Where a name stands beside prefixes with a star behind them, one that ends with a star says so.
    acls.write_text(json.dumps(given[0]) + "\n")
    assert "Read, Describe on GROUP team* (literal) from any host" in (
        aclog("what-can", "--acls", acls, "--principal", "User:alice").stdout
    )


def test_the_summary_comes_first_and_lists_are_limited(tmp_path: Path) -> None:
    acls, log = tmp_path / "acls", tmp_path / "log"
    given = [acl(f"t-{number:03}") for number in range(100)]
    acls.write_text("".join(json.dumps(each) + "\n" for each in given))
    log.write_text("".join(line("User:alice", "READ", f"t-{number:03}") for number in range(40)))
    text = aclog("review", "--requests", log, "--acls", acls).stdout
    output = text.splitlines()
    (counts,) = [number for number, each in enumerate(output) if "60 can be removed (unused 60)" in each]
    (first,) = [number for number, each in enumerate(output) if "t-040" in each]
    assert counts < first
    assert len(re.findall("^remove ", text, re.MULTILINE)) == 10
    assert len(re.findall("^keep ", text, re.MULTILINE)) == 10
    assert "... and 50 more ACLs to remove (--limit 0 shows all)" in text
    assert "... and 30 more ACLs to keep (--limit 0 shows all)" in text
    everything = aclog("review", "--requests", log, "--acls", acls, "--limit", "0").stdout
    assert len(re.findall("^remove ", everything, re.MULTILINE)) == 60
    assert "--limit" not in everything
    # Programs get all of it.
    assert len(removed(review("--requests", log, "--acls", acls, code=1))) == 60


def test_a_window_of_time_reports_its_coverage(acls: Path, tmp_path: Path) -> None:
    """What is outside of it needs nothing; lines without a time are in no window."""
    log = tmp_path / "log.gz"
    lines = (
        line("User:alice", "READ", "orders", at="05:00:00"),
        line("User:alice", "READ", "pay"),
        line("User:alice", "READ", "pay", allowed=False),
        line("User:alice", "READ", "pii").partition("] DEBUG ")[2],
        "[2026-11-23 06:00:00,000] INFO something else\n",
        "[2026-11-23 06:00:00,000] DEBUG Principal = User:x is All\n",
    )
    log.write_bytes(gzip.compress("".join(lines).encode()))
    window = ("--since", "2026-11-23T05:30:00Z", "--until", "2026-11-23T06:30:00Z")
    found = review("--requests", log, "--acls", acls, *window, code=1)
    assert {name for name, why in reasons(found).items() if why == "needed"} == {"pay"}
    summary = found[-1]
    assert [
        summary[key] for key in ("lines", "requests", "outside", "untimed", "other", "notUnderstood")
    ] == [
        *(6, 2, 1, 1, 1),
        1,
    ]
    assert summary["badLines"] == [f"{log} line 6: the line is truncated"]
    assert (summary["since"], summary["until"]) == ("2026-11-23T05:30:00Z", "2026-11-23T06:30:00Z")
    changed = [each for each in found if each.get("review") == "turned"]
    assert [(each["before"], each["now"]) for each in changed] == [("DENIED", "ALLOWED")]
    text = aclog("review", "--requests", log, "--acls", acls, *window).stdout
    assert "1 lines were not understood: " in text
    assert "changed   1 requests are answered differently now" in text
    assert "          allowed now: User:alice Read TOPIC pay from 10.0.0.1, 1 times denied" in text


def test_super_users_need_no_acl(acls: Path, tmp_path: Path) -> None:
    """By the log's word, and by the settings'."""
    log, config = tmp_path / "log", tmp_path / "config"
    config.write_text("super.users=User:alice\n")
    was_super = line("User:root", "READ", "orders").replace("DefaultDeny", "SuperUser")
    log.write_text(was_super + line("User:alice", "READ", "orders"))
    summary = review("--requests", log, "--acls", acls, "--config", config, code=1)[-1]
    assert summary["allowedToSuperUsers"] == {"decisions": 2, "requests": 2}
    assert (summary["aclsKept"], summary["turned"]) == (0, 0)


def test_allow_everyone_keeps_the_last_acl_of_a_name(acls: Path, tmp_path: Path) -> None:
    """allow.everyone.if.no.acl.found: the last ACL of a name is not removable."""
    log, config = tmp_path / "log", tmp_path / "config"
    config.write_text("allow.everyone.if.no.acl.found=true\n")
    log.write_text(line("User:alice", "READ", "orders"))
    found = review("--requests", log, "--acls", acls, "--config", config, code=1)
    assert reasons(found)["*"] == "closes"
    assert {name for name, why in reasons(found).items() if why in ("unused", "covered")} == {"ord", "pay"}


def test_decision_events_are_counted_and_sampling_is_reported(acls: Path, tmp_path: Path) -> None:
    data = {
        "result": "ALLOWED",
        "principal": "User:alice",
        "host": "10.0.0.1",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "rule": "MatchingAcl",
        "count": 7,
        "last_time": "2026-11-23T07:00:00Z",
    }
    event = {"type": "aclog.decision.v1", "time": "2026-11-23T06:00:00Z", "sampledrate": 100, "data": data}
    (tmp_path / "events").write_text(json.dumps(event) + "\n")
    found = aclog("review", "--requests", tmp_path / "events", "--acls", acls)
    assert "2026-11-23T06:00:00Z to 2026-11-23T07:00:00Z: 7 requests in 1 lines" in found.stdout
    assert "1 events are a sample: requests that it left out are not known" in found.stdout


def test_a_log_without_allowed_requests_is_refused(acls: Path, tmp_path: Path) -> None:
    """By default Kafka logs only denials; every ACL would seem to be unused."""
    log = tmp_path / "log"
    log.write_text(line("User:alice", "READ", "orders", allowed=False))
    found = aclog("review", "--requests", log, "--acls", acls)
    assert found.exit_code == 4
    assert "all 1 requests were denied" in found.stderr
    assert "has no allowed request: Kafka logs those at DEBUG" in " ".join(found.stderr.split())
    log.write_text("what is this?\n")
    assert "there are no requests" in aclog("review", "--requests", log, "--acls", acls).stderr
    assert aclog("review", "--requests", tmp_path / "nothing", "--acls", acls).exit_code == 2
    wrong = ("--since", "2026-11-23", "--until", "2026-11-22")
    assert aclog("review", "--requests", log, "--acls", acls, *wrong).exit_code == 2


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.integration
def test_a_real_brokers_request_log_is_reviewed(tmp_path: Path) -> None:
    """Produced and consumed by users of a real Kafka: what its log leads to still lets them do the same."""
    with logging_broker(tmp_path, "alice", "bob") as broker:
        admin = kafka.AdminClient({"bootstrap.servers": broker.broker.bootstrap_servers})
        for future in admin.create_topics([kafka.NewTopic("orders", 1, 1)]).values():
            future.result()
        given = {
            "alice writes": binding("orders", "User:alice", "WRITE"),
            "alice, broadly": binding("ord", "User:alice", "ALL", pattern="PREFIXED"),
            "alice reads": binding("orders", "User:alice", "READ"),
            "bob, everywhere": binding("*", "User:bob", "READ"),
            "bob writes, everywhere": binding("*", "User:bob", "WRITE"),
            "bob's group": binding("g", "User:bob", "READ", kind="GROUP"),
            "bob's other group": binding("h", "User:bob", "READ", kind="GROUP"),
        }
        for future in admin.create_acls([*given.values()]).values():
            future.result()
        produce_and_consume(broker)
        assert broker.broker.metadata_dir is not None
        found = review("--requests", broker.log, "--log", broker.broker.metadata_dir, code=1)
        removed_names = ["alice, broadly", "alice reads", "bob's other group"]
        assert removed(found) == {
            ("ord", "User:alice", "ALL"),
            ("orders", "User:alice", "READ"),
            ("h", "User:bob", "READ"),
        }
        assert found[-1]["turned"] == found[-1]["notUnderstood"] == found[-1]["other"] == 0
        assert found[-1]["allowedToSuperUsers"]["decisions"] > 0
        # Bob's producer was asked about any topic: that needs no ACL beside the one that it wrote by.
        assert '"hardcode"' not in json.dumps(found)
        assert "Topic:LITERAL:hardcode" in broker.log.read_text()
        filters = [
            kafka.AclBindingFilter(
                *(each.restype, each.name, each.resource_pattern_type, each.principal, each.host),
                *(each.operation, each.permission_type),
            )
            for each in (given[name] for name in removed_names)
        ]
        for future in admin.delete_acls(filters).values():
            assert len(future.result()) == 1
        produce_and_consume(broker)
        again = review("--requests", broker.log, "--log", broker.broker.metadata_dir, code=0)
        assert again[-1]["aclsKept"] == 4
        assert again[-1]["denied"]["decisions"] == 0


def binding(
    name: str, principal: str, operation: str, *, pattern: str = "LITERAL", kind: str = "TOPIC"
) -> kafka.AclBinding:
    return kafka.AclBinding(
        kafka.ResourceType[kind],
        name,
        kafka.ResourcePatternType[pattern],
        principal,
        "*",
        kafka.AclOperation[operation],
        kafka.AclPermissionType.ALLOW,
    )


def produce_and_consume(broker: LoggingBroker) -> None:
    """Alice and Bob write with idempotent producers, Bob reads in a group."""
    for user in ("alice", "bob"):
        producer = Producer({**sasl_client(broker.sasl_servers, user), "enable.idempotence": True})
        producer.produce("orders", user.encode())
        assert producer.flush(SOON_S) == 0
    consumer = Consumer(
        {**sasl_client(broker.sasl_servers, "bob"), "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    deadline, messages = time.monotonic() + SOON_S, 0
    while messages < 2:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            messages += 1
        assert time.monotonic() < deadline
    consumer.commit(asynchronous=False)
    consumer.close()
