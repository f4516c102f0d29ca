"""`aclog diff`: what differs, what that means, and what the real Kafka says of each witness."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from authorizer.api.acl_json import acl_json
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.codecs.json import to_json
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import METADATA_TOPIC_ID, Uuid
from records.log.directory import DirectoryLog
from support.acl_strategies import IDS
from support.aclog_command import aclog
from support.data import real_log
from support.json_acls import acl, json_lines
from support.kafka_authorizer import ask_kafka_authorizer
from support.kafka_broker import Broker, jar_broker
from support.kafka_tools import run_java
from support.nodes import running_node, sidecar_of

SMALL = real_log("kraft-small")


def diff(before: object, after: object, *more: object, code: int, stdin: str | None = None) -> Result:
    result = aclog("diff", before, after, *more, stdin=stdin)
    assert result.exit_code == code, result.output
    return result


def rows(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def every_form(tmp_path: Path) -> list[Path]:
    """The state of the small log, in each form of a file."""
    (tmp_path / "listing.txt").write_text(aclog("acls", "--log", SMALL, "--list").stdout, encoding="utf-8")
    (tmp_path / "list.json").write_text(
        aclog("acls", "--log", SMALL, "--list", "--json").stdout, encoding="utf-8"
    )
    (tmp_path / "dump.jsonl").write_text(
        "".join(
            json.dumps(json.loads(line)["payload"]) + "\n" if "payload" in json.loads(line) else line + "\n"
            for line in aclog("log", "dump", "--log", SMALL, "--json").stdout.splitlines()
        ),
        encoding="utf-8",
    )
    forms = [tmp_path / "listing.txt", tmp_path / "list.json", tmp_path / "dump.jsonl"]
    for kind in ("jsonl", "csv", "kip11"):
        path = tmp_path / f"acls.{kind}"
        done = aclog("snapshot", "export", "--log", SMALL, "--format", kind, "--output", path)
        assert done.exit_code == 0, done.output
        forms.append(path)
    return forms


def test_every_file_format_gives_the_same_set(tmp_path: Path) -> None:
    for path in every_form(tmp_path):
        (last,) = rows(diff(SMALL, path, "--json", code=0))
        assert last == {"same": True, "aclsRemoved": 0, "aclsAdded": 0, "granted": 0, "revoked": 0}, path


def test_a_file_name_does_not_change_the_format(tmp_path: Path) -> None:
    """ACLs on lines, though the first one has the name of a document's key; a document on many lines."""
    acls = [acl("acls"), acl("resources", "User:bob")]
    lines = json_lines(tmp_path / "lines", *acls)
    document = tmp_path / "document"
    document.write_text(json.dumps({"acls": acls}, indent=2), encoding="utf-8")
    assert rows(diff(lines, document, "--json", code=0))[-1]["aclsAdded"] == 0
    (last,) = rows(diff(lines, json_lines(tmp_path / "one", acls[0]), "--json", code=1))[-1:]
    assert (last["aclsRemoved"], last["revoked"]) == (1, 2)


def test_a_log_at_an_offset_equals_a_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert aclog("snapshot", "create", "--log", SMALL, "--snapshots", store).exit_code == 0
    diff(SMALL, store, code=0)
    diff(f"{SMALL}@280", f"{store}@281", code=0)
    assert "has no usable snapshot" in diff(SMALL, f"{store}@5", code=4).stderr
    older = rows(diff(f"{SMALL}@100", SMALL, "--json", code=1))
    assert older[-1]["aclsAdded"] == sum(row.get("acl") == "added" for row in older) > 0
    assert older[-1]["granted"] == sum(row.get("flip") == "granted" for row in older) > 0
    assert older[-1]["revoked"] == sum(row.get("flip") == "revoked" for row in older) > 0


