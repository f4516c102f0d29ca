"""Topics made and written by others than aclog, and threads that write through a node, on real brokers."""

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
from support.node_acls import may, topic_acl
from support.nodes import SOON_S, create, delete
from support.topic_checker import CODEC
from support.waiting import wait_until


def unique_topic(name: str) -> str:
    """A name that no other test, and no earlier run on the same cluster, has used."""
    return f"aclog-{name}-{uuid.uuid4().hex[:8]}"


@functools.cache
def admin(bootstrap_servers: str) -> AdminClient:
    """One for each cluster: a client that nobody holds ends, and its futures fail."""
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def raw_topic(bootstrap_servers: str, name: str, config: Mapping[str, str] | None = None) -> str:
    """Create a compacted topic, else with Kafka's defaults and this config; returns its URL as a log."""
    topic = NewTopic(
        name, num_partitions=1, replication_factor=1, config={"cleanup.policy": "compact", **(config or {})}
    )
    client = admin(bootstrap_servers)
    client.create_topics([topic])[name].result()
    # The controller has it; a broker knows it a little later.
    wait_until(lambda: name in client.list_topics(timeout=5).topics, "the topic")
    return f"kafka://{bootstrap_servers}/{name}"


def record_of(binding: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord.from_binding(binding_uuid(binding), binding)


def key_of(record: AclRecord) -> bytes:
    return uuid_to_string(record.id).encode()


def produce_raw(bootstrap_servers: str, topic: str, records: list[AclRecord]) -> int:
    """Append without transactions or headers; returns the end offset."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 0})
    return produced(producer, topic, [(key_of(record), CODEC.encode(record)) for record in records])


def produced(
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
class Told:
    """What one writing thread was told: ``there`` and ``gone`` are sure, ``unknown`` is not."""

    there: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    acknowledged: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def writing(node: Node, label: str, *, seed: int) -> Iterator[Told]:
    """One thread creates and removes ACLs on topics of its own, `label-NUMBER`, until the end of the block.

    A failing operation leaves its name unknown, and the thread goes on with others.
    """
    told = Told()
    done = threading.Event()

    def attempt(name: str, operation: Callable[..., object], *args: object) -> bool:
        try:
            operation(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is: nobody knows what became of it
            told.unknown.add(name)
            told.failures.append(str(error))
            done.wait(0.05)
            return False
        told.acknowledged += 1
        return True

    def write() -> None:
        rng = random.Random(seed)
        number = 0
        while not done.is_set():
            if told.there and rng.random() < 0.4:
                name = rng.choice(sorted(told.there))
                told.there.discard(name)
                if attempt(name, delete, node, name):
                    told.gone.add(name)
                    assert not may(node.authorizer, name)
            else:
                name = f"{label}-{number}"
                number += 1
                if attempt(name, create, node, [topic_acl(name)]):
                    told.there.add(name)
                    assert may(node.authorizer, name)

    failed: list[BaseException] = []

    def run() -> None:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    thread = threading.Thread(target=run, name=f"write-{label}", daemon=True)
    thread.start()
    try:
        yield told
    finally:
        done.set()
        thread.join(SOON_S)
    assert not thread.is_alive()
    assert failed == []
