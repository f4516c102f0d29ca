"""What a Spark job did, as it goes: one line for each batch and log, or one JSON line for each batch."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from authorizer.cli.rendering.output import answer, print_json, shown

if TYPE_CHECKING:
    from snapshot.jobs.running.job import BatchReport, LogReport


class Batches:
    """Prints each batch when it is done, and at the end what all of them came to."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._began_s = time.perf_counter()
        self._count = 0
        self._offsets = 0

    def show(self, report: BatchReport) -> None:
        """A batch is stored."""
        self._count += 1
        for log in report.logs:
            self._offsets += log.end - log.start
        if self._as_json:
            print_json(batch_json(report))
        else:
            for log in report.logs:
                answer(f"batch {report.batch_id}: {log_text(log)}; {report.elapsed_ms:.0f} ms", indent=2)
        # A reader of a pipe sees a batch when it is done.
        sys.stdout.flush()

    def end(self, made: str) -> None:
        """The job has ended in order; ``made`` names what it wrote to. JSON has no such line."""
        if self._as_json:
            return
        if not self._offsets:
            answer(f"nothing was left to do: {shown(made)} is up to date")
            return
        elapsed_s = time.perf_counter() - self._began_s
        answer(f"batches: {self._count}, offsets: {self._offsets}, {elapsed_s:.1f} s: {shown(made)}")


def log_text(log: LogReport) -> str:
    """``WwOO...: 0 to 87, 59 ACLs, digest ...; 69 added, 0 replaced, 10 removed``."""
    counts = log.counts
    anew = " (earlier offsets read again)" if log.is_read_again else ""
    return (
        f"{shown(log.cluster_id)}: {log.start} to {log.end}{anew}, {log.count} ACLs, digest {log.digest}; "
        f"{counts.added} added, {counts.replaced} replaced, {counts.removed} removed"
    )


def batch_json(report: BatchReport) -> dict[str, Any]:
    """One batch."""
    return {
        "batch": report.batch_id,
        "elapsedMs": round(report.elapsed_ms, 1),
        "logs": [
            {
                "clusterId": log.cluster_id,
                "startOffset": log.start,
                "endOffset": log.end,
                "count": log.count,
                "digest": log.digest,
                "added": log.counts.added,
                "replaced": log.counts.replaced,
                "removed": log.counts.removed,
                "repeated": log.counts.repeated,
                "unknownRemovals": log.counts.unknown_removals,
                "readAgain": log.is_read_again,
            }
            for log in report.logs
        ],
    }
