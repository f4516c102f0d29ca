"""Decision events of a real `aclog serve`: in files, on stdout, on a real broker that dies and comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from records.log.directory import DirectoryLog
from support.cloud_events import cloud_event
from support.data import real_log
from support.kafka_broker import HOST, Broker, free_ports
from support.kafka_cluster import kafka_cluster
from support.nodes import SOON_S
from support.topic_nodes import raw_topic, unique_topic
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
LOG = str(real_log("kraft-small"))
TIMEOUT_S = 60.0
#: No file grows beyond some blocks: what writing meets on a full disk.
LITTLE_ROOM = ["sh", "-c", 'ulimit -f 8 && exec "$@"', "sh"]

_numbers = count()


class Served:
    """A process that serves, and a client of it."""

    def __init__(self, process: subprocess.Popen[str], client: httpx.Client) -> None:
        self.process = process
        self.client = client

    def ask(self, *names: str, principal: str = "alice", **headers: str) -> list[bool]:
        """Whether `User:alice` may read each of them, in one request."""
        evaluations = [evaluation(name, principal) for name in names]
        answer = self.client.post(
            "/access/v1/evaluations", json={"evaluations": evaluations}, headers=headers
        )
        answer.raise_for_status()
        return [each["decision"] for each in answer.json()["evaluations"]]

    def metric(self, name: str, **labels: str) -> float:
        for family in text_string_to_metric_families(self.client.get("/metrics").text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        pytest.fail(f"no {name} {labels}")

    def end(self) -> str:
        """By a signal, and cleanly; what it wrote on stdout."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0
        return out


def evaluation(topic: str, principal: str = "alice") -> dict[str, Any]:
    return {
        "subject": {"type": "User", "id": principal},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": topic},
        "context": {"host": "10.0.0.1"},
    }


@contextmanager
def serving(
    tmp_path: Path, settings: Mapping[str, object], *, log: str = LOG, before: Sequence[str] = ()
) -> Iterator[Served]:
    """Ready; its log lines are in a file."""
    number = next(_numbers)
    config = tmp_path / f"{number}.properties"
    lines = {"super.users": "User:ANONYMOUS", "aclog.listeners": "PLAINTEXT://127.0.0.1:0", **settings}
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    stderr_file = tmp_path / f"{number}.log"
    command = [sys.executable, "-m", "authorizer.cli", "serve", "--config", str(config), "--log", log]
    with stderr_file.open("w") as stderr:
        process = subprocess.Popen(
            [*before, *command], stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT
        )
    try:
        urls: list[str] = []

        def listens() -> bool:
            assert process.poll() is None, stderr_file.read_text()
            events = [json.loads(line) for line in stderr_file.read_text().splitlines() if line.endswith("}")]
            urls.extend(url for event in events if event["event"] == "listening" for url in event["urls"])
            return bool(urls)

        wait_until(listens, "the sidecar")
        with httpx.Client(base_url=urls[0], timeout=TIMEOUT_S) as client:
            wait_until(lambda: client.get("/readyz").status_code == 200, "readiness")
            yield Served(process, client)
    finally:
        process.kill()
        process.communicate()


def events_in(*files: Path) -> list[dict[str, Any]]:
    """All of them, each a CloudEvent."""
    return [cloud_event(line) for file in files for line in file.read_bytes().splitlines()]


def names(events: Sequence[Mapping[str, Any]]) -> list[str]:
    return [event["data"]["resource_name"] for event in events]


def test_files_are_rotated_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    settings = {
        "aclog.decision.log": f"file:{path}",
        "aclog.decision.log.file.max.bytes": 100_000,
        "aclog.decision.log.file.keep": 1000,
    }
    topics = [f"t{number}" for number in range(3000)]
    with serving(tmp_path, settings) as served:
        assert served.ask(*topics) == [False] * len(topics)
        assert served.ask("orders") == [True]
        served.end()
    files = sorted(tmp_path.glob("events.jsonl.*"), key=lambda each: -int(each.suffix[1:]))
    events = events_in(*files, path)
    assert names(events) == [*topics, "orders"]
    assert [event["id"].rpartition("-")[2] for event in events] == [str(n + 1) for n in range(3001)]
    assert len(files) > 5
    assert {event["data"]["result"] for event in events[:-1]} == {"DENIED"}
    assert events[-1]["data"]["acl"]["permissionType"] == "ALLOW"


