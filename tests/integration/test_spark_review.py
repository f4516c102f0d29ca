"""`aclog spark review`: Spark counts what the lines say one by one, and the answer is the command's own."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from authorizer.cli.main import cli

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]

TOPICS = (
    *("orders", "order-items", "pay", "ä", 'a "b" \\c', "a,b (c)", "x on resource = y", "x from host = y"),
    *("x with resourceRefCount = 1", "{", ""),
)
#: Only JSON has these: a line feed ends a line of Kafka's, and half a surrogate pair is no UTF-8.
JSON_TOPICS = ("two\nlines", "half \ud800")
PREFIXES = (
    "[2026-11-23 06:{minute:02}:41,042] DEBUG ",
    "[2026-11-23 06:{minute:02}:41,998] DEBUG ",
    "2026-11-23T07:{minute:02}:41.042+01:00 kafka-0 INFO ",
    "2026-11-23T01:{minute:02}:41.042-0500 ",
    "2026-11-23T06:{minute:02}:41Z ",
    "",
)
OTHERS = (
    "",
    "[2026-11-23 06:00:00,000] INFO Registered broker 1 (kafka.server.Server)",
    '{"event":"image_published","logger":"replay.loader","data":{"a":1}}',
    "[2026-11-23 06:00:00,000] DEBUG Principal = User:a is All",
    '{"logger":"kafka.authorizer.logger","result":"ALL',
    '{"logger":"kafka.authorizer.logger","result":"ALLOWED","timestamp":"2026-11-23T06:30:00Z"}',
    '{"message":"Principal = User:a is Allowed operation = READ"}',
    "[2026-11-23 06:00:00,000] DEBUG Principal = User:a is Perhaps with resourceRefCount = 1",
)


def aclog(*args: object) -> Result:
    """On the tests' own session, which is there already."""
    return CliRunner().invoke(cli, [*map(str, args)])


def answer(*args: object, code: int = 1) -> list[dict[str, Any]]:
    result = aclog(*args, "--json")
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def some_line(rng: random.Random) -> str:
    """Of any form."""
    topic, minute = rng.choice(TOPICS), rng.randrange(60)
    principal, operation = rng.choice(["User:alice", "User:bob"]), rng.choice(["READ", "WRITE", "DESCRIBE"])
    result = rng.choice(["Allowed", "Allowed", "Denied"])
    rule = rng.choice(["SuperUser", "DefaultDeny", "MatchingAcl(acl=StandardAcl[resourceName=x(y)])"])
    count = rng.choice([0, 1, 17])
    facts: dict[str, Any] = {
        "result": result.upper(),
        "principal": principal,
        "host": "10.0.0.1",
        "operation": operation,
        "resource_type": "TOPIC",
        "resource_name": topic,
        "resource_reference_count": count,
    }
    at = f"2026-11-23T06:{minute:02}:41.042999Z"
    form = rng.randrange(10)
    if 0 < form < 5:
        facts["resource_name"] = rng.choice([*TOPICS, *JSON_TOPICS])
    match form:
        case 0:
            return rng.choice(OTHERS)
        case 1 | 2:
            return json.dumps({**facts, "rule": rule, "logger": "kafka.authorizer.logger", "timestamp": at})
        case 3 | 4:
            data = {
                **facts,
                "rule": rule.partition("(")[0],
                "count": 3,
                "last_time": at.replace("06:", "07:", 1),
            }
            sampled = rng.choice([{}, {"sampledrate": 10}])
            event = {"specversion": "1.0", "type": "aclog.decision.v1", "time": at, **sampled, "data": data}
            return json.dumps(event, ensure_ascii="\ud800" in facts["resource_name"])
    return (
        f"{rng.choice(PREFIXES).format(minute=minute)}Principal = {principal} is {result} "
        f"operation = {operation} from host = 10.0.0.1 "
        f"on resource = Topic:LITERAL:{topic} for request = Fetch with resourceRefCount = {count} "
        f"based on rule {rule}" + rng.choice(["", " (kafka.authorizer.logger)", "\r"])
    )


@pytest.fixture
def acls(tmp_path: Path) -> Path:
    path = tmp_path / "acls.jsonl"
    usual = {
        "resourceType": "TOPIC",
        "principal": "User:alice",
        "operation": "READ",
        "permissionType": "ALLOW",
    }
    given: list[dict[str, str]] = [
        {"resourceName": "orders"},
        {"resourceName": "ord", "patternType": "PREFIXED", "operation": "ALL"},
        {"resourceName": "*", "principal": "User:bob"},
        {"resourceName": "never"},
        {"resourceName": "a", "patternType": "PREFIXED", "permissionType": "DENY", "operation": "WRITE"},
        {"resourceName": "ä", "operation": "WRITE"},
    ]
    path.write_text("".join(json.dumps(usual | each) + "\n" for each in given), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "window",
    [(), ("--since", "2026-11-23T06:20:41.042Z", "--until", "2026-11-23T06:40:41.042Z", "--fewest")],
    ids=["all", "window"],
)
def test_the_result_equals_the_commands(
    spark: SparkSession, acls: Path, tmp_path: Path, window: tuple[str, ...]
) -> None:
    """Of every form of a line, gzip or not; invalid lines are reported by file."""
    rng = random.Random(10)
    lines = [some_line(rng) for _ in range(3000)]
    plain, packed = tmp_path / "a.log", tmp_path / "b.log.gz"
    plain.write_bytes("".join(f"{each}\n" for each in lines[:2000]).encode() + b"not UTF-8: \xff\n")
    packed.write_bytes(gzip.compress("\n".join(lines[2000:]).encode()))
    args = ("--requests", plain, packed, "--acls", acls, *window)
    requests = [tmp_path / name for name in ("of-command.jsonl", "of-spark.jsonl")]
    of_command = answer("review", *args, "--distinct", requests[0])
    of_spark = answer("spark", "review", *args, "--distinct", requests[1])
    assert requests[0].read_bytes() == requests[1].read_bytes() != b""
    bad_lines = [each[-1].pop("badLines") for each in (of_command, of_spark)]
    assert all(map(len, bad_lines))
    assert of_command == of_spark
    summary = of_spark[-1]
    assert all(
        summary[key] for key in ("requests", "other", "notUnderstood", "sampled", "aclsKept", "turned")
    )
    assert bool(window) == bool(summary["outside"] and summary["untimed"])


