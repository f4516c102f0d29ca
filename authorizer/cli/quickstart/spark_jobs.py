"""The Spark jobs of ``aclog quickstart``: snapshots, counts and changes of its log.

They run in a separate process (``SparkProcess``), to save memory of the node, and in one Spark session, which
starts once: ``python -m authorizer.cli.quickstart.spark_jobs CONFIG``.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.failure import failure_of
from authorizer.cli.quickstart.directory import CHANGES, COUNTS
from authorizer.cli.rendering.output import shown
from authorizer.cli.signals import end_with_parent
from authorizer.cli.spark.history import change_text
from authorizer.cli.spark.job import default_checkpoint, spark_session_of
from authorizer.cli.spark.locations import located
from authorizer.cli.spark.options import SparkFlags
from authorizer.cli.workspace import Workspace
from authorizer.configuration.load import load_config
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapshot.jobs.running.job import LogReport

_PARTS: Final = 4
_ROWS: Final = 5


class _Jobs:
    """The three jobs; each processes the complete log."""

    def __init__(self, spark: Any, config_file: Path) -> None:
        self._spark = spark
        self._directory = config_file.parent
        self._workspace = Workspace(load_config(config_file))

    def snapshots(self) -> None:
        """Write snapshots to the node's store."""
        from snapshot.jobs.snapshots.snapshots_job import run_snapshots

        store = self._workspace.store().url
        with _timed(2, f"snapshots in {store}"):
            log = self._run(run_snapshots, "snapshots", store, located(store))
        if log is not None:
            click.echo(f"  end offset {log.end}, {log.count} ACLs, digest {log.digest}")

    def counts(self) -> None:
        """Count the ACLs, and print the most frequent kinds."""
        from snapshot.jobs.counts.count_tables import read_counts
        from snapshot.jobs.counts.counts_job import run_counts

        home = self._directory / COUNTS
        output = located(str(home))
        with _timed(3, f"counts in {home}"):
            self._run(
                lambda spark, settings, on_batch: run_counts(spark, settings, output, on_batch),
                "counts",
                output,
                f"{output}/state",
            )
        rows = read_counts(self._spark, output).collect()
        end_offset = max(row["end_offset"] for row in rows)
        now = sorted(
            (-row["count"], "{permission_type} {operation} on {resource_type}:{pattern_type}".format_map(row))
            for row in rows
            if row["end_offset"] == end_offset
        )
        for negative, kind in now[:_ROWS]:
            click.echo(f"  {-negative:>4} {kind}")

    def changes(self) -> None:
        """Store the changes, and print the newest ones."""
        from snapshot.jobs.changes.changes_job import run_changes
        from snapshot.jobs.changes.history import History

        home = self._directory / CHANGES
        output = located(str(home))
        with _timed(4, f"changes in {home}"):
            self._run(
                lambda spark, settings, on_batch: run_changes(spark, settings, output, on_batch),
                "changes",
                output,
                f"{output}/state",
            )
        newest = History.open(self._spark, output).changed().rows.tail(_ROWS)
        for row in newest:
            click.echo(f"  {change_text(row.asDict(recursive=True))}")

    def _run(self, start: Callable[..., None], job: str, home: str, store: str) -> LogReport | None:
        """Run a job; returns the report of the log, None if there was nothing to do."""
        from snapshot.jobs.running.job import JobSettings
        from snapshot.jobs.sources.logs import resolve_logs

        settings = JobSettings(
            logs=tuple(resolve_logs([self._workspace.log_url])),
            checkpoint=default_checkpoint(home, job),
            store=store,
            keep=self._workspace.config.snapshot_keep,
        )
        reached: list[LogReport] = []
        start(self._spark, settings, lambda report: reached.extend(report.logs))
        return reached[-1] if reached else None


@contextmanager
def _timed(number: int, what: str) -> Iterator[None]:
    began_s = time.perf_counter()
    part = f"[{number}/{_PARTS}] {shown(what)}"
    click.echo(f"{part} ...")
    yield
    click.echo(f"{part}: {time.perf_counter() - began_s:.1f} s")


def main(config_file: Path) -> None:
    """Run the jobs in this process."""
    try:
        with ExitStack() as opened:
            with _timed(1, "start Spark"):
                spark = opened.enter_context(spark_session_of(SparkFlags(), "quickstart", needs_kafka=False))
            jobs = _Jobs(spark, config_file)
            jobs.snapshots()
            jobs.counts()
            jobs.changes()
    except AclogError as error:
        failure = failure_of(error)
        failure.show()
        sys.exit(failure.exit_code)


if __name__ == "__main__":
    end_with_parent(sys.stdin.fileno())
    main(Path(sys.argv[1]))
