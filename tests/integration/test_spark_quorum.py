"""`aclog spark` on a real cluster's metadata log, with controllers that require authentication."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from authorizer.cli.main import cli
from records.log.open import open_log
from replay.load_image import load_image
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.snapshot_store import SnapshotStore
from support.kafka_broker import Broker, jar_broker
from support.nodes import SOON_S
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark")]

CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "spark",
    "sasl.password": "a secret",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """Its controllers listen by SASL; spark may do everything."""
    plain = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="admin" user_admin="admin" user_spark="a secret";'
    )
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "super.users": "User:ANONYMOUS;User:admin;User:spark",
    }
    with jar_broker(settings) as broker:
        yield broker


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "aclog.properties"
    path.write_text("".join(f"aclog.kafka.{name}={value}\n" for name, value in CLIENT.items()))
    return path


def aclog(*args: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, args)])


def batches(*args: object) -> list[dict[str, Any]]:
    """The batches that a job prints, without its summary."""
    done = aclog(*args, "--once", "--json")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if "batch" in line]


def change(admin: AdminClient, added: Iterable[int] = (), removed: Iterable[int] = ()) -> None:
    """ACLs on topics of these numbers; the cluster has answered."""

    def facts(number: int) -> tuple[Any, ...]:
        literal, read = ResourcePatternType.LITERAL, AclOperation.READ
        return (ResourceType.TOPIC, f"t{number}", literal, "User:a", "*", read, AclPermissionType.ALLOW)

    if new := [AclBinding(*facts(number)) for number in added]:
        for created in admin.create_acls(new).values():
            created.result(SOON_S)
    if old := [AclBindingFilter(*facts(number)) for number in removed]:
        for deleted in admin.delete_acls(old).values():
            deleted.result(SOON_S)


@pytest.mark.long
def test_jobs_read_the_clusters_metadata_log(
    spark: SparkSession, guarded: Broker, config: Path, tmp_path: Path
) -> None:
    """Run after run, and all the time: each state is the log's at its end, and at last the cluster's."""
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    url, cluster = f"kraft://{guarded.controllers}", f"describe://{guarded.bootstrap_servers}"
    log, store, history = ("--log", url, "--config", config), tmp_path / "store", tmp_path / "history"
    change(admin, added=range(20))
    first = batches("spark", "snapshots", *log, "--snapshots", store)
    change(admin, added=range(20, 30), removed=range(5))
    again = batches("spark", "snapshots", *log, "--snapshots", store)
    ranges = [
        (of_log["startOffset"], of_log["endOffset"]) for batch in (*first, *again) for of_log in batch["logs"]
    ]
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    batches("spark", "changes", *log, "--output", history)
    of_topic = ("--history", history, "--resource-type", "topic", "--resource-name", "t3")
    listed = aclog("spark", "history", "changes", *of_topic, "--json")
    found = [json.loads(line)["change"] for line in listed.stdout.splitlines()]
    assert found == ["added", "removed"], listed.output
    follow(spark, url, admin, tmp_path)
    with closing(open_log(url, client=CLIENT)) as opened:
        for store_of_job in (SnapshotStore(str(store)), SnapshotStore(str(tmp_path / "followed"))):
            for status in store_of_job.survey(opened.identity):
                assert status.manifest is not None
                at_offset = status.ref.end_offset - 1
                assert status.manifest.digest == load_image(opened, at_offset=at_offset).image.digest
    secret = CLIENT["sasl.password"].encode()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path != config]
    assert [path for path in files if secret in path.read_bytes()] == []
    same = ("diff", tmp_path / "followed", cluster)
    wait_until(lambda: aclog(*same).exit_code == 0, "the broker to describe the same")


def follow(spark: SparkSession, url: str, admin: AdminClient, home: Path) -> None:
    """With an interval: what is created meanwhile is in a later batch's snapshot."""
    reports: list[BatchReport] = []

    def has(acls: int) -> bool:
        return bool(reports) and reports[-1].logs[0].count == acls

    settings = JobSettings(
        logs=tuple(resolve_logs([url], kafka=CLIENT)),
        checkpoint=f"file://{home / 'checkpoint'}",
        store=str(home / "followed"),
        interval_s=0.2,
    )
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_snapshots, spark, settings, reports.append)
        try:
            wait_until(lambda: has(25), "25 ACLs")
            change(admin, added=[100])
            wait_until(lambda: has(26), "26 ACLs")
            change(admin, removed=[100, 10])
            wait_until(lambda: has(24), "24 ACLs")
        finally:
            for query in spark.streams.active:
                query.stop()
        running.result(SOON_S)


@pytest.mark.long
def test_a_wrong_password_stops_a_job(
    spark: SparkSession, guarded: Broker, config: Path, tmp_path: Path
) -> None:
    """Before anything is written; with the way out, and without the password."""
    config.write_text(config.read_text().replace("a secret", "a guess"))
    done = aclog(
        *("spark", "snapshots", "--log", f"kraft://{guarded.controllers}", "--config", config),
        *("--snapshots", tmp_path / "store", "--once"),
    )
    assert done.exit_code != 0
    assert "Authentication failed" in done.stderr
    assert "a guess" not in done.output
    assert not (tmp_path / "store").exists()
