"""SnapshotStore: stored snapshots of any number of clusters, at one fsspec URL.

Rules:

- A snapshot is written once, parts first, ``manifest.json`` last: the manifest is the commit. Two nodes that
  write the same snapshot concurrently share no file but the manifest; the first to put it wins, and the
  other's parts are removed.
- A manifest that is replaced (``freshen``) may race with another node's retention, which removes the manifest
  and then the parts. Both check again when done, and remove a manifest without parts.
- Corrupt, unfinished, foreign or unsupported: ``latest`` falls back to the previous one and reports why (I9).
- A store holds one log of each cluster: a snapshot's directory names the cluster, not the topic. A second log
  of the same cluster is refused where it would overwrite the first, and never deleted.

Safe for concurrent use by several threads and nodes; holds no state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from records.install_command import importing_extra
from snapshot.digest import digest_to_string, table_digest
from snapshot.errors import (
    SnapshotCorruptError,
    SnapshotError,
    SnapshotForeignError,
    SnapshotMissingError,
    SnapshotRefusedError,
    SnapshotUnsupportedError,
)
from snapshot.store.layout import (
    MANIFEST_NAME,
    SnapshotRef,
    attempt_of,
    cluster_directory,
    parse_cluster_directory,
    parse_snapshot_name,
)
from snapshot.store.stored import SkippedSnapshot, SnapshotState, SnapshotStatus, StoredSnapshot

with importing_extra("snapshots", "a snapshot store", SnapshotError, "pyarrow", "fsspec"):
    from snapshot.store.reading import read_manifest, read_part, read_snapshot
    from snapshot.store.retention import WRITING_S, remove_partless_manifest, retain
    from snapshot.store.storage import Storage
    from snapshot.store.writing import ROWS_PER_PART, write_snapshot

import os

from records.log.base import LogIdentity
from snapshot.image import AclsImage
from snapshot.store.manifest import SnapshotManifest

#: Count, digest and features.
_State = tuple[int, int, Mapping[str, int]]

#: One may be damaged and another be replaced, and there is still one to fall back to.
KEEP_DEFAULT: Final = 3


class SnapshotStore:
    """Snapshots below ``url``: a local path, ``file:``, or another scheme of the installed fsspec packages.

    Raises:
        SnapshotError: an unknown scheme, or its package is not installed.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        rows_per_part: int = ROWS_PER_PART,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self.url = str(url)
        self._storage = Storage(self.url)
        self._rows_per_part = rows_per_part
        self._clock_s = clock_s

    def require(self) -> None:
        """Check that the store exists; it may be empty. SnapshotStoreMissingError: it does not."""
        self._storage.require()

    def clusters(self) -> tuple[str, ...]:
        """The ids of all clusters with a directory in the store."""
        named = map(parse_cluster_directory, self._storage.directories(""))
        return tuple(sorted(cluster_id for cluster_id in named if cluster_id is not None))

    def list(self, identity: LogIdentity) -> tuple[SnapshotRef, ...]:
        """The complete snapshots of this log, newest last."""
        return tuple(status.ref for status in self.survey(identity) if status.state is SnapshotState.COMPLETE)

    def survey(self, log: LogIdentity | str) -> tuple[SnapshotStatus, ...]:
        """All snapshots of a log, or of a cluster by its id, newest last, with unfinished and corrupt ones.

        Manifests are read; of parts only existence and size are checked.
        """
        return tuple(self.newest_first(log))[::-1]

    def newest_first(self, log: LogIdentity | str) -> Iterator[SnapshotStatus]:
        """As ``survey``, but newest first; each is read when it is asked for."""
        identity = None if isinstance(log, str) else log
        cluster_id = log if isinstance(log, str) else log.cluster_id
        return (self._status(ref, identity) for ref in reversed(self._refs(cluster_id)))

    def newest_complete(self, log: LogIdentity | str) -> SnapshotManifest | None:
        """The newest complete snapshot of a log, or of a cluster by its id; None if it has none.

        For Spark jobs it is the commit: their outputs count up to its end offset.
        """
        statuses = self.newest_first(log)
        return next((each.manifest for each in statuses if each.state is SnapshotState.COMPLETE), None)

    def newest_complete_ends(self) -> dict[str, int]:
        """The end offset of the newest complete snapshot by cluster id, where there is one."""
        newest = {cluster_id: self.newest_complete(cluster_id) for cluster_id in self.clusters()}
        return {each: state.provenance.end_offset for each, state in newest.items() if state is not None}

    def read(self, ref: SnapshotRef, identity: LogIdentity | None = None) -> StoredSnapshot:
        """Read and check one snapshot, except its digest; also against a log, if given (I9).

        Raises as ``reading.read_manifest``.
        """
        return read_snapshot(self._storage, ref, identity)

    def latest(
        self,
        identity: LogIdentity,
        *,
        max_end_offset: int | None = None,
        on_skipped: Callable[[SkippedSnapshot], None] | None = None,
    ) -> StoredSnapshot | None:
        """The newest usable snapshot of this log (I9), or None.

        It must not exceed ``max_end_offset``: the log's end, or another offset. ``on_skipped`` is called for
        each newer one that cannot be used, also if None is returned.
        """
        skipped: list[SkippedSnapshot] = []
        for ref in reversed(self._refs(identity.cluster_id)):
            try:
                if max_end_offset is not None and ref.end_offset > max_end_offset:
                    raise SnapshotForeignError(
                        f"{self._storage.shown(ref.directory)} ends at offset {ref.end_offset}, "
                        f"beyond {max_end_offset}"
                    )
                found = self.read(ref, identity)
            except SnapshotError as error:
                skipped.append(SkippedSnapshot(ref, error))
                if on_skipped is not None:
                    on_skipped(skipped[-1])
            else:
                return replace(found, skipped=tuple(skipped))
        return None

    def verify(self, ref: SnapshotRef, identity: LogIdentity | None = None) -> tuple[str, ...]:
        """All problems of one snapshot, with its digest recomputed; empty if it is intact.

        SnapshotMissingError: there is no such snapshot.
        """
        try:
            manifest = read_manifest(self._storage, ref, identity)
            problems = self.part_problems(manifest)
            if problems:
                return problems
            image = self.read(ref, identity).image
        except SnapshotMissingError:
            raise
        except SnapshotError as error:
            return (str(error),)
        digest = table_digest(image.merged().columns)
        if digest == manifest.digest:
            return ()
        shown = self._storage.shown(ref.directory)
        computed, expected = digest_to_string(digest), digest_to_string(manifest.digest)
        return (f"{shown} has digest {computed}, its manifest says {expected}",)

    def is_removed(self, status: SnapshotStatus) -> bool:
        """Whether another node has removed it since the survey, or has begun to: manifests first."""
        files = self._storage.files(status.ref.directory)
        return not files if status.state is SnapshotState.UNFINISHED else MANIFEST_NAME not in files

    def is_being_written(self, ref: SnapshotRef) -> bool:
        """Whether a writer may still be active, or was killed recently: one of the files is new."""
        now_s = self._clock_s()
        times = (self._storage.modified_s(ref.file(name)) for name in self._storage.files(ref.directory))
        return any(modified_s is not None and now_s - modified_s <= WRITING_S for modified_s in times)

    def part_problems(self, manifest: SnapshotManifest) -> tuple[str, ...]:
        """The problems of the parts that a manifest names; reads all of them."""
        problems = []
        for part in manifest.files:
            try:
                read_part(self._storage, manifest.ref, part)
            except SnapshotError as error:
                problems.append(str(error))
        return tuple(problems)

    def write(
        self,
        image: AclsImage,
        identity: LogIdentity,
        *,
        log_end_time_ms: int,
        keep: int = KEEP_DEFAULT,
    ) -> SnapshotRef:
        """Store the image, then apply the retention (retention.py).

        If the same snapshot is stored and intact, only its ``logEndTimeMs`` moves forward; a damaged or
        partly written one is replaced. ``log_end_time_ms``: the last time at which the image's end offset was
        the log's end (I10). ``keep``: minimum number of complete snapshots of this log to retain; 1 or more.

        Raises:
            SnapshotRefusedError: the image's digest does not match its content, or another state is stored
                at the same end offset and epoch.
            SnapshotForeignError: another log's snapshot is stored there.
            SnapshotUnsupportedError: a snapshot in a newer format is stored there.
            EncodeError: an ACL that the format cannot hold.
            SnapshotError: the store cannot be written to, or old files cannot be removed.
        """
        _check_keep(keep)
        provenance = image.provenance
        ref = SnapshotRef(
            cluster_id=identity.cluster_id, epoch=provenance.epoch, end_offset=provenance.end_offset
        )
        state = (len(image), image.digest, image.metadata.features)
        if self._freshen_same(ref, identity, state, log_end_time_ms=log_end_time_ms, is_exact=True) is None:
            write_snapshot(
                self._storage,
                ref,
                image,
                identity,
                log_end_time_ms=log_end_time_ms,
                rows_per_part=self._rows_per_part,
                commit=self._put_manifest,
            )
        self._retain(ref, identity, keep)
        return ref

    def commit(
        self, manifest: SnapshotManifest, *, attempts: str, keep: int = KEEP_DEFAULT
    ) -> SnapshotManifest:
        """Put the manifest of a snapshot with written parts, apply the retention, and return the stored one.

        If the same snapshot is stored and intact, it is retained, and the new parts are removed. ``manifest``
        names shards' parts (layout.shard_part_name), all of which exist. ``attempts``: unique prefix of this
        writer's attempts. Its parts that no manifest names, because an attempt died, are removed immediately.
        ``keep`` and errors as ``write``.
        """
        _check_keep(keep)
        ref = manifest.ref
        stored = self._put_manifest(manifest)
        named = {part.name for part in stored.files}
        for name in self._storage.files(ref.directory):
            attempt = attempt_of(name)
            if attempt is not None and attempt.startswith(attempts) and name not in named:
                self._storage.remove(ref.file(name))
        self._retain(ref, manifest.identity, keep)
        return stored

    def freshen(self, manifest: SnapshotManifest, *, log_end_time_ms: int) -> SnapshotManifest:
        """Move ``logEndTimeMs`` of a stored snapshot forward while its end is the log's end (I10).

        SnapshotMissingError: another node has removed the snapshot in the meantime.
        """
        return self._freshen(manifest, log_end_time_ms=log_end_time_ms, is_exact=manifest.is_exact)

    def _freshen(self, stored: SnapshotManifest, *, log_end_time_ms: int, is_exact: bool) -> SnapshotManifest:
        fresh = replace(
            stored,
            log_end_time_ms=max(stored.log_end_time_ms, log_end_time_ms),
            gap_until=0 if is_exact else stored.gap_until,
        )
        if fresh != stored:
            self._storage.put(stored.ref.file(MANIFEST_NAME), fresh.to_json())
            if remove_partless_manifest(self._storage, stored.ref):
                raise SnapshotMissingError(f"{self._storage.shown(stored.ref.directory)} is being removed")
        return fresh

    def _put_manifest(self, manifest: SnapshotManifest) -> SnapshotManifest:
        """Commit a snapshot whose parts exist, unless the same one was committed; returns the stored one."""
        ref = manifest.ref
        files = self._storage.files(ref.directory)
        for part in manifest.files:
            if part.name not in files:
                # This writer was slow, or a clock is wrong: another node removed the part as stale.
                raise SnapshotError(f"{self._storage.shown(ref.file(part.name))} was removed by another node")
        if self._storage.put_new(ref.file(MANIFEST_NAME), manifest.to_json()):
            return manifest
        stored = self._freshen_like(manifest)
        if stored is None:
            # The stored one is damaged, or was made past a gap.
            self._storage.put(ref.file(MANIFEST_NAME), manifest.to_json())
            stored = manifest
        return stored

    def _freshen_like(self, manifest: SnapshotManifest) -> SnapshotManifest | None:
        return self._freshen_same(
            manifest.ref,
            manifest.identity,
            (manifest.count, manifest.digest, manifest.features),
            log_end_time_ms=manifest.log_end_time_ms,
            is_exact=manifest.is_exact,
        )

    def _freshen_same(
        self,
        ref: SnapshotRef,
        identity: LogIdentity,
        state: _State,
        *,
        log_end_time_ms: int,
        is_exact: bool,
    ) -> SnapshotManifest | None:
        """The same snapshot, freshened, if it is stored and intact; None if it must be written."""
        stored = self._intact(ref, identity)
        if stored is None or not self._is_same(stored, state, is_exact=is_exact):
            return None
        try:
            return self._freshen(stored, log_end_time_ms=log_end_time_ms, is_exact=is_exact)
        except SnapshotMissingError:
            return None

    def _retain(self, ref: SnapshotRef, identity: LogIdentity, keep: int) -> None:
        retain(self._storage, self.survey(identity), keep=keep, written=ref, now_s=self._clock_s())

    def _refs(self, cluster_id: str) -> tuple[SnapshotRef, ...]:
        places = map(parse_snapshot_name, self._storage.directories(cluster_directory(cluster_id)))
        return tuple(
            sorted(
                SnapshotRef(cluster_id=cluster_id, end_offset=place[0], epoch=place[1])
                for place in places
                if place is not None
            )
        )

    def _status(self, ref: SnapshotRef, identity: LogIdentity | None) -> SnapshotStatus:
        try:
            manifest = read_manifest(self._storage, ref, identity)
            sizes = self._storage.files(ref.directory)
        except SnapshotError as error:
            return SnapshotStatus(ref, self._state(ref, error), None, str(error))
        for part in manifest.files:
            size = sizes.get(part.name)
            if size != part.bytes:
                found = "is missing" if size is None else f"has {size} bytes, its manifest says {part.bytes}"
                problem = f"{self._storage.shown(ref.file(part.name))} {found}"
                return SnapshotStatus(ref, SnapshotState.CORRUPT, manifest, problem)
        return SnapshotStatus(ref, SnapshotState.COMPLETE, manifest, None, tuple(sizes))

    def _state(self, ref: SnapshotRef, error: SnapshotError) -> SnapshotState:
        match error:
            case SnapshotForeignError():
                return SnapshotState.FOREIGN
            case SnapshotUnsupportedError():
                return SnapshotState.UNSUPPORTED
            case SnapshotMissingError():
                return SnapshotState.UNFINISHED  # an empty directory
            case SnapshotCorruptError():
                finished = MANIFEST_NAME in self._storage.files(ref.directory)
                return SnapshotState.CORRUPT if finished else SnapshotState.UNFINISHED
            case _:
                return SnapshotState.UNREADABLE

    def _intact(self, ref: SnapshotRef, identity: LogIdentity) -> SnapshotManifest | None:
        """The manifest of the stored snapshot, if it and its parts are undamaged."""
        try:
            manifest = read_manifest(self._storage, ref, identity)
            for part in manifest.files:
                read_part(self._storage, ref, part)
        except (SnapshotMissingError, SnapshotCorruptError):
            return None
        return manifest

    def _is_same(self, stored: SnapshotManifest, state: _State, *, is_exact: bool) -> bool:
        """Whether the stored state is the given one; if not, it may be overwritten.

        I12: two replicas at one offset have one state; if not, neither may overwrite the other. Only a state
        made past a gap (I6) depends on when the log was read.
        """
        stored_state = (stored.count, stored.digest, stored.features)
        if stored_state == state:
            return True
        if stored.is_exact and is_exact:
            raise SnapshotRefusedError(
                f"{self._storage.shown(stored.ref.directory)} holds another state: "
                f"{_described(*stored_state)}; this node has {_described(*state)}"
            )
        return False


def _check_keep(keep: int) -> None:
    if keep < 1:
        raise ValueError(f"at least 1 snapshot must be kept, not {keep}")


def _described(count: int, digest: int, features: object) -> str:
    return f"{count} ACLs with digest {digest_to_string(digest)} and features {features}"
