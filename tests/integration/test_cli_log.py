"""`aclog log`: dump equals kafka-dump-log, append is all or nothing, verify finds what differs."""

from __future__ import annotations

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from records.ids import uuid_to_string
from records.log.directory import DirectoryLog
from records.log.directory.files import METADATA_LOG_DIRECTORY
from support.aclog_command import aclog
from support.data import REAL_LOGS, real_log, real_log_home
from support.node_acls import topic_acl
from support.nodes import create, running_node, sidecar_of

ACL_TYPES = {"ACCESS_CONTROL_ENTRY_RECORD", "REMOVE_ACCESS_CONTROL_ENTRY_RECORD"}
UNDERSTOOD = ACL_TYPES | {
    "FEATURE_LEVEL_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "END_TRANSACTION_RECORD",
    "ABORT_TRANSACTION_RECORD",
}
LOGS = [pytest.param(name, marks=pytest.mark.slow) if name == "kraft-large" else name for name in REAL_LOGS]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def recorded_dump(name: str) -> list[dict[str, Any]]:
    return lines((real_log_home(name) / "dump.jsonl").read_text(encoding="utf-8"))


def without_data(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "data"}


@pytest.mark.parametrize("name", LOGS)
def test_dump_equals_kafka_dump_log(name: str) -> None:
    """Record by record: completely for known and control records, otherwise by the header."""
    result = aclog("log", "dump", "--log", real_log(name))
    assert result.exit_code == 0
    expected = [
        line if line.get("type", "control") in UNDERSTOOD or "control" in line else without_data(line)
        for line in recorded_dump(name)
    ]
    assert any(line.get("type") in ACL_TYPES for line in expected)
    assert lines(result.stdout) == expected


def test_a_dump_is_limited_to_a_range() -> None:
    """--from and --to are offsets, both inclusive; they may lie inside a batch."""
    result = aclog("log", "dump", "--log", real_log("kraft-small"), "--from", 100, "--to", 105)
    assert [line["offset"] for line in lines(result.stdout)] == [100, 101, 102, 103, 104, 105]


def test_a_dump_of_a_trimmed_log_begins_at_the_logs_start() -> None:
    """Without --from the log's start counts; an offset before it is wrong usage and says what there is."""
    log = real_log("kraft-trimmed")
    assert lines(aclog("log", "dump", "--log", log, "--to", 1680).stdout)[0]["offset"] == 1675
    refused = aclog("log", "dump", "--log", log, "--from", 1000)
    assert refused.exit_code == 2
    assert "[1675, 2054)" in refused.stderr


def test_dump_names_the_segment_of_each_record() -> None:
    """With several segments each line names the file that holds it, as the tool's recording does."""
    files = {line["file"] for line in lines(aclog("log", "dump", "--log", real_log("kraft-trimmed")).stdout)}
    assert files == {"00000000000000001675.log", "00000000000000001930.log"}


@pytest.mark.parametrize("name", ["kraft-small", pytest.param("kraft-large", marks=pytest.mark.slow)])
def test_dump_and_append_copy_a_brokers_log(name: str, tmp_path: Path) -> None:
    """A broker's log, dumped and appended, has the same state (a trimmed one would lack its beginning)."""
    dump = aclog("log", "dump", "--log", real_log(name), "--skip-others").stdout_bytes
    done = aclog("log", "append", "--log", tmp_path / "log", "--create", "--json", stdin=dump)
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["endOffset"] == answer["records"] == len(dump.splitlines())
    verified = aclog("log", "verify", "--log", tmp_path / "log", "--with", real_log(name), "--json")
    assert verified.exit_code == 0
    assert json.loads(verified.stdout)["comparison"]["equal"] is True


def test_skip_others_keeps_the_acls() -> None:
    """ACLs, feature levels and transaction markers stay: without the markers an abort would be lost."""
    dump = aclog("log", "dump", "--log", real_log("kraft-small"), "--skip-others").stdout
    types = {line["type"] for line in lines(dump)}
    assert types == UNDERSTOOD - {"ABORT_TRANSACTION_RECORD"}


