"""Jobs over the topics of a pattern on a real broker: one fails, some appear and vanish."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from authorizer.cli.failure import ExitCode
from authorizer.cli.main import cli
from records.entries import AccessControlEntryRecord
from records.log.directory import DirectoryLog
from records.log.open import open_log
from records.log.topic import TopicLog
from replay.load_image import load_image
from snapshot.digest import digest_to_string
from snapshot.jobs.planning.log_states import LogStates, search_bases
from snapshot.jobs.running.fleet import Fleet
from snapshot.jobs.running.job import JobSettings
from snapshot.jobs.running.query import RunControl
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.log_failures import answered
from snapshot.jobs.sources.logs import TopicsPattern, resolve_logs
from snapshot.store.snapshot_store import SnapshotStore
from support.kafka_broker import Broker
from support.node_acls import topic_acl
from support.topic_nodes import admin, produce, raw_topic, record_of, unique_topic
from support.topic_operator import delete_topic
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark")]


def acls(prefix: str, count: int) -> list[AccessControlEntryRecord]:
    return [record_of(topic_acl(f"{prefix}-{number}")) for number in range(count)]


def append(url: str, records: Sequence[AccessControlEntryRecord]) -> None:
    with TopicLog.open(url, mode="write") as log:
        end = log.append(records)
        wait_until(lambda: log.high_watermark() >= end, "the marker")


def loaded(url: str) -> str:
    with closing(open_log(url)) as log:
        return digest_to_string(load_image(log).image.digest)


def stored(url: str, *clusters: str) -> dict[str, str]:
    """The digest of each cluster's newest state, if it has one."""
    store, newest = SnapshotStore(url), {}
    for cluster_id in clusters:
        for status in sorted(store.survey(cluster_id), key=lambda each: each.ref.end_offset):
            if status.manifest is not None:
                newest[cluster_id] = digest_to_string(status.manifest.digest)
    return newest


def run_changes(broker: Broker, prefix: str, output: Path) -> Result:
    pattern = ["--bootstrap-servers", broker.bootstrap_servers, "--topics-pattern", f"{prefix}-(.+)"]
    return CliRunner().invoke(
        cli, ["spark", "changes", *pattern, "--output", str(output), "--once", "--json"]
    )


def summary(done: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_bad_log_does_not_stop_the_others(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """It is reported, and the exit code says so; it is tried again in the next run, when it is gone."""
    prefix = unique_topic("fleet")
    east, west = (raw_topic(broker.bootstrap_servers, f"{prefix}-{name}") for name in ("east", "west"))
    append(east, acls("east", 3))
    append(west, acls("west", 2))
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "log_level": 0})
    produce(plain, f"{prefix}-west", [(b"k", b"what is this?")])
    done = run_changes(broker, prefix, tmp_path)
    assert done.exit_code == ExitCode.BAD_DATA
    assert "changes: west: " in done.stderr
    assert "neither Avro nor a KRaft frame" in done.stderr
    assert list(summary(done)["failures"]) == ["west"]
    assert stored(f"{tmp_path}/state", "east", "west") == {"east": loaded(east)}
    delete_topic(admin(broker.bootstrap_servers), f"{prefix}-west")
    north = raw_topic(broker.bootstrap_servers, f"{prefix}-north")
    append(north, acls("north", 4))
    append(east, acls("more", 1))
    done = run_changes(broker, prefix, tmp_path)
    assert done.exit_code == ExitCode.OK, done.stderr
    assert summary(done)["failures"] == {}
    assert stored(f"{tmp_path}/state", "east", "north") == {"east": loaded(east), "north": loaded(north)}


def test_log_of_a_planned_batch_sends_no_fetches(broker: Broker, tmp_path: Path) -> None:
    """Otherwise each log of a fleet would load its broker between two batches."""
    url = raw_topic(broker.bootstrap_servers, unique_topic("planned"))
    append(url, acls("a", 3))
    (followed,) = resolve_logs([url])
    with closing(followed.open()) as log:
        end = log.high_watermark()
    states = LogStates(followed, SnapshotStore(str(tmp_path)))
    try:
        search = answered(search_bases({states: end})[states])
        assert states.next_state(search, end_time_ms=None) is not None
        assert isinstance(states._log, TopicLog)
        assert not states._log._reader._is_draining
    finally:
        states.close()


@pytest.mark.long
def test_topics_appear_and_vanish_while_the_job_runs(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    prefix = unique_topic("fleet-live")
    urls = {name: raw_topic(broker.bootstrap_servers, f"{prefix}-{name}") for name in ("east", "west")}
    for name, url in urls.items():
        append(url, acls(name, 3))
    store = f"{tmp_path}/state"
    settings = JobSettings(logs=(), checkpoint=f"file://{tmp_path}/cp", store=store, shards=2, interval_s=0.2)
    fleet = Fleet(TopicsPattern(broker.bootstrap_servers, f"{prefix}-(.+)"), lambda _: None, poll_s=0.5)
    control, errors = RunControl(), list[Exception]()

    def run() -> None:
        try:
            fleet.run(
                settings,
                lambda current, control: run_snapshots(spark, current, lambda _: None, control=control),
                control,
            )
        except Exception as error:  # noqa: BLE001 - the test raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait_for(expected: dict[str, str]) -> None:
        wait_until(lambda: errors or stored(store, *expected) == expected, "the states", timeout_s=240)
        assert not errors

    try:
        wait_for({name: loaded(url) for name, url in urls.items()})
        urls["north"] = raw_topic(broker.bootstrap_servers, f"{prefix}-north")
        append(urls["north"], acls("north", 2))
        wait_for({name: loaded(url) for name, url in urls.items()})
        delete_topic(admin(broker.bootstrap_servers), f"{prefix}-west")
        del urls["west"]
        append(urls["east"], acls("more", 2))
        wait_for({name: loaded(url) for name, url in urls.items()})
        append(urls["north"], acls("more", 2))
        wait_for({name: loaded(url) for name, url in urls.items()})
    finally:
        control.stop.set()
        thread.join(120)
    assert not thread.is_alive()
    assert fleet.failures == {}


@pytest.mark.long
def test_one_of_several_directories_fails(spark: SparkSession, tmp_path: Path) -> None:
    """While a batch is planned: the other one is processed. The next run has the repaired one, too."""
    flags, segments = list[str](), dict[str, Path]()
    for name in ("east", "west"):
        with DirectoryLog.open(tmp_path / name, mode="create", cluster_id=name) as log:
            log.append(acls(name, 3))
        flags += ["--log", f"file:{tmp_path / name}"]
        (segments[name],) = (tmp_path / name).rglob("*.log")
    intact = segments["west"].read_bytes()
    segments["west"].write_bytes(intact[:-3] + b"xyz")
    output = tmp_path / "out"
    command = ["spark", "changes", *flags, "--output", str(output), "--once", "--json"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == ExitCode.BAD_DATA, done.stderr
    assert list(summary(done)["failures"]) == ["west"]
    assert stored(f"{output}/state", "east", "west") == {"east": loaded(f"file:{tmp_path}/east")}
    segments["west"].write_bytes(intact)
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == ExitCode.OK, done.stderr
    assert stored(f"{output}/state", "east", "west") == {
        name: loaded(f"file:{tmp_path}/{name}") for name in ("east", "west")
    }
    assert [each.name for each in (output / ".checkpoints" / "changes").glob("fleet-*")] == ["fleet-2"]
