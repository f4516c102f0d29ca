"""Up to which offset the outputs of a job count: the newest complete state in its store is the commit."""

from __future__ import annotations

from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SnapshotState


def committed_ends(store_url: str) -> dict[str, int]:
    """By cluster id: the end offset of the newest complete state; clusters that have none are left out.

    Raises:
        SnapshotError: the store cannot be read.
    """
    store = SnapshotStore(store_url)
    newest: dict[str, int] = {}
    for cluster_id in store.clusters():
        for status in store.survey(cluster_id):
            if status.state is SnapshotState.COMPLETE:
                newest[cluster_id] = status.ref.end_offset  # newest last
    return newest
