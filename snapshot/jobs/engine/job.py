"""What a job is made of: its settings, what a batch does to each log, and what a job adds to the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from records.entries import SupportedLevels
from records.ids import uuid_to_string
from snapshot.fold import DeltaCounts
from snapshot.jobs.engine.sharding import SHARDS_DEFAULT
from snapshot.store.layout import SnapshotRef
from snapshot.store.manifest import MetadataFile, SnapshotPart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from records.log.base import LogIdentity
    from snapshot.image import Provenance
    from snapshot.jobs.sources.logs import FollowedLog
    from snapshot.store.manifest import SnapshotManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What one job follows, and where it keeps what.

    Attributes:
        logs: what is followed; no two of one cluster.
        checkpoint: Spark's checkpoint, a URL that Hadoop and fsspec both know, or a local path.
        store: URL of the snapshot store that the batches' states go to.
        keep: whole snapshots of each log that stay in it.
        shards: pieces in which a log's state is stored.
        interval_s: seconds between two batches; None: what there is now, then end (availableNow).
        max_offsets: of one batch; None: all that there is.
        topics_pattern: bootstrap servers and regular expression, where topics are followed by a pattern.
        kafka_options: client settings of Spark's Kafka source, without the prefix ``kafka.``.
    """

    logs: tuple[FollowedLog, ...]
    checkpoint: str
    store: str
    keep: int = 3
    shards: int = SHARDS_DEFAULT
    interval_s: float | None = None
    max_offsets: int | None = None
    topics_pattern: tuple[str, str] | None = None
    kafka_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What one batch is to make of one log. Goes to the executors.

    Attributes:
        identity: the log.
        has_ranges: its rows are ranges (schema.SOURCE).
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


class JobSink(Protocol):
    """What a job adds to the snapshots: outputs of its own."""

    @property
    def wants_changes(self) -> bool:
        """Changes are noted one by one; the offsets in the stored state are then applied offsets."""

    @property
    def wants_count_deltas(self) -> bool:
        """The summary of each log has ``count_deltas``."""

    def changes_writer(self, plans: Sequence[LogPlan]) -> Callable[[LogPlan, pa.Table], None] | None:
        """What writes the changes of one log, on executors; called on the driver, before the batch's action.

        A task may run twice, and a batch come again: the same names must be written. See log_fold.fold_logs.
        """

    def commit(self, results: Sequence[LogResult]) -> None:
        """Write what the driver writes, before the manifests are put.

        A batch that failed after this comes again, with the same ranges: the same names must be written. The
        plans' attempts differ then.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """What a batch did to one log.

    Attributes:
        cluster_id: the log's.
        start: its first offset.
        end: where the state stands.
        count: ACLs in force.
        digest: of them, 32 hexadecimal digits.
        records: that were read, without control records.
        counts: what they did.
        is_read_again: the log was read again from before the batch, no later state could be continued.
    """

    cluster_id: str
    start: int
    end: int
    count: int
    digest: str
    records: int
    counts: DeltaCounts
    is_read_again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch did; ``logs`` has those that it changed, or moved the end of."""

    batch_id: int
    logs: tuple[LogReport, ...]
    elapsed_ms: float
