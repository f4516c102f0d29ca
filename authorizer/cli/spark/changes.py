"""``aclog spark changes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from authorizer.cli.command import Command
from authorizer.cli.spark.job import located, run, serving_metrics
from authorizer.cli.spark.options import JobFlags, job_options, output_option
from authorizer.cli.workspace import Workspace
from records.log.open import TOPIC, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshot.jobs.running.job import BatchReport, JobSettings


@click.command("changes", cls=Command)
@output_option
@click.option(
    "--to-topic",
    metavar="URL",
    help="Also write each change to this topic, kafka://HOST:PORT[,HOST:PORT...]/TOPIC, as JSON; client "
    "settings are aclog.kafka.* of --config.",
)
@job_options
def changes_command(*, output: str, to_topic: str | None, **flags: Any) -> None:
    """Keep the history: one row for each ACL that was added, replaced or removed.

    Rows are appended exactly once, in Parquet, by cluster and date, with the content that was removed; also
    when the log is compacted afterwards. `aclog spark history` asks them. A run goes on where the last one
    ended, and does again what a crash, SIGTERM or Ctrl-C broke off.

    \b
    Examples:
      aclog spark changes --log kafka://b1:9092/acls --output DIR --once
      aclog spark changes --log file:DIR --output DIR --interval 60 --to-topic kafka://b1:9092/acl-changes
    """
    job = JobFlags(**flags)
    workspace = Workspace.given()
    if to_topic is not None and kind_of(to_topic) != TOPIC:
        raise click.UsageError(f"--to-topic: `{to_topic}` is not kafka://HOST:PORT/TOPIC")
    home = located(output)

    def start(spark: Any, settings: JobSettings, on_batch: Callable[[BatchReport], None]) -> None:
        from snapshot.jobs.changes.changes_job import ChangeTopic, run_changes

        topic = None if to_topic is None else ChangeTopic(url=to_topic, client=workspace.config.kafka)
        with serving_metrics(job, spark, settings, on_batch) as counted:
            run_changes(spark, settings, home, counted, to_topic=topic)

    run(job, workspace, start, job="changes", home=output, store=f"{home}/state")
