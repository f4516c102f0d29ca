"""What the folded shards of a log add up to: its state's manifest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from snapshot.digest import DIGEST_MASK, digest_from_string
from snapshot.errors import SparkJobError
from snapshot.fold import DeltaCounts
from snapshot.jobs.engine.job import LogPlan, LogResult, ShardSummary
from snapshot.store.manifest import SnapshotManifest

if TYPE_CHECKING:
    from collections.abc import Iterable


def log_result(plan: LogPlan, summaries: Iterable[ShardSummary], *, gap_until: int = 0) -> LogResult:
    """The result of one log.

    Args:
        plan: of the log.
        summaries: of its shards, in any order.
        gap_until: as SnapshotManifest.

    Raises:
        SparkJobError: a shard is missing, or there twice.
    """
    in_order = tuple(sorted(summaries, key=lambda summary: summary.shard))
    shards = [summary.shard for summary in in_order]
    if shards != list(range(plan.shards)):
        raise SparkJobError(
            f"cluster {plan.identity.cluster_id}: shards {shards} were folded, not each of {plan.shards} once"
        )
    counts = DeltaCounts()
    by_type: Counter[int] = Counter()
    digest = 0
    for summary in in_order:
        counts.add(summary.counts)
        by_type.update(summary.count_by_resource_type)
        digest = (digest + digest_from_string(summary.digest)) & DIGEST_MASK
    manifest = SnapshotManifest(
        identity=plan.identity,
        provenance=plan.provenance,
        log_end_time_ms=plan.log_end_time_ms,
        count=by_type.total(),
        count_by_resource_type=dict(by_type),
        digest=digest,
        features=in_order[0].features,
        parts=tuple(summary.part for summary in in_order if summary.part is not None),
        gap_until=gap_until,
    )
    return LogResult(plan=plan, manifest=manifest, summaries=in_order, counts=counts)
