"""run_job: runs the streaming query of a job."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack, contextmanager
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from snapshot.errors import SparkBusyError, SparkJobError
from snapshot.jobs.planning.first_offsets import read_first_offsets
from snapshot.jobs.planning.log_states import LogStates
from snapshot.jobs.planning.planned_offsets import OffsetLog
from snapshot.jobs.running.failure import as_job_failure
from snapshot.jobs.running.micro_batch import MicroBatches
from snapshot.jobs.sources.logs import bind_checkpoint, sources_of
from snapshot.jobs.sources.range_source import read_ranges_stream
from snapshot.jobs.sources.topic_source import read_topics_stream
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from snapshot.jobs.running.job import BatchReport, JobSettings, JobSink

# Standard logging: without configuration, warnings go to stderr, and stdout has only the batches.
_log: Final = logging.getLogger(__name__)
# Attempts to start a query on a machine that is too busy for Spark.
_STARTS_MAX: Final = 3
_STOP_POLL_INTERVAL_S: Final = 0.2
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run_job(
    spark: SparkSession, settings: JobSettings, sink: JobSink, on_batch: Callable[[BatchReport], None]
) -> None:
    """Run a job until all is processed (without an interval), it fails, or SIGINT or SIGTERM arrives.

    A signal interrupts the current batch, which the next start repeats. If the machine is too busy for Spark
    to reach the first batch, the query is started again, up to twice.

    Args:
        spark: the session.
        settings: of the job.
        sink: its outputs.
        on_batch: called with each batch, in another thread.

    Raises:
        SparkJobError: the job cannot start or continue; also for errors inside Spark, with the cause's text.
        AclogError: an error on the driver.
    """
    for start in count(1):
        begun = threading.Event()
        try:
            _run_query(spark, settings, sink, on_batch, begun)
        except SparkBusyError as error:
            if begun.is_set() or start == _STARTS_MAX:
                raise
            _log.warning("%s; the job is started again", error)
        else:
            return


def _run_query(
    spark: SparkSession,
    settings: JobSettings,
    sink: JobSink,
    on_batch: Callable[[BatchReport], None],
    begun: threading.Event,
) -> None:
    """One start of the query, to its end; sets ``begun`` with its first batch."""
    with ExitStack() as on_exit, as_job_failure():
        store = SnapshotStore(settings.store)
        states = {log.identity.cluster_id: LogStates(log, store) for log in settings.logs}
        for log_states in states.values():
            on_exit.callback(log_states.close)
        bind_checkpoint(settings.checkpoint, settings.logs)
        first_offsets = read_first_offsets(
            settings.checkpoint,
            settings.logs,
            lambda log: states[log.identity.cluster_id].choose_start(keep=settings.keep),
        )
        micro_batches = MicroBatches(
            settings, sink, first_offsets, states, OffsetLog(spark, settings.checkpoint), on_batch
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

        stream = _stream(spark, settings, first_offsets.starts)
        writer = stream.writeStream.foreachBatch(run_batch).option("checkpointLocation", settings.checkpoint)
        if settings.interval_s is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{int(settings.interval_s * 1000)} milliseconds")
        with _stop_signals() as is_stopped:
            try:
                query = writer.start()
                on_exit.callback(query.stop)
                _wait(query, is_stopped, micro_batches)
            except PySparkException as error:
                if is_stopped():
                    return
                if failures:
                    raise failures[0] from error
                raise


def _wait(query: StreamingQuery, is_stopped: Callable[[], bool], micro_batches: MicroBatches) -> None:
    while not is_stopped():
        # awaitTermination accepts any number; its annotation says int.
        is_ended = query.awaitTermination(_STOP_POLL_INTERVAL_S)  # type: ignore[arg-type]
        micro_batches.freshen()
        if is_ended:
            return
    query.stop()


def _stream(spark: SparkSession, settings: JobSettings, starts: Mapping[str, int]) -> DataFrame:
    """SOURCE rows of all logs, by sources in the order that the checkpoint is bound to."""
    streams = []
    for source in sources_of(settings.logs):
        first = source[0]
        if first.topic is None:
            start = starts[first.identity.cluster_id]
            streams.append(
                read_ranges_stream(spark, first, max_offsets=settings.max_offsets, starting_offset=start)
            )
            continue
        pattern = settings.topics_pattern
        streams.append(
            read_topics_stream(
                spark,
                source,
                topics_pattern=None
                if pattern is None or pattern[0] != first.bootstrap_servers
                else pattern[1],
                max_offsets=settings.max_offsets,
                starting_offsets={
                    log.topic: starts[log.identity.cluster_id] for log in source if log.topic is not None
                },
                kafka_options=settings.kafka_options,
            )
        )
    if not streams:
        raise SparkJobError("no log to follow was named: give --log or --topics-pattern")
    return reduce(DataFrame.unionByName, streams)


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Catch SIGINT and SIGTERM in the block; yields a function that tells whether one arrived."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals.
        yield stopped.is_set
        return
    before: dict[signal.Signals, Any] = {
        number: signal.signal(number, lambda *_: stopped.set()) for number in _SIGNALS
    }
    try:
        yield stopped.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