def acl_line(number: int, **more: Any) -> str:
    data = {
        "id": uuid_to_string(bytes(15) + bytes([number])),
        "resourceType": 2,
        "resourceName": f"t{number}",
        "patternType": 3,
        "principal": "User:ä",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    return json.dumps({"type": "ACCESS_CONTROL_ENTRY_RECORD", "version": 0, "data": data, **more}) + "\n"


def marker(kind: str) -> str:
    return json.dumps({"type": f"{kind}_TRANSACTION_RECORD", "version": 0, "data": {}}) + "\n"


def batches_of(log: Path) -> list[list[int]]:
    with DirectoryLog.open(log) as opened:
        return [[logged.offset for logged in batch.records] for batch in opened.read(0)]


def test_append_groups_lines_by_batch_key(tmp_path: Path) -> None:
    """Neighbours with one "batch" value are one atomic batch; the others go by --batch-size."""
    text = "".join(
        [
            acl_line(0),
            acl_line(1),
            acl_line(2),
            acl_line(3, batch=1),
            acl_line(4, batch=1),
            acl_line(5, batch="1"),
            "\n",
            acl_line(6),
        ]
    )
    done = aclog("log", "append", "--log", tmp_path / "log", "--create", "--batch-size", 2, stdin=text)
    assert done.stdout == "end offset 7: 7 records in 5 batches\n"
    assert batches_of(tmp_path / "log") == [[0, 1], [2], [3, 4], [5], [6]]


def test_append_reads_a_file_and_keeps_timestamps(tmp_path: Path) -> None:
    """A dump's times stay: the greatest of its lines for each batch."""
    payloads = tmp_path / "records.jsonl"
    payloads.write_text(
        acl_line(0, timestamp=1000) + acl_line(1, timestamp=3000) + acl_line(2, timestamp=2000)
    )
    assert aclog("log", "append", "--log", tmp_path / "log", "--create", payloads).exit_code == 0
    with DirectoryLog.open(tmp_path / "log") as log:
        assert [batch.timestamp_ms for batch in log.read(0)] == [3000]


def test_a_second_append_continues(tmp_path: Path) -> None:
    """A second append goes on at the end offset; --create does no harm, and needs no repeating."""
    for number, flags in ((0, ["--create"]), (1, ["--create"]), (2, [])):
        done = aclog("log", "append", "--log", tmp_path / "log", *flags, stdin=acl_line(number))
        assert done.stdout == f"end offset {number + 1}: 1 records in 1 batches\n"


REFUSED = {
    "not JSON": ("{", "line 2"),
    "not an object": ("[1]", "line 2"),
    "unknown type": ('{"type":"X","version":0,"data":{}}', "line 2"),
    "newer version": (acl_line(1).replace('"version": 0', '"version": 9'), "version 9"),
    "missing field": (acl_line(1).replace('"host": "*", ', ""), "line 2"),
    "bad id": (acl_line(1).replace("AAAAAAAA", "!!"), "line 2"),
    "a topic": ('{"type":"TOPIC_RECORD","version":0}', "line 2"),
    "control": ('{"control":"LeaderChange","value":{}}', "--skip-others"),
    "end without begin": (marker("END"), "line 2"),
    "begin without end": (marker("BEGIN"), "does not end"),
    "begin in begin": (marker("BEGIN") + marker("BEGIN"), "line 3"),
    "split batch": (acl_line(1, batch=1) + acl_line(2) + acl_line(3, batch=1), "neighbours"),
    "bad timestamp": (acl_line(1, timestamp="now"), "timestamp"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_append_is_all_or_nothing(what: str, tmp_path: Path) -> None:
    """One bad line, and nothing is written: not even the log is created."""
    bad, message = REFUSED[what]
    done = aclog("log", "append", "--log", tmp_path / "log", "--create", stdin=acl_line(0) + bad + "\n")
    assert done.exit_code == 4
    assert message in done.stderr
    assert "-" in done.stderr or "stdin" in done.stderr
    assert "; nothing was written" in done.stderr
    assert not (tmp_path / "log").exists()


def test_append_accepts_transactions(tmp_path: Path) -> None:
    """A complete transaction is accepted, and takes effect as in KIP-868."""
    text = marker("BEGIN") + acl_line(0) + marker("ABORT") + marker("BEGIN") + acl_line(1) + marker("END")
    assert aclog("log", "append", "--log", tmp_path / "log", "--create", stdin=text).exit_code == 0
    listed = json.loads(aclog("acls", "--list", "--log", tmp_path / "log", "--json").stdout)
    assert [acl["resourceName"] for acl in listed["acls"]] == ["t1"]


def test_append_to_a_missing_log_needs_create(tmp_path: Path) -> None:
    """A mistyped path does not become a new log."""
    done = aclog("log", "append", "--log", tmp_path / "typo", stdin=acl_line(0))
    assert done.exit_code == 2
    assert not (tmp_path / "typo").exists()


def test_verify_reports_the_contents_of_the_log() -> None:
    """Counts, high watermark and digest of the real log; its text says that the high watermark is a guess."""
    report = json.loads(aclog("log", "verify", "--log", real_log("kraft-small"), "--json").stdout)
    assert report["clusterId"] == "aclogFixtureCluster001"
    assert (report["startOffset"], report["highWatermark"], report["highWatermarkIsGuess"]) == (0, 281, True)
    assert (report["records"], report["aclsAdded"], report["aclsRemoved"]) == (281, 69, 10)
    assert report["aclCount"] == 59
    text = aclog("log", "verify", "--log", real_log("kraft-small")).stdout
    assert "high watermark 281 (a guess: the last complete batch; certain up to 264)" in text
    assert report["digest"] in text


def test_verify_compares_a_store(tmp_path: Path) -> None:
    """A snapshot made of the log at any offset has the digest that the log alone gives there."""
    for offset in (120, 200):
        args = ("--log", real_log("kraft-small"), "--snapshots", tmp_path / "store", "--at-offset", offset)
        assert aclog("snapshot", "create", *args).exit_code == 0
    for more, end in (((), 201), (("--at-offset", 120), 121)):
        done = aclog(
            "log", "verify", "--log", real_log("kraft-small"), "--with", tmp_path / "store", "--json", *more
        )
        assert done.exit_code == 0
        comparison = json.loads(done.stdout)["comparison"]
        assert (comparison["equal"], comparison["endOffset"]) == (True, end)


def test_verify_reports_a_log_that_differs(tmp_path: Path) -> None:
    """Exit code 1, and the first differences: what is only here, only there, and different."""
    left, right = tmp_path / "left", tmp_path / "right"
    for log in (left, right):
        aclog("log", "append", "--log", log, "--create", stdin="".join(map(acl_line, range(3))))
    aclog("log", "append", "--log", left, stdin=acl_line(8))
    aclog("log", "append", "--log", right, stdin=acl_line(9))
    changed = acl_line(1).replace('"operation": 3', '"operation": 4')
    aclog("log", "append", "--log", right, stdin=changed)
    done = aclog("log", "verify", "--log", left, "--with", right, "--json")
    assert done.exit_code == 1
    comparison = json.loads(done.stdout)["comparison"]
    assert comparison["equal"] is False
    assert [acl["resourceName"] for acl in comparison["onlyHere"]] == ["t8"]
    assert [acl["resourceName"] for acl in comparison["onlyThere"]] == ["t9"]
    assert [pair["there"]["operation"] for pair in comparison["changed"]] == ["WRITE"]
    text = aclog("log", "verify", "--log", left, "--with", right)
    assert text.exit_code == 1
    assert "DIFFERENT" in text.stdout
    equal_before = aclog("log", "verify", "--log", left, "--with", right, "--at-offset", 2)
    assert equal_before.exit_code == 0


def test_verify_takes_what_names_an_offset(tmp_path: Path) -> None:
    """LOG@OFFSET and a checkpoint; another --at-offset beside them is refused."""
    log = tmp_path / "log"
    aclog("log", "append", "--log", log, "--create", stdin="".join(map(acl_line, range(3))))
    aclog("snapshot", "export", "--log", log, "--format", "checkpoint", "--output", tmp_path)
    aclog("log", "append", "--log", log, stdin=acl_line(3))
    (checkpoint,) = tmp_path.glob("*.checkpoint")
    for other, end in ((f"{log}@1", 2), (checkpoint, 3)):
        done = aclog("log", "verify", "--log", log, "--with", other, "--json")
        comparison = json.loads(done.stdout)["comparison"]
        assert (done.exit_code, comparison["equal"], comparison["endOffset"]) == (0, True, end)
        refused = aclog("log", "verify", "--log", log, "--with", other, "--at-offset", 0)
        assert (refused.exit_code, "--at-offset cannot be used with" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("other", "message"),
    [("acls.txt", "aclog diff --log LOG acls.txt"), ("nowhere", "--with nowhere: that is not a log, ")],
)
def test_verify_refuses_what_has_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, message: str
) -> None:
    """A file of ACLs has no ids of records: another command compares it."""
    monkeypatch.chdir(tmp_path)
    aclog("log", "append", "--log", "LOG", "--create", stdin=acl_line(0))
    Path("acls.txt").touch()
    done = aclog("log", "verify", "--log", "LOG", "--with", other)
    assert (done.exit_code, message in " ".join(done.stderr.split())) == (2, True)


def test_verify_compares_two_replicas_at_their_last_common_offset(tmp_path: Path) -> None:
    """A replica that is behind is compared where it stands."""
    longer = tmp_path / "ahead"
    aclog("log", "append", "--log", longer, "--create", stdin=acl_line(0))
    shorter = tmp_path / "behind"
    shutil.copytree(longer, shorter)
    aclog("log", "append", "--log", longer, stdin=acl_line(1))
    done = aclog("log", "verify", "--log", longer, "--with", shorter, "--json")
    assert (done.exit_code, json.loads(done.stdout)["comparison"]["endOffset"]) == (0, 1)


def test_the_parent_of_a_brokers_log_is_refused_with_the_right_path(tmp_path: Path) -> None:
    """If the broker's log.dir is named, the error names the right directory inside it."""
    shutil.copytree(real_log("kraft-small"), tmp_path / METADATA_LOG_DIRECTORY)
    done = aclog("log", "verify", "--log", tmp_path)
    assert done.exit_code == 2
    assert f"did you mean {tmp_path / METADATA_LOG_DIRECTORY}?" in done.stderr


def test_create_makes_an_empty_log_once(tmp_path: Path) -> None:
    """A second time is an error unless --if-not-exists says that it is fine; the log stays what it is."""
    args = ("log", "create", "--log", tmp_path / "log", "--json")
    first = json.loads(aclog(*args, "--cluster-id", "mine").stdout)
    assert (first["clusterId"], first["created"]) == ("mine", True)
    assert aclog(*args).exit_code == 2
    again = json.loads(aclog(*args, "--if-not-exists").stdout)
    assert again == first | {"created": False}
    report = json.loads(aclog("log", "verify", "--log", tmp_path / "log", "--json").stdout)
    assert (report["clusterId"], report["highWatermark"]) == ("mine", 0)


def test_create_does_not_replace_an_existing_log(tmp_path: Path) -> None:
    """A directory that holds something else does not become a log."""
    (tmp_path / "notes.txt").write_text("mine")
    done = aclog("log", "create", "--log", tmp_path)
    assert done.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_verify_compares_a_running_node(tmp_path: Path) -> None:
    """Its digest at the offset where it stands, beside what the log gives there; and beside another log."""
    log, other = tmp_path / "log", tmp_path / "other"
    for directory in (log, other):
        aclog("log", "append", "--log", directory, "--create", stdin="".join(map(acl_line, range(3))))
    aclog("log", "append", "--log", other, stdin=acl_line(8))
    with running_node(log) as node, sidecar_of(node) as url:
        done = aclog("log", "verify", "--log", log, "--with", url, "--json")
        assert done.exit_code == 0, done.stderr
        comparison = json.loads(done.stdout)["comparison"]
        assert (comparison["equal"], comparison["endOffset"], comparison["otherEndOffset"]) == (True, 3, 3)
        assert comparison["otherDigest"] == node.status().digest
        create(node, [topic_acl("more")])
        text = aclog("log", "verify", "--log", log, "--with", f"{url}/")
        assert f"equal to {url}/ at end offset 4" in text.stdout
        differs = aclog("log", "verify", "--log", other, "--with", url)
        assert (differs.exit_code, "follows a different log" in differs.stderr) == (1, True)
        assert "DIFFERENT" in differs.stdout


def test_verify_compares_several_together(tmp_path: Path) -> None:
    """A log, a store and a node: one answer, and exit code 1 if any of them differs."""
    log, store = tmp_path / "log", tmp_path / "store"
    aclog("log", "append", "--log", log, "--create", stdin=acl_line(1))
    assert aclog("snapshot", "create", "--log", log, "--snapshots", store).exit_code == 0
    with running_node(log) as node, sidecar_of(node) as url:
        args = ("log", "verify", "--log", log, "--with", store, "--with", url, "--json")
        done = aclog(*args)
        assert done.exit_code == 0, done.stderr
        rows = json.loads(done.stdout)["comparisons"]
        assert [(row["with"], row["equal"]) for row in rows] == [(str(store), True), (url, True)]
        assert aclog(*args, "--with", real_log("kraft-small")).exit_code == 1


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"offset": "x"}'])
def test_verify_refuses_a_server_that_is_no_node(answer: bytes, tmp_path: Path) -> None:
    """Whatever answers at an address that is no aclog's: wrong usage, and no traceback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            pass

    aclog("log", "create", "--log", tmp_path / "log")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        done = aclog("log", "verify", "--log", tmp_path / "log", "--with", url)
    assert done.exit_code == 2
    assert "does not answer as an aclog node does" in done.stderr
