"""``aclog snapshot list``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.options import cluster_id_option, config_option, json_option, log_option, store_option
from authorizer.cli.rendering.output import print_json, shown, utc
from authorizer.cli.rendering.table import UNKNOWN, Column, Row, table_lines
from authorizer.cli.rendering.terminal import doubtful, good, width
from authorizer.cli.snapshot.stored import status_json, surveyed
from authorizer.cli.workspace import Workspace
from snapshot.store.stored import SnapshotState

if TYPE_CHECKING:
    from snapshot.store.stored import SnapshotStatus

_COLUMNS: Final = (
    Column("STATE", -11),
    Column("END OFFSET", 12),
    Column("EPOCH", 6),
    Column("ACLS", 9),
    Column("TIME", -20),
    Column("BYTES", 12),
    Column("DIGEST", -32),
    Column("CLUSTER", -1),
)


@click.command("list", cls=Command)
@store_option
@log_option
@cluster_id_option
@config_option
@json_option
def list_command(*, cluster_id: str | None, as_json: bool) -> None:
    """Show what a store holds, the newest last.

    State is complete, unfinished, corrupt, foreign (of another log) or unsupported. Parts are looked at but
    not read; `aclog snapshot verify` reads them.

    \b
    Examples:
      aclog snapshot list --snapshots s3://bucket/aclog
      aclog snapshot list --snapshots STORE --log DIR --json
    """
    workspace = Workspace.given()
    store = workspace.store_to_read()
    statuses = surveyed(workspace, store, cluster_id)
    if as_json:
        print_json({"store": store.url, "snapshots": [status_json(status) for status in statuses]})
        return
    if not statuses:
        click.echo(f"no snapshots in {shown(store.url)}")
        return
    for line in table_lines(_COLUMNS, [_row(status) for status in statuses], width()):
        click.echo(line)


def _row(status: SnapshotStatus) -> Row:
    ref, state = status.ref, status.state
    style = good if state is SnapshotState.COMPLETE else doubtful
    count = time = size = digest = UNKNOWN  # without a manifest
    if status.manifest is not None:
        known = status_json(status)
        count, time = str(known["count"]), utc(known["timestampMs"])
        size, digest = str(known["bytes"]), known["digest"]
    return Row(
        (
            style(state.value),
            str(ref.end_offset),
            str(ref.epoch),
            *(count, time, size, digest),
            shown(ref.cluster_id),
        ),
        None if status.problem is None else shown(status.problem),
    )
