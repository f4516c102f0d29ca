"""Runs Spark jobs: checks their paths, resolves their logs and settings, and opens the session."""

from __future__ import annotations

import shlex
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.invocation import shows_progress
from authorizer.cli.rendering.output import note
from authorizer.cli.spark.job_output import JobOutput, print_times
from authorizer.cli.spark.options import INTERVAL_S, JobFlags, SparkFlags
from authorizer.cli.spark.requirements import (
    LOG,
    located,
    require_distinct,
    require_output,
    require_pyspark,
    require_spark,
)
from authorizer.cli.workspace import Workspace
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from snapshot.jobs.running.job import BatchReport, JobSettings
    from snapshot.jobs.running.progress_metrics import JobMetrics
    from snapshot.jobs.running.query import RunControl
    from snapshot.jobs.sources.logs import NamedLogs

_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
#: Begins with a dot, so that neither a snapshot store nor Spark reads it as data.
_CHECKPOINTS: Final = ".checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """The state of a command that its jobs use."""

    spark: Any
    settings: JobSettings
    on_batch: Callable[[BatchReport], None]
    metrics: JobMetrics | None
    control: RunControl


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job that a command runs.

    Attributes:
        home: where the job writes; the default checkpoint is below it.
        store: where the states of its batches are stored.
        refused: what ``home`` must not hold already.
        finish: called when all jobs of the command have ended.
        conf: settings of Spark that the job needs; ``--conf`` overrides them.
        is_home_in_spark: Spark itself, not only fsspec, reads or writes below ``home``.
    """

    name: str
    option: str
    home: str
    store: str
    refused: tuple[str, ...] = (LOG,)
    start: Callable[[JobRun], None]
    finish: Callable[[Any, JobSettings], None] | None = None
    keep: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    is_home_in_spark: bool = False


def run(flags: JobFlags, workspace: Workspace, jobs: Sequence[Job]) -> None:
    """Run jobs in one Spark session at the same time, and print what they did.

    With several jobs ``--checkpoint`` is the directory of their checkpoints.
    """
    flags.check()
    require_distinct((job.option, job.home) for job in jobs)
    for job in jobs:
        require_output(job.option, job.home, job.refused)
    if flags.checkpoint is not None:
        require_output("--checkpoint", flags.checkpoint)
    require_pyspark()
    settings = job_settings(flags, workspace, jobs)
    require_spark()
    from snapshot.errors import LogsFailedError
    from snapshot.jobs.running.fleet import Fleet
    from snapshot.jobs.running.query import run_together

    selection = _selection(flags, workspace)
    conf = {key: value for job in jobs for key, value in job.conf.items()}
    outputs = [JobOutput(job.name, job.home, as_json=flags.as_json, is_once=flags.once) for job in jobs]
    note_start()
    began_s = time.perf_counter()
    locations = [each.checkpoint for each in settings.values()]
    locations += [job.home for job in jobs if job.is_home_in_spark]
    with spark_session_of(flags, " ".join(settings), conf=conf, locations=locations) as spark:
        start_s = time.perf_counter() - began_s
        with _serving_metrics(flags, spark, settings) as metrics:

            def started(job: Job, output: JobOutput) -> Callable[[RunControl], None]:
                def on_batch(report: BatchReport) -> None:
                    if metrics is not None:
                        metrics.done(job.name, report)
                    output.show(report)

                def start(control: RunControl) -> None:
                    if metrics is not None:
                        control = replace(control, observer=metrics.queries[job.name])

                    def start_on(current: JobSettings, control: RunControl) -> None:
                        if metrics is not None:
                            metrics.queries[job.name].follow(current.logs)
                        job.start(
                            JobRun(
                                spark=spark,
                                settings=current,
                                on_batch=on_batch,
                                metrics=metrics,
                                control=control,
                            )
                        )

                    def on_failures(failures: Mapping[str, str]) -> None:
                        output.failures = failures
                        if metrics is not None:
                            metrics.queries[job.name].failing(len(failures))

                    try:
                        if selection is None:
                            start_on(settings[job.name], control)
                        else:
                            Fleet(selection, on_failures).run(settings[job.name], start_on, control)
                    except AclogError as error:
                        if len(jobs) > 1:
                            error.add_note(f"this is of the {job.name} job, and the others were stopped")
                        raise

                return start

            is_complete = run_together(
                [started(job, output) for job, output in zip(jobs, outputs, strict=True)]
            )
        for output in outputs:
            output.print_summary(start_s, is_complete=is_complete)
        for job in jobs:
            if job.finish is not None:
                job.finish(spark, settings[job.name])
    if not flags.as_json:
        print_times(start_s, time.perf_counter() - began_s - start_s)
    failures = {f"{output.job}: {name}": text for output in outputs for name, text in output.failures.items()}
    if failures:
        raise LogsFailedError(failures)


