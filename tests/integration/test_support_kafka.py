"""The real Kafka that other tests lean on: its jars, its tools and its broker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from snapshot.errors import SparkJarsError
from support import kafka_jars
from support.data import real_log, real_log_home
from support.kafka_broker import Broker
from support.kafka_tools import ACLS, KafkaToolError, dump_batches, dump_log, run_java

pytestmark = pytest.mark.integration


def json_lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.parametrize("name", ["kraft-small", "kraft-trimmed"])
def test_dump_log_reads_kafkas_log(name: str) -> None:
    """The parsed output of kafka-dump-log equals the recorded dump, for segments and checkpoints."""
    home, log = real_log_home(name), real_log(name)
    segments, checkpoints = sorted(log.glob("*.log")), sorted(log.glob("*.checkpoint"))
    assert json_lines(home / "dump.jsonl") == dump_log(*segments)
    assert json_lines(home / "batches.jsonl") == dump_batches(*segments)
    assert json_lines(home / "dump-checkpoints.jsonl") == dump_log(*checkpoints)


def test_a_failing_tool_is_an_error() -> None:
    """A tool that exits with another code than 0 raises with what it said."""
    with pytest.raises(KafkaToolError, match="exited with 1"):
        run_java(ACLS, "--no-such-option")


def test_the_broker_authorizes_and_logs(broker: Broker) -> None:
    """The broker takes an ACL, and its metadata log then holds it."""
    run_java(
        ACLS, "--bootstrap-server", broker.bootstrap_servers,
        "--add", "--allow-principal", "User:support", "--operation", "Read", "--topic", "support-kafka",
    )  # fmt: skip
    if broker.metadata_dir is None:
        pytest.fail("this test needs a broker on this machine: unset ACLOG_TEST_BOOTSTRAP")
    records = dump_log(*sorted(broker.metadata_dir.glob("*.log")))
    added = [record["data"] for record in records if record.get("type") == "ACCESS_CONTROL_ENTRY_RECORD"]
    assert "support-kafka" in {data["resourceName"] for data in added}


def test_jars_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of jars that are not the reviewed ones, byte by byte, is not used."""
    libs = shutil.copytree(kafka_jars.kafka_libs(), tmp_path / "libs")
    (libs / "kafka-clients-4.3.1.jar").write_bytes(b"not Kafka")
    (libs / "argparse4j-0.7.0.jar").unlink()
    (libs / "more.jar").touch()
    monkeypatch.setenv("ACLOG_KAFKA_LIBS", str(libs))
    with pytest.raises(SparkJarsError) as caught:
        kafka_jars.kafka_libs.__wrapped__()
    assert str(caught.value) == (
        f"ACLOG_KAFKA_LIBS={libs} does not hold Kafka 4.3.1: argparse4j-0.7.0.jar is missing, "
        "kafka-clients-4.3.1.jar is different, more.jar is unexpected"
    )
