"""Rows of a snapshot store, as commands choose and print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from snapshot.errors import SnapshotMissingError

if TYPE_CHECKING:
    from authorizer.cli.place import Place
    from snapshot.store.snapshot_store import SnapshotStore
    from snapshot.store.stored import SnapshotStatus


def surveyed(place: Place, store: SnapshotStore, cluster_id: str | None) -> tuple[SnapshotStatus, ...]:
    """Everything stored: of the log if one is named, else of one cluster or of all; newest last."""
    if place.config.log_url is not None:
        with place.log() as log:
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
            "bytes": sum(part.bytes for part in manifest.parts),
        }
        if not manifest.is_exact:
            row["gapUntil"] = manifest.gap_until
    return row
