"""The snapshots job on a log: how many records a second, what one batch costs, its memory and its files.

All by the clock, for Spark works in many threads and processes. The job is beside the log's records as rows
in Spark's noop sink, in the same session, and beside a load of the same log without Spark, in a process of
its own. Both must come to the same digest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Self

import msgspec

from benchmarks.anchor import ROOT
from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, Spread
from benchmarks.history import ChurnRecord, churn
from benchmarks.process_tree import DRIVER, JVM, TOGETHER, WORKERS, PeakMemory, cpu_s, running
from benchmarks.settings import progress
from benchmarks.spark_tasks import Batch, Done, Task, What
from benchmarks.stored import MANY_RECORDS, read_acls
from benchmarks.topic import broker, new_topic, until_visible
from records.entries import AccessControlEntryRecord
from records.log.base import MetadataLog
from records.log.directory import DirectoryLog
from records.log.topic import TopicLog

_READ_ONLY = "the source into a noop sink"
_PLAIN = "load_image, without Spark"
#: As many large batches as the complete log has, if it is no longer than ``Settings.log_records``.
_LARGE_OF_LOG = 10
_LARGE_MIN = 500
#: The complete log is also read in batches of this size, where large ones are larger, and few ACLs in force.
_MEDIUM = 10_000
_MEDIUM_ACLS_MAX = 100_000
_SMALL = 2_000
#: Small batches for each round of other measurements; there is one large one, with all ACLs in force.
_SMALL_PER_ROUND = 3
#: Larger ones are measured in a directory alone: a topic takes ten times as long to fill.
_TOPIC_ACLS_MAX = 100_000
_MB = 1e6
#: Of a directory with a million records; by the size of the batches.
_GOAL_RECORDS = 1_000_000
_CPU_GOALS = {100_000: Goal("at most", 12_000, of="ours"), _MEDIUM: Goal("at most", 60_000, of="ours")}
_RATE_GOALS = {100_000: Goal("at least", 0.5), _MEDIUM: Goal("at least", 0.4)}
#: Onto a million ACLs.
_BATCH_GOALS = {_SMALL: Goal("at most", 0.5, of="ours")}
_GOAL_ACLS = 1_000_000


def measure(arena: Arena) -> Iterator[Row]:
    acls = list(read_acls(arena.directory / "acls.jsonl"))
    with tempfile.TemporaryDirectory(dir=arena.directory, prefix="spark-") as scratch:
        yield from _Measured(arena, acls, "directory", partial(_new_directory, scratch), scratch).rows()
    if len(acls) > _TOPIC_ACLS_MAX:
        return
    with tempfile.TemporaryDirectory(dir=arena.directory, prefix="spark-") as scratch, broker() as servers:
        yield from _Measured(arena, acls, "topic", partial(_new_topic, servers), scratch).rows()


def _new_directory(scratch: str, name: str) -> MetadataLog:
    return DirectoryLog.open(Path(scratch, name), mode="create")


def _new_topic(servers: str, name: str) -> MetadataLog:
    return TopicLog.open(new_topic(servers, name), mode="write")


@dataclass(frozen=True, slots=True)
class _Beside:
    """The job on what is new in the log, and a source alone on the same."""

    job: Done
    source: Done


class _Measured:
    """One workload in one kind of log."""

    def __init__(
        self,
        arena: Arena,
        acls: Sequence[AccessControlEntryRecord],
        kind: str,
        new_log: Callable[[str], MetadataLog],
        scratch: str,
    ) -> None:
        rounds, log_records = arena.settings.rounds, arena.settings.log_records
        self._arena = arena
        self._acls = acls
        self._kind = kind
        self._new_log = new_log
        self._scratch = scratch
        self._large = max(log_records // _LARGE_OF_LOG, _LARGE_MIN)
        # At its end there are some batches with all ACLs in force.
        self._record_count = max(log_records, len(acls) + self._large * rounds)
        self._small_batches = _SMALL_PER_ROUND * rounds

    def rows(self) -> Iterator[Row]:
        records = churn(self._acls)
        with (
            closing(self._new_log("first")) as first,
            closing(self._new_log("log")) as log,
            _Process("benchmarks.spark_process", self._scratch) as spark,
            _Process("benchmarks.fold_process", self._scratch) as plain,
        ):
            self._write(first, churn(self._acls), _SMALL)
            yield self._start(spark, first)

            self._write(log, records, self._record_count)
            large = self._both(spark, log, self._large)
            folded = plain.do("fold", log)
            _check_same(large.job, folded)
            yield from self._rates(large, self._large, folded)
            yield from self._batches(large, self._large, 0)
            if self._kind == "directory" and self._large > _MEDIUM and len(self._acls) <= _MEDIUM_ACLS_MAX:
                medium = self._both(spark, log, _MEDIUM, again="-again")
                _check_same(medium.job, folded)
                yield from self._rates(medium, _MEDIUM, folded)
                yield from self._batches(medium, _MEDIUM, 0)

            self._write(log, records, _SMALL * self._small_batches)
            small = self._both(spark, log, _SMALL)
            _check_same(small.job, plain.do("fold", log))
            yield from self._batches(small, _SMALL, self._record_count)
            yield from self._memory(spark, plain)
            yield self._files(large.job, folded)

    def _write(self, log: MetadataLog, records: Iterator[ChurnRecord], count: int) -> None:
        self._progress(f"writing {count:,} records")
        wanted = islice(records, count)
        end_offset = 0
        while batch := list(islice(wanted, MANY_RECORDS)):
            end_offset = log.append(batch)
        until_visible(log, end_offset)

    def _start(self, spark: _Process, log: MetadataLog) -> Row:
        self._progress("starting Spark")
        began = time.perf_counter()
        spark.do("snapshots", log, _SMALL)
        took = time.perf_counter() - began
        spark.do("nothing", log, _SMALL)
        return self._row(
            "a new Spark to its first snapshot",
            "s",
            Spread.of(took),
            note=f"JVM, session, a batch of {_SMALL:,}; imports not counted",
        )

    def _both(self, spark: _Process, log: MetadataLog, max_offsets: int, *, again: str = "") -> _Beside:
        self._progress(f"batches of {max_offsets:,}")
        source = spark.do("nothing", log, max_offsets, again=again)
        return _Beside(spark.do("snapshots", log, max_offsets, again=again), source)

    def _rates(self, beside: _Beside, size: int, folded: Done) -> Iterator[Row]:
        ours = Spread.of(self._record_count / beside.job.took_s)
        has_goals = self._kind == "directory" and self._record_count >= _GOAL_RECORDS
        for other, against in ((beside.source, _READ_ONLY), (folded, _PLAIN)):
            theirs = Spread.of(self._record_count / other.took_s)
            yield self._row(
                f"log to snapshots, batches of {size:,}",
                "/s",
                ours,
                other=theirs,
                against=against,
                ratio=ours.over(theirs),
                goal=_RATE_GOALS.get(size) if has_goals and against == _READ_ONLY else None,
                note=f"{self._record_count:,} records; {beside.job.count:,} ACLs in the end; digests equal",
            )
            yield self._row(
                f"CPU of all processes for a record, batches of {size:,}",
                "ns",
                Spread.of(beside.job.cpu_s * 1e9 / self._record_count),
                other=Spread.of(other.cpu_s * 1e9 / self._record_count),
                against=against,
                ratio=Spread.of(other.cpu_s / beside.job.cpu_s),
                goal=_CPU_GOALS.get(size) if has_goals and against == _READ_ONLY else None,
            )

    def _batches(self, beside: _Beside, size: int, seen: int) -> Iterator[Row]:
        """Those that begin with all ACLs in force, when ``seen`` records came before the first."""
        ours, source = (self._late(done.batches, size, seen) for done in (beside.job, beside.source))
        cpu = beside.job.cpu_s / len(beside.job.batches)
        took, other = (Spread(tuple(batch.took_ms / 1000 for batch in side)) for side in (ours, source))
        yield self._row(
            f"a batch of {size:,} onto all ACLs",
            "s",
            took,
            other=other,
            against=_READ_ONLY,
            goal=_BATCH_GOALS.get(size) if len(self._acls) >= _GOAL_ACLS else None,
            note=f"{len(ours)} batches; {_steps(ours)}; {cpu:.2f} s of CPU for each of the query",
        )

    def _late(self, batches: Sequence[Batch], size: int, seen: int) -> Sequence[Batch]:
        """The full batches after all ACLs were added."""
        late = []
        for batch in batches:
            if seen >= len(self._acls) and batch.records >= size * 0.9:
                late.append(batch)
            seen += batch.records
        return late

    def _memory(self, spark: _Process, plain: _Process) -> Iterator[Row]:
        for role in (DRIVER, JVM, WORKERS, TOGETHER):
            yield self._row(f"peak memory: {role}", "MB", Spread.of(spark.peaks[role] / _MB))
        yield self._row("peak memory: the load without Spark", "MB", Spread.of(plain.peaks[TOGETHER] / _MB))

    def _files(self, ours: Done, folded: Done) -> Row:
        return self._row(
            "snapshot on disk",
            "MB",
            Spread.of(ours.stored_bytes / _MB),
            other=Spread.of(folded.stored_bytes / _MB),
            against="a node's",
            note=f"{ours.count:,} ACLs in {ours.parts} parts; the node's in {folded.parts}",
        )

    def _row(
        self,
        what: str,
        unit: str,
        ours: Spread,
        *,
        other: Spread | None = None,
        against: str = "",
        ratio: Spread | None = None,
        goal: Goal | None = None,
        note: str = "",
    ) -> Row:
        return Row(
            what=f"{self._kind}: {what}",
            workload=self._arena.workload,
            unit=unit,
            ours=ours,
            other=other,
            against=against,
            ratio=ratio,
            goal=goal,
            note=note,
        )

    def _progress(self, message: str) -> None:
        progress(f"{self._arena.workload}: {self._kind}: {message}")


def _check_same(job: Done, folded: Done) -> None:
    if (job.count, job.digest) != (folded.count, folded.digest):
        raise RuntimeError(
            f"the job has {job.count} ACLs with digest {job.digest}, and the load {folded.count} with "
            f"{folded.digest}"
        )


def _steps(batches: Sequence[Batch]) -> str:
    """Medians of what Spark says of each batch, the long ones first."""
    names = dict.fromkeys(name for batch in batches for name in batch.steps_ms)
    medians = {name: median(batch.steps_ms.get(name, 0) for batch in batches) for name in names}
    ordered = sorted(medians.items(), key=lambda item: -item[1])
    return "ms: " + ", ".join(f"{name} {took:.0f}" for name, took in ordered if took >= 1)


class _Process:
    """A process that does tasks, one after the other, and the most memory that it and its own had."""

    def __init__(self, module: str, scratch: str) -> None:
        self._scratch = scratch
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self._memory = PeakMemory(self._process.pid)

    def __enter__(self) -> Self:
        self._memory.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._memory.__exit__()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # that ends it
        self._process.wait()
        self._process.stdout.close()

    @property
    def peaks(self) -> Mapping[str, int]:
        """Bytes by role; see PeakMemory."""
        return self._memory.peaks

    def do(self, what: What, log: MetadataLog, max_offsets: int = 0, *, again: str = "") -> Done:
        """Of all that the log has, or has got since the last task of the kind, and with the same ``again``.

        Raises:
            RuntimeError: the process ended; why, it has said on stderr.
        """
        scratch = f"{self._scratch}/of-{log.url.rpartition('/')[2]}{again}"
        task = Task(what=what, log=log.url, scratch=scratch, max_offsets=max_offsets)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        before_s = cpu_s(self._process.pid, running())
        self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self._process.wait()}")
        took_s = cpu_s(self._process.pid, running()) - before_s
        return msgspec.structs.replace(msgspec.json.decode(line, type=Done), cpu_s=took_s)