def test_different_acls_can_have_equal_permissions(tmp_path: Path) -> None:
    """A clean-up is proven: what was covered is gone, and nothing changed."""
    before = json_lines(
        tmp_path / "before",
        acl("orders"),
        acl("orders", operation="DESCRIBE"),
        acl("ord", patternType="PREFIXED"),
        acl("a b"),
        acl("x", "User:bob", host="localhost"),
    )
    after = json_lines(tmp_path / "after", acl("ord", patternType="PREFIXED"))
    found = rows(diff(before, after, "--json", code=0))
    assert [row["acl"] for row in found[:-1]] == ["removed"] * 4
    assert found[-1]["same"] is True
    assert "the same: every request has the same answer" in diff(before, after, code=0).stdout


def test_the_semantic_digest_compares_permissions(tmp_path: Path) -> None:
    """`aclog log verify`: equal where diff says so, though ACLs differ; by principal, too."""
    covered = ("orders", "User:alice", 3), ("ord", "User:alice", 4), ("orders", "User:bob", 3)
    logs = {"whole": covered, "clean": covered[1:], "other": covered[1:2]}
    reports, lines = {}, {}
    for name, acls in logs.items():
        with DirectoryLog.open(tmp_path / name, mode="create", cluster_id="one") as log:
            log.append(
                [
                    AccessControlEntryRecord(IDS[at], 2, resource, pattern, principal, "*", 3, 3)
                    for at, (resource, principal, pattern) in enumerate(acls)
                ]
            )
        given = ("log", "verify", "--log", tmp_path / name, "--per-principal")
        reports[name] = json.loads(aclog(*given, "--json").stdout)
        lines[name] = aclog(*given).stdout
    diff(tmp_path / "whole", tmp_path / "clean", code=0)
    diff(tmp_path / "clean", tmp_path / "other", code=1)
    full, clean, other = reports.values()
    assert full["digest"] != clean["digest"]
    assert full["meaning"] == clean["meaning"] != other["meaning"]
    assert full["meanings"] == clean["meanings"]
    alone, both = other["meanings"]["principals"], clean["meanings"]["principals"]
    assert alone == {"User:alice": both["User:alice"]}
    assert other["meanings"]["everybody"] == clean["meanings"]["everybody"]
    assert f"meaning     digest {clean['meaning']}" in lines["clean"]


def test_a_running_node_is_compared(tmp_path: Path) -> None:
    """The state of a node is a set; the caller needs the right to list it."""
    log = tmp_path / "log"
    DirectoryLog.open(log, mode="create", cluster_id="one").close()
    adds = ("acls", "--log", log, "--add", "--allow-principal")
    assert aclog(*adds, "User:ANONYMOUS", "--operation", "Describe", "--cluster").exit_code == 0
    with running_node(log, log_mode="write") as node, sidecar_of(node) as url:
        diff(url, log, code=0)
        listed = tmp_path / "listing"
        listed.write_text(aclog("acls", "--log", log, "--list").stdout, encoding="utf-8")
        assert aclog(*adds, "User:alice", "--operation", "Read", "--topic", "orders").exit_code == 0
        acl_row, *flips, last = rows(diff(listed, url, "--json", code=1))
        assert (acl_row["acl"], acl_row["principal"]) == ("added", "User:alice")
        assert [(flip["flip"], flip["operation"]) for flip in flips] == [
            ("granted", "READ"),
            ("granted", "DESCRIBE"),
        ]
        assert last["same"] is False
        found = rows(aclog("who-can", "--acls", url, "--operation", "Read", "--topic", "orders", "--json"))
        assert [row["principal"] for row in found] == ["User:alice"]
        assert "a node has only its newest state" in diff(f"{url}@1", log, code=2).stderr


