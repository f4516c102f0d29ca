"""`aclog check`: single requests with their explanation, and files of requests with Kafka's answers."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from support.data import CASES, REAL_LOGS, real_log, real_log_home

SMALL = real_log("kraft-small")
LOGS = [pytest.param(name, marks=pytest.mark.slow) if name == "kraft-large" else name for name in REAL_LOGS]

#: One of each profile but those that no real controller writes, and those not loaded when they were recorded.
SAMPLE = [
    case.name
    for number, case in enumerate(sorted(CASES.iterdir()))
    if number < 40
    and case.name.partition("-")[2] not in ("dups", "weird-records")
    and "oracle.initial.load.complete" not in (case / "config.properties").read_text(encoding="utf-8")
]


def aclog(*args: object, stdin: bytes | str | None = None, env: dict[str, str] | None = None) -> Result:
    return CliRunner(env=env).invoke(cli, ["check", *map(str, args)], input=stdin)


def ask(principal: str, operation: str, *more: object, log: Path = SMALL, code: int | None = None) -> Result:
    result = aclog("--log", log, "--principal", principal, "--operation", operation, *more)
    assert code is None or result.exit_code == code, result.output
    return result


def lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode("utf-8").splitlines()]


# -- single requests --------------------------------------------------------------------------------------


def test_allowed_is_0_and_denied_is_1() -> None:
    """The answer's first word, and the exit code that scripts use."""
    assert ask("User:alice", "Read", "--topic", "orders", code=0).stdout.split()[0] == "ALLOWED"
    assert ask("User:dora", "Read", "--topic", "orders", code=1).stdout.split()[0] == "DENIED"


def test_one_line_names_rule_offset_and_request() -> None:
    """Without --explain the answer is one line: Kafka's rule, the end offset, and what was asked."""
    assert ask("User:alice", "read", "--topic", "orders").stdout == (
        "ALLOWED by MatchingAcl (ALLOW User:alice READ on TOPIC:LITERAL:orders from *) "
        "at end offset 281: User:alice READ on TOPIC:LITERAL:orders from 127.0.0.1\n"
    )
    denied = ask("User:dora", "read", "--topic", "orders", "--host", "10.1.2.3").stdout
    request_text = "User:dora READ on TOPIC:LITERAL:orders from 10.1.2.3"
    assert denied == f"DENIED by DefaultDeny at end offset 281: {request_text}\n"


