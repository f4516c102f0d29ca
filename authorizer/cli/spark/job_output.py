"""What a Spark job prints: its batches, and a summary at its end."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from authorizer.cli.invocation import shows_progress
from authorizer.cli.rendering.output import answer, note, print_json, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshot.jobs.running.job import BatchReport, LogReport


class JobOutput:
    """The lines of one job. If ``is_once``, its batches are progress, and the summary is the output."""

    def __init__(self, job: str, home: str, *, as_json: bool, is_once: bool) -> None:
        self.job = job
        #: The text of each failing log's error; see Fleet.
        self.failures: Mapping[str, str] = {}
        self._home = home
        self._as_json = as_json
        self._is_once = is_once
        # Read here, because batches are reported by threads without click's context.
        self._shows_progress = shows_progress()
        self._elapsed_ms = 0.0
        self._batches = 0
        # By cluster: from the start of the first batch to the end of the last one.
        self._totals: dict[str, LogReport] = {}
        self._deferred = 0

    def show(self, report: BatchReport) -> None:
        self._batches += 1
        self._elapsed_ms += report.elapsed_ms
        if report.deferred and not self._deferred and not self._as_json:
            note(
                f"{report.deferred:,} changes are in access_changes as deferred: the job analyses them "
                + ("before it ends" if self._is_once else "while no batch is running")
            )
        self._deferred = report.deferred
        for log in report.logs:
            before = self._totals.get(log.cluster_id)
            self._totals[log.cluster_id] = log if before is None else _joined(before, log)
        if self._as_json:
            print_json(
                {
                    "job": self.job,
                    "batch": report.batch_id,
                    "elapsedMs": round(report.elapsed_ms, 1),
                    "deferred": report.deferred,
                    "logs": [log_json(log) for log in report.logs],
                }
            )
        elif not self._is_once or self._shows_progress:
            for log in report.logs:
                line = f"{self.job}: batch {report.batch_id}: {log_text(log)}; {report.elapsed_ms:.0f} ms"
                if self._is_once:
                    note(line, label="")
                else:
                    answer(line, indent=2)
        # So that the reader of a pipe sees each batch immediately.
        sys.stdout.flush()

    def print_summary(self, spark_start_s: float, *, is_complete: bool) -> None:
        """Print what the job did; ``is_complete``: no signal stopped it."""
        if self._as_json:
            print_json(
                {
                    "job": self.job,
                    "output": self._home,
                    "batches": self._batches,
                    "sparkStartMs": round(spark_start_s * 1000),
                    "elapsedMs": round(self._elapsed_ms, 1),
                    "logs": [log_json(log) for log in self._totals.values()],
                    "failures": self.failures,
                }
            )
            return
        if not self._totals and not is_complete:
            answer(f"{self.job}: stopped before its first batch: start it again to go on")
        elif not self._totals:
            answer(f"{self.job}: nothing to do: {shown(self._home)} is up to date")
        batches = "1 batch" if self._batches == 1 else f"{self._batches} batches"
        for log in self._totals.values():
            answer(
                f"{self.job}: {log_text(log)}; {batches} in {self._elapsed_ms / 1000:.1f} s, written to "
                f"{shown(self._home)}",
                indent=2,
            )


def print_times(spark_start_s: float, work_s: float) -> None:
    """Print how long Spark took to start, and to work."""
    answer(f"Spark started in {spark_start_s:.1f} s and worked for {work_s:.1f} s")


def log_text(log: LogReport) -> str:
    """``WwOO...: offsets 0 to 87, 59 ACLs, digest ...; 69 added, 0 replaced, 10 removed``."""
    counts = log.counts
    again = " (earlier offsets read again)" if log.is_read_again else ""
    return (
        f"{shown(log.cluster_id)}: offsets {log.start} to {log.end}{again}, {log.count} ACLs, digest "
        f"{log.digest}; {counts.added} added, {counts.replaced} replaced, {counts.removed} removed"
    )


def log_json(log: LogReport) -> dict[str, Any]:
    """JSON form of the effect on one log."""
    return {
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


def _joined(before: LogReport, after: LogReport) -> LogReport:
    counts = msgspec.structs.replace(before.counts)
    counts.add(after.counts)
    return replace(
        after,
        start=before.start,
        records=before.records + after.records,
        counts=counts,
        is_read_again=before.is_read_again or after.is_read_again,
    )