def test_a_request_class_has_a_witness(tmp_path: Path) -> None:
    """All names with the prefix but one that is still denied, from all hosts but one."""
    denied = acl("pay-x", permissionType="DENY", operation="ALL")
    narrow = acl("pay", patternType="PREFIXED", host="10.0.0.1", permissionType="DENY")
    before = json_lines(tmp_path / "before", denied, narrow)
    after = json_lines(tmp_path / "after", denied, narrow, acl("pay", patternType="PREFIXED"))
    read, describe, from_there = rows(diff(before, after, "--json", code=1))[1:-1]
    assert read["flip"] == "granted"
    assert read["principal"] == "User:alice"
    assert read["resourceType"] == "TOPIC"
    assert read["operation"] == "READ"
    assert read["names"] == [{"prefix": "pay", "except": [{"name": "pay-x"}]}]
    assert read["hosts"] == {"host": "*", "except": ["10.0.0.1"]}
    assert read["witness"] == {
        "principal": "User:alice",
        "host": "192.0.2.1",
        "operation": "READ",
        "resourceType": "TOPIC",
        "resourceName": "pay",
    }
    assert read["before"] == {"result": "DENIED", "rule": "DefaultDeny", "acl": None}
    assert read["after"]["result"] == "ALLOWED"
    assert read["after"]["acl"]["resourceName"] == "pay"
    assert describe["operation"] == from_there["operation"] == "DESCRIBE"
    # A DENY of READ denies no DESCRIBE.
    assert from_there["hosts"] == {"host": "10.0.0.1"}
    text = diff(before, after, code=1).stdout
    assert "GRANTED  User:alice: Read, Describe on TOPIC pay* (but pay-x)" in text
    assert "B: ALLOWED by MatchingAcl" in text


def test_changes_of_wildcard_principals_are_reported(tmp_path: Path) -> None:
    """Principals with a DENY are excluded; the witness for all others is an unused name."""
    denied = acl("t", permissionType="DENY", operation="ALL")
    before = json_lines(tmp_path / "before", denied)
    after = json_lines(tmp_path / "after", denied, acl("t", "User:*", operation="WRITE"))
    found = [row for row in rows(diff(before, after, "--json", code=1)) if "flip" in row]
    assert {(row["principal"], *row["principalsExcept"]) for row in found} == {("*", "User:alice")}
    assert {row["witness"]["principal"] for row in found} == {"User:somebody"}


def test_settings_change_the_difference(tmp_path: Path) -> None:
    """Super users, and what is open where no ACL is."""
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:alice\nallow.everyone.if.no.acl.found=true\n", encoding="utf-8")
    one = json_lines(tmp_path / "one", acl("t"))
    none = json_lines(tmp_path / "none", acl("other", resourceType="GROUP"))
    found = [row for row in rows(diff(none, one, "--config", config, "--json", code=1)) if "flip" in row]
    topics = [row for row in found if row["resourceType"] == "TOPIC"]
    assert {row["flip"] for row in topics} == {"revoked"}
    assert {row["principal"] for row in topics} == {"*"}
    assert {tuple(row["principalsExcept"]) for row in topics} == {("User:alice",)}


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ('{"resourceType": "TOPIC"}\n', 1, "not an ACL: `resourceName` is missing or no text"),
        (json.dumps(acl("a")) + "\n{", 2, "not JSON"),
        (json.dumps(acl("a") | {"operation": "REED"}), 1, "`REED` is no operation"),
        (json.dumps(acl("a") | {"hots": "*"}), 1, "not an ACL: `hots` is not known"),
        ('{"acls": 5}', 1, "`acls` is no list"),
        ("Current ACLs for resource `x`:\n", 1, "not a line of what kafka-acls --list prints"),
        ("what is this?\n", None, "neither what kafka-acls --list prints, nor JSON lines"),
        ("id,principal\n", 1, "the header is not id,resourceType"),
    ],
)
def test_a_bad_file_is_reported_with_its_line(
    tmp_path: Path, text: str, line: int | None, complaint: str
) -> None:
    path = tmp_path / "bad"
    path.write_text(text, encoding="utf-8")
    result = diff(SMALL, path, code=4)
    reports = " ".join(result.stderr.split())
    assert complaint in reports
    assert f"(in {path}{f' line {line}' if line else ''})" in reports
    assert result.stdout == ""


