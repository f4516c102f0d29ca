"""What a batch is to do to one log (LogPlan), and what folding the log gave (LogSummary, LogResult)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from records.entries import SupportedLevels
from records.ids import uuid_to_string
from snapshot.digest import digest_from_string
from snapshot.fold import DeltaCounts
from snapshot.image import Provenance
from snapshot.store.layout import parse_shard_part_name
from snapshot.store.manifest import MetadataFile, SnapshotManifest, SnapshotPart

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from snapshot.jobs.sources.log_range import LogRange


#: Parts of a large state: a million ACLs are then stored in parts of some 3 MB.
_SHARDS: Final = 8
#: ACLs that are written more quickly as one part: a file costs as much as some thousand rows.
_SMALL: Final = 10_000


def shards_of_size(base: SnapshotManifest | None, end: int) -> int:
    """The number of parts of a state at ``end``, which continues ``base``: one if it is known to be small.

    A state in several parts becomes one part at half that size, so that no state changes often.
    """
    count, start = (0, 0) if base is None else (base.count, base.provenance.end_offset)
    found = None if base is None or not base.parts else parse_shard_part_name(base.parts[0].name)
    small = _SMALL if found is None or found[1] == 1 else _SMALL // 2
    return 1 if count + end - start <= small else _SHARDS


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """The work of one batch on one log. Sent to the executors.

    Attributes:
        range: the offsets to read: from the base's end on.
        start: first offset of Spark's batch; its changes begin here.
        log_end_time_ms: for its manifest (I10).
        attempt: part of the names of the batch's files; unique to each attempt.
        base: the stored state onto which the records from its end on are folded; None: the empty one.
        before: a stored state that cannot be continued, because the log may have deleted removals since
            (I10): the batch's changes are the difference between it and the rebuilt state.
    """

    range: LogRange
    start: int
    log_end_time_ms: int
    shards: int
    attempt: str
    store_url: str
    base: SnapshotManifest | None
    before: SnapshotManifest | None
    wants_changes: bool
    wants_count_deltas: bool

    @property
    def identity(self) -> LogIdentity:
        return self.range.identity

    @property
    def end(self) -> int:
        return self.range.end

    @property
    def is_read_again(self) -> bool:
        """Whether records from before Spark's batch are read, too."""
        return self.range.start < self.start

    @property
    def is_small(self) -> bool:
        """Whether the new state is known to have few ACLs."""
        return (0 if self.base is None else self.base.count) + self.end - self.range.start <= _SMALL

    @property
    def source(self) -> str:
        """The log's name in errors."""
        topic_id = uuid_to_string(self.identity.topic_id)
        return f"the log of cluster {self.identity.cluster_id}, topic id {topic_id}"


class AclCount(msgspec.Struct, frozen=True, array_like=True):
    """The number of ACLs of one kind; Kafka's codes."""

    resource_type: int
    pattern_type: int
    operation: int
    permission_type: int
    count: int


class AclCountDelta(msgspec.Struct, frozen=True, array_like=True):
    """The change of the number of ACLs of one kind by the records of one minute; Kafka's codes.

    ``minute_ms`` is the minute's start, in milliseconds since the epoch, by the records' timestamps.
    """

    minute_ms: int
    resource_type: int
    pattern_type: int
    operation: int
    permission_type: int
    delta: int


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of folding one log; sent to the driver.

    Attributes:
        provenance: of the state at the plan's end.
        parts: the files of its state.
        brokers: feature levels that the registered brokers' binaries support, by broker id.
        acl_counts: all its ACLs, by kind.
    """

    provenance: Provenance
    parts: list[SnapshotPart]
    digest: str
    features: dict[str, int]
    brokers: dict[int, SupportedLevels] = {}
    metadata: MetadataFile | None = None
    records: int
    counts: DeltaCounts
    acl_counts: list[AclCount]
    count_deltas: list[AclCountDelta]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogResult:
    """The result of a batch for one log: its parts are written, its manifest is not."""

    plan: LogPlan
    manifest: SnapshotManifest
    summary: LogSummary


def log_result(plan: LogPlan, summary: LogSummary, *, gap_until: int = 0) -> LogResult:
    """The result of one log; ``gap_until``: as SnapshotManifest."""
    by_type: Counter[int] = Counter()
    for counted in summary.acl_counts:
        by_type[counted.resource_type] += counted.count
    manifest = SnapshotManifest(
        identity=plan.identity,
        provenance=summary.provenance,
        log_end_time_ms=plan.log_end_time_ms,
        count=by_type.total(),
        count_by_resource_type=dict(by_type),
        digest=digest_from_string(summary.digest),
        features=summary.features,
        brokers=summary.brokers,
        metadata=summary.metadata,
        parts=tuple(summary.parts),
        gap_until=gap_until,
    )
    return LogResult(plan=plan, manifest=manifest, summary=summary)
