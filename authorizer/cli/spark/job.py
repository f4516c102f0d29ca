"""Runs a Spark job: resolves its logs and settings, opens the session and prints its batches."""

from __future__ import annotations

import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from authorizer.cli.invocation import shows_progress
from authorizer.cli.rendering.output import answer, note, print_json, shown
from authorizer.cli.spark.options import INTERVAL_S, JobFlags, SparkFlags
from authorizer.cli.spark.requirements import require_spark
from authorizer.cli.workspace import Workspace
from records.log.open import TOPIC, kind_of
from records.properties import parse_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from snapshot.jobs.running.job import BatchReport, JobSettings, LogReport


#: Runs a job to its end, given a Spark session, the settings and a callback for each batch's report.
StartJob: TypeAlias = "Callable[[Any, JobSettings, Callable[[BatchReport], None]], None]"

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
#: Begins with a dot, so that neither a snapshot store nor Spark reads it as data.
_CHECKPOINTS: Final = ".checkpoints"


def located(path: str) -> str:
    """A local path as a URL that Hadoop and fsspec both read as local, whatever Hadoop's default is."""
    # Without percent-encoding, which neither of them decodes.
    return path if _SCHEME.match(path) else f"file://{Path(path).absolute()}"


def run(
    flags: JobFlags,
    workspace: Workspace,
    start: StartJob,
    *,
    job: str,
    home: str,
    store: str,
    keep: int | None = None,
    conf: Mapping[str, str] = _NO_SETTINGS,
) -> None:
    """Run a job and print its batches.

    Args:
        flags: the job's options.
        workspace: the configuration.
        start: see StartJob.
        job: name of the job, and of its checkpoint unless ``--checkpoint`` names one.
        home: where the job writes; the default checkpoint is below it.
        store: where the states of its batches are stored.
        keep: number of complete snapshots of each log to keep; None for the configured number.
        conf: settings of Spark that the job needs; ``--conf`` overrides them.
    """
    flags.check()
    require_spark()
    settings = job_settings(flags, workspace, job=job, home=home, store=store, keep=keep)
    batches = Batches(as_json=flags.as_json)
    needs_kafka = any(kind_of(log.url) == TOPIC for log in settings.logs)
    note_start()
    with spark_session_of(flags, job, needs_kafka=needs_kafka, conf=conf) as spark:
        start(spark, settings, batches.show)
    batches.end(home)


def job_settings(
    flags: JobFlags, workspace: Workspace, *, job: str, home: str, store: str, keep: int | None = None
) -> JobSettings:
    """The settings of a job; arguments as of ``run``. Opens each log once."""
    from snapshot.jobs.running.job import SHARDS_DEFAULT, JobSettings
    from snapshot.jobs.sources.logs import resolve_logs

    interval_s = INTERVAL_S if flags.interval_s is None else flags.interval_s
    pattern = flags.followed_pattern
    # The configured log is the default.
    urls = flags.urls or (() if pattern is not None else (workspace.log_url,))
    return JobSettings(
        # First, so that a missing directory or topic fails before anything is written.
        logs=tuple(resolve_logs(urls, kafka=workspace.config.kafka, topics_pattern=pattern)),
        checkpoint=located(flags.checkpoint) if flags.checkpoint else default_checkpoint(home, job),
        store=store,
        keep=workspace.config.snapshot_keep if keep is None else keep,
        shards=flags.shards or SHARDS_DEFAULT,
        interval_s=None if flags.once else interval_s,
        max_offsets=flags.max_offsets,
        topics_pattern=pattern,
        kafka_options=_kafka_options(flags),
    )


@contextmanager
def serving_metrics(
    flags: JobFlags, spark: Any, settings: JobSettings, on_batch: Callable[[BatchReport], None]
) -> Iterator[Callable[[BatchReport], None]]:
    """Serve Prometheus metrics of the job in the block, if ``--metrics-port`` is given.

    Gives the callback for each batch's report, which also calls ``on_batch``.
    """
    if flags.metrics_port is None:
        yield on_batch
        return
    from snapshot.jobs.running.progress_metrics import serve_metrics

    with serve_metrics(spark, settings.logs, port=flags.metrics_port, host=flags.metrics_host) as (
        port,
        done,
    ):
        note_metrics(flags, port)

        def counted(report: BatchReport) -> None:
            done(report)
            on_batch(report)

        yield counted


