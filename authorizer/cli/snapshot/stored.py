"""What commands do with a store: which snapshots they mean, how one is printed, and storing a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from authorizer.cli.rendering.output import Waiting, answer, print_json
from snapshot.errors import SnapshotMissingError

if TYPE_CHECKING:
    from authorizer.cli.workspace import Workspace
    from records.log.base import LogIdentity
    from snapshot.image import AclsImage
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import SnapshotStatus


def surveyed(
    workspace: Workspace, store: SnapshotStore, cluster_id: str | None
) -> tuple[SnapshotStatus, ...]:
    """Everything stored: of the log if one is named, else of one cluster or of all; newest last."""
    if workspace.config.log_url is not None:
        with workspace.log() as log:
            return store.survey(log.identity)
    clusters = store.clusters() if cluster_id is None else (cluster_id,)
    return tuple(status for cluster in clusters for status in store.survey(cluster))


def only_cluster(store: SnapshotStore, cluster_id: str | None) -> str:
    """The cluster that is meant, if the store leaves no doubt."""
    if cluster_id is not None:
        return cluster_id
    clusters = store.clusters()
    if not clusters:
        raise SnapshotMissingError(f"{store.url} holds no snapshot")
    if len(clusters) > 1:
        raise click.UsageError(f"{store.url} holds {len(clusters)} clusters: choose one with --cluster-id")
    return clusters[0]


def status_json(status: SnapshotStatus) -> dict[str, Any]:
    """One snapshot."""
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


def write_and_print(
    workspace: Workspace,
    image: AclsImage,
    identity: LogIdentity,
    *,
    log_end_time_ms: int,
    keep: int | None,
    as_json: bool,
) -> None:
    """Store a log's state and say so; arguments as those of SnapshotStore.write."""
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
