"""Which stored snapshots and leftovers may go.

- The newest ``keep`` complete snapshots of this log stay, and so does the one just written, wherever it
  stands: it is the one that is known to be whole. Older complete ones go, manifest first: a crash half way
  leaves an unfinished snapshot, never a corrupt one.
- With an old one go its own files, and those that nobody has touched for some minutes: another node that is
  behind may be writing the same snapshot, in the same directory.
- What a killed writer left goes when none of it was touched for some minutes: a node that fills a directory
  now touches a file every few seconds. The tasks of a job may be hours apart, and a damaged snapshot is
  something to be looked at: shards' parts and manifests have a day. The same for files that a complete
  snapshot's manifest does not name.
- Another log's snapshots, those in a newer format, those that could not be looked at, and files that aclog
  does not write are never touched. Nor is a leftover whose age the store does not tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshot.errors import SnapshotError
from snapshot.files.atomic_file import TEMPORARY_PREFIX
from snapshot.store.layout import MANIFEST_NAME, attempt_of, is_part_name
from snapshot.store.reading import read_manifest
from snapshot.store.stored import SnapshotState, SnapshotStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snapshot.store.layout import SnapshotRef
    from snapshot.store.storage import Storage

#: No job takes a day for a batch, and what waits to be collected costs only space.
GRACE_S: Final = 24 * 60 * 60
#: A node that writes touches a file every few seconds. One that did not for so long, and lives, notices when
#: it puts its manifest.
WRITING_S: Final = 10 * 60


def retain(
    storage: Storage,
    statuses: Sequence[SnapshotStatus],
    *,
    keep: int,
    written: SnapshotRef,
    now_s: float,
) -> None:
    """Delete what the rules above let go.

    Args:
        storage: of the store.
        statuses: everything stored of one log, oldest first.
        keep: how many complete ones stay at least; 1 or more.
        written: known to be whole; stays.
        now_s: seconds since the epoch, by the clock that the files' times are compared with.

    Raises:
        SnapshotError: something could not be removed.
    """
    complete = [status.ref for status in statuses if status.state is SnapshotState.COMPLETE]
    kept = {*complete[-keep:], written}
    for status in statuses:
        match status.state:
            case SnapshotState.COMPLETE if status.manifest is not None:
                named = {MANIFEST_NAME, *(part.name for part in status.manifest.files)}
                files = _our_files(storage, status.ref)
                if status.ref in kept:
                    for name in files:
                        if name not in named and _is_old(storage, status.ref, name, now_s):
                            storage.remove(status.ref.file(name))
                else:
                    gone = [
                        name
                        for name in files
                        if name in named or _is_old(storage, status.ref, name, now_s, WRITING_S)
                    ]
                    _remove(storage, status.ref, gone)
                    if remove_partless_manifest(storage, status.ref):
                        storage.remove_directory(status.ref.directory)
            case SnapshotState.UNFINISHED | SnapshotState.CORRUPT:
                files = _our_files(storage, status.ref)
                if all(_is_old(storage, status.ref, name, now_s) for name in files):
                    _remove(storage, status.ref, files)
            case _:
                pass


def remove_partless_manifest(storage: Storage, ref: SnapshotRef) -> bool:
    """Remove a manifest if a part that it names is not there; whether it was so.

    One node put it over its like while another removed the snapshot.
    """
    files = storage.files(ref.directory)
    if MANIFEST_NAME not in files:
        return False
    try:
        manifest = read_manifest(storage, ref, None)
    except SnapshotError:
        return False
    if all(part.name in files for part in manifest.files):
        return False
    storage.remove(ref.file(MANIFEST_NAME))
    return True


def _our_files(storage: Storage, ref: SnapshotRef) -> list[str]:
    """Files that an aclog wrote, the manifest first."""
    names = (
        name
        for name in storage.files(ref.directory)
        if name == MANIFEST_NAME or is_part_name(name) or name.startswith(TEMPORARY_PREFIX)
    )
    return sorted(names, key=lambda name: (name != MANIFEST_NAME, name))


def _is_old(
    storage: Storage, ref: SnapshotRef, name: str, now_s: float, grace_s: float | None = None
) -> bool:
    if grace_s is None:
        waits = name == MANIFEST_NAME or attempt_of(name) is not None
        grace_s = GRACE_S if waits else WRITING_S
    modified_s = storage.modified_s(ref.file(name))
    return modified_s is not None and now_s - modified_s > grace_s


def _remove(storage: Storage, ref: SnapshotRef, names: Sequence[str]) -> None:
    for name in names:
        storage.remove(ref.file(name))
    storage.remove_directory(ref.directory)
