"""Topics that other programs create and write, and threads that write through a node, on real brokers."""

from __future__ import annotations

import functools
import random
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.node.node import Node
from records.acl import AclBinding
from records.entries import AccessControlEntryRecord, AclRecord
from records.ids import binding_uuid, uuid_to_string
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.jobs.sources.logs import FollowedLog, TopicsPattern
from support.node_acls import may, topic_acl
from support.nodes import SOON_S, create, delete
from support.topic_checker import CODEC
from support.waiting import wait_until


def unique_topic(name: str) -> str:
    """A name that no other test, and no earlier run on the same cluster, has used."""
    return f"aclog-{name}-{uuid.uuid4().hex[:8]}"


@functools.cache
def admin(bootstrap_servers: str) -> AdminClient:
    """One cached client for each cluster: the futures of a client that is garbage-collected fail."""
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def raw_topic(bootstrap_servers: str, name: str, config: Mapping[str, str] | None = None) -> str:
    """Create a compacted topic, else with Kafka's defaults and this config; returns its URL as a log."""
    topic = NewTopic(
        name, num_partitions=1, replication_factor=1, config={"cleanup.policy": "compact", **(config or {})}
    )
    client = admin(bootstrap_servers)
    client.create_topics([topic])[name].result()
    # A broker learns of the topic after the controller.
    wait_until(lambda: name in client.list_topics(timeout=5).topics, "the topic")
    return f"kafka://{bootstrap_servers}/{name}"


def pattern_logs(bootstrap_servers: str, regex: str) -> list[FollowedLog]:
    """The logs of all topics that match."""
    pattern = TopicsPattern(bootstrap_servers, regex)
    return pattern.resolve(pattern.names(), LogFailures(is_collecting=False))


def record_of(binding: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord.from_binding(binding_uuid(binding), binding)


def key_of(record: AclRecord) -> bytes:
    return uuid_to_string(record.id).encode()


def produce_raw(bootstrap_servers: str, topic: str, records: list[AclRecord]) -> int:
    """Append without transactions or headers; returns the end offset."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 0})
    return produce(producer, topic, [(key_of(record), CODEC.encode(record)) for record in records])


def produce(
    producer: Producer,
    topic: str,
    messages: list[tuple[bytes | None, bytes | None]],
    headers: list[tuple[str, str | bytes | None]] | None = None,
) -> int:
    """Send these (key, value), wait for all of them; returns the last one's offset + 1."""
    ends: list[int] = []

    def delivered(error: object, message: object) -> None:
        assert error is None, error
        ends.append(message.offset() + 1)  # type: ignore[attr-defined]

    for key, value in messages:
        while True:
            try:
                producer.produce(
                    topic, key=key, value=value, headers=headers, partition=0, on_delivery=delivered
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(SOON_S) == 0
    return max(ends)


@dataclass(slots=True)
class WriteOutcomes:
    """Outcomes of one writing thread: ``present`` and ``removed`` were acknowledged, ``unknown`` were not."""

    present: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    acknowledged: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def writing(node: Node, label: str, *, seed: int) -> Iterator[WriteOutcomes]:
    """A thread creates and removes ACLs on its own topics, `label-NUMBER`, until the end of the block.

    After a failed operation its name is in ``unknown``, and the thread continues with others.
    """
    outcomes = WriteOutcomes()
    done = threading.Event()

    def attempt(name: str, operation: Callable[..., object], *args: object) -> bool:
        try:
            operation(*args)
        except Exception as error:  # noqa: BLE001 - after any error the outcome is unknown
            outcomes.unknown.add(name)
            outcomes.failures.append(str(error))
            done.wait(0.05)
            return False
        outcomes.acknowledged += 1
        return True

    def write() -> None:
        rng = random.Random(seed)
        number = 0
        while not done.is_set():
            if outcomes.present and rng.random() < 0.4:
                name = rng.choice(sorted(outcomes.present))
                outcomes.present.discard(name)
                if attempt(name, delete, node, name):
                    outcomes.removed.add(name)
                    assert not may(node.authorizer, name)
            else:
                name = f"{label}-{number}"
                number += 1
                if attempt(name, create, node, [topic_acl(name)]):
                    outcomes.present.add(name)
                    assert may(node.authorizer, name)

    failed: list[BaseException] = []

    def run() -> None:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - checked below
            failed.append(error)

    thread = threading.Thread(target=run, name=f"write-{label}", daemon=True)
    thread.start()
    try:
        yield outcomes
    finally:
        done.set()
        thread.join(SOON_S)
    assert not thread.is_alive()
    assert failed == []
