"""Every command that takes --log on a topic of a real Kafka; client settings come from --config."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from support.aclog_command import aclog
from support.data import real_log
from support.kafka_broker import HOST, Broker, free_ports, running_jvm
from support.node_acls import topic_acl
from support.nodes import create, running_node, sidecar_of
from support.topic_logs import new_topic, topic_url
from support.topic_operator import delete_records
from support.waiting import wait_until

pytestmark = pytest.mark.integration

QUESTION = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")


def serve(*args: object) -> subprocess.CompletedProcess[str]:
    """One that ends by itself. In a process of its own: it sets up logging for the whole process."""
    command = [sys.executable, "-m", "authorizer.cli", "serve", *map(str, args)]
    # Whatever has the default port on this machine.
    env = {**os.environ, "ACLOG_LISTENERS": f"PLAINTEXT://{HOST}:0"}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


def answer(*args: object, stdin: bytes | str | None = None) -> dict[str, Any]:
    done = aclog(*args, "--json", stdin=stdin)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def topic_configs(broker: Broker, url: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, url.rpartition("/")[2])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    (future,) = admin.describe_configs([resource]).values()
    return {name: entry.value for name, entry in future.result().items()}


def test_create_makes_a_topic_once(broker: Broker) -> None:
    """Compacted, with what the flags say; a second time is an error, unless --if-not-exists allows it."""
    url = topic_url(broker)
    flags = ("--replication-factor", 1, "--min-insync-replicas", 1, "--delete-retention", "2d")
    made = answer("log", "create", "--log", url, *flags, "--topic-config", "segment.bytes=1048576")
    assert made["created"] is True
    configs = topic_configs(broker, url)
    assert configs["cleanup.policy"] == "compact"
    assert configs["delete.retention.ms"] == str(2 * 24 * 3600 * 1000)
    assert configs["segment.bytes"] == "1048576"
    again = aclog("log", "create", "--log", url, *flags)
    assert again.exit_code == 2
    assert "already exists" in again.stderr
    assert answer("log", "create", "--log", url, *flags, "--if-not-exists") == made | {"created": False}


def test_concurrent_creates_make_one_topic(broker: Broker) -> None:
    """One of them makes the topic, and with --if-not-exists the others are content with it."""
    url = topic_url(broker)
    program = "from authorizer.cli.main import main; main()"
    flags = ["--replication-factor", "1", "--min-insync-replicas", "1", "--if-not-exists", "--json"]
    command = [sys.executable, "-c", program, "log", "create", "--log", url, *flags]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    made = [json.loads(process.communicate(timeout=60)[0]) for process in running]
    assert sorted(each["created"] for each in made) == [False, False, True]
    assert len({each["topicId"] for each in made}) == 1


def test_too_few_brokers_is_an_error_with_the_hint(broker: Broker) -> None:
    """Three replicas are the default, and one broker cannot keep them."""
    done = aclog("log", "create", "--log", topic_url(broker))
    assert done.exit_code == 2, done.output
    assert "--replication-factor" in done.stderr or "replication factor" in done.stderr


@pytest.mark.parametrize(
    ("partitions", "policy", "why"), [(2, "compact", "partition"), (1, "delete", "compact")]
)
def test_a_topic_that_cannot_be_a_log_is_refused(
    broker: Broker, partitions: int, policy: str, why: str
) -> None:
    """Several partitions have no order; one that is not compacted forgets ACLs."""
    url = topic_url(broker)
    topic = NewTopic(url.rpartition("/")[2], partitions, 1, config={"cleanup.policy": policy})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    (future,) = admin.create_topics([topic]).values()
    future.result()
    for args in (("acls", "--list"), ("log", "verify"), ("log", "create", "--if-not-exists")):
        done = aclog(*args, "--log", url)
        assert done.exit_code == 2, done.output
        assert why in done.stderr
    served = serve("--log", url)
    assert served.returncode == 2, served.stderr
    assert why in served.stderr


def test_acls_of_a_topic_are_changed_and_checked(broker: Broker, tmp_path: Path) -> None:
    """Add, ask, list and remove; the URL and the client's settings are those of the file."""
    url = new_topic(broker)
    config = tmp_path / "aclog.properties"
    config.write_text(f"aclog.log.url={url}\naclog.kafka.client.id=the-cli\n")
    where = ("--config", config)
    assert aclog("check", *where, *QUESTION).exit_code == 1
    assert (
        aclog("acls", *where, "--add", "--allow-principal", "User:alice", "--topic", "orders").exit_code == 0
    )
    assert aclog("check", *where, *QUESTION, "--explain").exit_code == 0
    listed = answer("acls", *where, "--list")
    assert [acl["resourceName"] for acl in listed["acls"]] == ["orders"]
    assert aclog("acls", *where, "--remove", "--topic", "orders", "--force").exit_code == 0
    assert aclog("check", *where, *QUESTION).exit_code == 1


