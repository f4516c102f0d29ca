"""The cluster's metadata log, followed on real brokers: the delay of changes, and the cost of following.

Two clusters, one after the other: a broker that is its own controller, and a broker with three controllers,
all on this machine. Whatever another program takes of its cores is in what is measured by the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count, islice

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena
from benchmarks.cold_start import Started
from benchmarks.figures import Goal, Row, Spread, alternate, percentile
from benchmarks.process_tree import running
from benchmarks.quorum_follower import USER
from benchmarks.settings import progress
from benchmarks.stored import read_acls
from records.log.quorum import QuorumLog
from records.log_batch import LogBatch

#: In each round of what is measured once a change.
_CHANGES = 40
_SOON_S = 60.0
_FILLED_AT_ONCE = 500
#: So many ACLs in a request, and a second, where a cluster is under load.
_AT_ONCE = 50
_RATE = 1_000
_IDLE_ROUND_S = 10.0
# A snapshot is made after so many bytes for each ACL that the cluster is filled with, so that a new observer
# begins with one.
_SNAPSHOT_BYTES_AN_ACL = 20
_SEEN_GOALS = {50.0: Goal("at most", 2e6, of="ours"), 99.0: Goal("at most", 20e6, of="ours")}
_NUMBERS = count()


def measure(arena: Arena) -> Iterator[Row]:
    sys.path.insert(0, str(ROOT / "tests"))  # what starts brokers is the tests'
    from support.kafka_broker import jar_broker  # noqa: PLC0415
    from support.kafka_quorum import kafka_quorum  # noqa: PLC0415

    between = _SNAPSHOT_BYTES_AN_ACL * len(arena.ours.image)
    snapshots = {"metadata.log.max.record.bytes.between.snapshots": str(between)}
    with jar_broker(snapshots, users=(USER,)) as broker:
        url, consumer = f"kraft://{broker.controllers}", _consumer_of(broker.sasl_servers)
        cluster = _Cluster(arena, "one controller", broker.bootstrap_servers, url, consumer)
        filled = cluster.fill()
        yield from cluster.starts(filled)
        yield from cluster.changes()
        yield from cluster.costs()
    with kafka_quorum((USER,)) as quorum:
        url, consumer = f"kraft://{quorum.controllers}", _consumer_of(quorum.sasl_servers)
        cluster = _Cluster(arena, "three controllers", quorum.bootstrap_servers, url, consumer)
        yield from cluster.changes()
        yield from cluster.costs()

        for how, away, back in (
            ("killed", quorum.kill, quorum.start),
            ("that hangs", quorum.pause, quorum.resume),
        ):
            yield cluster.failover(how, quorum.leader, away, back)


class _Cluster:
    """One of the two, and what is measured on it."""

    def __init__(self, arena: Arena, name: str, servers: str, url: str, consumer: Consumer) -> None:
        """``consumer``: a client of the broker, as `USER`."""
        self._consumer = consumer
        self._arena = arena
        self._name = name
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._url = url
        self._window_s = 10 * arena.settings.round_s

    def create(self, acls: list[AclBinding], *, retry_s: float = 0) -> None:
        """These ACLs; the cluster has answered."""
        deadline_s = time.monotonic() + retry_s
        while True:
            try:
                for future in self._admin.create_acls(acls).values():
                    future.result(_SOON_S)
            except KafkaException:
                if time.monotonic() > deadline_s:
                    raise
            else:
                return

    def fill(self) -> int:
        """With the workload's ACLs; how many that are."""
        progress(f"{self._arena.workload}: creating its ACLs on a cluster")
        records = read_acls(self._arena.directory / "acls.jsonl")
        filled = 0
        while batch := list(islice(records, _FILLED_AT_ONCE)):
            self.create(
                [
                    AclBinding(
                        ResourceType(acl.resource_type),
                        acl.resource_name,
                        ResourcePatternType(acl.pattern_type),
                        acl.principal,
                        acl.host,
                        AclOperation(acl.operation),
                        AclPermissionType(acl.permission_type),
                    )
                    for acl in batch
                ]
            )
            filled += len(batch)
        return filled

    # --- how soon ------------------------------------------------------------------------------------------

    def starts(self, filled: int) -> Iterator[Row]:
        """A new observer that has nothing."""
        with closing(QuorumLog.open(self._url)) as log:
            deadline_s = time.monotonic() + _SOON_S
            while not (found := log.checkpoints()):
                if time.monotonic() > deadline_s:
                    raise TimeoutError("the leader makes no snapshot")
            snapshot = found[-1]
            size_bytes = len(log.checkpoint_bytes(snapshot))
            tail = log.high_watermark() - snapshot.end_offset
        started = []
        for _ in range(self._arena.settings.rounds):
            progress(f"{self._arena.workload}: cold start from the leader's snapshot")
            command = [sys.executable, "-m", "benchmarks.cold_start", str(self._arena.directory), self._url]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
            started.append(msgspec.json.decode(done.stdout, type=Started))
        cpu = Spread.of(*(each.cpu_s for each in started))
        yield self._row(
            "cold start: FetchSnapshot to first decision",
            "s",
            Spread.of(*(each.wall_s for each in started)),
            Goal("at most", 3, of="ours"),
            f"{filled:,} ACLs; {size_bytes / 1e6:.1f} MB in the snapshot and {tail:,} offsets behind it; "
            f"{cpu.median:.2f} s of CPU; imports not counted",
        )

    def changes(self) -> Iterator[Row]:
        """From when createAcls had returned: until it decides here, and until the broker decides so."""
        progress(f"{self._name}: changes one by one")
        here: list[float] = []
        there: list[float] = []
        with _follower(self._url) as follower:
            for _ in range(self._arena.settings.rounds):
                for _ in range(_CHANGES):
                    name = _name()
                    self.create([_acl(name, USER)])
                    returned_s = time.monotonic()
                    here.append(max(0.0, follower.ask(f"seen {name}") - returned_s))
                for _ in range(_CHANGES):
                    name = _name()
                    self.create([_acl(name, USER)])
                    returned_s = time.monotonic()
                    while not _may_see(self._consumer, name):
                        pass
                    there.append(time.monotonic() - returned_s)
        here_ns, there_ns = (sorted(second * 1e9 for second in seconds) for seconds in (here, there))
        for percent, goal in _SEEN_GOALS.items():
            yield self._row(
                f"createAcls returned until decided here, p{percent:g}",
                "ns",
                Spread.of(percentile(here_ns, percent)),
                goal,
                other=Spread.of(percentile(there_ns, percent)),
                against="the broker's own authorizer, as a client sees it",
                note="0: it decided before the client had its answer",
            )

    def failover(
        self, how: str, leader: Callable[[], int], away: Callable[[int], None], back: Callable[[int], None]
    ) -> Row:
        """From the first record of a new leader, when the one before went away, until it is here."""
        progress(f"{self._name}: a leader {how}")
        seconds = []
        with _follower(self._url) as follower:
            for _ in range(self._arena.settings.rounds):
                with closing(QuorumLog.open(self._url)) as log:
                    before = log.read(log.high_watermark() - 1)[0]
                former_leader = leader()
                away(former_leader)
                self.create([_acl(_name(), USER)], retry_s=_SOON_S)
                back(former_leader)
                with closing(QuorumLog.open(self._url)) as log:
                    elected_s = _first_of_next(log, before) / 1000
                seconds.append(follower.ask("elected") - elected_s)
        return self._row(
            f"a leader {how}: the next one's first record until it is here",
            "s",
            Spread.of(*seconds),
            Goal("at most", 3, of="ours"),
        )

    # --- what it costs -------------------------------------------------------------------------------------

    def costs(self) -> Iterator[Row]:
        """CPU of a node: idle, and under load; and of the cluster's processes with and without it."""
        with _follower(self._url) as follower:
            idle = [self._idle_share(follower) for _ in range(2)]
        yield self._row(
            "CPU of an idle node, for a second",
            "ns",
            Spread.of(*(share * 1e9 for share in idle)),
            Goal("at most", 0.01 * 1e9, of="ours"),
        )
        of_node: list[float] = []
        rates: list[float] = []

        def with_node() -> float:
            with _follower(self._url) as follower:
                before_s, cluster_s, began_s = follower.ask("cpu"), _cluster_cpu_s(), time.monotonic()
                written = self._load()
                rates.append(written / (time.monotonic() - began_s))
                cluster_s = _cluster_cpu_s() - cluster_s
                of_node.append((follower.ask("cpu") - before_s) * _RATE / written)
            return cluster_s * _RATE / written

        def without() -> float:
            cluster_s = _cluster_cpu_s()
            written = self._load()
            return (_cluster_cpu_s() - cluster_s) * _RATE / written

        progress(f"{self._name}: {_RATE} ACLs a second")
        followed, alone = alternate(self._arena.settings.rounds, with_node, without)
        note = f"{_AT_ONCE} in a request; {Spread.of(*rates).median:.0f} a second"
        yield self._row(
            f"CPU of a node for {_RATE:,} ACL records",
            "s",
            Spread.of(*of_node),
            Goal("at most", 0.2, of="ours"),
            note,
        )
        yield self._row(
            f"CPU of the cluster for {_RATE:,} ACL records, with a node",
            "s",
            followed,
            Goal("at most", 1.1),
            note,
            other=alone,
            against="without one",
        )

    def _load(self) -> int:
        """So many ACLs a second, if the cluster takes them, for a while; how many."""
        began_s, written = time.monotonic(), 0
        while (passed_s := time.monotonic() - began_s) < self._window_s:
            if written > passed_s * _RATE:
                time.sleep(written / _RATE - passed_s)
            self.create([_acl(name, name) for name in (_name() for _ in range(_AT_ONCE))])
            written += _AT_ONCE
        return written

    def _idle_share(self, follower: _Follower) -> float:
        before_s, began_s = follower.ask("cpu"), time.monotonic()
        time.sleep(_IDLE_ROUND_S)
        return (follower.ask("cpu") - before_s) / (time.monotonic() - began_s)

    def _row(
        self,
        what: str,
        unit: str,
        ours: Spread,
        goal: Goal,
        note: str = "",
        *,
        other: Spread | None = None,
        against: str = "",
    ) -> Row:
        return Row(
            what=f"{self._name}: {what}",
            workload=self._arena.workload,
            unit=unit,
            ours=ours,
            other=other,
            against=against,
            ratio=None if other is None else ours.over(other),
            goal=goal,
            note=note,
        )


