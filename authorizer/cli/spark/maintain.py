"""``aclog spark maintain``: maintenance of a history's tables."""

from __future__ import annotations

from typing import Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import DURATION
from authorizer.cli.rendering.output import answer, print_json
from authorizer.cli.spark.job import note_start, spark_session_of
from authorizer.cli.spark.locations import located, require_history_directory
from authorizer.cli.spark.options import SparkFlags, history_option, query_options
from authorizer.cli.spark.requirements import require_spark

_HOUR_MS: Final = 3_600_000
_WEEK_MS: Final = 7 * 24 * _HOUR_MS


@click.command("maintain", cls=Command)
@history_option
@click.option(
    "--vacuum-after",
    "vacuum_after_ms",
    type=DURATION,
    default=_WEEK_MS,
    help="Remove files that no version of the tables in this time has, in full hours, 7d or more.  "
    "[default: 7d]",
)
@click.option(
    "--job-stopped",
    is_flag=True,
    help="Required on S3, where one process at a time may write the tables: confirm that no job does.",
)
@query_options
def maintain_command(
    *, history: str, vacuum_after_ms: int, job_stopped: bool, as_json: bool, **flags: Any
) -> None:
    """Merge the small files of a history's tables, and remove unused ones.

    It changes no row of the tables, which `aclog spark changes --format delta` writes, and may run beside
    that job, but not on S3: stop the job there, and add --job-stopped. Run it once a day or week: each batch
    of a job adds some files.

    \b
    Examples:
      aclog spark maintain --history DIR
      aclog spark maintain --history DIR --vacuum-after 30d
      aclog spark maintain --history s3://bucket/history --job-stopped
    """
    if vacuum_after_ms < _WEEK_MS or vacuum_after_ms % _HOUR_MS:
        raise click.BadParameter(
            "full hours, 7d or more: an earlier reader or job may still need the files",
            param_hint="--vacuum-after",
        )
    require_history_directory(history)
    from snapshot.store.object_store import is_s3

    if is_s3(history) and not job_stopped:
        raise Failure(
            f"--history {history}: on S3 one process at a time may write the tables, or commits are lost",
            ExitCode.USAGE,
            "Stop `aclog spark changes` and `aclog spark all` of this history; then add --job-stopped.",
        )
    require_spark()
    from snapshot.jobs.changes.tables.maintenance import maintain
    from snapshot.jobs.session.delta import SESSION_CONF

    note_start()
    with spark_session_of(SparkFlags(**flags), "maintain", conf=SESSION_CONF, locations=[history]) as spark:
        hours = vacuum_after_ms // _HOUR_MS
        for done in maintain(spark, located(history), vacuum_after_hours=hours):
            if as_json:
                print_json(done._asdict())
            else:
                answer(
                    f"{done.table}: {done.merged} small files merged into {done.written}; {done.files} files"
                )
