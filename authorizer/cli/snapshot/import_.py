"""``aclog snapshot import``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from authorizer.cli.command import Command
from authorizer.cli.options import CLUSTER_ID, config_option, json_option, keep_option, store_option
from authorizer.cli.rendering.output import Waiting, shown
from authorizer.cli.snapshot.stored import write_and_print
from authorizer.cli.workspace import Workspace

if TYPE_CHECKING:
    from records.log.base import LogIdentity


@click.command("import", cls=Command)
@click.argument(
    "checkpoint", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.checkpoint"
)
@store_option
@click.option(
    "--cluster-id",
    type=CLUSTER_ID,
    help="The cluster that it belongs to.  [default: that of meta.properties in the directory above]",
)
@keep_option
@config_option
@json_option
def import_command(*, checkpoint: Path, cluster_id: str | None, keep: int | None, as_json: bool) -> None:
    """Put one of Kafka's own snapshots (a .checkpoint file) into a store.

    Which offset and epoch it stands at is in its name: <end offset, 20 digits>-<epoch, 10 digits>.checkpoint.

    \b
    Examples:
      aclog snapshot import --snapshots STORE \\
          /var/kafka/__cluster_metadata-0/00000000000000000264-0000000001.checkpoint
      aclog snapshot import --snapshots STORE --cluster-id Xsx_GfhLTgSDM3CjAFsT0Q FILE.checkpoint
    """
    from snapshot.files.kraft_checkpoint import checkpoint_name, is_checkpoint, read_checkpoint

    workspace = Workspace.given()
    workspace.store()  # a missing flag is wrong usage, before anything is read
    if not is_checkpoint(checkpoint):
        raise click.UsageError(
            f"{checkpoint} is none of Kafka's snapshots: those are named {checkpoint_name(264, 1)}, say, and "
            "lie beside the *.log files of a broker's metadata log"
        )
    with Waiting(f"reading {shown(checkpoint.name)}"):
        image = read_checkpoint(checkpoint)
    identity = _identity(checkpoint.absolute().parent, cluster_id)
    write_and_print(
        workspace,
        image,
        identity,
        # When it was the log's end is not recorded; it was, when its last record was written.
        log_end_time_ms=image.provenance.timestamp_ms,
        keep=keep,
        as_json=as_json,
    )


def _identity(directory: Path, cluster_id: str | None) -> LogIdentity:
    """The log that the file lies beside; a file that was copied away needs --cluster-id."""
    from records.log.directory.identity import read_identity

    found = read_identity(directory, expected_cluster_id=cluster_id)
    if cluster_id is None and found.cluster_id.startswith("unknown-"):
        raise click.UsageError(
            f"there is no meta.properties in {directory.parent} or {directory} that names the cluster: "
            "say which it is with --cluster-id"
        )
    return found
