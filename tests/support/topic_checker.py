"""Checks nodes on a topic: records what they show and compares it with the log afterwards.

    raw consumer --> TopicHistory: every committed record that was ever seen, by offset
    nodes ---------> Shown: (end offset, digest, count), (end offset, request, decision)

``TopicChecker.verify`` folds the history into a dict, independently of the product, and reports:

- a state or a decision that is not the fold of the log up to its end offset;
- a state that contains only a part of a transaction (I2), known by the ``aclog.tx`` header of its records;
- a node whose end offset decreased while it ran.

The history comes from a separate consumer, not from records.log.topic; the decisions come from support.naive.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from authorizer.api.authorizer_api import Action
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.node.node import Node
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.codecs.avro import AvroCodec
from records.entries import AccessControlEntryRecord, AclRecord
from records.ids import Uuid, uuid_from_string
from snapshot.digest import DIGEST_MASK, acl_hash, digest_to_string
from support.naive import Request, decide
from support.node_acls import CONTEXT

TX_HEADER = "aclog.tx"
CODEC = AvroCodec()

Acls = dict[Uuid, AccessControlEntryRecord]


@dataclass(frozen=True, slots=True)
class Seen:
    """One committed record of the topic."""

    offset: int
    epoch: int | None
    key: bytes | None
    record: AclRecord | None
    """None: a removal by key."""
    transaction: str | None


class TopicHistory:
    """Every record that was ever committed to a topic, compacted ones included."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.by_offset: dict[int, Seen] = {}
        self._end = 0
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._failure: BaseException | None = None
        self._consumer = Consumer(raw_consumer_settings(bootstrap_servers))
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._thread = threading.Thread(target=self._run, name="topic-history", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                for message in self._consumer.consume(1000, timeout=0.1):
                    self._take(message)
        except BaseException as error:  # noqa: BLE001 - `wait_for` raises it
            self._failure = error

    def _take(self, message: Message) -> None:
        error = message.error()
        offset = message.offset()
        if error is None:
            assert offset is not None
            self.by_offset[offset] = seen(message)
            offset += 1
        elif error.code() != KafkaError._PARTITION_EOF:
            assert error.retriable() or error.code() in TRANSIENT, error
            return
        with self._changed:
            self._end = max(self._end, offset or 0)
            self._changed.notify_all()

    def wait_for(self, end_offset: int, timeout_s: float = 60) -> None:
        """Wait until all records below the offset were consumed. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._end >= end_offset, timeout_s):
                raise TimeoutError(f"history ends at {self._end}, not {end_offset}: {self._failure!r}")

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._consumer.close()


#: What a consumer says while brokers come and go.
TRANSIENT = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
}


def raw_consumer_settings(
    bootstrap_servers: str, isolation_level: str = "read_committed"
) -> dict[str, object]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "aclog-test-checker",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation_level,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
    }


def seen(message: Message) -> Seen:
    """Decode a message that aclog wrote."""
    offset, value = message.offset(), message.value()
    assert offset is not None
    header = dict(message.headers() or ()).get(TX_HEADER)
    transaction = None if header is None else bytes(header).decode().split(":")[0]  # type: ignore[arg-type]
    key = message.key()
    record = None if value is None else CODEC.decode(bytes(value))
    return Seen(offset, message.leader_epoch(), None if key is None else bytes(key), record, transaction)


def read_raw(bootstrap_servers: str, topic: str, start: int, end: int) -> list[Seen]:
    """The records that the topic now has in [start, end), without compacted ones."""
    consumer = Consumer(raw_consumer_settings(bootstrap_servers))
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[Seen] = []
    try:
        while True:
            for message in consumer.consume(1000, timeout=5):
                offset = message.offset()
                assert offset is not None
                if message.error() is None and offset < end:
                    found.append(seen(message))
                if offset >= end - 1:
                    return found
    finally:
        consumer.close()


@dataclass(slots=True)
class Shown:
    """What one node showed, in order."""

    name: str
    states: list[tuple[int, str, int]] = field(default_factory=list)
    decisions: list[tuple[int, str, bool]] = field(default_factory=list)
    reloads_allowed: bool = False


class TopicChecker:
    """Watches nodes in this process; ``take`` is for those in others."""

    def __init__(self, history: TopicHistory, names: Sequence[str]) -> None:
        """``names``: topics for which CONTEXT's READ is decided continuously."""
        self.history = history
        self._names = names
        self.shown: list[Shown] = []

    @contextmanager
    def watching(self, node: Node, name: str) -> Iterator[Shown]:
        """Query the node continuously until the end of the block."""
        shown = Shown(name)
        self.shown.append(shown)
        done = threading.Event()

        def watch() -> None:
            turn = 0
            while not done.is_set():
                self.ask(node, shown, self._names[turn % len(self._names)])
                turn += 1
                done.wait(0.002)

        thread = threading.Thread(target=watch, name=f"watch-{name}", daemon=True)
        thread.start()
        try:
            yield shown
        finally:
            done.set()
            thread.join()

    def ask(self, node: Node, shown: Shown, name: str) -> None:
        """Record the node's state if it is ready, and one decision."""
        state = node.authorizer.state
        if not state.is_ready:
            return
        image = state.index.image
        looked = (image.provenance.end_offset, digest_to_string(image.digest), len(image))
        if not shown.states or shown.states[-1] != looked:
            shown.states.append(looked)
        action = Action(
            AclOperation.READ,
            ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL),
            log_if_denied=False,
        )
        try:
            decision = node.authorizer.decide(CONTEXT, action, state)
        except AuthorizerNotReadyError:
            return
        shown.decisions.append((image.provenance.end_offset, name, decision.is_allowed))

    def verify(self) -> tuple[int, int]:
        """Compare all that was shown with the log; returns the numbers of states and decisions."""
        ends = {end for shown in self.shown for end, *_ in [*shown.states, *shown.decisions]}
        self.history.wait_for(max(ends, default=0))
        records = dict(self.history.by_offset)
        check_whole(records, ends)
        wanted = {
            end: {name for shown in self.shown for at, name, _ in shown.decisions if at == end}
            for end in ends
        }
        states: dict[int, tuple[str, int]] = {}
        answers: dict[tuple[int, str], bool] = {}
        for end, acls, digest in folds(records, sorted(ends)):
            states[end] = digest_to_string(digest), len(acls)
            for name in wanted[end]:
                answers[end, name] = decide(acls.values(), may_read(name))[0]
        for shown in self.shown:
            before = 0
            for end, digest_text, count in shown.states:
                assert (digest_text, count) == states[end], f"{shown.name} at {end}"
                assert end >= before or shown.reloads_allowed, f"{shown.name} went from {before} to {end}"
                before = end
            for end, name, allowed in shown.decisions:
                assert allowed == answers[end, name], f"{shown.name} at {end} about {name}"
        return sum(len(shown.states) for shown in self.shown), sum(len(each.decisions) for each in self.shown)