def job_settings(flags: JobFlags, workspace: Workspace, jobs: Sequence[Job]) -> dict[str, JobSettings]:
    """The settings of jobs on the same logs, by their names. Opens each named log."""
    from snapshot.jobs.running.job import JobSettings
    from snapshot.jobs.sources.log_failures import LogFailures
    from snapshot.jobs.sources.logs import require_distinct_clusters, resolve_logs

    interval_s = INTERVAL_S if flags.interval_s is None else flags.interval_s
    urls, selection = _followed_urls(flags, workspace), _selection(flags, workspace)
    # First, so that a missing directory or topic fails before anything is written. The topics of a pattern
    # are only listed.
    if selection is None:
        logs = resolve_logs(urls, kafka=workspace.config.kafka)
    else:
        selection.names()
        logs = selection.resolve(urls, LogFailures(is_collecting=True))
        require_distinct_clusters(logs)
        if not logs and flags.followed_pattern is None:
            resolve_logs(urls, kafka=workspace.config.kafka)
    checkpoints = _checkpoints(flags, jobs)
    common = JobSettings(
        logs=tuple(logs),
        checkpoint="",
        store="",
        keep=workspace.config.snapshot_keep,
        shards=flags.shards,
        interval_s=None if flags.once else interval_s,
        max_offsets=flags.max_offsets,
        take_over=flags.take_over,
    )
    return {
        job.name: replace(
            common, checkpoint=checkpoints[job.name], store=job.store, keep=job.keep or common.keep
        )
        for job in jobs
    }


def _followed_urls(flags: JobFlags, workspace: Workspace) -> Sequence[str]:
    """The URLs of named logs; the configured log is the default."""
    return flags.urls or (() if flags.followed_pattern is not None else (workspace.log_url,))


def _selection(flags: JobFlags, workspace: Workspace) -> NamedLogs | None:
    """The logs of a job with several; None: it has one log, and fails with it."""
    from snapshot.jobs.sources.logs import NamedLogs, TopicsPattern

    urls, kafka = _followed_urls(flags, workspace), workspace.config.kafka
    if flags.followed_pattern is not None:
        return NamedLogs(urls, kafka, TopicsPattern(*flags.followed_pattern, kafka))
    return NamedLogs(urls, kafka) if len(urls) > 1 else None


def _checkpoints(flags: JobFlags, jobs: Sequence[Job]) -> dict[str, str]:
    """The checkpoint of each job, by its name; see ``run``."""
    if flags.checkpoint is None:
        return {job.name: default_checkpoint(job.home, job.name) for job in jobs}
    checkpoint = located(flags.checkpoint)
    if len(jobs) == 1:
        return {jobs[0].name: checkpoint}
    return {job.name: f"{checkpoint.rstrip('/')}/{job.name}" for job in jobs}


@contextmanager
def _serving_metrics(
    flags: JobFlags, spark: Any, settings: Mapping[str, JobSettings]
) -> Iterator[JobMetrics | None]:
    """Serve Prometheus metrics of the jobs in the block, if ``--metrics-port`` is given."""
    if flags.metrics_port is None:
        yield None
        return
    from snapshot.jobs.running.progress_metrics import serve_metrics

    logs = next(iter(settings.values())).logs
    with serve_metrics(
        spark, logs, tuple(settings), port=flags.metrics_port, host=flags.metrics_host
    ) as metrics:
        note(f"metrics on http://{flags.metrics_host}:{metrics.port}/metrics", label="")
        yield metrics


def note_start() -> None:
    """Print a note that Spark starts, which takes time."""
    if shows_progress():
        note("Spark starts; this takes some seconds ...", label="")


@contextmanager
def spark_session_of(
    flags: SparkFlags,
    job: str,
    *,
    conf: Mapping[str, str] = _NO_SETTINGS,
    locations: Iterable[str] = (),
) -> Iterator[Any]:
    """A Spark session with the settings of the options, or the active one; ``--conf`` overrides ``conf``.

    ``locations`` are those that Spark itself reads or writes; on S3 it needs more jars for them.
    A new session ends with the block. Errors of Spark in the block become SparkJobError.
    """
    from snapshot.jobs.running.failure import as_job_failure
    from snapshot.jobs.session.spark_session import has_session, spark_session
    from snapshot.store.object_store import is_s3

    if flags.archive is not None:
        _require_fitting(flags.archive)
    is_new = not has_session()
    spark = spark_session(
        f"aclog {job}",
        master=flags.master,
        packages=flags.package_list,
        conf={**conf, **dict(flags.spark_conf)},
        archive=flags.archive,
        needs_s3=any(map(is_s3, locations)),
        shows_output=_is_debugging(),
    )
    try:
        with as_job_failure():
            yield spark
    finally:
        if is_new:
            spark.stop()


def _require_fitting(archive: Path) -> None:
    from snapshot.jobs.session.archive import differences, read_manifest

    if found := differences(read_manifest(archive)):
        raise Failure(
            f"--archives {archive} does not fit the driver: {'; '.join(found)}",
            ExitCode.USAGE,
            pack_hint(archive),
        )


def pack_hint(archive: Path) -> str:
    """How to make an archive again."""
    return f"`aclog spark pack --output {shlex.quote(str(archive))} --force` makes it again."


def _is_debugging() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("debug"))


def default_checkpoint(home: str, job: str) -> str:
    """The default checkpoint, below ``home``; click.UsageError if it may be unsafe there."""
    from snapshot.store.object_store import is_s3

    url = located(home)
    if not url.lower().startswith("file:") and not is_s3(url):
        raise click.UsageError(
            f"{home} is neither a local directory nor on S3, so the job needs --checkpoint: a URL of a file "
            "system that Hadoop supports (s3://..., gs://..., abfss://..., hdfs://...), where Spark stores "
            "its position"
        )
    return f"{url.rstrip('/')}/{_CHECKPOINTS}/{job}"
