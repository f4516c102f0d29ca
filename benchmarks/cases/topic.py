"""A topic on a real broker: replay, writing, how soon another node sees it, starts.

All by the clock: the broker and librdkafka's threads work beside the measuring thread, on the same cores.
There is one broker, and one copy: what replication over a network adds is not here.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Self

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena
from benchmarks.cold_start import Started
from benchmarks.figures import Goal, Row, Spread, alternate, percentile
from benchmarks.requests import updates_file
from benchmarks.settings import progress
from benchmarks.stored import FEW_RECORDS, MANY_RECORDS, read_acls
from benchmarks.topic import broker, fill, new_topic, until_visible, write_snapshot
from records.log.topic import TopicLog
from replay.load_image import load_image
from replay.loader import Loader
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

_AGAINST = "librdkafka, messages only"
_GOAL = Goal("at least", 200_000, of="ours")
#: Records that come after the snapshot.
_TAIL = 1_000
#: Writes of a record each, for each round.
_WRITES = 50
_VISIBLE_S = 10.0
_CONSUMED_AT_ONCE = 10_000
_CONSUME_TIMEOUT_S = 10.0


def measure(arena: Arena) -> Iterator[Row]:
    rounds = arena.settings.rounds
    with broker() as servers:
        url = new_topic(servers, arena.workload)
        limit = arena.settings.log_records
        progress(f"{arena.workload}: writing up to {limit} records to a topic")
        with TopicLog.open(url, mode="write") as log:
            filled, end_offset = fill(log, arena.directory, limit)
            until_visible(log, end_offset)
        yield _row(
            arena,
            f"records written, {MANY_RECORDS} in a transaction",
            "/s",
            Spread.of(filled),
            note="while the topic was filled",
        )
        yield from _replay(arena, url)
        with tempfile.TemporaryDirectory(prefix="aclog-bench-") as scratch:
            yield from _starts(arena, url, Path(scratch) / "snapshots")
        progress(f"{arena.workload}: writes that another node sees")
        with _Follower(url) as follower, _writer(arena, url) as writer:
            visible, took = follower.seen_from(writer, _WRITES * rounds)
        for name, seconds in (
            ("append of one ACL until committed", took),
            ("append of one ACL until visible in another process", visible),
        ):
            ordered = sorted(second * 1e9 for second in seconds)
            for percent in (50.0, 99.0):
                yield _row(arena, f"{name}, p{percent:g}", "ns", Spread.of(percentile(ordered, percent)))
        yield _row(
            arena, "ACLs written one by one, each its own transaction", "/s", Spread.of(len(took) / sum(took))
        )


def _row(arena: Arena, what: str, unit: str, ours: Spread, *, note: str = "") -> Row:
    return Row(what=what, workload=arena.workload, unit=unit, ours=ours, note=note)


# --- replay --------------------------------------------------------------------------------------------


def _replay(arena: Arena, url: str) -> Iterator[Row]:
    progress(f"{arena.workload}: replaying the topic")
    # As elsewhere, imports are not measured: what a load needs is imported by the first one.
    _load(url)
    ours, theirs = _Rates(partial(_load, url)), _Rates(partial(_consume, url))
    wall = alternate(arena.settings.rounds, ours.by_the_clock, theirs.by_the_clock)
    for what, (our_spread, other), goal in (
        ("topic log to image, by the clock", wall, None),
        ("topic log to image, for a second of CPU of all threads", (ours.of_cpu, theirs.of_cpu), _GOAL),
    ):
        yield Row(
            what=what,
            workload=arena.workload,
            unit="/s",
            ours=our_spread,
            other=other,
            against=_AGAINST,
            ratio=our_spread.over(other),
            goal=goal,
        )


class _Rates:
    """Records per second of one way to read a topic."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._of_cpu: list[float] = []

    def by_the_clock(self) -> float:
        began, began_cpu = time.perf_counter(), time.process_time()
        count = self._read()
        took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        self._of_cpu.append(count / took_cpu)
        return count / took

    @property
    def of_cpu(self) -> Spread:
        """The same rounds, in CPU of this process, librdkafka's threads among it."""
        return Spread(tuple(self._of_cpu))