class _Follower:
    """A node in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: str) -> float:
        """See benchmarks.quorum_follower."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(question, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


@contextmanager
def _follower(url: str) -> Iterator[_Follower]:
    command = [sys.executable, "-m", "benchmarks.quorum_follower", url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # that it is ready
        yield _Follower(process)
        process.stdin.close()


def _first_of_next(log: QuorumLog, before: LogBatch) -> int:
    """When the first batch of a later leader's was written, in milliseconds since the epoch."""
    offset = before.end_offset
    while True:
        for batch in log.read(offset):
            if batch.epoch > before.epoch:
                return batch.timestamp_ms
            offset = batch.end_offset


def _cluster_cpu_s() -> float:
    """Of the Java processes that this one started: the cluster's."""
    return sum(each.cpu_s for each in running() if each.parent == os.getpid() and each.name == "java")


def _name() -> str:
    """Of a topic that had no ACL."""
    return f"quorum-bench-{next(_NUMBERS)}"


def _acl(topic: str, user: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip


def _consumer_of(servers: str | None) -> Consumer:
    from support.sasl_clients import sasl_client  # noqa: PLC0415

    assert servers is not None
    return Consumer({**sasl_client(servers, USER), "group.id": "not joined"})


def _may_see(client: Consumer, topic: str) -> bool:
    """Whether the broker says of the topic that there is none, which it says to those who may describe it."""
    error = client.list_topics(topic, timeout=_SOON_S).topics[topic].error
    return error is None or error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED
