"""The coverage of a log's history: its first offset, and ranges in which changes may be missing.

OUTPUT/coverage/<cluster id>.json

formatVersion        1
clusterId, topicId   the log (I9); topicId as Kafka's 22 characters
beginOffset          the first offset whose change is here; the state below it is where the history begins
beginTimeMs          time of the last record below it, 0 when there is none
coarse               [[from, until], ...]: ranges of a topic that were not read at its end, such as at the
                     start of a run. Compaction may have removed records before they were read: states at
                     offsets strictly within a range come from the remaining records, those at its bounds
                     are exact.
brokers              [[start, end, metadataVersion, [levels]], ...]: batches that changed what the log has of
                     its brokers' release, with what it had at their ends
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from records.errors import DecodeError
from records.ids import uuid_from_string, uuid_to_string
from records.log.base import LogIdentity
from snapshot.errors import HistoryMissingError, SnapshotCorruptError, SnapshotUnsupportedError
from snapshot.jobs.changes.change_files import state_url
from snapshot.store.layout import cluster_directory, parse_cluster_directory
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snapshot.store.manifest import SnapshotManifest

COVERAGE: Final = "coverage"
_FORMAT_VERSION: Final = 1
_SUFFIX: Final = ".json"


class BrokerLevels(msgspec.Struct, frozen=True, array_like=True):
    """What a log has of its brokers' release at the end of a batch.

    Attributes:
        start: first offset of the batch.
        end: its end.
        metadata_version: level of metadata.version, if the log has one.
        levels: the highest levels that the registered brokers' binaries support, ascending.
    """

    start: int = 0
    end: int = 0
    metadata_version: int | None = None
    levels: tuple[int, ...] = ()


class Coverage(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The content of the file; see the module."""

    format_version: int = _FORMAT_VERSION
    cluster_id: str
    topic_id: str
    begin_offset: int
    begin_time_ms: int
    coarse: tuple[tuple[int, int], ...] = ()
    brokers: tuple[BrokerLevels, ...] = ()

    @classmethod
    def beginning(cls, identity: LogIdentity, offset: int, time_ms: int) -> Coverage:
        return cls(
            cluster_id=identity.cluster_id,
            topic_id=uuid_to_string(identity.topic_id),
            begin_offset=offset,
            begin_time_ms=time_ms,
        )

    @property
    def identity(self) -> LogIdentity:
        return LogIdentity(self.cluster_id, uuid_from_string(self.topic_id))

    def with_coarse(self, start: int, until: int) -> Coverage:
        """With one more range; a repeated batch adds the same one, or a longer one."""
        spans = list(self.coarse)
        while spans and start < spans[-1][1]:
            last_start, last_until = spans.pop()
            start, until = min(start, last_start), max(until, last_until)
        return msgspec.structs.replace(self, coarse=(*spans, (start, until)))

    def with_brokers(self, found: BrokerLevels) -> Coverage:
        """With what a batch found, if it changed; a repeated batch replaces it."""
        known = tuple(each for each in self.brokers if each.start < found.start)
        last = known[-1] if known else BrokerLevels()
        if (last.metadata_version, last.levels) != (found.metadata_version, found.levels):
            known += (found,)
        return msgspec.structs.replace(self, brokers=known)

    def is_coarse(self, end_offset: int) -> bool:
        """Whether the log may never have had the state with this end offset."""
        return any(start < end_offset < until for start, until in self.coarse)

    def has_coarse(self, start: int, end: int) -> bool:
        """Whether changes may be missing between these offsets, end exclusive."""
        return any(span_start < end and start < until for span_start, until in self.coarse)


def levels_at(brokers: Sequence[BrokerLevels], offset: int) -> BrokerLevels:
    """What a log had of its brokers' release at an offset.

    In a batch that changed it, what it had before and after it: the offset of the change is not known.
    """
    before, at = BrokerLevels(), BrokerLevels()
    for each in brokers:
        if each.start <= offset:
            before, at = at, each
    if offset >= at.end or before.end == 0:
        return at
    versions = (before.metadata_version, at.metadata_version)
    return BrokerLevels(
        at.start,
        at.end,
        None if None in versions else min(filter(None, versions)),
        tuple(sorted({*before.levels, *at.levels})),
    )


def find_history(output: str, cluster_id: str | None = None) -> tuple[Coverage, SnapshotManifest]:
    """The history of this cluster's log, or the only one: its coverage and its newest state.

    Raises:
        HistoryMissingError: there is none, or there are several and ``cluster_id`` is None.
        SnapshotError: the output cannot be read or is damaged.
    """
    storage = Storage(output)
    if cluster_id is None:
        clusters = covered_clusters(storage)
        if not clusters:
            raise HistoryMissingError(
                f"{storage.shown('')} holds no history: `aclog spark changes` writes one"
            )
        if len(clusters) > 1:
            raise HistoryMissingError(
                f"{storage.shown('')} holds the histories of {len(clusters)} clusters: name one with "
                f"--cluster-id: {', '.join(clusters)}"
            )
        (cluster_id,) = clusters
    coverage = read_coverage(storage, cluster_id)
    manifest = None
    if coverage is not None:
        manifest = SnapshotStore(state_url(output)).newest_complete(coverage.identity)
    if coverage is None or manifest is None:
        raise HistoryMissingError(
            f"{storage.shown('')} holds no history of cluster {cluster_id}: `aclog spark changes` writes one"
        )
    return coverage, manifest


def covered_clusters(storage: Storage) -> tuple[str, ...]:
    """The ids of all clusters whose logs have a history, or the start of one."""
    names = (name.removesuffix(_SUFFIX) for name in storage.files(COVERAGE) if name.endswith(_SUFFIX))
    found = map(parse_cluster_directory, names)
    return tuple(sorted(cluster_id for cluster_id in found if cluster_id is not None))


def read_coverage(storage: Storage, cluster_id: str) -> Coverage | None:
    """The coverage of the history of this cluster's log; None if there is none.

    Raises:
        SnapshotCorruptError: the file is damaged.
        SnapshotUnsupportedError: it has a newer format.
        SnapshotError: it cannot be read.
    """
    path = _path(cluster_id)
    try:
        data = storage.read(path)
    except FileNotFoundError:
        return None
    shown = storage.shown(path)
    try:
        # The version first: a newer format may have other fields.
        version = json.loads(data)["formatVersion"]
        if isinstance(version, int) and version > _FORMAT_VERSION:
            raise SnapshotUnsupportedError(
                f"{shown} has format version {version}; aclog reads up to {_FORMAT_VERSION}. Upgrade it"
            )
        coverage = msgspec.json.decode(data, type=Coverage)
        uuid_from_string(coverage.topic_id)
    except (ValueError, KeyError, TypeError, DecodeError) as error:
        # ValueError includes json's and msgspec's errors.
        raise SnapshotCorruptError(f"{shown} is damaged: {error}") from error
    return coverage


def put_coverage(storage: Storage, coverage: Coverage) -> None:
    """Write the file, replacing an existing one. Raises SnapshotError: it cannot be written."""
    storage.put(_path(coverage.cluster_id), msgspec.json.encode(coverage) + b"\n")


def _path(cluster_id: str) -> str:
    return f"{COVERAGE}/{cluster_directory(cluster_id)}{_SUFFIX}"
