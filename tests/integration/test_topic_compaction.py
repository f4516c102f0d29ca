"""Nodes that lag behind a topic while Kafka's cleaner works ahead of them: I6 and I10.

The cleaner is driven hard: segments of a few milliseconds, min.cleanable.dirty.ratio 0, a short
delete.retention.ms, and a broker that looks for work all the time. What was in the log is known from a
consumer that read everything before it was compacted (min.compaction.lag.ms gives it the time).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.log.topic import TopicLog
from records.log_batch import LogBatch
from replay.loader import Loader
from replay.manifest import LoaderManifest
from replay.snapshot_generator import SnapshotGenerator
from replay.snapshot_source import StoredSnapshots
from snapshot.delta import AclsDelta
from snapshot.digest import digest_to_string
from snapshot.image import AclsImage
from snapshot.store.snapshot_store import SnapshotStore
from support.kafka_broker import Broker
from support.node_acls import topic_acl
from support.topic_checker import TopicHistory, check_whole, folds, read_raw
from support.topic_nodes import key_of, raw_topic, record_of, unique_topic
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

COMPACTS_AT_ONCE = {
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "1000",
    "max.compaction.lag.ms": "1200",
}


APPENDS = 120
# Otherwise the client fetches all records together, and no reader stops after a gap.
SMALL_FETCHES = {
    "max.partition.fetch.bytes": "400",
    "queued.min.messages": "1",
    "fetch.queue.backoff.ms": "1",
}


class SlowTopicLog(TopicLog):
    """A reader of a few records at a time: it rarely crosses a compaction gap in one read."""

    def read(self, offset: int, *, max_bytes: int = 400) -> list[LogBatch]:
        return super().read(offset, max_bytes=min(max_bytes, 400))


class Watched:
    """A publisher that writes down what it is shown."""

    name = "watched"

    def __init__(self) -> None:
        self.states: list[tuple[int, str]] = []
        self.ready = False

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        self.states.append((image.provenance.end_offset, digest_to_string(image.digest)))

    def on_ready(self) -> None:
        self.ready = True

    def on_not_ready(self, reason: str) -> None:
        self.ready = False

    def close(self) -> None:
        pass


def is_there(servers: str, topic: str, end: int, record: AclRecord) -> bool:
    """Whether the topic holds any trace of the record's id now."""
    return any(
        each.key is not None and each.key == key_of(record) for each in read_raw(servers, topic, 0, end)
    )


def reached(loader: Loader, end_offset: int) -> bool:
    return (loader.status().end_offset or 0) >= end_offset


def run_until(loader: Loader, condition: Callable[[], bool], what: str) -> None:
    """Drive a loader by hand."""

    def has_changed() -> bool:
        loader.iterate()
        return condition()

    wait_until(has_changed, what)


def test_a_slow_reader_never_shows_an_uncertain_state(broker: Broker) -> None:
    """Few ACLs are replaced and removed again and again, and compacted under two slow readers (I6).

    Each state that they show is the log's at its end offset, though most records that led to it are gone.
    """
    servers, topic = broker.bootstrap_servers, unique_topic("gaps")
    url = raw_topic(servers, topic, {**COMPACTS_AT_ONCE, "delete.retention.ms": "600000"})
    history = TopicHistory(servers, topic)
    rng = random.Random(5)
    records = [record_of(topic_acl(f"t-{number}")) for number in range(40)]
    there: set[int] = set()
    watched = [Watched(), Watched()]
    loaders: list[Loader] = []
    with TopicLog.open(url, mode="write") as writer:
        logs = [SlowTopicLog.open(url, client=SMALL_FETCHES) for _ in watched]
        loaders = [Loader(log, (), [each]) for log, each in zip(logs, watched, strict=True)]
        end = 0
        for _ in range(APPENDS):
            time.sleep(0.05)  # lets the cleaner run between the appends
            batch: list[AclRecord] = []
            for number in rng.sample(range(len(records)), 5):
                if number in there and rng.random() < 0.5:
                    there.discard(number)
                    batch.append(RemoveAccessControlEntryRecord(records[number].id))
                else:
                    there.add(number)
                    batch.append(records[number])
            end = writer.append(batch)
            # One reader is slow, the other one slower.
            for number, loader in enumerate(loaders):
                if rng.random() < 0.08 / (1 + 3 * number):
                    loader.iterate()
        for loader in loaders:
            run_until(loader, partial(reached, loader, end), "the end")
        gaps = sum(loader.metrics.gaps for loader in loaders)
        left = len(read_raw(servers, topic, 0, end))
        for loader, log in zip(loaders, logs, strict=True):
            loader.close()
            log.close()
    history.wait_for(end)
    assert left < len(history.by_offset) / 2, "hardly anything was compacted"
    assert gaps > 0
    by_offset = dict(history.by_offset)
    ends = {state[0] for each in watched for state in each.states}
    check_whole(by_offset, ends)
    digests = {at: digest_to_string(digest) for at, _acls, digest in folds(by_offset, sorted(ends))}
    for each in watched:
        assert each.ready
        assert [(at, digests[at]) for at, _digest in each.states] == each.states
    history.close()


@pytest.mark.long
def test_a_compacted_removal_is_not_missed(broker: Broker, tmp_path: Path) -> None:
    """A reader and a snapshot from before a removal of which no trace is left: the ACL goes anyway (I10).

    A node that continued from either would allow for ever what was taken back.
    """
    servers, topic = broker.bootstrap_servers, unique_topic("forgotten")
    url = raw_topic(servers, topic, {**COMPACTS_AT_ONCE, "delete.retention.ms": "2000"})
    removed = record_of(topic_acl("removed"))
    remaining: list[AccessControlEntryRecord] = [
        record_of(topic_acl(f"kept-{number}")) for number in range(3)
    ]
    store = SnapshotStore(str(tmp_path))
    watched = Watched()
    with TopicLog.open(url, mode="write") as writer, TopicLog.open(url) as log:
        end = writer.append([removed, *remaining])
        generator = SnapshotGenerator(store, keep=3, bytes_between=1)
        loader = Loader(log, (), [watched, generator])
        # Committed is not yet visible: the transaction's marker may be on its way.
        run_until(loader, partial(reached, loader, end), "what was written")
        wait_until(lambda: bool(store.list(log.identity)), "a snapshot")
        # From here on the reader sleeps.
        writer.append([RemoveAccessControlEntryRecord(removed.id)])

        def forgotten() -> bool:
            nonlocal end
            end = writer.append([remaining[0]])  # segments end when something is appended
            return not is_there(servers, topic, end, removed)

        wait_until(forgotten, "the cleaner")
        begun = Loader(log_again := TopicLog.open(url), [StoredSnapshots(store)], [fresh := Watched()])
        run_until(begun, lambda: fresh.ready, "a node that begins with the old snapshot")
        assert begun.metrics.snapshots_refused >= 1
        assert begun.metrics.snapshots_loaded == 0
        run_until(loader, partial(reached, loader, end), "the reader that slept")
        assert loader.metrics.reloads >= 1
        for each in (loader, begun):
            assert each.status().acl_count == len(remaining)
            assert each.status().ready
            each.close()
        assert loader.status().digest == begun.status().digest
        log_again.close()
