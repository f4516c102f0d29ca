"""``aclog report``: one state of the ACLs as one file, for who audits it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.analysis.files.resources import RESOURCES, names_of
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import (
    EXAMPLE_TIME,
    POINT,
    PRINCIPAL,
    TIME,
    at_offset_option,
    config_option,
    log_option,
    progress_option,
    raw_cells_option,
)
from authorizer.cli.rendering.output import Progress, Waiting, note
from authorizer.cli.resources import only_resource
from authorizer.cli.sidecar import credentials_options
from authorizer.cli.workspace import Workspace, is_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.cli.report.content import Report
    from authorizer.cli.report.source import Source
    from records.principal import KafkaPrincipal

#: What a browser opens at once: ACLs of each form; and changes, and flips, that it lists.
_ACLS_MAXIMUM: Final = {"html": 200_000, "print": 20_000}
_LINES_MAXIMUM: Final = {"html": 2_000, "print": 20_000}
_STDOUT: Final = Path("-")


@click.command("report", cls=Command)
@log_option
@click.option(
    "--acls",
    "source",
    metavar="SET",
    help="Instead of --log any set of ACLs that `aclog diff` takes: a snapshot store, a running node, a "
    "plan, a file.",
)
@at_offset_option
@click.option("--at-time", type=TIME, help=f"The state at this time, such as {EXAMPLE_TIME}.")
@click.option(
    "--since",
    type=POINT,
    help="Also show what changed since the record at this offset, or since this time: the ACLs, and every "
    "class of requests that has another answer.",
)
@click.option(
    "--principal", "principals", type=PRINCIPAL, multiple=True, help="Only about this principal; repeatable."
)
@click.option("--topic", metavar="NAME", help="Only about this topic; NAME* is all topics that begin so.")
@click.option("--group", metavar="NAME", help="Only about this consumer group, or NAME*.")
@click.option("--cluster", is_flag=True, help="Only about the cluster.")
@click.option("--transactional-id", metavar="ID", help="Only about this transactional id, or ID*.")
@click.option("--delegation-token", metavar="TOKEN", help="Only about this delegation token, or TOKEN*.")
@click.option("--user-principal", metavar="TYPE:NAME", help="Only about this user, or TYPE:NAME*.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "print", "csv", "json"]),
    default="html",
    show_default=True,
    help="The console's page; static tables for paper and PDF; one table; JSON lines.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    required=True,
    metavar="FILE",
    help="Where to write it, whole or not at all; - is stdout.",
)
@raw_cells_option
@credentials_options
@config_option
@progress_option
def report_command(
    *,
    source: str | None,
    at_offset: int | None,
    at_time: datetime | None,
    since: int | datetime | None,
    principals: tuple[KafkaPrincipal, ...],
    form: str,
    output: Path,
    raw_cells: bool,
    **resource: Any,
) -> None:
    """Write who may do what, and what changed, as one file for an audit.

    By default the file is the console's page, which needs no node and no network. It shows who may do what,
    each ACL with the findings of `aclog lint`, and with --since the changes and the classes of requests that
    have another answer, each with an example. --format print has the same as static tables for printing. All
    of it describes one state, which the file names: log and cluster, offset, time, digest, and the Kafka
    release whose rules apply.

    The file has no other states: for them it shows the command to run. A page has at most 200,000 ACLs and
    lists 2,000 changes, a printed report 20,000 of each; JSON and CSV have all. Narrow a report with
    --principal, or with the option of a resource.

    \b
    JSON has one object on a line, in this order:
      {"report": {...}}                       which state, and what is left out
      {"access": TYPE, "principal": ..., "name" or "prefix": ..., "allowed": {HOST: [...], ...}}
                                              operations by host, * is any other; principal * is
                                              everyone who is not named; "as": "*" in place of
                                              "allowed" is what everyone may there
      {"acl": "inForce", ..., "findings": [{"rule": ..., "because": ..., "by": [...], "can_go": ...}]}
      {"change": "added", "removed" or "replaced", "offset": ..., "endOffset": ..., "timestamp": ...,
      "acl": {...}}                           by the record at this offset; endOffset: of its batch
      {"flip": "granted" or "revoked", ...}   as `aclog diff --json` has it
      {"summary": {"access": N, "acls": N, "findings": N, "changes": N, "flips": N}}
    Of a principal's lines of access the narrowest counts: a name's own, else that of the longest
    prefix, else everyone's. CSV has the same in one table; its column "section" says what a line is.

    \b
    Examples:
      aclog report --log file:DIR --output report.html
      aclog report --log DIR --at-time 2026-10-01T00:00Z --since 2026-07-01T00:00Z --output q3.html
      aclog report --log kafka://HOST:9092/acls --topic 'pii-*' --format print --output pii.html
      aclog report --acls acls.txt --principal User:alice --format json --output - | jq .
    """
    from authorizer.cli.report.content import gather
    from authorizer.cli.report.scope import Scope
    from authorizer.engine.decisions.state import AuthorizerSettings
    from replay.clock import SystemClock

    where = None
    if any(resource[each] not in (None, False) for each in RESOURCES):
        resource_type, name = only_resource(resource)
        where = resource_type, names_of(name)
    scope = Scope(tuple(sorted({str(each) for each in principals})), where)
    workspace = Workspace.given()
    settings = AuthorizerSettings.from_configs(workspace.config.properties)
    found = _source(workspace, source, _point(at_offset, at_time), since)
    _require_few(len(scope.table(found.image.merged().columns)), form)
    report = gather(found, scope, settings, SystemClock().now_ms(), _LINES_MAXIMUM.get(form))
    for each in report.left_out:
        note(f"note: left out: {each}")
    _write(_pieces(report, form, raw_cells=raw_cells), output)


def _point(at_offset: int | None, at_time: datetime | None) -> int | datetime | None:
    if at_offset is not None and at_time is not None:
        raise click.UsageError("--at-offset and --at-time cannot be used together")
    return at_time if at_offset is None else at_offset


def _source(
    workspace: Workspace, source: str | None, at: int | datetime | None, since: int | datetime | None
) -> Source:
    from authorizer.cli.report.source import of_log, of_set

    if source is None:
        return of_log(workspace, at, since)
    if at is not None or since is not None:
        hint = "name the log by --log" if is_log(source) else "`aclog diff A B` compares any two sets"
        raise click.UsageError(f"--at-offset, --at-time and --since go with --log: {hint}")
    return of_set(source, workspace)


def _require_few(acls: int, form: str) -> None:
    most = _ACLS_MAXIMUM.get(form)
    if most is not None and acls > most:
        raise Failure(
            f"{acls:,} ACLs are too many for --format {form}, which has {most:,} at most",
            ExitCode.USAGE,
            "Narrow it: --principal TYPE:NAME, --topic 'NAME*' or another resource's flag; or take --format "
            "json or csv.",
        )


def _pieces(report: Report, form: str, *, raw_cells: bool) -> Iterator[bytes]:
    from authorizer.cli.report import machine_output, page_file, print_file

    match form:
        case "html":
            with Waiting("putting the page together"):
                return iter([page_file.page(report)])
        case "print":
            return print_file.pages(report)
        case "csv":
            return machine_output.csv_lines(report, raw_cells=raw_cells)
        case _:
            return machine_output.json_lines(report)


def _write(pieces: Iterator[bytes], output: Path) -> None:
    from snapshot.files.atomic_file import atomic_write

    with Progress("lines") as shown:
        if output == _STDOUT:
            for count, piece in enumerate(pieces):
                click.echo(piece, nl=False)
                shown.at(count)
            return
        with atomic_write(output) as file:
            for count, piece in enumerate(pieces):
                file.write(piece)
                shown.at(count)
