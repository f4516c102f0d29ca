"""``aclog spark review``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from authorizer.cli.acl_sources.options import acl_source, source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import completes, config_option, json_option, progress_option
from authorizer.cli.output_file import OutputFile
from authorizer.cli.rendering.output import note, shown
from authorizer.cli.reviews.review import (
    DISTINCT_HELP,
    LOGGING_HINT,
    limit_option,
    review_set,
    window_of,
    window_options,
)
from authorizer.cli.spark.job import note_start, spark_session_of
from authorizer.cli.spark.options import SparkFlags, spark_options
from authorizer.cli.spark.requirements import require_files, require_pyspark, require_spark
from authorizer.cli.workspace import Workspace
from snapshot.store.layout import cluster_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from authorizer.analysis.reviews.review import Review
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.cli.reviews.report import Report
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.request_traffic import Traffic, Window
    from snapshot.jobs.counted_lines import CountedLines, LineSource


@click.command("review", cls=Command)
@click.option(
    "--requests",
    "first",
    metavar="PATH",
    required=True,
    multiple=True,
    shell_complete=completes("file"),
    help="Files of request lines, directories or patterns of them: paths, or URLs that Hadoop has a file "
    "system for. What ends in .gz is unpacked. Several: --requests PATH PATH ...",
)
@click.argument("more", nargs=-1, metavar="")
@click.option(
    "--format",
    "file_format",
    default="text",
    show_default=True,
    metavar="NAME",
    help="text, or a table of lines: parquet, json, orc, delta.",
)
@click.option(
    "--line-column",
    default="value",
    show_default=True,
    metavar="NAME",
    help="Of a table, the one with the lines.",
)
@click.option(
    "--cluster-column",
    metavar="NAME",
    help="Of a fleet: whose lines they are, a column of the table or of directories NAME=CLUSTER.",
)
@click.option(
    "--cluster-pattern",
    metavar="REGEX",
    help="Of a fleet: a regular expression whose group is the cluster, in the URL of a file: 'logs/(.+?)/'.",
)
@window_options
@source_options(
    acls=click.option(
        "--acls",
        "sources",
        metavar="SET|CLUSTER=SET",
        multiple=True,
        help="Instead of --log any set of ACLs that `aclog diff` takes. Of a fleet: that of a cluster, "
        "repeatable; or a snapshot store that has those of all.",
    )
)
@click.option(
    "--changes",
    type=OutputFile("JSON", dir_okay=True),
    metavar="PATH",
    help="Also write the ACLs to be removed as changes for `aclog plan`: a file; of a fleet a directory, "
    "with CLUSTER.jsonl for each.",
)
@click.option(
    "--distinct",
    type=OutputFile("JSON", dir_okay=True),
    metavar="PATH",
    help=f"{DISTINCT_HELP.format('them')} A file, or a directory as of --changes.",
)
@limit_option
@config_option
@spark_options
@json_option
@progress_option
def review_command(
    *,
    first: tuple[str, ...],
    more: tuple[str, ...],
    file_format: str,
    line_column: str,
    cluster_column: str | None,
    cluster_pattern: str | None,
    since: datetime | None,
    until: datetime | None,
    fewest: bool,
    sources: tuple[str, ...],
    changes: Path | None,
    distinct: Path | None,
    limit: int,
    as_json: bool,
    **spark_flags: Any,
) -> None:
    """Review the ACLs of a fleet, from any number of lines of authorizers' logs.

    Prints what `aclog review` prints, for more lines than one machine can read: Spark counts equal requests,
    and aclog reviews the counted ones. A column or a pattern of file names gives the cluster of a line. Each
    cluster has its own report, with the window and the coverage of its lines.

    Exit code 0: all ACLs are needed; 1: some can be removed.

    \b
    Examples:
      aclog spark review --requests 's3://logs/kafka-authorizer/*.gz' --acls kafka://b1:9092/acls --json
      aclog spark review --requests logs --cluster-pattern 'logs/(.+?)/' --acls s3://bucket/snapshots
      aclog spark review --requests logs --cluster-column cluster --acls prod=DIR --acls test=DIR2 \\
          --changes out
    """
    from authorizer.cli.reviews.report import print_report
    from snapshot.jobs.counted_lines import LineSource, counted_lines

    source = LineSource((*first, *more), file_format, line_column, cluster_column, cluster_pattern)
    _check_source(source)
    require_pyspark()
    window = window_of(since, until)
    is_fleet = cluster_column is not None or cluster_pattern is not None
    sets = Sets.of_fleet(sources) if is_fleet else Sets.of_one(sources)
    require_spark()
    note_start()
    found: list[Review] = []
    with spark_session_of(SparkFlags(**spark_flags), "review", locations=source.paths) as spark:
        for report in _reports(counted_lines(spark, source, window), sets, window, fewest=fewest):
            print_report(report, as_json=as_json, limit=limit)
            if changes is not None:
                report.write_changes(_path_of(report, changes))
            if distinct is not None:
                report.write_requests(_path_of(report, distinct))
            found.append(report.found)
    if not found:
        raise Failure(
            "there are no lines that a set of ACLs could be judged by", ExitCode.BAD_DATA, LOGGING_HINT
        )
    if any(each.unused for each in found):
        raise click.exceptions.Exit(ExitCode.NO)


def _check_source(source: LineSource) -> None:
    """Check the options of the lines before Spark starts."""
    from records.java_pattern import JavaPattern

    if source.cluster_pattern is not None:
        try:
            JavaPattern.compile_for_java(source.cluster_pattern)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--cluster-pattern") from error
    for location in source.paths:
        require_files("--requests", location)


def _reports(
    counted: Iterable[CountedLines], sets: Sets, window: Window, *, fewest: bool
) -> Iterator[Report]:
    """The report of each cluster; notes the clusters that cannot be reviewed."""
    from authorizer.cli.reviews.report import Report
    from snapshot.jobs.counted_lines import traffic_of

    for cluster, lines in groupby(counted, key=lambda each: each.cluster):
        traffic = traffic_of(lines)
        if sets.only is None and (why := sets.lacks(cluster, traffic)):
            note(why)
            continue
        acls = sets.load(cluster) if sets.only is None else sets.only
        found = review_set(acls, sets.settings, traffic, fewest=fewest)
        yield Report(acls, found, traffic, window, cluster if sets.only is None else None)


def _path_of(report: Report, path: Path) -> Path:
    """The file to write; of a cluster of a fleet a file in the directory."""
    if report.cluster is None:
        return path
    path.mkdir(parents=True, exist_ok=True)
    return path / f"{cluster_directory(report.cluster)}.jsonl"


@dataclass(frozen=True, slots=True)
class Sets:
    """The ACLs of each cluster of a fleet, or the only set.

    ``only``: loaded before Spark starts, so that a missing one is reported soon; None: a fleet.
    """

    workspace: Workspace
    settings: AuthorizerSettings
    by_cluster: Mapping[str, str]
    only: AclSet | None = None

    @classmethod
    def of_one(cls, sources: tuple[str, ...]) -> Sets:
        from authorizer.cli.acl_sources.named_acls import NamedAcls

        if len(sources) > 1:
            raise click.UsageError("several --acls need --cluster-column or --cluster-pattern")
        workspace = Workspace.given()
        source = NamedAcls(sources[0], workspace) if sources else acl_source(workspace)
        return cls._of(workspace, {}, source.load())

    @classmethod
    def of_fleet(cls, sources: tuple[str, ...]) -> Sets:
        from snapshot.store.snapshot_store import SnapshotStore

        by_cluster: dict[str, str] = {}
        for each in sources:
            cluster, equals, name = each.partition("=")
            if equals:
                by_cluster[cluster] = name
            else:
                store = SnapshotStore(each)
                store.require()
                by_cluster = dict.fromkeys(store.clusters(), each) | by_cluster
        if not by_cluster:
            raise click.UsageError(
                "--acls: a fleet needs CLUSTER=SET for each, or a store with all snapshots"
            )
        return cls._of(Workspace.given(), by_cluster)

    @classmethod
    def _of(cls, workspace: Workspace, by_cluster: Mapping[str, str], only: AclSet | None = None) -> Sets:
        from authorizer.engine.decisions.state import AuthorizerSettings

        return cls(workspace, AuthorizerSettings.from_configs(workspace.config.properties), by_cluster, only)

    def load(self, cluster: str) -> AclSet:
        from authorizer.cli.acl_sources.named_acls import NamedAcls

        return NamedAcls(self.by_cluster[cluster], self.workspace, cluster).load()

    def lacks(self, cluster: str, traffic: Traffic) -> str | None:
        """Why a cluster cannot be reviewed; None if it can."""
        lines = f"{traffic.coverage.lines:,} lines"
        if not cluster:
            return f"{lines} have no cluster: skipped"
        if cluster not in self.by_cluster:
            return f"{lines} of cluster {shown(cluster)} skipped: no --acls names its ACLs"
        if not traffic.has_allowed:
            return f"nothing was allowed in the {lines} of cluster {shown(cluster)}: skipped. {LOGGING_HINT}"
        return None