def may_read(name: str) -> Request:
    principal = CONTEXT.principal
    return Request(
        principal.principal_type, principal.name, CONTEXT.client_address,
        AclOperation.READ, ResourceType.TOPIC, name,
    )  # fmt: skip


def check_whole(records: dict[int, Seen], ends: set[int]) -> None:
    """No end offset lies between two records of one transaction (I2)."""
    spans: dict[str, list[int]] = {}
    for each in records.values():
        if each.transaction is not None:
            spans.setdefault(each.transaction, []).append(each.offset)
    ordered = sorted(ends)
    for transaction, offsets in spans.items():
        first, last = min(offsets), max(offsets)
        at = bisect.bisect_right(ordered, first)
        assert at == len(ordered) or ordered[at] > last, (
            f"a state ends at {ordered[at]}, within transaction {transaction}: [{first}, {last}]"
        )


def folds(records: dict[int, Seen], ends: Sequence[int]) -> Iterator[tuple[int, Acls, int]]:
    """(end offset, ACLs by id, digest) at each of these; the dict changes with the next one."""
    acls: Acls = {}
    digest = 0
    offsets = sorted(records)
    at = 0
    for end in ends:
        while at < len(offsets) and offsets[at] < end:
            each = records[offsets[at]]
            at += 1
            if isinstance(each.record, AccessControlEntryRecord):
                acl_id, added = each.record.id, each.record
            else:
                acl_id, added = removed_id(each), None
            held = acls.pop(acl_id, None)
            if held is not None:
                digest = (digest - acl_hash(held)) & DIGEST_MASK
            if added is not None:
                acls[acl_id] = added
                digest = (digest + acl_hash(added)) & DIGEST_MASK
        yield end, acls, digest


def removed_id(each: Seen) -> Uuid:
    """The id that a removal, or a tombstone, removes."""
    if each.record is not None:
        return each.record.id
    assert each.key is not None
    return uuid_from_string(each.key.decode("ascii"))


def final_acls(history: TopicHistory) -> Acls:
    """The ACLs in force at the end of the history."""
    records = dict(history.by_offset)
    for _end, acls, _digest in folds(records, [max(records, default=-1) + 1]):
        return acls
    return {}