@pytest.mark.parametrize(
    ("principal", "operation", "resource", "code"),
    [
        ("User:admin2", "Alter", ["--cluster"], 0),
        ("User:bob", "READ", ["--group", "app-1"], 1),
        ("User:alice", "two-phase-commit", ["--transactional-id", "tx-1"], 0),
        ("User:alice", "DESCRIBE", ["--delegation-token", "token-abc"], 0),
        ("User:bob", "CreateTokens", ["--user-principal", "User:alice"], 0),
        ("ServiceAccount:svc:with:colons", "Write", ["--topic", "payments"], 0),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_every_resource_type_is_accepted(
    principal: str, operation: str, resource: list[str], code: int
) -> None:
    """Each resource flag asks about its type."""
    ask(principal, operation, *resource, code=code)


def test_the_host_changes_the_decision_and_is_normalized() -> None:
    """ACL hosts are compared with the address as Java writes it, whatever form was typed."""
    ask("User:alice", "Write", "--topic", "orders", code=1)
    ask("User:alice", "Write", "--topic", "orders", "--host", "10.0.0.1", code=0)
    ask("User:alice", "Write", "--topic", "orders", "--host", "::ffff:10.0.0.1", code=0)
    ask("User:eve", "Read", "--topic", "v6", "--host", "2001:db8::1", code=0)
    refused = ask("User:eve", "Read", "--topic", "v6", "--host", "broker.example.com", code=2)
    assert "is not an IP address" in refused.stderr


def test_an_assumed_host_is_named_if_other_hosts_get_another_answer() -> None:
    request = "User:alice", "Write", "--topic", "orders"
    says = "from 10.0.0.1 it is ALLOWED"
    assert f"note: --host was not given, so 127.0.0.1 is assumed; {says}\n" in ask(*request).stderr
    explained = ask(*request, "--explain").stdout
    assert "from 127.0.0.1 (assumed: --host was not given)" in explained
    assert says in explained
    shown = json.loads(ask(*request, "--json").stdout)
    assert (shown["hostAssumed"], shown["otherHosts"]["hosts"]) == (True, ["10.0.0.1"])
    # Without a note if the host is given, or if all hosts have one answer.
    given = ask(*request, "--host", "127.0.0.1")
    assert "assumed" not in given.stderr
    assert json.loads(ask(*request, "--host", "127.0.0.1", "--json").stdout)["hostAssumed"] is False
    assert "assumed" not in ask("User:dora", "Read", "--topic", "orders").stderr


def test_at_offset_is_inclusive() -> None:
    """An ACL counts from the offset of its own record on."""
    answer = json.loads(
        ask("User:alice", "Write", "--topic", "orders", "--host", "10.0.0.1", "--json").stdout
    )
    written = answer["acl"]["offset"]
    for at, code in ((written - 1, 1), (written, 0)):
        ask("User:alice", "Write", "--topic", "orders", "--host", "10.0.0.1", "--at-offset", at, code=code)


def test_at_offset_beyond_the_log_is_refused() -> None:
    """What is not there yet is wrong usage, not a DENIED."""
    refused = ask("User:alice", "Read", "--topic", "orders", "--at-offset", 281, code=2)
    assert "no state at offset 281" in refused.stderr
    assert "280" in refused.stderr.partition("no state")[2]


def test_settings_are_read_from_file_and_environment(tmp_path: Path) -> None:
    """Super users and the default for resources without ACLs: the file, and the environment over it."""
    config = tmp_path / "server.properties"
    config.write_text("super.users=User:dora\nallow.everyone.if.no.acl.found=true\nprocess.roles=broker\n")
    named = ("--config", config)
    assert "SuperUser" in ask("User:dora", "Read", "--topic", "orders", *named, code=0).stdout
    before_all_acls = ("User:eve", "Read", "--topic", "x", "--at-offset", 0)
    assert "DefaultAllow" in ask(*before_all_acls, *named, code=0).stdout
    args = ("--log", SMALL, "--principal", "User:dora", "--operation", "Read", "--topic", "orders", *named)
    assert aclog(*args, env={"ACLOG_SUPER_USERS": "User:eve"}).exit_code == 1


def test_log_and_store_may_come_from_the_configuration(tmp_path: Path) -> None:
    """aclog.log.url and aclog.snapshot.store stand in for the flags."""
    config = tmp_path / "aclog.properties"
    config.write_text(f"aclog.log.url=file:{SMALL}\naclog.snapshot.store={tmp_path / 'store'}\n")
    assert CliRunner().invoke(cli, ["snapshot", "create", "--config", str(config)]).exit_code == 0
    request = aclog(
        "--config", config, "--principal", "User:alice", "--operation", "Read", "--topic", "orders"
    )
    assert request.exit_code == 0


def test_a_missing_store_is_an_error(tmp_path: Path) -> None:
    """Asked for, it is wrong usage; a file may name one that a node will make with its first snapshot."""
    request_text = ("User:alice", "Read", "--topic", "orders")
    refused = ask(*request_text, "--snapshots", tmp_path / "no", code=2)
    assert f"snapshot store {tmp_path / 'no'} does not exist" in refused.stderr
    config = tmp_path / "aclog.properties"
    config.write_text(f"aclog.snapshot.store={tmp_path / 'no'}\n")
    ask(*request_text, "--config", config, code=0)


def test_explain_shows_why_a_request_is_denied() -> None:
    """Why, which ACLs failed on one field and which, where they are in the log, and what would allow it."""
    explained = json.loads(
        ask("User:dora", "Read", "--topic", "orders", "--explain", "--json", code=1).stdout
    )
    assert (explained["result"], explained["rule"]) == ("DENIED", "DefaultDeny")
    assert explained["reason"] == "ACLs cover the resource, but none of them matches"
    by_field = {miss["field"]: miss for miss in explained["nearMisses"]}
    assert (by_field["operation"]["has"], by_field["operation"]["asked"]) == ("DESCRIBE", "READ")
    assert by_field["principal"]["has"] in ("User:alice", "User:bob", "User:ops")
    assert explained["fix"] == [
        "kafka-acls --add --allow-principal User:dora --operation Read --topic orders"
    ]
    text = ask("User:dora", "Read", "--topic", "orders", "--explain", code=1).stdout
    miss = by_field["operation"]["acl"]
    assert "DENIED by DefaultDeny at end offset 281" in text
    assert f"(offset {miss['offset']}, 2026-11-21T01:00:00Z, {miss['id']})" in text
    assert "operation would have to be READ, not DESCRIBE" in text
    assert explained["fix"][0].removeprefix("kafka-acls ") in text


def test_explain_names_the_deciding_record() -> None:
    """The deciding ACL's id and offset are those of its record in the log."""
    explained = json.loads(ask("User:mallory", "Write", "--topic", "orders", "--explain", "--json").stdout)
    acl = explained["acl"]
    dump = lines(real_log_home("kraft-small") / "dump.jsonl")
    (record,) = [line for line in dump if line["offset"] == acl["offset"]]
    assert (record["data"]["id"], record["timestamp"]) == (acl["id"], acl["timestamp"])
    text = ask("User:mallory", "Write", "--topic", "orders", "--explain").stdout
    assert (
        f"decided by  DENY User:mallory ALL on TOPIC:LITERAL:orders from * (offset {acl['offset']}, " in text
    )
    assert "--remove --deny-principal User:mallory" in text


def test_the_fix_line_works(tmp_path: Path) -> None:
    """`aclog acls` takes what the explanation proposes, and then the answer is ALLOWED."""
    log = tmp_path / "log"
    runner = CliRunner()
    dump = runner.invoke(cli, ["log", "dump", "--log", str(SMALL), "--skip-others"]).stdout_bytes
    assert runner.invoke(cli, ["log", "append", "--log", str(log), "--create"], input=dump).exit_code == 0
    for principal in ("User:dora", "User:mallory"):
        request = (principal, "Write", "--topic", "orders", "--explain", "--json")
        for command in json.loads(ask(*request, log=log, code=1).stdout)["fix"]:
            args = [word.strip("'") for word in command.split()[1:]]
            assert runner.invoke(cli, ["acls", "--log", str(log), *args]).exit_code == 0
        ask(*request, log=log, code=0)


def test_explain_names_the_checkpoint() -> None:
    """Where the log has lost its beginning, an ACL's offset is not known."""
    trimmed = real_log("kraft-trimmed")
    text = ask("User:alice", "Read", "--topic", "orders", "--explain", log=trimmed, code=0).stdout
    assert "(from a checkpoint, " in text
    assert "not known to be committed" not in text


def test_json_is_one_line_and_marks_guesses() -> None:
    """--json: the answer on one line; committed is a guess in a broker's directory."""
    result = ask("User:alice", "Read", "--topic", "orders", "--json")
    assert result.stdout.count("\n") == 1
    answer = json.loads(result.stdout)
    assert (answer["result"], answer["offset"], answer["highWatermarkIsGuess"]) == ("ALLOWED", 281, True)
    assert answer["uncommittedFrom"] == 264
    # No ACL has changed since the newest checkpoint.
    assert "committed" not in result.stderr


def test_explain_marks_uncommitted_records(tmp_path: Path) -> None:
    """An ACL behind the newest checkpoint of a broker's directory."""
    request = ("User:alice", "Read", "--topic", "orders", "--explain")
    assert "not known to be committed" not in ask(*request).stdout
    copy = tmp_path / "log"
    shutil.copytree(SMALL, copy)
    for checkpoint in copy.glob("*.checkpoint"):
        checkpoint.unlink()
    answered = ask(*request, log=copy)
    assert ", not known to be committed, " in answered.stdout
    assert "whether the changes of ACLs from offset 36 on are committed" in answered.stderr
    assert "are committed" not in ask(*request, "--at-offset", "35", log=copy, code=1).stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "--principal and --operation"),
        (("--principal", "User:a"), "Missing option --operation"),
        (("--principal", "alice", "--operation", "Read"), "expected a string in format principalType"),
        (("--principal", "User:a", "--operation", "Any"), "`Any` is not an operation"),
        (("--principal", "User:a", "--operation", "Reed"), "DescribeConfigs"),
        (("--principal", "User:a", "--operation", "Read"), "Name exactly one resource"),
        (("--principal", "User:a", "--operation", "Read", "--topic", "t", "--cluster"), "exactly one"),
        (("--records", "x"), "--records needs --batch"),
        (("--batch", "x", "--principal", "User:a"), "--principal cannot be used with --batch"),
        (("--batch", "x", "--explain"), "--explain cannot be used with --batch"),
        (("--batch", "-", "--records", "-"), "cannot both read stdin"),
        (("--batch", "no-such-file"), "no-such-file"),
    ],
    ids=str,
)
def test_wrong_usage_is_reported(args: tuple[str, ...], message: str) -> None:
    """Exit code 2, and what is missing or wrong."""
    result = aclog("--log", SMALL, *args)
    assert result.exit_code == 2
    assert message in result.stderr


