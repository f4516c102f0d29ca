"""Up to which offset the outputs of a job count: the newest complete state in its store is the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SnapshotState

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from snapshot.store.manifest import SnapshotManifest


def committed_ends(store_url: str) -> dict[str, int]:
    """By cluster id: the end offset of the newest complete state; clusters that have none are left out.

    Raises:
        SnapshotError: the store cannot be read.
    """
    newest = {each: committed_state(store_url, each) for each in SnapshotStore(store_url).clusters()}
    return {each: state.provenance.end_offset for each, state in newest.items() if state is not None}


def committed_state(store_url: str, log: LogIdentity | str) -> SnapshotManifest | None:
    """The newest complete state of a log, or of a cluster by its id; None if it has none.

    Raises:
        SnapshotError: the store cannot be read.
    """
    statuses = SnapshotStore(store_url).survey(log)
    complete = [status.manifest for status in statuses if status.state is SnapshotState.COMPLETE]
    return complete[-1] if complete else None
