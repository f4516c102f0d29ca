"""Runs the streaming query of a job (``run_job``), and several jobs in one session (``run_together``)."""

from __future__ import annotations

import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from snapshot.errors import SparkBusyError
from snapshot.jobs.planning.first_offsets import read_first_offsets
from snapshot.jobs.planning.log_states import LogStates, choose_starts
from snapshot.jobs.planning.planned_offsets import QueryOffsets
from snapshot.jobs.running.failure import as_job_failure
from snapshot.jobs.running.job import JobObserver, claimed
from snapshot.jobs.running.micro_batch import MicroBatches
from snapshot.jobs.session.s3a import checkpoint_session
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.jobs.sources.logs import bind_checkpoint
from snapshot.jobs.sources.range_source import read_ranges_stream
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from snapshot.jobs.running.claim import CheckpointClaim
    from snapshot.jobs.running.job import BatchReport, JobSettings, JobSink

# Standard logging: without configuration, warnings go to stderr, and stdout has only the batches.
_log: Final = logging.getLogger(__name__)
# Attempts to start a query on a machine that is too busy for Spark.
_STARTS_MAX: Final = 3
_STOP_POLL_INTERVAL_S: Final = 0.2
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class RunControl:
    """Control of jobs that run at the same time.

    Attributes:
        stop: stops all when it is set.
        restart: stops this job, which its fleet starts again (running/fleet.py).
        starting: held by a job from the registration of its data source, which fails where two do it at a
            time, until its query has made its first batch, or found nothing to do. Spark gives a Python
            process ten seconds to start, which several at a time need more often.
    """

    stop: threading.Event = field(default_factory=threading.Event)
    restart: threading.Event = field(default_factory=threading.Event)
    starting: threading.Lock = field(default_factory=threading.Lock)
    observer: JobObserver = field(default_factory=JobObserver)

    @property
    def is_stopping(self) -> bool:
        """Whether the job is to end before it has processed all."""
        return self.stop.is_set() or self.restart.is_set()


def run_together(jobs: Sequence[Callable[[RunControl], None]]) -> bool:
    """Run jobs at the same time until all end; a failed one, SIGINT or SIGTERM stops the others.

    Each runs in its own thread. Returns False if a signal stopped them.

    Raises:
        Exception: the first error of a job.
    """
    with _stopped_by_signals() as control, ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(job, control) for job in jobs]
        try:
            for ended in as_completed(running):
                ended.result()
            return not control.stop.is_set()
        finally:
            control.stop.set()


def run_job(
    spark: SparkSession,
    settings: JobSettings,
    sink: JobSink,
    on_batch: Callable[[BatchReport], None],
    *,
    on_idle: Callable[[], None] | None = None,
    control: RunControl | None = None,
) -> None:
    """Run a job until all is processed (without an interval), it fails, or it is stopped.

    A stop interrupts the current batch, which the next start repeats. If the machine is too busy for Spark
    to reach the first batch, the query is started again, up to twice.

    Args:
        spark: the session.
        settings: of the job.
        sink: its outputs.
        on_batch: called with each batch, in another thread.
        on_idle: called again and again while no batch is running.
        control: of the jobs that run with this one; None: SIGINT and SIGTERM stop the job.

    Raises:
        CheckpointClaimedError: another job uses the checkpoint, or has taken it over.
        SparkJobError: the job cannot start or continue; also for errors inside Spark, with the cause's text.
        AclogError: an error on the driver.
    """
    if control is None:
        with _stopped_by_signals() as own_control:
            run_job(spark, settings, sink, on_batch, on_idle=on_idle, control=own_control)
        return
    with claimed(settings, control.stop) as claim:
        for start in count(1):
            begun = threading.Event()
            try:
                _run_query(spark, settings, sink, on_batch, on_idle, begun, control, claim)
            except SparkBusyError as error:
                if begun.is_set() or start == _STARTS_MAX:
                    raise
                _log.warning("%s; the job is started again", error)
                control.observer.failed()
            else:
                return


def _run_query(
    spark: SparkSession,
    settings: JobSettings,
    sink: JobSink,
    on_batch: Callable[[BatchReport], None],
    on_idle: Callable[[], None] | None,
    begun: threading.Event,
    control: RunControl,
    claim: CheckpointClaim,
) -> None:
    """One start of the query, to its end; sets ``begun`` with its first batch."""
    with ExitStack() as on_exit, as_job_failure():
        job_spark, directory = spark, bind_checkpoint(settings.checkpoint, settings.logs)
        spark, checkpoint = checkpoint_session(job_spark, directory)
        if spark is not job_spark and (listener := control.observer.listener) is not None:
            spark.streams.addListener(listener)
            on_exit.callback(spark.streams.removeListener, listener)
        store = SnapshotStore(settings.store)
        states = {log.identity.cluster_id: LogStates(log, store) for log in settings.logs}
        for log_states in states.values():
            on_exit.callback(log_states.close)
        first_offsets = read_first_offsets(
            directory,
            settings.logs,
            lambda: choose_starts(
                states, LogFailures(is_collecting=settings.isolates_logs), keep=settings.keep
            ),
        )
        offsets = QueryOffsets(spark)
        micro_batches = MicroBatches(
            settings, sink, first_offsets, states, offsets, claim, on_batch, control.observer
        )
        failures: list[BaseException] = []

        def run_batch(rows: DataFrame, batch_id: int) -> None:
            begun.set()
            try:
                micro_batches.run(rows, batch_id)
            except BaseException as error:
                # Through Java the exception would come back as text.
                failures.append(error)
                raise

        try:
            with control.starting:
                stream = read_ranges_stream(
                    spark,
                    settings.logs,
                    first_offsets.starts,
                    max_offsets=settings.max_offsets,
                    isolates_logs=settings.isolates_logs,
                )
                writer = stream.writeStream.foreachBatch(run_batch).queryName(sink.name)
                writer = writer.option("checkpointLocation", checkpoint)
                if settings.interval_s is None:
                    writer = writer.trigger(availableNow=True)
                else:
                    writer = writer.trigger(processingTime=f"{int(settings.interval_s * 1000)} milliseconds")
                query = writer.start()
                offsets.query.set_result(query)
                on_exit.callback(query.stop)
                while not query.lastProgress and not _has_ended(query, control):
                    claim.raise_if_lost()
            while not _has_ended(query, control, micro_batches, on_idle):
                claim.raise_if_lost()
        except PySparkException as error:
            if control.is_stopping:
                return
            if failures:
                raise failures[0] from error
            raise


def _has_ended(
    query: StreamingQuery,
    control: RunControl,
    micro_batches: MicroBatches | None = None,
    on_idle: Callable[[], None] | None = None,
) -> bool:
    """Wait a little for the end of the query; stop it if the jobs are stopped.

    ``micro_batches``: their idle logs are refreshed. Not before the first batch: it makes most states new.
    """
    if control.is_stopping:
        query.stop()
        return True
    # awaitTermination accepts any number; its annotation says int.
    is_ended = query.awaitTermination(_STOP_POLL_INTERVAL_S)  # type: ignore[arg-type]
    if micro_batches is not None and micro_batches.freshen() and on_idle is not None and not is_ended:
        on_idle()
    return bool(is_ended)


@contextmanager
def _stopped_by_signals() -> Iterator[RunControl]:
    """Catch SIGINT and SIGTERM in the block; yields the control of jobs, which each of them stops."""
    control = RunControl()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals.
        yield control
        return
    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, lambda *_: control.stop.set()) for number in _SIGNALS
    }
    try:
        yield control
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