def note_metrics(flags: JobFlags, port: int) -> None:
    """Print a note with the URL of the metrics; the port may be 0 in the options."""
    note(f"metrics on http://{flags.metrics_host}:{port}/metrics")


def note_start() -> None:
    """Print a note that Spark starts, which takes time."""
    if shows_progress():
        note("Spark starts; this takes some seconds ...")


@contextmanager
def spark_session_of(
    flags: SparkFlags, job: str, *, needs_kafka: bool, conf: Mapping[str, str] = _NO_SETTINGS
) -> Iterator[Any]:
    """A Spark session with the settings of the options, or the active one; ``--conf`` overrides ``conf``.

    A new session ends with the block. Errors of Spark in the block become SparkJobError.
    """
    from snapshot.jobs.running.failure import as_job_failure
    from snapshot.jobs.session.spark_session import has_session, spark_session

    is_new = not has_session()
    spark = spark_session(
        f"aclog {job}",
        master=flags.master,
        packages=flags.package_list,
        conf={**conf, **dict(flags.spark_conf)},
        needs_kafka=needs_kafka,
        shows_output=_is_debugging(),
    )
    try:
        with as_job_failure():
            yield spark
    finally:
        if is_new:
            spark.stop()


def _is_debugging() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("debug"))


def default_checkpoint(home: str, job: str) -> str:
    """The default checkpoint, below ``home``; click.UsageError if that is not a local directory."""
    url = located(home)
    if not url.lower().startswith("file:"):
        raise click.UsageError(
            f"{home} is not a local directory, so the job needs --checkpoint: a URL of a file system that "
            "Hadoop supports (s3a://..., gs://..., abfss://..., hdfs://...), where Spark stores its position"
        )
    return f"{url.rstrip('/')}/{_CHECKPOINTS}/{job}"


def _kafka_options(flags: JobFlags) -> dict[str, str]:
    """The settings of --kafka-properties, overridden by --kafka-option; the source checks them."""
    options: dict[str, str] = {}
    if flags.kafka_properties is not None:
        # Java reads such a file as Latin-1.
        options.update(parse_properties(Path(flags.kafka_properties).read_text(encoding="latin-1")))
    options.update(flags.kafka_options)
    return options


class Batches:
    """Prints each batch when it is stored, and totals at the end."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._began_s = time.perf_counter()
        self._count = 0
        self._offsets = 0

    def show(self, report: BatchReport) -> None:
        """Print a stored batch."""
        self._count += 1
        for log in report.logs:
            self._offsets += log.end - log.start
        if self._as_json:
            print_json(batch_json(report))
        else:
            for log in report.logs:
                answer(f"batch {report.batch_id}: {log_text(log)}; {report.elapsed_ms:.0f} ms", indent=2)
        # So that the reader of a pipe sees each batch immediately.
        sys.stdout.flush()

    def end(self, home: str) -> None:
        """Print the totals, unless the output is JSON; ``home``: where the job wrote."""
        if self._as_json:
            return
        if not self._offsets:
            answer(f"nothing to do: {shown(home)} is up to date")
            return
        elapsed_s = time.perf_counter() - self._began_s
        answer(f"batches: {self._count}, offsets: {self._offsets}, {elapsed_s:.1f} s: {shown(home)}")


def log_text(log: LogReport) -> str:
    """``WwOO...: 0 to 87, 59 ACLs, digest ...; 69 added, 0 replaced, 10 removed``."""
    counts = log.counts
    again = " (earlier offsets read again)" if log.is_read_again else ""
    return (
        f"{shown(log.cluster_id)}: {log.start} to {log.end}{again}, {log.count} ACLs, digest {log.digest}; "
        f"{counts.added} added, {counts.replaced} replaced, {counts.removed} removed"
    )


def batch_json(report: BatchReport) -> dict[str, Any]:
    """JSON form of one batch."""
    return {
        "batch": report.batch_id,
        "elapsedMs": round(report.elapsed_ms, 1),
        "logs": [
            {
                "clusterId": log.cluster_id,
                "startOffset": log.start,
                "endOffset": log.end,
                "count": log.count,
                "digest": log.digest,
                "added": log.counts.added,
                "replaced": log.counts.replaced,
                "removed": log.counts.removed,
                "repeated": log.counts.repeated,
                "unknownRemovals": log.counts.unknown_removals,
                "readAgain": log.is_read_again,
            }
            for log in report.logs
        ],
    }
