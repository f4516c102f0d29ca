"""Results of a snapshot store: a snapshot with the skipped newer ones, and the rows of a listing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapshot.errors import SnapshotError
    from snapshot.image import AclsImage
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.manifest import SnapshotManifest


class SnapshotState(StrEnum):
    """The state of a snapshot's directory, judged without reading its parts.

    ``COMPLETE``: a valid manifest, all parts have the right size. ``UNFINISHED``: no manifest. ``CORRUPT``: a
    damaged manifest, or parts missing or of another size. ``FOREIGN``: of another log. ``UNSUPPORTED``: in a
    newer format. ``UNREADABLE``: the store denied access.
    """

    COMPLETE = "complete"
    UNFINISHED = "unfinished"
    CORRUPT = "corrupt"
    FOREIGN = "foreign"
    UNSUPPORTED = "unsupported"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """One row of a listing; ``problem`` says why it is not complete, ``manifest`` is set if it is valid.

    ``files`` are the names of a complete one's files.
    """

    ref: SnapshotRef
    state: SnapshotState
    manifest: SnapshotManifest | None
    problem: str | None
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedSnapshot:
    """A snapshot that could not be used, and why."""

    ref: SnapshotRef
    error: SnapshotError


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A snapshot that was read and checked; ``skipped`` are the newer ones that could not be used."""

    ref: SnapshotRef
    image: AclsImage
    manifest: SnapshotManifest
    skipped: tuple[SkippedSnapshot, ...] = ()