def test_missing_inputs_are_reported() -> None:
    assert "is not a log, snapshot store, node, cluster or file" in diff(SMALL, "/nowhere", code=2).stderr
    assert "cannot both read stdin" in diff("-", "-", code=2).stderr


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.integration
def test_a_live_cluster_is_compared(tmp_path: Path) -> None:
    """What its brokers describe is what its log says, for each command that takes a set."""
    with jar_broker() as broker:
        named = f"describe://{broker.bootstrap_servers}"
        assert broker.metadata_dir is not None
        (empty,) = rows(diff(named, json_lines(tmp_path / "none"), "--json", code=0))
        assert empty["same"] is True
        shop = ("--allow-principal", "User:shop", "--operation", "Write")
        for resource in (
            ("--topic", "orders.", "--resource-pattern-type", "prefixed"),
            ("--group", "*"),
            ("--transactional-id", "shop"),
        ):
            kafka_acls(broker, "--add", *shop[:2], "--operation", "Describe", *resource)
        kafka_acls(broker, "--add", *shop, "--topic", "orders.eu", "--allow-host", "10.0.0.1")
        kafka_acls(broker, "--add", "--deny-principal", "User:*", "--operation", "All", "--cluster")
        (same,) = rows(diff(named, broker.metadata_dir, "--json", code=0))
        assert same["same"] is True
        who = aclog("who-can", "--acls", named, "--operation", "Write", "--topic", "orders.*")
        assert "User:shop: Write on TOPIC orders.eu from 10.0.0.1" in who.stdout
        what = aclog("what-can", "--log", named, "--principal", "User:shop")
        assert (what.exit_code, what.stdout.count("User:shop: ")) == (0, 5), what.output
        user = ("--user-principal", "User:b", "--operation", "CreateTokens")
        kafka_acls(broker, "--add", "--allow-principal", "User:shop", *user)
        (same,) = rows(diff(named, broker.metadata_dir, "--json", code=0))
        assert same["same"] is True
    assert "cannot connect" in diff("describe://127.0.0.1:1", SMALL, code=3).stderr
    assert "write describe://HOST:PORT" in diff("describe://nowhere", SMALL, code=2).stderr


def kafka_acls(broker: Broker, *flags: str) -> None:
    run_java("org.apache.kafka.tools.AclCommand", "--bootstrap-server", broker.bootstrap_servers, *flags)


