"""``aclog snapshot create`` and ``import``: write a state to a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from authorizer.cli.command import Command
from authorizer.cli.options import (
    CLUSTER_ID,
    at_offset_option,
    config_option,
    json_option,
    keep_option,
    log_option,
    progress_option,
    store_option,
)
from authorizer.cli.rendering.output import Waiting, answer, print_json, shown
from authorizer.cli.workspace import Workspace, load_noted_state

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from snapshot.image import AclsImage


@click.command("create", cls=Command)
@log_option
@store_option
@at_offset_option
@keep_option
@config_option
@json_option
@progress_option
def create_command(*, at_offset: int | None, keep: int | None, as_json: bool) -> None:
    """Store the state of a log, at its high watermark or after the record at --at-offset.

    If the store has an equal, complete snapshot, its ACLs are not written again.

    \b
    Examples:
      aclog snapshot create --log /var/kafka/__cluster_metadata-0 --snapshots STORE
      aclog snapshot create --log DIR --snapshots STORE --at-offset 1000
    """
    from replay.snapshot_source import StoredSnapshots

    workspace = Workspace.given()
    store = workspace.store()
    with workspace.log() as log:
        # Before reading the state, which may lack later records (I10).
        read_at_ms = time.time_ns() // 1_000_000
        image = load_noted_state(log, [StoredSnapshots(store)], at_offset=at_offset).image
        reaches_end = image.provenance.end_offset >= log.high_watermark()
        write_and_print(
            workspace,
            image,
            log.identity,
            # An older state was the log's end at least when its last record was written.
            log_end_time_ms=read_at_ms if reaches_end else image.provenance.timestamp_ms,
            keep=keep,
            as_json=as_json,
        )


@click.command("import", cls=Command)
@click.argument(
    "checkpoint", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.checkpoint"
)
@store_option
@click.option(
    "--cluster-id",
    type=CLUSTER_ID,
    help="Cluster id of the file's log.  [default: that of meta.properties in the directory above]",
)
@keep_option
@config_option
@json_option
def import_command(*, checkpoint: Path, cluster_id: str | None, keep: int | None, as_json: bool) -> None:
    """Import one of Kafka's snapshots (a .checkpoint file) into a store.

    The file's name holds its offset and epoch: <end offset, 20 digits>-<epoch, 10 digits>.checkpoint.

    \b
    Examples:
      aclog snapshot import --snapshots STORE \\
          /var/kafka/__cluster_metadata-0/00000000000000000264-0000000001.checkpoint
      aclog snapshot import --snapshots STORE --cluster-id Xsx_GfhLTgSDM3CjAFsT0Q FILE.checkpoint
    """
    from records.log.base import CheckpointId
    from snapshot.files.kraft_checkpoint import is_checkpoint, read_checkpoint

    workspace = Workspace.given()
    workspace.store()  # fail early if the option is missing
    if not is_checkpoint(checkpoint):
        raise click.UsageError(
            f"{checkpoint} is not one of Kafka's snapshots: their names look like "
            f"{CheckpointId(264, 1).name}, and they are in a directory with the *.log files of a metadata log"
        )
    with Waiting(f"reading {shown(checkpoint.name)}"):
        image = read_checkpoint(checkpoint)
    identity = _identity(checkpoint.absolute().parent, cluster_id)
    write_and_print(
        workspace,
        image,
        identity,
        # The state was the log's end at least when its last record was written.
        log_end_time_ms=image.provenance.timestamp_ms,
        keep=keep,
        as_json=as_json,
    )


def _identity(directory: Path, cluster_id: str | None) -> LogIdentity:
    """The log in the file's directory; a copied file needs --cluster-id."""
    from records.log.directory.identity import read_identity

    found = read_identity(directory, expected_cluster_id=cluster_id)
    if cluster_id is None and found.cluster_id.startswith("unknown-"):
        raise click.UsageError(
            f"Unknown cluster: {directory.parent} and {directory} have no meta.properties with a cluster id. "
            "Use --cluster-id"
        )
    return found


def write_and_print(
    workspace: Workspace,
    image: AclsImage,
    identity: LogIdentity,
    *,
    log_end_time_ms: int,
    keep: int | None,
    as_json: bool,
) -> None:
    """Store a log's state and print its name; arguments as those of SnapshotStore.write."""
    from snapshot.digest import digest_to_string

    store = workspace.store()
    keep = keep or workspace.config.snapshot_keep
    with Waiting("storing"):
        ref = store.write(image, identity, log_end_time_ms=log_end_time_ms, keep=keep)
    digest = digest_to_string(image.digest)
    if as_json:
        print_json(
            {
                "store": store.url,
                "clusterId": ref.cluster_id,
                "endOffset": ref.end_offset,
                "epoch": ref.epoch,
                "count": len(image),
                "digest": digest,
            }
        )
    else:
        answer(f"{ref}: {len(image)} ACLs, digest {digest}", indent=2)