def _load(url: str) -> int:
    """From a closed log to an image; how many records it has."""
    with TopicLog.open(url) as log:
        return len(load_image(log).image)  # each record adds an ACL


def _consume(url: str) -> int:
    """As many messages as a consumer hands over, as the reader asks for them; they are not looked at."""
    servers, _, topic = url.removeprefix("kafka://").rpartition("/")
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "aclog-benchmark",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 1,  # what is at the end need not wait for more
            "queued.min.messages": 200_000,
            "max.partition.fetch.bytes": 8 * 1024 * 1024,
        }
    )
    with closing(consumer):
        count = 0
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            messages = consumer.consume(_CONSUMED_AT_ONCE, 0) or consumer.consume(1, _CONSUME_TIMEOUT_S)
            error = messages[-1].error()
            count += len(messages) - (error is not None)
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its own name
                    raise RuntimeError(error.str())
                break
        return count


# --- starts --------------------------------------------------------------------------------------------


def _starts(arena: Arena, url: str, store: Path) -> Iterator[Row]:
    loads = arena.settings.loads
    alone = [_cold_start(arena, url) for _ in range(loads)]
    write_snapshot(url, store)
    with TopicLog.open(url, mode="write") as log:
        end_offset = 0
        records = islice(read_acls(updates_file(arena.directory)), _TAIL)
        while batch := list(islice(records, FEW_RECORDS)):
            end_offset = log.append(batch)
        until_visible(log, end_offset)
    with_tail = [_cold_start(arena, url, store) for _ in range(loads)]
    for what, starts in (
        ("cold start: topic alone to first decision", alone),
        (f"cold start: snapshot and a tail of {_TAIL:,} records to first decision", with_tail),
    ):
        cpu = Spread.of(*(start.cpu_s for start in starts))
        yield _row(
            arena,
            what,
            "s",
            Spread.of(*(start.wall_s for start in starts)),
            note=f"{starts[0].acls:,} ACLs; {cpu.median:.2f} s of CPU; imports not counted",
        )


def _cold_start(arena: Arena, url: str, store: Path | None = None) -> Started:
    progress(f"{arena.workload}: cold start from the topic{' and a snapshot' if store else ''}")
    arguments = [str(arena.directory), url, *([] if store is None else [str(store)])]
    command = [sys.executable, "-m", "benchmarks.cold_start", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return msgspec.json.decode(done.stdout, type=Started)


# --- one process writes, another sees it ---------------------------------------------------------------


class _Arrivals:
    """A publisher that notes when which end offset was published."""

    name = "arrivals"

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        self.seen.append((image.provenance.end_offset, time.monotonic()))

    def on_ready(self) -> None:
        pass

    def on_not_ready(self, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Follower:
    """A node's loader that follows the topic in its own thread."""

    def __init__(self, url: str) -> None:
        self._log = TopicLog.open(url)
        self._arrivals = _Arrivals()
        self._loader = Loader(self._log, (), [self._arrivals])

    def __enter__(self) -> Self:
        self._loader.start()
        self._loader.wait_until_ready(600)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loader.close()
        self._log.close()

    def seen_from(self, writer: subprocess.Popen[str], writes: int) -> tuple[list[float], list[float]]:
        """For each write, seconds until it was published here, and until it was committed."""
        visible, took = [], []
        for _ in range(writes):
            began, end_offset, committed = _written(writer)
            if not self._loader.wait_for(end_offset, _VISIBLE_S):
                raise RuntimeError(f"offset {end_offset} was not seen within {_VISIBLE_S} s")
            at_s = next(at_s for end, at_s in self._arrivals.seen if end >= end_offset)
            self._arrivals.seen.clear()
            visible.append(at_s - began)
            took.append(committed)
        return visible, took


@contextmanager
def _writer(arena: Arena, url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.topic_writer", url, str(arena.directory)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdout.readline()  # that it is ready
        yield writer
        writer.stdin.close()


def _written(writer: subprocess.Popen[str]) -> tuple[float, int, float]:
    assert writer.stdin is not None
    assert writer.stdout is not None
    print(file=writer.stdin, flush=True)
    began, end_offset, took = writer.stdout.readline().split()
    return float(began), int(end_offset), float(took)
