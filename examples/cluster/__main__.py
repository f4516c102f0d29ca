"""What happens to a fleet of nodes, printed as it happens; ends by itself, with exit code 0 if all is well.

    three brokers from the jars   one topic, three copies, two of which must have a write
    aclog-1, aclog-2              `aclog serve`, sharing a snapshot store
    this process                  a third node, which writes

It takes about a minute and 2 GB of memory; everything is in a temporary directory, and gone afterwards. A
signal (SIGINT, SIGTERM, SIGHUP) ends it early, in order; if it is killed, its processes end with it.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from authorizer.api import RequestContext
from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.node import Node
from examples.cluster import ROOT
from examples.cluster.serving import ServingNode
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.principal import ANONYMOUS
from support.kafka_cluster import KafkaCluster, kafka_cluster
from support.waiting import wait_until

if TYPE_CHECKING:
    from types import FrameType

TOPIC = "acls"
FIRST_WRITES = 20
WRITES_WHILE_AWAY = 20
#: How long is written while a broker is down.
OUTAGE_S = 6.0
WRITE_TIMEOUT_S = 40.0
CATCH_UP_S = 30.0
_CONTEXT = RequestContext(ANONYMOUS, "127.0.0.1")


class Story:
    """The cluster, the nodes, and what was found not to be as it should be.

    Attributes:
        wrong: what differs, in words; empty if all is well.
    """

    def __init__(self, home: Path, cluster: KafkaCluster, stack: ExitStack) -> None:
        self.wrong: list[str] = []
        self._cluster = cluster
        self._url = f"kafka://{cluster.bootstrap_servers}/{TOPIC}"
        self._store = home / "snapshots"
        self._environment = {
            "PATH": os.environ["PATH"],
            "ACLOG_LOG_URL": self._url,
            "ACLOG_SNAPSHOT_STORE": str(self._store),
            "ACLOG_SNAPSHOT_MAX_AGE_MS": "2000",
            "ACLOG_DESCRIBE_PRINCIPALS": "User:ANONYMOUS",
        }
        self._nodes = [ServingNode(name, home, self._environment) for name in ("aclog-1", "aclog-2")]
        for node in self._nodes:
            stack.callback(node.close)
        self._stack = stack
        # Users that may read the topic of their own name, as acknowledged.
        self._readers: list[str] = []
        self._removed: list[str] = []

    def print(self) -> None:
        self._create()
        self._start()
        self._write_and_ask()
        self._lose_the_leader()
        self._lose_a_node()
        self._remove()
        self._compare()

    def _create(self) -> None:
        say(f"Three brokers are up: {self._cluster.bootstrap_servers}. A topic for the log:")
        self._run("log", "create", "--log", self._url)

    def _start(self) -> None:
        say("Two nodes start: `aclog serve`. This process is a third one, and writes.")
        for node in self._nodes:
            node.start()
        config = load_config(environ={}, flags={"aclog.log.url": self._url})
        self._writer = self._stack.enter_context(Node.open(config))
        self._writer.start()
        self._writer.wait_until_ready(60)
        for node in self._nodes:
            node.wait_until_ready()
            detail(f"{node.name} is ready at {node.url}")

    def _write_and_ask(self) -> None:
        say(f"{FIRST_WRITES} ACLs are written one by one; both nodes are queried about each immediately:")
        took_ms = []
        for number in range(FIRST_WRITES):
            began = time.perf_counter()
            self._add(f"first-{number}")
            for node in self._nodes:
                self._expect(node, f"first-{number}", min_offset=self._writer.status().end_offset)
            took_ms.append((time.perf_counter() - began) * 1000)
        detail(
            f"from the call to both nodes' answers: {statistics.median(took_ms):.0f} ms (median), "
            f"{max(took_ms):.0f} ms (slowest)"
        )

    def _lose_the_leader(self) -> None:
        leader = self._cluster.leader(TOPIC)
        assert leader is not None
        say(f"Broker {leader} leads the topic. kill -9, and writing goes on:")
        stop_probing = threading.Event()
        answered = [0, 0]
        prober = threading.Thread(target=self._probe_until, args=(stop_probing, answered))
        prober.start()
        self._cluster.kill(leader)
        killed_s = time.monotonic()
        longest_s, failed, number = 0.0, 0, 0
        try:
            while time.monotonic() < killed_s + OUTAGE_S or not number:
                began = time.monotonic()
                if self._try_to_add(f"outage-{number}"):
                    number += 1
                else:
                    failed += 1
                longest_s = max(longest_s, time.monotonic() - began)
        finally:
            stop_probing.set()
            prober.join()
        detail(
            f"{number} ACLs acknowledged, {failed} writes failed and said so; "
            f"the longest took {longest_s:.1f} s"
        )
        detail(f"meanwhile both nodes answered {answered[0]} requests, and failed to answer {answered[1]}")
        if answered[1]:
            self.wrong.append(f"{answered[1]} requests were not answered while a broker was down")
        self._expect_all("after the election")
        self._cluster.start(leader)
        self._cluster.wait_for_brokers()
        detail(f"broker {leader} is back")

    def _lose_a_node(self) -> None:
        node = self._nodes[1]
        say(f"kill -9 of {node.name}; {WRITES_WHILE_AWAY} more ACLs; then it starts again, from the store:")
        wait_until(lambda: self._nodes[0].metric("aclog_snapshots_written_total") > 0, "a snapshot")
        node.kill()
        for number in range(WRITES_WHILE_AWAY):
            self._add(f"away-{number}")
        began = time.perf_counter()
        node.start()
        node.wait_until_ready()
        took_s = time.perf_counter() - began
        loaded = node.metric("aclog_snapshots_loaded_total")
        detail(f"ready after {took_s:.1f} s; snapshots it began at: {loaded:.0f}")
        if loaded != 1:
            self.wrong.append(f"{node.name} did not begin at a snapshot")
        self._expect_all("after the start")

    def _remove(self) -> None:
        say("Some of the ACLs are removed again:")
        removed = self._readers[::3]
        for name in removed:
            pattern = ResourcePatternFilter(ResourceType.TOPIC, name, PatternType.LITERAL)
            [removal] = self._writer.authorizer.delete_acls(_CONTEXT, [AclBindingFilter(pattern)])
            if (error := removal.result(WRITE_TIMEOUT_S).exception) is not None:
                raise error
        self._readers = [name for name in self._readers if name not in removed]
        self._removed += removed
        detail(f"{len(removed)} removed, {len(self._readers)} left")
        self._expect_all("after the removals")

    def _compare(self) -> None:
        say("Do all of them hold the same?")
        end_offset = self._writer.status().end_offset
        wait_until(
            lambda: all(node.state()["offset"] >= end_offset for node in self._nodes),
            "both nodes",
            timeout_s=CATCH_UP_S,
        )
        ours = self._writer.status()
        detail(f"this one: offset {ours.end_offset}, {ours.acl_count} ACLs, digest {ours.digest}")
        for node in self._nodes:
            state = node.state()
            detail(
                f"{node.name}: offset {state['offset']}, {state['acl_count']} ACLs, digest {state['digest']}"
            )
            if (state["acl_count"], state["digest"]) != (ours.acl_count, ours.digest):
                self.wrong.append(f"{node.name} has another state than this process")
        comparisons = [word for node in self._nodes for word in ("--with", node.url)]
        self._run("log", "verify", "--log", self._url, *comparisons, "--with", str(self._store))

    # --- what the steps are made of ------------------------------------------------------------------------

    def _add(self, name: str) -> None:
        """User NAME may read topic NAME; returns when it is acknowledged."""
        binding = AclBinding(
            ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL),
            AccessControlEntry(f"User:{name}", "*", AclOperation.READ, AclPermissionType.ALLOW),
        )
        [creation] = self._writer.authorizer.create_acls(_CONTEXT, [binding])
        if (error := creation.result(WRITE_TIMEOUT_S).exception) is not None:
            raise error
        self._readers.append(name)

    def _try_to_add(self, name: str) -> bool:
        try:
            self._add(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
            detail(f"not acknowledged: {error}")
            return False
        return True

    def _expect(self, node: ServingNode, name: str, *, min_offset: int) -> None:
        allowed, _ = node.may_read(name, name, min_offset=min_offset)
        if not allowed:
            self.wrong.append(f"{node.name} denied {name} what was acknowledged before")

    def _expect_all(self, when: str) -> None:
        """Every acknowledged ACL is in force at every node, and no removed one is."""
        end_offset = self._writer.status().end_offset
        names = [*self._readers, *self._removed]
        for node in self._nodes:
            answers = node.may_read_all([(name, name) for name in names], min_offset=end_offset)
            for name, (allowed, offset) in zip(names, answers, strict=True):
                if allowed != (name in self._readers):
                    self.wrong.append(f"{when}, {node.name} decided wrongly about {name} at offset {offset}")
            detail(f"{node.name}: {len(names)} decisions as acknowledged, at offset {answers[0][1]}")

    def _probe_until(self, stopped: threading.Event, answered: list[int]) -> None:
        """Count the answers to one request, and the failures."""
        while not stopped.is_set():
            for node in self._nodes:
                try:
                    node.may_read("first-0", "first-0")
                    answered[0] += 1
                except Exception:  # noqa: BLE001 - counted
                    answered[1] += 1
            stopped.wait(0.02)

    def _run(self, *arguments: str) -> None:
        """An aclog command, shown with its output."""
        detail(f"$ aclog {' '.join(arguments)}")
        done = subprocess.run(
            [sys.executable, "-m", "authorizer.cli", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        for line in (done.stdout + done.stderr).splitlines():
            detail(line)
        if done.returncode:
            self.wrong.append(f"aclog {arguments[0]} {arguments[1]} ended with exit code {done.returncode}")


def say(text: str) -> None:
    print(f"\n==> {text}", flush=True)


def detail(text: str) -> None:
    print(f"    {text}", flush=True)


def end_in_order_at_signals() -> None:
    """A signal becomes an exception, which closes everything; one that comes meanwhile changes nothing."""
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
    ]

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in numbers:
        signal.signal(number, end)


def main() -> int:
    end_in_order_at_signals()
    setup_logging("console", "ERROR")
    say("Three brokers and a controller start from Kafka's jars.")
    with (
        tempfile.TemporaryDirectory(prefix="aclog-example-", ignore_cleanup_errors=True) as home,
        kafka_cluster(dies_with_parent=True) as cluster,
        ExitStack() as stack,
    ):
        story = Story(Path(home), cluster, stack)
        story.print()
        say("That was it." if not story.wrong else "Not as it should be:")
        for wrong in story.wrong:
            detail(wrong)
        if not story.wrong:
            detail("nothing acknowledged was lost, nothing removed came back, all nodes agree")
    return 1 if story.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
