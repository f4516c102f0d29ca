"""The Spark jobs of ``aclog quickstart``: snapshots, counts and changes of its log.

They run in a separate process, to save memory of the node, and in one Spark session, which starts once:
``python -m authorizer.cli.quickstart.spark_jobs CONFIG``.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from authorizer.cli.failure import failure_of
from authorizer.cli.rendering.output import say, shown
from authorizer.cli.spark.history import change_text
from authorizer.cli.spark.job import default_checkpoint, spark_session_of
from authorizer.cli.spark.locations import located
from authorizer.cli.spark.options import SparkFlags
from authorizer.cli.spark.requirements import JAVA_MIN, missing_requirement
from authorizer.cli.workspace import Workspace
from authorizer.configuration.load import load_config
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapshot.jobs.running.job import LogReport

#: Output directories of the jobs, in the quickstart's directory.
COUNTS: Final = "counts"
CHANGES: Final = "changes"

#: Time to end in order before the process is killed; the next run continues either way.
_END_S: Final = 10.0
_ROWS: Final = 5


def run_spark_beside(config_file: Path) -> int | None:
    """Run the three jobs in a separate process; returns its exit code, None if Spark cannot run.

    Prints what is missing. If this function ends by an exception, it ends the process.
    """
    if missing := missing_requirement():
        say(f"Skipped, because {missing}: pip install 'aclog[spark]', and Java {JAVA_MIN} or newer.")
        return None
    say("Spark starts beside the node, which goes on serving; that takes some seconds ...")
    sys.stdout.flush()
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-m", __spec__.name, str(config_file)],
        stdin=subprocess.DEVNULL,
        # Ctrl-C goes to every process of a terminal's group; this one is ended from here.
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


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
        with _timed(f"Snapshots in {store}"):
            log = self._run(run_snapshots, "snapshots", store, located(store))
        if log is not None:
            say(f"  end offset {log.end}, {log.count} ACLs, digest {log.digest}")

    def counts(self) -> None:
        """Count the ACLs, and print the most frequent kinds."""
        from snapshot.jobs.counts.count_tables import read_counts
        from snapshot.jobs.counts.counts_job import run_counts

        home = self._directory / COUNTS
        output = located(str(home))
        with _timed(f"Counts in {home}"):
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
            say(f"  {-negative:>4} {kind}")

    def changes(self) -> None:
        """Store the changes, and print the newest ones."""
        from snapshot.jobs.changes.changes_job import run_changes
        from snapshot.jobs.changes.history import History

        home = self._directory / CHANGES
        output = located(str(home))
        with _timed(f"Changes in {home}"):
            self._run(
                lambda spark, settings, on_batch: run_changes(spark, settings, output, on_batch),
                "changes",
                output,
                f"{output}/state",
            )
        newest = History.open(self._spark, output).changed().rows.tail(_ROWS)
        say(*(f"  {change_text(row.asDict(recursive=True))}" for row in newest))

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
def _timed(what: str) -> Iterator[None]:
    began_s = time.perf_counter()
    yield
    say(f"{shown(what)} ({time.perf_counter() - began_s:.1f} s)")
    sys.stdout.flush()


def main(config_file: Path) -> None:
    """Run the jobs in this process."""
    began_s = time.perf_counter()
    try:
        with spark_session_of(SparkFlags(), "quickstart", needs_kafka=False) as spark:
            say(f"Up after {time.perf_counter() - began_s:.1f} s.")
            sys.stdout.flush()
            jobs = _Jobs(spark, config_file)
            jobs.snapshots()
            jobs.counts()
            jobs.changes()
    except AclogError as error:
        failure = failure_of(error)
        failure.show()
        sys.exit(failure.exit_code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
