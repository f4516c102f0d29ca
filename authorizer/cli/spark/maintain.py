"""``aclog spark maintain``: maintenance of a history and its tables."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.command import Command
from authorizer.cli.options import DURATION
from authorizer.cli.rendering.output import answer, note, print_json, shown, utc
from authorizer.cli.spark.job import note_start, spark_session_of
from authorizer.cli.spark.options import SparkFlags, history_option, query_options
from authorizer.cli.spark.requirements import located, require_history_directory, require_spark

if TYPE_CHECKING:
    from snapshot.jobs.changes.file_retention import FileRetention
    from snapshot.jobs.running.claim import CheckpointClaim

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_WEEK_MS: Final = 7 * _DAY_MS


@click.command("maintain", cls=Command)
@history_option
@click.option(
    "--vacuum-after",
    "vacuum_after_ms",
    type=DURATION,
    default=_WEEK_MS,
    help="Remove files that no version of the tables in this time has, in full hours, 7d or more.  "
    "[default: 7d]",
)
@click.option(
    "--keep-rows",
    "keep_ms",
    type=DURATION,
    help="Delete rows and files that only states before this time need, 1d or more.  [default: keep all]",
)
@click.option("--dry-run", is_flag=True, help="Only count the rows and files that --keep-rows would delete.")
@query_options
def maintain_command(
    *,
    history: str,
    vacuum_after_ms: int,
    keep_ms: int | None,
    dry_run: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Merge the small files of a history's tables, remove unused ones, and delete what is old.

    The tables are those of `aclog spark changes --format delta`. It may run beside that job, but not on S3
    and not with --keep-rows: then it is refused while the job runs, and the job while it runs (exit code 3).
    Run it once a day or week: each batch of a job adds some files.

    It also analyses the changes that are deferred in access_changes, with the configuration of the job that
    wrote them; beside a job it leaves them to that one.

    Nothing of the history is deleted without --keep-rows. With it, queries of states and periods within that
    time have the same answers, of the tables and of `aclog spark history`; earlier times are refused. For
    each cluster the last change before it and the last count of each kind remain, and ACLs that are in force.
    Of the history's Parquet files, batches are removed whose changes are all of earlier days.

    \b
    Examples:
      aclog spark maintain --history DIR
      aclog spark maintain --history DIR --vacuum-after 30d
      aclog spark maintain --history DIR --keep-rows 730d --dry-run
      aclog spark maintain --history s3://bucket/history
    """
    if vacuum_after_ms < _WEEK_MS or vacuum_after_ms % _HOUR_MS:
        raise click.BadParameter(
            "full hours, 7d or more: an earlier reader or job may still need the files",
            param_hint="--vacuum-after",
        )
    if keep_ms is not None and keep_ms < _DAY_MS:
        raise click.BadParameter(
            "1d or more: a job may still be writing these rows", param_hint="--keep-rows"
        )
    keep_from = None if keep_ms is None else datetime.now(UTC) - timedelta(milliseconds=keep_ms)
    if dry_run and keep_ms is None:
        raise click.UsageError("--dry-run counts the rows that --keep-rows DURATION would delete: give both")
    require_history_directory(history)
    from snapshot.jobs.changes.file_retention import remove_files
    from snapshot.jobs.changes.tables.maintenance import deletable_rows, maintain
    from snapshot.jobs.changes.tables.publication import published_ends
    from snapshot.jobs.running.claim import CheckpointClaim
    from snapshot.jobs.session.delta import SESSION_CONF
    from snapshot.store.object_store import is_s3
    from snapshot.store.storage import Storage

    storage = Storage(located(history))
    if keep_from is None or published_ends(storage) is not None:
        require_spark()
    with ExitStack() as on_exit:
        claim = None
        # S3A cannot refuse a second writer of Delta's tables, and retention rewrites the history's coverage.
        if (is_s3(history) or keep_ms is not None) and not dry_run:
            claim = on_exit.enter_context(CheckpointClaim(located(history), "output"))
        if keep_from is not None:
            published = published_ends(storage)
            for effect in remove_files(
                located(history), keep_from, published, claim=claim, is_dry_run=dry_run
            ):
                _print_files(effect, as_json=as_json, is_dry_run=dry_run)
            if published is None:
                return
        note_start()
        session = spark_session_of(SparkFlags(**flags), "maintain", conf=SESSION_CONF, locations=[history])
        spark = on_exit.enter_context(session)
        if dry_run and keep_from is not None:
            for table, deletable, rows in deletable_rows(spark, located(history), keep_from=keep_from):
                if as_json:
                    print_json({"table": table, "deletable": deletable, "rows": rows})
                else:
                    answer(f"{table}: {deletable:,} of {rows:,} rows would be deleted")
            return
        _analyse_deferred(spark, located(history), claim, as_json=as_json)
        hours = vacuum_after_ms // _HOUR_MS
        for done in maintain(
            spark, located(history), vacuum_after_hours=hours, keep_from=keep_from, claim=claim
        ):
            if as_json:
                print_json(done._asdict())
            else:
                deleted = f"{done.deleted:,} rows deleted; " if keep_ms is not None else ""
                merged = f"{done.merged} small files merged into {done.written}"
                answer(f"{done.table}: {deleted}{merged}; {done.files} files")


def _analyse_deferred(spark: Any, history: str, claim: CheckpointClaim | None, *, as_json: bool) -> None:
    """Analyse what publications have deferred, unless a job runs, which does so."""
    from authorizer.cli.spark.access_analysis import SettingsAnalysis
    from snapshot.errors import CheckpointClaimedError
    from snapshot.jobs.changes.tables.maintenance import analyse_deferred, deferred_changes
    from snapshot.jobs.running.claim import CheckpointClaim

    with ExitStack() as on_exit:
        if claim is None:
            if not deferred_changes(spark, history):
                return
            try:
                claim = on_exit.enter_context(CheckpointClaim(history, "output"))
            except CheckpointClaimedError:
                note("changes are deferred; the job that is running analyses them")
                return
        if not (analysed := analyse_deferred(spark, history, SettingsAnalysis.of_configs, claim)):
            return
    if as_json:
        print_json({"analysed": analysed})
    else:
        answer(f"access_changes: {analysed:,} deferred changes analysed")


def _print_files(effect: FileRetention, *, as_json: bool, is_dry_run: bool) -> None:
    begin = None if effect.begin is None else utc(round(effect.begin.timestamp() * 1000))
    if as_json:
        counted = "deletable" if is_dry_run else "removed"
        print_json(
            {"cluster": effect.cluster_id, counted: effect.removed, "files": effect.files, "begin": begin}
        )
        return
    would = "would be removed" if is_dry_run else "removed"
    since = "" if begin is None else f"; the history begins with the state at {begin}"
    answer(
        f"history of cluster {shown(effect.cluster_id)}: {effect.removed:,} Parquet files {would}, "
        f"{effect.files:,} remain{since}"
    )
