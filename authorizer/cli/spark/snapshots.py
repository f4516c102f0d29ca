"""``aclog spark snapshots``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from authorizer.cli.command import Command
from authorizer.cli.options import keep_option, store_option
from authorizer.cli.spark.job import located, run, serving_metrics
from authorizer.cli.spark.options import JobFlags, job_options
from authorizer.cli.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshot.jobs.running.job import BatchReport, JobSettings


@click.command("snapshots", cls=Command)
@store_option
@keep_option
@job_options
def snapshots_command(*, keep: int | None, **flags: Any) -> None:
    """Build snapshots of one log or of many, which nodes start from.

    Each batch of each log yields a snapshot of the state at its end: in the same format and with the same
    digest as a node's own. A batch of few records writes only what changed. A run goes on where the last one
    ended, and does again what a crash, SIGTERM or Ctrl-C broke off.

    \b
    Examples:
      aclog spark snapshots --log file:DIR --snapshots STORE --once
      aclog spark snapshots --log kafka://b1:9092,b2:9092/acls --snapshots s3://bucket/aclog \\
          --checkpoint s3a://bucket/checkpoints/snapshots --interval 60
      aclog spark snapshots --bootstrap-servers b1:9092 --topics-pattern 'acls-(.+)' --snapshots STORE --once
    """
    job = JobFlags(**flags)
    workspace = Workspace.given()
    store = workspace.store().url

    def start(spark: Any, settings: JobSettings, on_batch: Callable[[BatchReport], None]) -> None:
        from snapshot.jobs.snapshots.snapshots_job import run_snapshots

        with serving_metrics(job, spark, settings, on_batch) as counted:
            run_snapshots(spark, settings, counted)

    run(job, workspace, start, job="snapshots", home=store, store=located(store), keep=keep)