def test_a_moved_file_is_created_again(tmp_path: Path) -> None:
    """As logrotate's default, without a signal to the process."""
    path, away = tmp_path / "events.jsonl", tmp_path / "events.jsonl-20261123"
    with serving(tmp_path, {"aclog.decision.log": f"file:{path}"}) as served:
        served.ask("a")
        wait_until(lambda: path.read_bytes().endswith(b"\n"), "the first event")
        path.rename(away)
        served.ask("b")
        wait_until(lambda: path.exists() and path.read_bytes().endswith(b"\n"), "the second event")
        served.end()
    assert (names(events_in(away)), names(events_in(path))) == (["a"], ["b"])


def test_events_of_protocol_and_application_name_caller_and_request(tmp_path: Path) -> None:
    """The protocol answers one request, the application a batch of 101."""
    path = tmp_path / "events.jsonl"
    with serving(tmp_path, {"aclog.decision.log": f"file:{path}"}) as served:
        served.client.post("/access/v1/evaluation", json=evaluation("a"), headers={"x-request-id": "r1"})
        served.client.post("/access/v1/evaluation", json=evaluation("b"))
        for _ in range(3):  # a head that comes again is not parsed again
            served.client.post("/access/v1/evaluation", json=evaluation("e"), headers={"x-request-id": "r5"})
        served.ask(*["c"] * 101, **{"x-request-id": "r3"})
        body = {"principal": "User:alice", "operation": "READ", "resourceType": "TOPIC", "host": "10.0.0.1"}
        served.client.post(
            "/v1/filter", json={**body, "resourceNames": ["d"]}, headers={"x-request-id": "r4"}
        ).raise_for_status()
        served.end()
    found = {
        (event["data"]["resource_name"], event["data"]["request"], event["data"].get("request_id"))
        for event in events_in(path)
    }
    # What is only looked for (/v1/filter) is at TRACE.
    assert found == {
        ("a", "AuthZenEvaluation", "r1"),
        ("b", "AuthZenEvaluation", None),
        ("c", "AuthZenEvaluations", "r3"),
        ("e", "AuthZenEvaluation", "r5"),
    }
    assert {event["data"]["caller"] for event in events_in(path)} == {"User:ANONYMOUS"}
    assert {event["data"]["caller_host"] for event in events_in(path)} == {"127.0.0.1"}


def test_no_event_contains_a_token(tmp_path: Path) -> None:
    """Nor in the lines of the log."""
    path, tokens = tmp_path / "events.jsonl", tmp_path / "tokens"
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "authorizer.cli",
            "token",
            "create",
            "--file",
            tokens,
            "--principal",
            "User:gateway",
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    token = made.stdout.split()[-1]
    settings = {
        "aclog.decision.log": f"file:{path}",
        "aclog.decision.log.level": "TRACE",
        "aclog.audit.level": "TRACE",
        "aclog.auth.tokens.file": tokens,
        "aclog.describe.principals": "User:gateway",
    }
    with serving(tmp_path, settings) as served:
        served.ask("orders", Authorization=f"Bearer {token}")
        served.end()
    assert "User:gateway" in {event["data"]["caller"] for event in events_in(path)}
    secret = token.split("_", 2)[2]
    assert all(secret not in file.read_text() for file in tmp_path.glob("*.log"))
    assert secret not in path.read_text()


def test_stdout_has_only_events(tmp_path: Path) -> None:
    settings = {"aclog.decision.log": "stdout", "aclog.decision.log.rules": "drop resource_name=probe*"}
    with serving(tmp_path, settings) as served:
        served.ask("probe.1", "orders", "probe.2", "secret")
        wait_until(
            lambda: served.metric("aclog_decisions_without_event_total", why="dropped") == 2,
            "what is dropped",
        )
        out = served.end()
    assert names([cloud_event(line) for line in out.splitlines()]) == ["orders", "secret"]


def test_unread_events_are_dropped_and_counted_and_requests_answered(tmp_path: Path) -> None:
    """More than a pipe and the queue hold."""
    settings = {
        "aclog.decision.log": "stdout",
        "aclog.audit.level": "OFF",
        "aclog.audit.queue.max.lines": 200,
    }
    with serving(tmp_path, settings) as served:
        for _ in range(5):
            assert served.ask(*["orders"] * 1000) == [True] * 1000
        left_out = served.metric("aclog_decisions_without_event_total", why="lost")
        assert left_out > 3000
        # What is in the queue is lost after five seconds in which nothing was read.
        lost = "aclog_decision_events_lost_total"
        wait_until(lambda: served.metric(lost, destination="stdout") > 0, "a loss")
        assert served.ask("orders") == [True]
        out = served.end()
    logged = [json.loads(line) for log in tmp_path.glob("*.log") for line in log.read_text().splitlines()]
    events_lost = {
        each: sum(event["events"] for event in logged if event.get("destination") == each)
        for each in ("all", "stdout")
    }
    assert events_lost["all"] == left_out
    assert len(out.splitlines()) == 5001 - left_out - events_lost["stdout"]