def test_a_brokers_acls_are_copied_into_a_topic(broker: Broker) -> None:
    """Dumped from one kind of log and appended to the other: one state, and the same again from its dump."""
    source = real_log("kraft-small")
    url, copy = new_topic(broker), new_topic(broker)
    lines = aclog("log", "dump", "--log", source, "--skip-others").stdout_bytes
    assert b"BEGIN_TRANSACTION" in lines
    answer("log", "append", "--log", url, "--skip-others", "--batch-size", 10, stdin=lines)
    report = answer("log", "verify", "--log", url, "--with", source)
    assert report["comparison"]["equal"] is True
    dump = aclog("log", "dump", "--log", url, "--skip-others")
    assert dump.exit_code == 0
    answer("log", "append", "--log", copy, stdin=dump.stdout_bytes)
    assert answer("log", "verify", "--log", copy)["digest"] == report["digest"]


def test_an_aborted_transaction_is_not_copied(broker: Broker) -> None:
    """Its records never counted; those of a committed one are one batch."""
    marker = '{{"type":"{}_TRANSACTION_RECORD","version":0,"data":{{}}}}\n'
    begin, end, abort = map(marker.format, ("BEGIN", "END", "ABORT"))
    url = new_topic(broker)
    acls = [
        line
        for line in aclog("log", "dump", "--log", real_log("kraft-small")).stdout.splitlines(keepends=True)
        if '"ACCESS_CONTROL_ENTRY_RECORD"' in line
    ]
    text = begin + acls[0] + abort + begin + acls[1] + acls[2] + end + acls[3]
    refused = aclog("log", "append", "--log", url, stdin=text)
    assert refused.exit_code == 4
    assert "stdin line 1" in refused.stderr
    done = answer("log", "append", "--log", url, "--skip-others", stdin=text)
    assert (done["records"], done["batches"]) == (3, 2)
    assert len(answer("acls", "--list", "--log", url)["acls"]) == 3


def test_a_topic_a_store_and_a_node_have_one_state(broker: Broker, tmp_path: Path) -> None:
    """`log verify` compares all three, also where the snapshot is older than the end of the log."""
    url, store = new_topic(broker), tmp_path / "store"
    with running_node(url) as node, sidecar_of(node) as address:
        create(node, [topic_acl("t"), topic_acl("u")])
        made = answer("snapshot", "create", "--log", url, "--snapshots", store)
        assert made["digest"] == node.status().digest
        args = ("log", "verify", "--log", url, "--with", store, "--with", address)
        rows = answer(*args)["comparisons"]
        assert [row["equal"] for row in rows] == [True, True]
        create(node, [topic_acl("v")])
        rows = answer(*args)["comparisons"]
        assert [row["equal"] for row in rows] == [True, True]
        assert rows[1]["otherDigest"] == node.status().digest
    assert aclog("snapshot", "verify", "--snapshots", store, "--log", url).exit_code == 0
    assert "complete" in aclog("snapshot", "list", "--snapshots", store, "--log", url).stdout
    assert aclog("check", "--log", url, "--snapshots", store, *QUESTION).exit_code == 1


def test_a_trimmed_topic_is_verified_with_a_snapshot(broker: Broker, tmp_path: Path) -> None:
    """Its beginning is gone: `log verify` finds what `snapshot create` finds, and compares what can be."""
    url, store = new_topic(broker), tmp_path / "store"

    def verified(*args: object) -> dict[str, Any]:
        return answer("log", "verify", "--log", url, *args)

    with running_node(url) as node, sidecar_of(node) as address:
        create(node, [topic_acl("t"), topic_acl("u")])
        create(node, [topic_acl("v")])
        answer("snapshot", "create", "--log", url, "--snapshots", store)
        create(node, [topic_acl("w")])
        wait_until(lambda: node.status().lag_records == 0, "the node")
        digest = node.status().digest
        delete_records(broker, url.rpartition("/")[2], 3)
        assert verified("--snapshots", store)["digest"] == digest
        # A node is compared by way of a snapshot too.
        beside = verified("--snapshots", store, "--with", address)
        assert (beside["digest"], beside["comparison"]["equal"]) == (digest, True)
        # A store with one snapshot has nothing to compare that with.
        alone = aclog("log", "verify", "--log", url, "--with", store)
        assert alone.exit_code == 4, alone.output
        assert "no other snapshot leads to its state" in alone.stderr
        answer("snapshot", "create", "--log", url, "--snapshots", store)
        both = verified("--with", store)
        assert (both["startOffset"], both["digest"]) == (3, digest)
        assert (both["comparison"]["equal"], both["comparison"]["otherDigest"]) == (True, digest)
    nothing = aclog("log", "verify", "--log", url)
    assert nothing.exit_code == 4
    assert "no snapshot covers it" in nothing.stderr


