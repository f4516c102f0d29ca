"""A job's settings, the outputs that a kind of job adds (JobSink), and the report of each batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from snapshot.fold import DeltaCounts
    from snapshot.jobs.folding.log_plan import LogPlan, LogResult
    from snapshot.jobs.sources.logs import FollowedLog

#: A million ACLs are then stored in parts of some 3 MB.
SHARDS_DEFAULT: Final = 8


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