# -- files of requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOGS)
def test_a_batch_on_the_real_logs_has_kafkas_answers(name: str) -> None:
    """Every answer that the real broker's authorizer gave, also as of earlier offsets of the log."""
    authz = real_log_home(name) / "authz"
    result = aclog(
        "--log", real_log(name), "--config", authz / "config.properties", "--batch", authz / "queries.jsonl"
    )
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == lines(authz / "expected.jsonl")


@pytest.mark.parametrize("name", SAMPLE)
def test_a_batch_reads_a_file_of_records(name: str) -> None:
    """--records with --batch: Kafka's answers for the recorded cases, packed files too."""
    case = CASES / name
    result = aclog(
        *("--records", next(case.glob("records.jsonl*"))),
        *("--config", case / "config.properties"),
        *("--batch", next(case.glob("queries.jsonl*"))),
    )
    assert result.exit_code == 0
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert answers == lines(next(case.glob("expected.jsonl*")))


def test_a_batch_reads_stdin_with_or_without_gzip() -> None:
    """- reads requests from stdin, and gzip is detected."""
    request_text = b'{"principal":"User:alice","host":"10.0.0.1","operation":"WRITE","resourceType":"TOPIC",'
    request_text += b'"resourceName":"orders"}\n'
    for stdin in (request_text, gzip.compress(request_text)):
        result = aclog("--log", SMALL, "--batch", "-", stdin=stdin)
        assert json.loads(result.stdout)["result"] == "ALLOWED"


