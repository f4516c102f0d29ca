"""What a batch is to do to one log (LogPlan), and what folding the log gave (LogSummary, LogResult)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from records.entries import SupportedLevels
from records.ids import uuid_to_string
from snapshot.digest import digest_from_string
from snapshot.fold import DeltaCounts
from snapshot.store.layout import SnapshotRef
from snapshot.store.manifest import MetadataFile, SnapshotManifest, SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.log.base import LogIdentity
    from snapshot.image import Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What one batch is to make of one log. Goes to the executors.

    Attributes:
        identity: the log.
        has_ranges: its rows are ranges (sources.schema).
        client: settings with which a task asks the log's cluster for them; maybe secrets.
        start: first offset of Spark's batch: its changes begin here.
        end: where the state will stand.
        provenance: of that state.
        log_end_time_ms: for its manifest (I10).
        shards: how many pieces.
        attempt: part of the names of what this batch writes; each try at a batch has its own.
        store_url: the snapshot store.
        base: the stored state that the records from its end on are folded onto; None: the empty one.
        before: a stored state that could not be continued, because the log may have forgotten removals since
            (I10): the batch's changes are the difference between it and the state built anew.
        wants_changes: see JobSink.
        wants_count_deltas: see JobSink.
    """

    identity: LogIdentity
    has_ranges: bool
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    start: int
    end: int
    provenance: Provenance
    log_end_time_ms: int
    shards: int
    attempt: str
    store_url: str
    base: SnapshotManifest | None
    before: SnapshotManifest | None
    wants_changes: bool
    wants_count_deltas: bool

    @property
    def rows_from(self) -> int:
        """Offset of the first record that is folded; below ``start`` where the log is read again."""
        return 0 if self.base is None else self.base.provenance.end_offset

    @property
    def is_read_again(self) -> bool:
        """Whether records from before Spark's batch are read as well."""
        return self.rows_from < self.start

    @property
    def source(self) -> str:
        """The log, in errors."""
        topic_id = uuid_to_string(self.identity.topic_id)
        return f"the log of cluster {self.identity.cluster_id}, topic id {topic_id}"

    @property
    def ref(self) -> SnapshotRef:
        """Where the state is stored."""
        return SnapshotRef(
            cluster_id=self.identity.cluster_id, epoch=self.provenance.epoch, end_offset=self.end
        )


class AclCount(msgspec.Struct, frozen=True, array_like=True):
    """How many ACLs of one kind there are; Kafka's codes."""

    resource_type: int
    pattern_type: int
    operation: int
    permission_type: int
    count: int


class AclCountDelta(msgspec.Struct, frozen=True, array_like=True):
    """By how many ACLs of one kind the records of one minute changed the count; Kafka's codes.

    ``minute_ms`` is the minute's start, in milliseconds since the epoch, by the records' timestamps.
    """

    minute_ms: int
    resource_type: int
    pattern_type: int
    operation: int
    permission_type: int
    delta: int


class LogSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What folding one log gave; travels to the driver as JSON.

    Attributes:
        parts: the files of its state.
        digest: of its ACLs, 32 hexadecimal digits (I12).
        features: all feature levels.
        brokers: that are registered, and what their binaries support.
        metadata: the file with what else the log knows.
        records: that were read, without control records.
        counts: what they did.
        acl_counts: all its ACLs, by kind.
        count_deltas: where they were asked for.
    """

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
    """What a batch made of one log, once its parts are written, before its manifest is.

    Attributes:
        plan: what was to be made.
        manifest: what will be put.
        summary: of the fold.
    """

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
        provenance=plan.provenance,
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
