"""Storing a state, as the commands do that make a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.cli.output import Waiting, answer, print_json

if TYPE_CHECKING:
    from authorizer.cli.place import Place
    from records.log.base import LogIdentity
    from snapshot.image import AclsImage
    from snapshot.store.snapshot_store import SnapshotStore


def write_and_print(
    place: Place,
    store: SnapshotStore,
    image: AclsImage,
    identity: LogIdentity,
    *,
    log_end_time_ms: int,
    keep: int | None,
    as_json: bool,
) -> None:
    """Store a state and say what was stored.

    Args:
        place: where ``aclog.snapshot.keep`` is, if ``keep`` is None.
        store: where to.
        image: the state.
        identity: whose it is.
        log_end_time_ms: when the image's end was last known to be the log's end.
        keep: whole snapshots of this log that stay.
        as_json: for programs.
    """
    from snapshot.digest import digest_to_string

    with Waiting("storing"):
        ref = store.write(
            image, identity, log_end_time_ms=log_end_time_ms, keep=keep or place.config.snapshot_keep
        )
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