def test_records_are_read_from_stdin(tmp_path: Path) -> None:
    """A dump piped in is as good as the log itself."""
    dump = CliRunner().invoke(cli, ["log", "dump", "--log", str(SMALL)]).stdout_bytes
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"kind":"aclCount"}\n')
    result = aclog("--records", "-", "--batch", queries, stdin=dump)
    assert json.loads(result.stdout) == {"aclCount": 59}


def test_at_offset_in_a_batch_counts_the_records_of_the_log(tmp_path: Path) -> None:
    """atOffset n on a log: what its first n records made; 0 is before the first one."""
    queries = tmp_path / "queries.jsonl"
    at = (0, 36, 37, 281)
    queries.write_text("".join(json.dumps({"kind": "aclCount", "atOffset": each}) + "\n" for each in at))
    result = aclog("--log", SMALL, "--batch", queries)
    counts = [json.loads(line)["aclCount"] for line in result.stdout.splitlines()]
    assert counts == [0, 0, 1, 59]


def test_an_invalid_line_does_not_shift_the_other_answers(tmp_path: Path) -> None:
    """Answers keep the order of the lines; exit code 4 and a note report invalid lines."""
    queries = tmp_path / "queries.jsonl"
    bad = [
        "{",
        "[]",
        '{"kind":"nope"}',
        '{"kind":"aclCount","atOffset":-1}',
        '{"kind":"aclCount","atOffset":999}',
    ]
    queries.write_text("".join(f'{line}\n{{"kind":"aclCount"}}\n' for line in bad))
    result = aclog("--log", SMALL, "--batch", queries)
    assert result.exit_code == 4
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert answers[1::2] == [{"aclCount": 59}] * len(bad)
    assert all(set(answer) == {"error"} for answer in answers[::2])
    assert "Error: line 1: not JSON" in result.stderr
    assert "5 of 10 lines are not valid requests" in result.stderr


def test_the_first_error_of_a_batch_is_that_of_its_first_bad_line() -> None:
    """Lines that are not JSON are found before those without a field."""
    result = aclog("--log", SMALL, "--batch", "-", stdin=b'{"principal":"User:a"}\n{\n')
    assert "Error: line 1: a query of kind authorize has no field 'operation'\n" in result.stderr


def test_the_host_of_a_line_is_optional() -> None:
    """As on the command line, with the same default; the answer shows it."""
    line = {"principal": "User:alice", "operation": "READ", "resourceType": "TOPIC", "resourceName": "orders"}
    lines = [line, {**line, "host": "127.0.0.1"}, {**line, "kind": "authorizedOperations"}]
    result = aclog("--log", SMALL, "--batch", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    assumed, given, operations = map(json.loads, result.stdout.splitlines())
    assert assumed == {**given, "hostAddress": "127.0.0.1"}
    assert (given["result"], operations["hostAddress"]) == ("ALLOWED", "127.0.0.1")


def test_a_failing_request_has_an_answer(tmp_path: Path) -> None:
    """What Kafka's authorizer would throw is its answer, not a bad line."""
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"kind":"authorizeByResourceType","principal":"User:a","host":"1.2.3.4",'
                       '"operation":"ANY","resourceType":"TOPIC"}\n')  # fmt: skip
    result = aclog("--log", SMALL, "--batch", queries)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["error"].startswith("IllegalArgumentException: ")


def test_a_batch_writes_no_audit_lines(tmp_path: Path) -> None:
    """A million requests must not become a million log lines."""
    queries = tmp_path / "queries.jsonl"
    queries.write_text('{"principal":"User:zed","host":"10.0.0.1","operation":"WRITE","resourceType":"TOPIC",'
                       '"resourceName":"orders"}\n' * 3)  # fmt: skip
    result = aclog("--log", SMALL, "--batch", queries)
    assert [json.loads(line)["result"] for line in result.stdout.splitlines()] == ["DENIED"] * 3
    assert "Principal = " not in result.output