@pytest.mark.long
def test_a_fleet_is_reviewed(spark: SparkSession, acls: Path, tmp_path: Path) -> None:
    """By directories, by a column of a table, and by a pattern; one answer for each cluster that has ACLs."""
    rng = random.Random(11)
    logs, rows = tmp_path / "logs", []
    for cluster in ("prod", "test", "other"):
        (logs / f"cluster={cluster}").mkdir(parents=True)
        lines = [some_line(rng) for _ in range(300)]
        (logs / f"cluster={cluster}" / "a.log").write_text("\n".join(lines), encoding="utf-8", newline="\n")
        rows += [(cluster, each) for each in lines]
    table = tmp_path / "table"
    spark.createDataFrame(rows, "which string, text string").write.parquet(str(table))
    sets = ("--acls", f"prod={acls}", "--acls", f"test={acls}")
    plans = tmp_path / "plans"
    by_column = aclog(
        *("spark", "review", "--requests", logs, "--cluster-column", "cluster"),
        *sets,
        *("--changes", plans, "--distinct", tmp_path / "requests", "--json"),
    )
    assert by_column.exit_code == 1, by_column.output
    assert "lines of cluster other skipped: no --acls names its ACLs" in " ".join(by_column.stderr.split())
    found = [json.loads(line) for line in by_column.stdout.splitlines()]
    for cluster in ("prod", "test"):
        (alone,) = (tmp_path / "logs" / f"cluster={cluster}").glob("*.log")
        wanted = answer("review", "--requests", alone, "--acls", acls)
        of_cluster = [each for each in found if each["cluster"] == cluster]
        for each in (wanted[-1], of_cluster[-1]):
            del each["badLines"]
        assert of_cluster == [{"cluster": cluster, **each} for each in wanted]
        assert (tmp_path / "requests" / f"{cluster}.jsonl").read_bytes().count(b"aclog.decision.v1")
        planned = [json.loads(line) for line in (plans / f"{cluster}.jsonl").read_text().splitlines()]
        assert planned == [each for each in wanted if "acl" in each and "review" not in each]
    by_pattern = answer("spark", "review", "--requests", logs, "--cluster-pattern", "cluster=(.+?)/", *sets)
    of_table = answer(
        *("spark", "review", "--requests", table, "--format", "parquet", "--line-column", "text"),
        *("--cluster-column", "which", *sets),
    )
    for each in (*found, *by_pattern, *of_table):
        each.pop("badLines", None)
    assert by_pattern == of_table == found


@pytest.mark.long
def test_a_store_provides_the_acls_of_all_clusters(spark: SparkSession, tmp_path: Path) -> None:
    """As `aclog spark snapshots` makes it of a fleet: each cluster's newest."""
    log, store = tmp_path / "log", tmp_path / "store"
    assert aclog("log", "create", "--log", log, "--cluster-id", "prod").exit_code == 0
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
    assert aclog("snapshot", "create", "--log", log, "--snapshots", store).exit_code == 0
    (tmp_path / "prod.log").write_text(
        "Principal = User:alice is Allowed operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 based on rule SuperUsers\n"
    )
    found = answer(
        *("spark", "review", "--requests", tmp_path / "*.log", "--cluster-pattern", r".*/(.+?)\.log"),
        *("--acls", store),
    )
    assert [each["resourceName"] for each in found if each.get("acl") == "removed"] == ["pay"]


def test_wrong_usage(spark: SparkSession, acls: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("nothing\n")
    for code, message, args in (
        (2, "cannot be used together", ("--acls", acls, "--cluster-column", "a", "--cluster-pattern", "b")),
        (2, "several --acls need", ("--acls", acls, "--acls", acls)),
        (2, "a fleet needs CLUSTER=SET", ("--cluster-pattern", "(log)")),
        (2, "has a lookahead", ("--acls", f"x={acls}", "--cluster-pattern", "(?=log)(.*)")),
        (2, "may never be done with a text", ("--acls", f"x={acls}", "--cluster-pattern", "((a+)+)/")),
        (4, "there are no requests", ("--acls", acls)),
        (
            4,
            "no lines that a set of ACLs could be judged by",
            ("--acls", f"x={acls}", "--cluster-pattern", "(g)$"),
        ),
    ):
        result = aclog("spark", "review", "--requests", log, *args)
        assert result.exit_code == code, result.output
        assert message in " ".join(result.stderr.split())