def test_a_full_disk_stops_no_decision(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    name = f"file:{path}"
    settings = {"aclog.decision.log": name, "aclog.audit.level": "OFF"}
    with serving(tmp_path, settings, before=LITTLE_ROOM) as served:
        assert served.ask(*["orders"] * 500) == [True] * 500
        wait_until(lambda: served.metric("aclog_decision_events_lost_total", destination=name) > 0, "a loss")
        assert served.ask("orders") == [True]
        served.end()
    events = events_in(path)
    assert 0 < len(events) < 501
    logged = [json.loads(line) for log in tmp_path.glob("*.log") for line in log.read_text().splitlines()]
    lost = [event for event in logged if event["event"] == "decision_events_lost"]
    assert sum(event["events"] for event in lost) == 501 - len(events)
    assert {(event["destination"], event["reason"]) for event in lost} == {(name, "File too large")}


def test_without_a_queue_the_event_is_written_before_the_answer(tmp_path: Path) -> None:
    """Killed right after the answer, a node has left it."""
    path = tmp_path / "events.jsonl"
    settings = {"aclog.decision.log": f"file:{path}", "aclog.audit.queue.max.lines": 0}
    with serving(tmp_path, settings) as served:
        served.ask("orders")
        served.process.kill()
    assert names(events_in(path)) == ["orders"]


def test_repeated_events_are_folded(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    settings = {"aclog.decision.log": f"file:{path}", "aclog.decision.log.fold.ms": 60_000}
    with serving(tmp_path, settings) as served:
        for _ in range(3):
            served.ask("orders", "secret")
        wait_until(
            lambda: served.metric("aclog_decisions_without_event_total", why="folded") == 4, "what is folded"
        )
        served.end()
    events = events_in(path)
    assert sorted((event["data"]["resource_name"], event["data"]["count"]) for event in events) == [
        ("orders", 3),
        ("secret", 3),
    ]
    assert all(event["time"] < event["data"]["last_time"] for event in events)


def test_each_worker_has_a_file_and_counts_are_added_up(tmp_path: Path) -> None:
    name = f"file:{tmp_path}/events.jsonl"
    topics = [f"t{number}" for number in range(40)]
    with serving(tmp_path, {"aclog.decision.log": name, "aclog.workers": 2}) as served:
        for each in topics:
            # On a connection of its own: the kernel gives them to either.
            answer = httpx.post(f"{served.client.base_url}/access/v1/evaluation", json=evaluation(each))
            answer.raise_for_status()
        written = "aclog_decision_events_written_total"
        wait_until(lambda: served.metric(written, destination=name) == len(topics), "all events")
        served.end()
    files = [tmp_path / f"events-{number}.jsonl" for number in range(2)]
    assert sorted(names(events_in(*files))) == sorted(topics)
    assert all(file.stat().st_size for file in files)
    assert not (tmp_path / "events.jsonl").exists()


def test_a_file_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "authorizer.cli", "serve", "--log", LOG],
        env={**os.environ, "ACLOG_DECISION_LOG": f"file:{tmp_path}"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert "aclog.decision.log" in done.stderr
    assert "Is a directory" in done.stderr


def messages_of(bootstrap_servers: str, topic: str, wanted: int) -> list[Message]:
    """The first of a topic with one partition; fewer if no more come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "events",
            "enable.auto.commit": False,
            "log_level": 0,
            "allow.auto.create.topics": False,
        }
    )
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + SOON_S
        while len(found) < wanted and time.monotonic() < deadline:
            found += [message for message in consumer.consume(500, 0.5) if message.error() is None]
    finally:
        consumer.close()
    return found


@pytest.mark.integration
def test_events_are_sent_to_a_topic_and_a_file_together(broker: Broker, tmp_path: Path) -> None:
    """What a consumer reads is what the file has, with CloudEvents' content type."""
    log, events = unique_topic("log"), unique_topic("events")
    url = raw_topic(broker.bootstrap_servers, log)
    raw_topic(broker.bootstrap_servers, events, {"cleanup.policy": "delete"})
    path = tmp_path / "events.jsonl"
    name = f"kafka:{events}"
    with serving(tmp_path, {"aclog.decision.log": f"{name};file:{path}"}, log=url) as served:
        topics = [f"t{number}" for number in range(1000)]
        served.ask(*topics)
        wait_until(
            lambda: served.metric("aclog_decision_events_written_total", destination=name) == 1000, "events"
        )
        served.ask("last")
        served.end()
    messages = messages_of(broker.bootstrap_servers, events, 1001)
    values = [message.value() for message in messages]
    assert values == path.read_bytes().splitlines()
    assert names(list(map(cloud_event, filter(None, values)))) == [*topics, "last"]
    headers = [message.headers() for message in messages]
    assert headers == [[("content-type", b"application/cloudevents+json; charset=UTF-8")]] * 1001


@pytest.mark.integration
@pytest.mark.slow
def test_a_missing_topic_is_not_created_and_dropped_events_are_reported(
    broker: Broker, tmp_path: Path
) -> None:
    name = f"kafka://{broker.bootstrap_servers}/{unique_topic('missing')}"
    settings = {
        "aclog.decision.log": name,
        "aclog.decision.log.kafka.topic.metadata.propagation.max.ms": 100,
    }
    with serving(tmp_path, settings) as served:
        served.ask("orders")
        wait_until(lambda: served.metric("aclog_decision_events_lost_total", destination=name) == 1, "a loss")
        served.end()
    logged = "".join(log.read_text() for log in tmp_path.glob("*.log"))
    assert "Unknown topic" in logged


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.slow
def test_requests_are_answered_with_bounded_memory_while_the_broker_is_down(tmp_path: Path) -> None:
    """Killed and started again: what fits waits and arrives, once or more; the rest is counted."""
    with kafka_cluster(brokers=1) as cluster:
        topic = unique_topic("events")
        cluster.create_topic(topic, [1], {})
        name = f"kafka://{cluster.bootstrap_servers}/{topic}"
        settings = {
            "aclog.decision.log": name,
            "aclog.decision.log.kafka.queue.buffering.max.messages": 1000,
            "aclog.audit.level": "OFF",
        }
        with serving(tmp_path, settings) as served:
            served.ask("before")
            written = "aclog_decision_events_written_total"
            wait_until(lambda: served.metric(written, destination=name) == 1, "the first event")
            cluster.kill(1)
            for _ in range(3):
                assert served.ask(*["meanwhile"] * 1000) == [False] * 1000
            lost = "aclog_decision_events_lost_total"
            wait_until(lambda: served.metric(lost, destination=name) == 2000, "what does not fit")
            before_bytes = served.metric("process_resident_memory_bytes")
            for _ in range(10):
                served.ask(*["meanwhile"] * 1000)
            wait_until(lambda: served.metric(lost, destination=name) == 12_000, "what does not fit")
            assert served.metric("process_resident_memory_bytes") - before_bytes < 16 * 1024 * 1024
            cluster.start(1)
            cluster.wait_for_brokers()
            wait_until(lambda: served.metric(written, destination=name) == 1001, "what waited")
            served.ask("after")
            wait_until(lambda: served.metric(written, destination=name) >= 1002, "the last event")
            served.end()
        events = [
            cloud_event(message.value() or b"")
            for message in messages_of(cluster.bootstrap_servers, topic, 1002)
        ]
    by_id = {event["id"]: event for event in events}
    assert names(list(by_id.values())) == ["before", *["meanwhile"] * 1000, "after"]
    logged = "".join(log.read_text() for log in tmp_path.glob("*.log"))
    assert "the client's queue is full" in logged
    assert "brokers are down" in logged or "Connection refused" in logged


@pytest.mark.slow
def test_the_shutdown_does_not_wait_long_for_a_missing_broker(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    name = f"kafka://{HOST}:{port}/events"
    with serving(tmp_path, {"aclog.decision.log": name}) as served:
        served.ask("orders")
        began_s = time.monotonic()
        served.end()
        assert time.monotonic() - began_s < SOON_S
    logged = [json.loads(line) for log in tmp_path.glob("*.log") for line in log.read_text().splitlines()]
    (lost,) = [event for event in logged if event["event"] == "decision_events_lost"]
    assert (lost["events"], lost["destination"]) == (1, name)


def test_the_quickstarts_example_writes_events(tmp_path: Path) -> None:
    """A log that aclog itself writes, too."""
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    path = tmp_path / "events.jsonl"
    with serving(tmp_path, {"aclog.decision.log": f"file:{path}"}, log=str(tmp_path / "log")) as served:
        served.ask("orders")
        served.end()
    (event,) = events_in(path)
    assert (event["data"]["rule"], event["data"]["offset"]) == ("DefaultDeny", 0)
