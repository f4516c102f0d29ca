"""A workload in a topic on a real broker of its own: one process, one copy."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from benchmarks.anchor import ROOT
from benchmarks.stored import MANY_RECORDS, read_acls
from records.log.base import MetadataLog
from records.log.topic import TopicLog, TopicSettings, create_topic
from replay.load_image import load_image
from snapshot.store.snapshot_store import SnapshotStore

_ONE_COPY = TopicSettings(replication_factor=1, min_insync_replicas=1)


@contextmanager
def broker() -> Iterator[str]:
    """``HOST:PORT`` of one that runs for the block, or of the cluster in ACLOG_TEST_BOOTSTRAP."""
    sys.path.insert(0, str(ROOT / "tests"))  # what starts one is the tests'
    from support.kafka_broker import kafka_broker  # noqa: PLC0415

    with kafka_broker() as running:
        yield running.bootstrap_servers


def new_topic(servers: str, name: str) -> str:
    """The URL of a new, empty topic log."""
    url = f"kafka://{servers}/{name}-{time.time_ns():x}"
    create_topic(url, settings=_ONE_COPY)
    return url


def fill(log: MetadataLog, workload: Path, limit: int) -> tuple[float, int]:
    """Write the workload's first ``limit`` ACLs; records per second, and the end offset.

    Many are in a transaction; the first one, for which the producer is made, is not in the rate.
    """
    records = islice(read_acls(workload / "acls.jsonl"), limit)
    end_offset = log.append(list(islice(records, 1)))
    written = 0
    began = time.perf_counter()
    while batch := list(islice(records, MANY_RECORDS)):
        end_offset = log.append(batch)
        written += len(batch)
    return written / (time.perf_counter() - began), end_offset


def until_visible(log: MetadataLog, end_offset: int) -> None:
    """Return when readers may see it: markers are written soon after the writer was answered."""
    while log.high_watermark() < end_offset:
        time.sleep(0.01)


def write_snapshot(url: str, store: Path) -> None:
    """One snapshot of the log as it is now."""
    with TopicLog.open(url) as log:
        image = load_image(log).image
        SnapshotStore(store).write(image, log.identity, log_end_time_ms=int(time.time() * 1000))
