"""``aclog snapshot list``, and the status of stored snapshots for other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.options import cluster_id_option, config_option, json_option, log_option, store_option
from authorizer.cli.rendering.output import print_json, shown, utc
from authorizer.cli.rendering.terminal import UNKNOWN, Column, Row, doubtful, good, table_lines, width
from authorizer.cli.workspace import Workspace
from snapshot.errors import SnapshotMissingError
from snapshot.store.stored import SnapshotState

if TYPE_CHECKING:
    from snapshot.store.snapshot_store import SnapshotStore
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
    """List the snapshots of a store, the newest last.

    Prints state, end offset, epoch, number of ACLs, time, size, digest and cluster. The state is complete,
    unfinished, corrupt, foreign (of another log) or unsupported. The contents are not read; `aclog snapshot
    verify` checks them.

    \b
    Examples:
      aclog snapshot list --snapshots s3://bucket/aclog
      aclog snapshot list --snapshots STORE --log DIR --json
    """
    workspace = Workspace.given()
    store = workspace.store_to_read()
    statuses = list_statuses(workspace, store, cluster_id)
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


def list_statuses(
    workspace: Workspace, store: SnapshotStore, cluster_id: str | None
) -> tuple[SnapshotStatus, ...]:
    """The snapshots of the named log, else of one cluster, else of all clusters; newest last."""
    if workspace.config.log_url is not None:
        with workspace.log() as log:
            return store.survey(log.identity)
    clusters = store.clusters() if cluster_id is None else (cluster_id,)
    return tuple(status for cluster in clusters for status in store.survey(cluster))


def only_cluster(store: SnapshotStore, cluster_id: str | None) -> str:
    """The named cluster, or the only one of the store."""
    if cluster_id is not None:
        return cluster_id
    clusters = store.clusters()
    if len(clusters) > 1:
        # Any directory may have others below it.
        clusters = tuple(each for each in clusters if store.survey(each))
    if not clusters:
        raise SnapshotMissingError(f"{store.url} holds no snapshot")
    if len(clusters) > 1:
        raise click.UsageError(f"{store.url} holds {len(clusters)} clusters: choose one with --cluster-id")
    return clusters[0]


def status_json(status: SnapshotStatus) -> dict[str, Any]:
    """JSON form of one snapshot."""
    from snapshot.digest import digest_to_string

    row: dict[str, Any] = {
        "clusterId": status.ref.cluster_id,
        "endOffset": status.ref.end_offset,
        "epoch": status.ref.epoch,
        "state": status.state.value,
    }
    if status.problem is not None:
        row["problem"] = status.problem
    if (manifest := status.manifest) is not None:
        row |= {
            "timestampMs": manifest.provenance.timestamp_ms,
            "logEndTimeMs": manifest.log_end_time_ms,
            "count": manifest.count,
            "digest": digest_to_string(manifest.digest),
            "bytes": sum(file.bytes for file in manifest.files),
        }
        if not manifest.is_exact:
            row["gapUntil"] = manifest.gap_until
    return row
