"""A job's settings, the outputs that a kind of job adds (JobSink), the report of each batch, its observer."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from snapshot.jobs.running.claim import CheckpointClaim

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from snapshot.fold import DeltaCounts
    from snapshot.jobs.folding.log_plan import LogPlan, LogResult
    from snapshot.jobs.planning.log_states import LogBacklog
    from snapshot.jobs.sources.logs import FollowedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Logs, storage and limits of one job.

    Attributes:
        logs: the followed logs; no two of one cluster.
        checkpoint: Spark's checkpoint, a URL that both Hadoop and fsspec support, or a local path.
        store: URL of the snapshot store for the batches' states.
        keep: minimum number of complete snapshots of each log to retain.
        shards: number of parts in which a log's state is stored; None: see folding.log_plan.shards_of_size.
        interval_s: seconds between two batches; None: process what exists now, then end (availableNow).
        max_offsets: limit of one batch; None: no limit.
        isolates_logs: errors of single logs are collected, and raised as one LogsFailedError before anything
            of the batch is committed.
        take_over: see CheckpointClaim.
        claim: of ``checkpoint``, or of the fleet's, and of the output; None: the job makes one.
    """

    logs: tuple[FollowedLog, ...]
    checkpoint: str
    store: str
    keep: int = 3
    shards: int | None = None
    interval_s: float | None = None
    max_offsets: int | None = None
    isolates_logs: bool = False
    take_over: bool = False
    claim: CheckpointClaim | None = None


@contextmanager
def claimed(settings: JobSettings, stop: threading.Event | None = None) -> Iterator[CheckpointClaim]:
    """The claim of a job's checkpoint: that of the settings, or a new one for the block.

    Raises:
        CheckpointClaimedError: another job uses the checkpoint.
        SparkJobError: an owner's file is damaged.
        SnapshotError: the checkpoint cannot be read or written.
    """
    if settings.claim is not None:
        yield settings.claim
        return
    with CheckpointClaim(settings.checkpoint, take_over=settings.take_over, stop=stop) as claim:
        yield claim


class JobSink(Protocol):
    """The outputs that a kind of job writes besides the snapshots."""

    @property
    def name(self) -> str:
        """The kind of job; names its query in Spark, and labels its metrics."""

    @property
    def wants_changes(self) -> bool:
        """Record changes one by one; the stored state then has the offsets at which they took effect."""

    @property
    def wants_count_deltas(self) -> bool:
        """Compute ``count_deltas`` in the summary of each log."""

    def changes_writer(self, plans: Sequence[LogPlan]) -> Callable[[LogPlan, pa.Table], None] | None:
        """The function that writes one log's changes on executors; called on the driver before the action.

        It must write the same names if a task runs twice or a batch is repeated. See log_fold.fold_logs.
        """

    def commit(self, results: Sequence[LogResult]) -> None:
        """Write the driver's outputs, before the manifests are put.

        It must write the same names if the batch is repeated: with the same ranges, but other attempts.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The effect of a batch on one log.

    Attributes:
        digest: of them, 32 hexadecimal digits.
        records: number of records read, without control records.
        is_read_again: the log was read from before the batch, because no later state could be continued.
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
    """The effect of one batch.

    Attributes:
        batch_id: Spark's.
        logs: those whose state or end offset changed.
        elapsed_ms: without the publication of tables.
        deferred: number of changes whose access changes are not analysed yet.
    """

    batch_id: int
    logs: tuple[LogReport, ...]
    elapsed_ms: float
    deferred: int = 0


class JobObserver:
    """Takes what a running job does, for metrics. This one ignores it. Called by several threads."""

    #: Whether ``planned`` is wanted, which costs up to two small reads of each log that has new records.
    wants_backlogs: bool = False
    #: Added to the session of the job's query if that is another than the job's: Spark reports a query to the
    #: listeners of its session only.
    listener: StreamingQueryListener | None = None

    def listed(self) -> None:
        """The topics of the job's pattern were listed."""

    def planned(self, backlog: LogBacklog) -> None:
        """A batch with new records of a log begins."""

    def failed(self) -> None:
        """The job's query ended with an error; the job may start it again."""

    def deferred(self, count: int) -> None:
        """Number of changes whose access changes are not analysed yet."""

    @contextmanager
    def publication(self) -> Iterator[None]:
        """Committed changes are added to the history's tables in the block."""
        yield
