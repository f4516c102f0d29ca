"""``aclog spark``: the jobs that build snapshots, counts and the history, and questions to them."""

from __future__ import annotations

import click

from authorizer.cli.command import Group
from authorizer.cli.spark.changes import changes_command
from authorizer.cli.spark.counts import counts_command
from authorizer.cli.spark.history import history_command
from authorizer.cli.spark.review import review_command
from authorizer.cli.spark.snapshots import snapshots_command
from authorizer.cli.spark.submit_file import submit_file_command


@click.group("spark", cls=Group)
def spark_command() -> None:
    """Build snapshots, counts and the history of changes with Spark."""


for _command in (
    snapshots_command,
    counts_command,
    changes_command,
    history_command,
    review_command,
    submit_file_command,
):
    spark_command.add_command(_command)