def random_acl(rng: random.Random) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        METADATA_TOPIC_ID,
        rng.choice([ResourceType.TOPIC, ResourceType.GROUP]),
        rng.choice(["*", "a", "ab", "abc", "b", "b-", "c"]),
        rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        rng.choice(["User:a", "User:*", "User:b"]),
        rng.choice(["*", "*", "10.0.0.1", "10.0.0.2"]),
        rng.choice([AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER_CONFIGS, AclOperation.ALL]),
        rng.choice([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
    )


class KafkaBatch:
    """Requests that commands have answered, for one run of the real StandardAuthorizer."""

    def __init__(self) -> None:
        self._states: list[dict[str, Any]] = []
        self._wanted: list[list[str]] = []

    def add(
        self,
        acls: Iterable[AccessControlEntryRecord],
        answered: list[tuple[dict[str, str], str]],
        *,
        allow_everyone: bool,
    ) -> int:
        """Add requests about one set, with the reported results; returns their number."""
        # The real one refuses equal content under two ids.
        distinct = {each.content: each for each in acls}.values()
        self._states.append(
            {
                "superUsers": "",
                "allowEveryone": allow_everyone,
                "acls": [to_json(each)["data"] for each in distinct],
                "queries": [question for question, _ in answered],
            }
        )
        self._wanted.append([result for _, result in answered])
        return len(answered)

    def assert_answers(self) -> None:
        answers = ask_kafka_authorizer(self._states)
        assert [[each["result"] for each in answer] for answer in answers] == self._wanted


@pytest.mark.long
@pytest.mark.integration
def test_real_kafka_confirms_each_witness(tmp_path: Path) -> None:
    """Of diff, who-can, what-can, test and blame; with and without allow.everyone.if.no.acl.found."""
    rng = random.Random(16)
    kafka, counts = KafkaBatch(), Counter[str]()
    for number in range(60):
        sets = [[random_acl(rng) for _ in range(rng.randrange(1, 8))] for _ in range(2)]
        allow_everyone = bool(number % 2)
        config = tmp_path / "config"
        config.write_text(f"allow.everyone.if.no.acl.found={allow_everyone}\n", encoding="utf-8")
        files = [
            json_lines(tmp_path / f"{number}-{side}", *({**acl_json(each)} for each in acls))
            for side, acls in enumerate(sets)
        ]
        result = aclog("diff", *files, "--config", config, "--json")
        flips = [row for row in rows(result) if "flip" in row]
        assert result.exit_code == bool(flips), result.output
        for acls, side in zip(sets, ("before", "after"), strict=True):
            answered = [(row["witness"], row[side]["result"]) for row in flips]
            counts["diff"] += kafka.add(acls, answered, allow_everyone=allow_everyone)
        given = ("--acls", files[0], "--config", config, "--json")
        for command, answered in (
            ("who-can", who_can(rng, given)),
            ("what-can", what_can(rng, given)),
            ("test", violations(rng, tmp_path / "access.toml", given)),
        ):
            counts[command] += kafka.add(sets[0], answered, allow_everyone=allow_everyone)
        for acls, answered in blamed(rng, tmp_path / f"log-{number}", config):
            counts["blame"] += kafka.add(acls, answered, allow_everyone=allow_everyone)
    kafka.assert_answers()
    assert counts["diff"] > 500
    assert min(counts.values()) > 100, counts


def who_can(rng: random.Random, given: tuple[object, ...]) -> list[tuple[dict[str, str], str]]:
    found = []
    for operation in ("Read", "Write", "Describe", "All"):
        query = ("--operation", operation, "--topic", rng.choice(["a*", "abc", "*"]))
        found += rows(aclog("who-can", *query, *given))
    return [(row["witness"], row["result"]) for row in found]


def what_can(rng: random.Random, given: tuple[object, ...]) -> list[tuple[dict[str, str], str]]:
    found = rows(aclog("what-can", "--principal", rng.choice(["User:a", "User:b", "User:nobody"]), *given))
    return [(row["witness"], row["result"]) for row in found]


def violations(
    rng: random.Random, tests: Path, given: tuple[object, ...]
) -> list[tuple[dict[str, str], str]]:
    """Each breaks its expectation."""
    answered = []
    for kind, result in (("allow", "DENIED"), ("deny", "ALLOWED"), ("only", "ALLOWED")):
        topic, host = rng.choice(["a*", "abc", "*"]), rng.choice(["", 'host = "10.0.0.0/8"\n'])
        tests.write_text(
            f'[[expect]]\nname = "x"\n{kind} = ["User:a"]\noperation = "Read"\ntopic = "{topic}"\n{host}',
            encoding="utf-8",
        )
        (row,) = rows(aclog("test", tests, *given))
        answered += [(each["witness"], result) for each in row["violations"]]
    return answered


def blamed(
    rng: random.Random, directory: Path, config: Path
) -> Iterator[tuple[list[AccessControlEntryRecord], list[tuple[dict[str, str], str]]]]:
    """A request through a log of single changes: the ACLs in force before and after each decision change."""
    held: dict[Uuid, AccessControlEntryRecord] = {}
    states = [list(held.values())]
    with DirectoryLog.open(directory, mode="create", cluster_id="one") as log:
        for _ in range(12):
            acl_id = rng.choice(IDS[:4])
            if acl_id in held and rng.random() < 0.5:
                log.append([RemoveAccessControlEntryRecord(held.pop(acl_id).id)])
            else:
                held[acl_id] = replace(random_acl(rng), id=acl_id)
                log.append([held[acl_id]])
            states.append(list(held.values()))
    question = {"principal": "User:a", "host": "10.0.0.1", "operation": "READ"}
    question |= {"resourceType": "TOPIC", "resourceName": rng.choice(["a", "abc", "c"])}
    query = ("--principal", "User:a", "--host", "10.0.0.1", "--operation", "Read", "--config", config)
    found = aclog("blame", "--log", directory, "--topic", question["resourceName"], *query, "--json")
    first, *turns, last = rows(found)
    yield states[0], [(question, first["result"])]
    for turn in turns:
        for end, side in ((turn["endOffset"] - 1, "before"), (turn["endOffset"], "after")):
            yield states[end], [(question, turn[side]["result"])]
    yield states[-1], [(question, last["result"])]
