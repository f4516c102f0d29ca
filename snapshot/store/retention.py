"""Retention: which stored snapshots and stale files are removed.

- The newest ``keep`` complete snapshots of this log are retained, and so is the one just written, whatever
  its offset: it is known to be complete. Older complete ones are removed, manifest first: a crash in between
  leaves an unfinished snapshot, never a corrupt one.
- With an old snapshot, its manifest's files are removed, and other files only after some minutes without a
  write: a node that lags may be writing the same snapshot into the same directory.
- Files of a killed writer are removed after some minutes without a write: an active node writes every few
  seconds. Shards' parts and manifests are retained for a day: a job's tasks may be hours apart, and a damaged
  snapshot may need inspection. The same holds for files that a complete snapshot's manifest does not name.
- Never removed: another log's snapshots, those in a newer format or unreadable, files that aclog does not
  write, and stale files whose age the store does not report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshot.errors import SnapshotError
from snapshot.files.atomic_file import TEMPORARY_PREFIX
from snapshot.store.layout import MANIFEST_NAME, SnapshotRef, attempt_of, is_part_name
from snapshot.store.reading import read_manifest
from snapshot.store.stored import SnapshotState, SnapshotStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from snapshot.store.storage import Storage

#: No job takes a day for a batch, and stale files cost only space.
GRACE_S: Final = 24 * 60 * 60
#: An active node writes a file every few seconds. A slower one notices the removal when it puts its manifest.
WRITING_S: Final = 10 * 60


def retain(
    storage: Storage,
    statuses: Sequence[SnapshotStatus],
    *,
    keep: int,
    written: SnapshotRef,
    now_s: float,
) -> None:
    """Remove what the rules above allow; ``statuses`` of all stored snapshots of one log, oldest first.

    ``written`` was just written, and is always retained. ``now_s`` is by the clock of the files' times.
    """
    complete = [status.ref for status in statuses if status.state is SnapshotState.COMPLETE]
    retained = {*complete[-keep:], written}
    for status in statuses:
        match status.state:
            case SnapshotState.COMPLETE if status.manifest is not None:
                named = {MANIFEST_NAME, *(part.name for part in status.manifest.files)}
                if status.ref in retained:
                    for name in _our_files(status.files):
                        if name not in named and _is_old(storage, status.ref, name, now_s):
                            storage.remove(status.ref.file(name))
                else:
                    removable = [
                        name
                        for name in _our_files(storage.files(status.ref.directory))
                        if name in named or _is_old(storage, status.ref, name, now_s, WRITING_S)
                    ]
                    _remove(storage, status.ref, removable)
                    if remove_partless_manifest(storage, status.ref):
                        storage.remove_directory(status.ref.directory)
            case SnapshotState.UNFINISHED | SnapshotState.CORRUPT:
                files = _our_files(storage.files(status.ref.directory))
                if all(_is_old(storage, status.ref, name, now_s) for name in files):
                    _remove(storage, status.ref, files)
            case _:
                pass


def remove_partless_manifest(storage: Storage, ref: SnapshotRef) -> bool:
    """Remove a manifest if one of its parts is missing; returns whether it was removed.

    That happens if one node replaces the manifest while another removes the snapshot.
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


def _our_files(files: Iterable[str]) -> list[str]:
    """Files that aclog writes, the manifest first."""
    names = (
        name
        for name in files
        if name == MANIFEST_NAME or is_part_name(name) or name.startswith(TEMPORARY_PREFIX)
    )
    return sorted(names, key=lambda name: (name != MANIFEST_NAME, name))


def _is_old(
    storage: Storage, ref: SnapshotRef, name: str, now_s: float, grace_s: float | None = None
) -> bool:
    if grace_s is None:
        is_retained_longer = name == MANIFEST_NAME or attempt_of(name) is not None
        grace_s = GRACE_S if is_retained_longer else WRITING_S
    modified_s = storage.modified_s(ref.file(name))
    return modified_s is not None and now_s - modified_s > grace_s


def _remove(storage: Storage, ref: SnapshotRef, names: Sequence[str]) -> None:
    for name in names:
        storage.remove(ref.file(name))
    storage.remove_directory(ref.directory)
