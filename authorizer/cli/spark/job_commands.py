"""``aclog spark snapshots``, ``counts``, ``changes``, ``all`` and ``submit-file``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import DURATION, completes, keep_option, shared, store_option
from authorizer.cli.output_file import OutputFile
from authorizer.cli.rendering.output import note
from authorizer.cli.spark.job import Job, JobRun, run
from authorizer.cli.spark.options import JobFlags, job_options, output_option
from authorizer.cli.spark.requirements import COUNTS, HISTORY, LOG, located, require_spark
from authorizer.cli.workspace import Workspace
from records.log.url import TOPIC, kind_of

if TYPE_CHECKING:
    from snapshot.jobs.counts.count_tables import TableFormat
    from snapshot.jobs.running.job import JobSettings

_PARQUET: Final = "parquet"
_DELTA: Final = "delta"
_ICEBERG: Final = "iceberg"
_MINUTE_MS: Final = 60_000

_to_topic_option: Final = click.option(
    "--to-topic",
    metavar="URL",
    help="Also write each change as JSON to this topic, kafka://HOST:PORT[,HOST:PORT...]/TOPIC. Client "
    "settings are aclog.kafka.* of --config.",
)
_counts_options: Final = shared(
    click.option(
        "--format",
        "table_format",
        type=click.Choice([_PARQUET, _DELTA]),
        default=_PARQUET,
        show_default=True,
        help="Format of the tables. With delta, `aclog spark all` also writes the tables of the history.",
    ),
    click.option(
        "--plot",
        type=OutputFile(),
        metavar="FILE",
        help="When the job ends, plot the counts over time of this and earlier runs, as a .png, .svg or "
        ".pdf.",
    ),
    click.option(
        "--window",
        "window_ms",
        type=DURATION,
        help="Of --plot: time between two points, in full minutes.  [default: the shortest with at most "
        "about 2,000 points]",
    ),
)


@click.command("changes", cls=Command)
@output_option
@click.option(
    "--format",
    "table_format",
    type=click.Choice([_PARQUET, _DELTA, _ICEBERG]),
    default=_PARQUET,
    show_default=True,
    help="delta: also write the tables of Delta Lake below DIR/tables, for SQL and other engines: "
    "acl_changes, acl_in_force, acl_counts and access_changes. iceberg is refused: it has no runtime for "
    "Spark 4.2.",
)
@_to_topic_option
@job_options
def changes_command(*, output: str, table_format: str, to_topic: str | None, **flags: Any) -> None:
    """Store the history: one row for each ACL that was added, replaced or removed.

    Each row is appended exactly once, in Parquet, by cluster and date. The row of a removal has the removed
    ACL. Rows remain when the log is compacted. `aclog spark history` queries them. A run continues where the
    last one ended, and repeats a batch that a crash, SIGTERM or Ctrl-C interrupted.

    \b
    Examples:
      aclog spark changes --log kafka://b1:9092/acls --output DIR --once
      aclog spark changes --log file:DIR --output DIR --interval 60 --to-topic kafka://b1:9092/acl-changes
      aclog spark changes --log kafka://b1:9092/acls --output DIR --format delta --once
    """
    if table_format == _ICEBERG:
        raise Failure(
            "--format iceberg: Iceberg has no runtime for Spark 4.2, so Spark cannot write its tables",
            ExitCode.USAGE,
            "Use --format delta, which most engines read; or copy its tables to Iceberg.",
        )
    workspace = Workspace.given()
    job = _changes_job(workspace, "--output", output, to_topic, is_delta=table_format == _DELTA)
    run(JobFlags(**flags), workspace, [job])


@click.command("snapshots", cls=Command)
@store_option
@keep_option
@job_options
def snapshots_command(*, keep: int | None, **flags: Any) -> None:
    """Build snapshots of one or more logs, from which nodes start.

    Each batch of each log yields a snapshot of the state at its end, with the format and digest of a node's
    snapshots. A batch of few records writes only changes. A run continues where the last one ended, and
    repeats a batch that a crash, SIGTERM or Ctrl-C interrupted.

    \b
    Examples:
      aclog spark snapshots --log file:DIR --snapshots STORE --once
      aclog spark snapshots --log kafka://b1:9092,b2:9092/acls --snapshots s3://bucket/aclog \\
          --checkpoint s3://bucket/checkpoints/snapshots --interval 60
      aclog spark snapshots --bootstrap-servers b1:9092 --topics-pattern 'acls-(.+)' --snapshots STORE --once
    """
    workspace = Workspace.given()
    run(JobFlags(**flags), workspace, [_snapshots_job(workspace, keep)])


@click.command("counts", cls=Command)
@output_option
@_counts_options
@job_options
def counts_command(
    *, output: str, table_format: TableFormat, plot: Path | None, window_ms: int | None, **flags: Any
) -> None:
    """Count ACLs by cluster, resource type, pattern type, operation and permission.

    Writes two tables: the ACLs in force after each batch, and the changes of each minute by the times of the
    records. --metrics-port serves the counts (kafka_server_authorizer_aclcount), and the job's lag and rate.
    A run continues where the last one ended, and repeats a batch that a crash, SIGTERM or Ctrl-C interrupted.

    \b
    Examples:
      aclog spark counts --log kafka://b1:9092/acls --output DIR --once --plot counts.png --window 1d
      aclog spark counts --log file:DIR --output DIR --interval 10 --metrics-port 9090
    """
    workspace = Workspace.given()
    run(JobFlags(**flags), workspace, [_counts_job("--output", output, table_format, plot, window_ms)])


@click.command("all", cls=Command, pair=("--log", "--history"))
@store_option
@click.option(
    "--counts",
    metavar="DIR",
    required=True,
    shell_complete=completes("dir"),
    help="The --output of `aclog spark counts`.",
)
@click.option(
    "--history",
    metavar="DIR",
    required=True,
    shell_complete=completes("dir"),
    help="The --output of `aclog spark changes`.",
)
@keep_option
@_counts_options
@_to_topic_option
@job_options
def all_command(
    *,
    counts: str,
    history: str,
    keep: int | None,
    table_format: TableFormat,
    plot: Path | None,
    window_ms: int | None,
    to_topic: str | None,
    **flags: Any,
) -> None:
    """Build snapshots, counts and the history at the same time, in one Spark session.

    Runs the jobs of `aclog spark snapshots`, `counts` and `changes`, so that Spark starts once. Each has its
    own checkpoint and output, the same as alone: a run may be of all or of one, and each continues where its
    last run ended. If one of them fails, the others are stopped; the next run completes all.

    \b
    Examples:
      aclog spark all --log file:DIR --snapshots STORE --counts COUNTS --history HISTORY --once
      aclog spark all --log kafka://b1:9092/acls --snapshots s3://bucket/aclog --counts s3://bucket/counts \\
          --history s3://bucket/history --checkpoint s3://bucket/checkpoints --interval 60
    """
    workspace = Workspace.given()
    jobs = [
        _snapshots_job(workspace, keep),
        _counts_job("--counts", counts, table_format, plot, window_ms),
        _changes_job(workspace, "--history", history, to_topic, is_delta=table_format == _DELTA),
    ]
    run(JobFlags(**flags), workspace, jobs)


def _snapshots_job(workspace: Workspace, keep: int | None) -> Job:
    store = workspace.store().url

    def start(run: JobRun) -> None:
        from snapshot.jobs.snapshots_job import run_snapshots

        run_snapshots(run.spark, run.settings, run.on_batch, control=run.control)

    return Job(
        name="snapshots", option="--snapshots", home=store, store=located(store), start=start, keep=keep
    )


def _counts_job(
    option: str, output: str, table_format: TableFormat, plot: Path | None, window_ms: int | None
) -> Job:
    if window_ms is not None and window_ms % _MINUTE_MS:
        raise click.BadParameter("windows are full minutes: 1m, 1h, 1d", param_hint="--window")
    if plot is not None:
        _require_plot(plot)
    home = located(output)

    def start(run: JobRun) -> None:
        from snapshot.jobs.counts.counts_job import run_counts

        run_counts(
            run.spark,
            run.settings,
            home,
            run.on_batch,
            table_format=table_format,
            add_metrics=None if run.metrics is None else run.metrics.add,
            control=run.control,
        )

    def finish(spark: Any, settings: JobSettings) -> None:
        if plot is None:
            return
        from snapshot.jobs.counts.plot import plot_counts

        plot_counts(
            spark,
            home,
            plot,
            window=None if window_ms is None else timedelta(milliseconds=window_ms),
            table_format=table_format,
            names={log.identity.cluster_id: log.url for log in settings.logs},
        )
        note(f"plot: {plot}", label="")

    return Job(
        name="counts",
        option=option,
        home=output,
        store=f"{home}/state",
        refused=(LOG, HISTORY),
        start=start,
        finish=finish,
        conf=_conf(table_format),
        is_home_in_spark=table_format == _DELTA or plot is not None,
    )


def _changes_job(
    workspace: Workspace, option: str, output: str, to_topic: str | None, *, is_delta: bool
) -> Job:
    if to_topic is not None and kind_of(to_topic) != TOPIC:
        raise click.UsageError(f"--to-topic: `{to_topic}` is not kafka://HOST:PORT/TOPIC")
    home = located(output)

    def start(run: JobRun) -> None:
        from authorizer.cli.spark.access_analysis import SettingsAnalysis
        from authorizer.engine.decisions.state import AuthorizerSettings
        from snapshot.jobs.changes.changes_job import ChangeTopic, run_changes

        settings = AuthorizerSettings.from_configs(workspace.config.properties)
        topic = None if to_topic is None else ChangeTopic(url=to_topic, client=workspace.config.kafka)
        run_changes(
            run.spark,
            run.settings,
            home,
            run.on_batch,
            to_topic=topic,
            access_analysis=SettingsAnalysis(settings) if is_delta else None,
            control=run.control,
        )

    return Job(
        name="changes",
        option=option,
        home=output,
        store=f"{home}/state",
        refused=(LOG, COUNTS),
        start=start,
        conf=_conf(_DELTA if is_delta else _PARQUET),
        is_home_in_spark=is_delta,
    )


def _require_plot(plot: Path) -> None:
    """Check, before the job runs, that the plot can be written."""
    directory = Path(plot).absolute().parent
    if not directory.is_dir():
        raise Failure(f"--plot {plot}: {directory} is not a directory", ExitCode.USAGE)
    require_spark()
    from snapshot.jobs.counts.plot import require_plotting

    require_plotting(plot)


def _conf(table_format: TableFormat) -> dict[str, str]:
    if table_format != _DELTA:
        return {}
    from snapshot.jobs.session.delta import SESSION_CONF

    return dict(SESSION_CONF)


SUBMIT_FILE: Final = Path(__file__).with_name("submit") / "aclog.py"


@click.command("submit-file", cls=Command)
def submit_file_command() -> None:
    """Print the path of the file that spark-submit runs.

    The file takes the arguments of `aclog`. It can be copied to any machine where aclog is installed.

    \b
    Examples:
      aclog spark submit-file
      spark-submit --master yarn "$(aclog spark submit-file)" spark snapshots --once ...
    """
    click.echo(SUBMIT_FILE)
