"""``aclog spark counts``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.options import DURATION
from authorizer.cli.rendering.output import note
from authorizer.cli.spark.job import located, note_metrics, run
from authorizer.cli.spark.needs import require_spark
from authorizer.cli.spark.options import JobFlags, job_options, output_option
from authorizer.cli.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshot.jobs.counts.count_tables import TableFormat
    from snapshot.jobs.running.job import BatchReport, JobSettings

_PARQUET: Final = "parquet"
_DELTA: Final = "delta"
_MINUTE_MS: Final = 60_000


@click.command("counts", cls=Command)
@output_option
@click.option(
    "--format",
    "table_format",
    type=click.Choice([_PARQUET, _DELTA]),
    default=_PARQUET,
    show_default=True,
    help="Of the tables. For delta Spark must have Delta Lake (--packages).",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="When the job ends, draw the counts over time, from this run and the earlier ones, as a .png, .svg "
    "or .pdf.",
)
@click.option(
    "--window",
    "window_ms",
    type=DURATION,
    help="Of --plot: the shortest time between two points, whole minutes.  [default: the shortest with which "
    "the picture has at most some 2,000]",
)
@job_options
def counts_command(
    *, output: str, table_format: TableFormat, plot: str | None, window_ms: int | None, **flags: Any
) -> None:
    """Count ACLs by cluster, resource type, pattern type, operation and permission.

    Two tables: what is in force after each batch, and the changes of each minute by the records' own times.
    With --metrics-port also live, as kafka_server_authorizer_aclcount, with the job's lag and rate. A run
    goes on where the last one ended, and does again what a crash, SIGTERM or Ctrl-C broke off.

    \b
    Examples:
      aclog spark counts --log kafka://b1:9092/acls --output DIR --once --plot counts.png --window 1d
      aclog spark counts --log file:DIR --output DIR --interval 10 --metrics-port 9090
    """
    job = JobFlags(**flags)
    if window_ms is not None and window_ms % _MINUTE_MS:
        raise click.BadParameter("windows are of whole minutes: 1m, 1h, 1d", param_hint="--window")
    workspace = Workspace.given()
    home = located(output)
    require_spark()
    if plot is not None:
        from snapshot.jobs.counts.plot import require_plotting

        # Before the work, not after it.
        require_plotting(plot)

    def start(spark: Any, settings: JobSettings, on_batch: Callable[[BatchReport], None]) -> None:
        from snapshot.jobs.counts.counts_job import run_counts

        run_counts(
            spark,
            settings,
            home,
            on_batch,
            table_format=table_format,
            metrics_port=job.metrics_port,
            metrics_host=job.metrics_host,
            on_serving=lambda port: note_metrics(job, port),
        )
        if plot is not None:
            from snapshot.jobs.counts.plot import plot_counts

            plot_counts(
                spark,
                home,
                plot,
                window=None if window_ms is None else timedelta(milliseconds=window_ms),
                table_format=table_format,
                names={log.identity.cluster_id: log.url for log in settings.logs},
            )
            note(f"plot: {plot}")

    run(job, workspace, start, job="counts", home=output, store=f"{home}/state", conf=_conf(table_format))


def _conf(table_format: TableFormat) -> dict[str, str]:
    if table_format != _DELTA:
        return {}
    from snapshot.jobs.counts.delta_lake import SESSION_CONF

    return dict(SESSION_CONF)
