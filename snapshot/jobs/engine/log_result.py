"""What the fold of a log comes to: its state's manifest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from snapshot.digest import digest_from_string
from snapshot.jobs.engine.job import LogPlan, LogResult
from snapshot.store.manifest import SnapshotManifest

if TYPE_CHECKING:
    from snapshot.jobs.engine.job import LogSummary


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
