"""A Spark driver in a process of its own: ``python -m benchmarks.spark_process``.

For each ``Task`` on its input it answers with a ``Done`` (benchmarks.spark_tasks). Spark starts with the
first one, as `aclog spark` starts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from benchmarks.log_rows import read_rows_stream
from benchmarks.spark_tasks import Batch, Done, Task, answer_tasks, done_of
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.session.spark_session import spark_session
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.logs import FollowedLog, resolve_logs
from snapshot.store.snapshot_store import SnapshotStore

#: Spark's listeners hear of things some time after they happened.
_LISTENER_TIMEOUT_S = 60.0


def query(task: Task) -> Done:
    log = resolve_logs([task.log])[0]
    spark = spark_session("aclog benchmarks")
    checkpoint = f"file://{task.scratch}/checkpoint-of-{task.what}"
    if task.what == "nothing":
        with _listening(spark) as batches:
            began = time.perf_counter()
            _read_only(spark, log, checkpoint, task.max_offsets)
            took = time.perf_counter() - began
        return Done(took_s=took, batches=batches)
    store = SnapshotStore(f"file://{task.scratch}/snapshots")
    settings = JobSettings(logs=(log,), checkpoint=checkpoint, store=store.url, max_offsets=task.max_offsets)
    records: dict[int, int] = {}

    def note(report: BatchReport) -> None:
        records[report.batch_id] = sum(of_log.records for of_log in report.logs)

    with _listening(spark) as batches:
        began = time.perf_counter()
        run_snapshots(spark, settings, note)
        took = time.perf_counter() - began
    # The job reads the records itself, not by rows of Spark's source.
    batches = [msgspec.structs.replace(batch, records=records[batch.id]) for batch in batches]
    return done_of(store, log.identity, took_s=took, batches=batches)


def _read_only(spark: SparkSession, log: FollowedLog, checkpoint: str, max_offsets: int) -> None:
    """The source of a job, and Spark's own sink that does nothing."""
    rows = read_rows_stream(spark, log, max_offsets=max_offsets)
    writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


@contextmanager
def _listening(spark: SparkSession) -> Iterator[list[Batch]]:
    """The batches of the query that runs in the block; all of them once it is left."""
    listener = _Listener()
    spark.streams.addListener(listener)
    try:
        yield listener.batches
        if not listener.ended.wait(_LISTENER_TIMEOUT_S):
            raise RuntimeError("Spark does not say that the query has ended")
    finally:
        spark.streams.removeListener(listener)


class _Listener(StreamingQueryListener):
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - pyspark's name, as those below
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        if "addBatch" in progress.durationMs:
            steps = dict(progress.durationMs)
            took = steps.pop("triggerExecution")
            self.batches.append(
                Batch(id=progress.batchId, records=progress.numInputRows, took_ms=took, steps_ms=steps)
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self.ended.set()


if __name__ == "__main__":
    answer_tasks(query)