def test_a_missing_topic_is_reported(broker: Broker) -> None:
    """Wrong usage, with the command that makes it."""
    done = aclog("acls", "--list", "--log", topic_url(broker))
    assert done.exit_code == 2
    assert "aclog log create" in done.stderr


def test_an_unreachable_cluster_is_reported() -> None:
    """Exit code 3, try again; within seconds, and saying where it was looked for."""
    (port,) = free_ports(1)
    done = aclog("acls", "--list", "--log", f"kafka://{HOST}:{port}/acls")
    assert done.exit_code == 3, done.output
    assert f"{HOST}:{port}" in done.stderr


@pytest.mark.long
def test_a_failure_before_a_write_reports_that_nothing_was_written(broker: Broker, tmp_path: Path) -> None:
    """The error says that nothing was written, so no check of the log is needed."""
    acls = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    (port,) = free_ports(1)
    away, missing = f"kafka://{HOST}:{port}/acls", topic_url(broker)
    lines = tmp_path / "lines.jsonl"
    lines.write_text("not a record\n")
    for command, code in (
        (("acls", "--add", *acls, "--log", away), 3),
        (("acls", "--remove", "--topic", "t", "--force", "--log", away), 3),
        (("acls", "--add", *acls, "--log", missing), 2),
        (("acls", "--remove", "--topic", "t", "--log", new_topic(broker)), 2),
        (("log", "append", "--log", missing, lines), 4),
        (("log", "append", "--log", away, "/dev/null"), 3),
    ):
        done = aclog(*command)
        assert (done.exit_code, done.stderr.count("nothing was written")) == (code, 1), done.output


@pytest.mark.slow
def test_a_silent_cluster_is_reported() -> None:
    """Who takes connections and never answers is as far away as who takes none."""
    with socket.create_server((HOST, 0)) as mute:
        url = f"kafka://{HOST}:{mute.getsockname()[1]}/acls"
        done = aclog("acls", "--list", "--log", url)
    assert done.exit_code == 3, done.output
    assert url in done.stderr


@pytest.mark.long
@pytest.mark.slow
def test_a_start_that_the_cluster_refuses_fails(tmp_path: Path) -> None:
    """`serve` waits for a broker that is still starting, and not for a password to become right."""
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="admin" password="admin" user_admin="admin";'
        ),
        "super.users": "User:ANONYMOUS;User:admin",
    }
    config = tmp_path / "aclog.properties"
    config.write_text(
        "aclog.listeners=PLAINTEXT://127.0.0.1:0\naclog.kafka.security.protocol=sasl_plaintext\n"
        "aclog.kafka.sasl.mechanisms=PLAIN\naclog.kafka.sasl.username=admin\naclog.kafka.sasl.password=wrong\n"
    )
    with running_jvm(tmp_path / "kafka", settings) as (broker, _):
        url = f"kafka://{broker.bootstrap_servers}/acls"
        done = serve("--config", config, "--log", url)
    assert done.returncode == 2, done.stderr
    assert "check the user and password in aclog.kafka.sasl.username" in done.stderr


@pytest.mark.parametrize(
    ("args", "why"), [(("--log", "kafka://h/acls"), "HOST:PORT"), (("--log", "kraft://h"), "HOST:PORT")]
)
def test_a_start_with_contradicting_settings_fails(args: tuple[str, ...], why: str) -> None:
    """Before anybody is asked."""
    done = serve(*args)
    assert done.returncode == 2, done.stderr
    assert why in done.stderr


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("isolation.level=read_uncommitted", "isolation.level"),
        ("sasl.jaas.config=x required password=hunter2;", "Java JAAS configuration is not supported"),
        ("no.such.key=1", "no.such.key"),
    ],
)
def test_an_invalid_client_setting_is_reported(
    broker: Broker, setting: str, why: str, tmp_path: Path
) -> None:
    """Wrong usage that names the key; no secret is printed, not even with a traceback."""
    config = tmp_path / "aclog.properties"
    config.write_text(f"aclog.kafka.{setting}\n")
    done = aclog("--debug", "acls", "--list", "--log", new_topic(broker), "--config", config)
    assert done.exit_code == 2, done.output
    assert why in done.stderr
    assert "hunter2" not in done.output
