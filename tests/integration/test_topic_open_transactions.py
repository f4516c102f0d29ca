"""A transaction that another program leaves open, in a topic in which an earlier one lost its last message.

Compaction takes the last message of a transaction once its key is written again. A reader then cannot tell
whether the rest of it is still to come, behind the last stable offset, before that moves on.
"""

from __future__ import annotations

import json
import re
import shlex
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer

from authorizer.cli.main import cli
from records.log.topic import TopicLog
from support.kafka_broker import Broker
from support.kafka_tools import run_java
from support.node_acls import may, topic_acl
from support.nodes import SOON_S, running_node, sidecar_of
from support.topic_checker import CODEC
from support.topic_nodes import key_of, produce, raw_topic, record_of, unique_topic
from support.topic_operator import transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

COMPACTS_AT_ONCE = {"segment.ms": "300", "min.cleanable.dirty.ratio": "0.0", "max.compaction.lag.ms": "1200"}
TRANSACTIONS_TOOL = "org.apache.kafka.tools.TransactionsCommand"
#: Far more than a command waits for a transaction, and far less than one lasts that nobody ends.
ANSWERED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A topic with two ACLs, ``first`` and ``again``, and a transaction that is open."""

    broker: Broker
    url: str
    topic: str
    producer: Producer
    opened_at_s: float

    def assert_explained(self, text: str) -> None:
        """That a transaction is open, whose, since when, and the command that ends it."""
        since = re.search(r"transaction is open since (\S+), from offset (\d+) on", text)
        assert since, text
        assert abs(datetime.fromisoformat(since[1]).timestamp() - self.opened_at_s) < SOON_S
        assert f"It is that of transactional id 'left open in {self.topic}-" in text
        assert "or with its timeout of 60 s" in text
        assert f"--bootstrap-server {self.broker.bootstrap_servers} " in text


@pytest.fixture
def held_up(broker: Broker) -> HeldUp:
    servers, topic = broker.bootstrap_servers, unique_topic("held-up")
    url = raw_topic(servers, topic, COMPACTS_AT_ONCE)
    first, again = record_of(topic_acl("first")), record_of(topic_acl("again"))
    with TopicLog.open(url, mode="write") as log:
        log.append([first, again])

        def is_compacted() -> bool:
            log.append([again])  # segments end when something is appended
            with TopicLog.open(url) as reader:
                return [logged.offset for batch in reader.read(0) for logged in batch.records][:2] != [0, 1]

        wait_until(is_compacted, "the cleaner")
    producer = transactional(broker, f"left open in {topic}")
    opened_at_s = time.time()
    producer.begin_transaction()
    late = record_of(topic_acl("late"))
    produce(producer, topic, [(key_of(late), CODEC.encode(late))])
    return HeldUp(broker, url, topic, producer, opened_at_s)


def aclog(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


COMMANDS = [
    ("acls", "--list"),
    ("acls", "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"),
    ("log", "verify"),
    ("log", "dump"),
    ("check", "--principal", "User:a", "--operation", "Read", "--topic", "t"),
]


@pytest.mark.long
def test_commands_wait_and_then_name_the_open_transaction(held_up: HeldUp) -> None:
    """Not bad data: exit code 3 in bounded time, and what was asked for is there once it has ended."""
    for command in COMMANDS:
        began_s = time.monotonic()
        done = aclog(*command, "--log", held_up.url)
        assert time.monotonic() - began_s < ANSWERED_WITHIN_S
        assert (done.exit_code, done.stdout) == (3, ""), done.output
        held_up.assert_explained(done.stderr)
    held_up.producer.commit_transaction(SOON_S)
    listed = aclog("acls", "--list", "--log", held_up.url)
    assert listed.exit_code == 0, listed.output
    assert "name=late" in listed.stdout


def test_a_command_continues_when_the_transaction_ends(held_up: HeldUp) -> None:
    """A command waits silently for a short transaction."""
    with running_node(held_up.url, log_mode="read", ready=False) as node:
        assert not node.wait_until_ready(1)
        held_up.producer.abort_transaction(SOON_S)
        assert node.wait_until_ready(SOON_S)
        assert may(node.authorizer, "first")
        assert not may(node.authorizer, "late")


@pytest.mark.parametrize("way", ["abort", "forceTerminateTransaction"])
def test_the_printed_command_ends_the_transaction(held_up: HeldUp, way: str) -> None:
    """As it is, with its arguments."""
    stderr = aclog("acls", "--list", "--log", held_up.url).stderr
    (command,) = re.findall(rf"`kafka-transactions\.sh ([^`]* {way} [^`]*)`", stderr)
    run_java(TRANSACTIONS_TOOL, *shlex.split(command))
    listed = aclog("acls", "--list", "--log", held_up.url)
    assert listed.exit_code == 0, listed.output
    assert "name=late" not in listed.stdout


def test_a_starting_node_names_the_transaction_that_it_waits_for(held_up: HeldUp) -> None:
    """Its state, /readyz and every answer of its sidecar; and it is ready soon after the end."""

    def not_ready(url: str, body: bytes | None = None) -> str:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}))
        assert refused.value.code == 503
        return refused.value.read().decode()

    with running_node(held_up.url, log_mode="read", ready=False) as node, sidecar_of(node) as url:
        wait_until(lambda: "transaction" in (node.status().not_ready_reason or ""), "the reason")
        held_up.assert_explained(node.status().not_ready_reason or "")
        held_up.assert_explained(json.loads(not_ready(f"{url}/readyz"))["reason"])
        question = {
            "subject": {"type": "user", "id": "a"},
            "action": {"name": "Read"},
            "resource": {"type": "topic", "id": "t"},
        }
        held_up.assert_explained(not_ready(f"{url}/access/v1/evaluation", json.dumps(question).encode()))
        held_up.producer.commit_transaction(SOON_S)
        assert node.wait_until_ready(SOON_S)
        assert may(node.authorizer, "late")


def test_an_addition_behind_an_open_transaction_is_reported(broker: Broker) -> None:
    """Nothing is held back, and a transaction is open: the ACL is written, and shows when that ends."""
    topic = unique_topic("behind")
    url = raw_topic(broker.bootstrap_servers, topic)
    producer = transactional(broker, "left-open")
    producer.begin_transaction()
    late = record_of(topic_acl("late"))
    produce(producer, topic, [(key_of(late), CODEC.encode(late))])
    added = aclog(*COMMANDS[1], "--log", url)
    assert added.exit_code == 0, added.output
    assert "the change is written, but readers cannot see it yet: a transaction is open since" in added.stderr
    producer.abort_transaction(SOON_S)
    wait_until(lambda: "User:a" in aclog("acls", "--list", "--log", url).stdout, "the ACL")
