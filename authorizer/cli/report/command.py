"""``aclog report``: one state of the ACLs as one file for auditors."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.analysis.files.parsing import RESOURCES, parse_names
from authorizer.cli.acl_sources.options import named_set, require_fitting_options, source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.options import (
    POINT,
    PRINCIPAL,
    at_offset_option,
    at_time_option,
    config_option,
    only_resource,
    progress_option,
    raw_cells_option,
    resource_options,
)
from authorizer.cli.output_file import OutputFile, output_file, require_suffix
from authorizer.cli.rendering.output import Progress, Waiting, note
from authorizer.cli.workspace import Workspace, is_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.lint.rules import LintRules
    from authorizer.cli.report.content import Report
    from authorizer.cli.report.source import Source
    from records.principal import KafkaPrincipal

#: What a browser can open: maximum number of ACLs per format, and of listed changes.
_ACLS_MAXIMUM: Final = {"html": 200_000, "print": 20_000, "pdf": 20_000}
_LINES_MAXIMUM: Final = {"html": 2_000, "print": 20_000, "pdf": 20_000}
#: Of the classes of who may.
_ALLOWED_MAXIMUM: Final = {"html": 10_000}
_STDOUT: Final = Path("-")
_WRITTEN: Final = {"html": "HTML", "print": "HTML", "pdf": "PDF", "csv": "CSV", "json": "JSON"}


@click.command("report", cls=Command)
@source_options()
@at_offset_option
@at_time_option
@click.option(
    "--since",
    type=POINT,
    help="Also show what changed since the record at this offset, or since this time: the ACLs, and every "
    "class of requests whose decision changed.",
)
@click.option(
    "--principal", "principals", type=PRINCIPAL, multiple=True, help="Only this principal; repeatable."
)
@resource_options(prefixes=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "print", "pdf", "csv", "json"]),
    default="html",
    show_default=True,
    help="The console's page; static tables for paper; these printed by Chromium; one table; JSON lines.",
)
@click.option(
    "--output",
    type=OutputFile(allow_dash=True),
    required=True,
    metavar="FILE",
    help="Where to write it, atomically; - is stdout.",
)
@raw_cells_option
@config_option
@progress_option
def report_command(
    *,
    at_offset: int | None,
    at_time: datetime | None,
    since: int | datetime | None,
    principals: tuple[KafkaPrincipal, ...],
    form: str,
    output: Path,
    raw_cells: bool,
    **resource: Any,
) -> None:
    """Write effective permissions, and what changed, as one file for an audit.

    The default is the console's page, which needs no node and no network: effective permissions, each ACL
    with the findings of `aclog lint`, and with --since the changes and the classes of requests whose decision
    changed, each with a witness request; it opens on these. --format print has the same as static tables
    without a script. --format pdf prints them with Chromium or Chrome, which must be on PATH, or named in
    the variable ACLOG_CHROMIUM. All of it is from one state, which the file names: log, cluster, offset,
    time, digest, and the Kafka release whose rules apply.

    For requests and states that the file does not contain, it shows the command that answers them. A page
    holds at most 200,000 ACLs and 2,000 changes, a print page and a PDF 20,000 of each; JSON and CSV have no
    limit. Restrict the report with --principal, or with the flag of a resource.

    The page also has who may, and since when (from a log), for the names and prefixes of its matrix, the
    widest first, up to 10,000 lines; it says for how many of them.

    \b
    JSON has one object on a line, in this order:
      {"report": {...}}                       which state, and what is left out
      {"access": TYPE, "principal": ..., "name" or "prefix": ..., "allowed": {HOST: [...], ...}}
                                              operations by host, * is any other host; principal *
                                              is all that are not named; "as": "*" instead of
                                              "allowed": the same as principal *
      {"acl": "inForce", ..., "findings": [{"rule": ..., "severity": ..., "because": ..., "by": [...], ...}]}
      {"change": "added", "removed" or "replaced", "offset": ..., "endOffset": ..., "timestamp": ...,
      "acl": {...}}                           by the record at this offset; endOffset: of its batch
      {"flip": "granted" or "revoked", ...}   as `aclog diff --json` has it, "releases" included
      {"summary": {"access": N, "acls": N, "findings": N, "changes": N, "flips": N}}
    The most specific line of a principal applies: the one of the name, else of the longest prefix,
    else the one of principal *. CSV has the same in one table; column "section" is the kind of line.

    \b
    Examples:
      aclog report --log file:DIR --output report.html
      aclog report --log DIR --at-time 2026-10-01T00:00Z --since 2026-07-01T00:00Z --output q3.html
      aclog report --log kafka://HOST:9092/acls --topic 'pii-*' --format print --output pii.html
      aclog report --acls acls.txt --principal User:alice --format json --output - | jq .
    """
    from authorizer.analysis.matrix.teams import Teams
    from authorizer.cli.report.content import gather
    from authorizer.cli.report.source import Scope
    from authorizer.engine.decisions.state import AuthorizerSettings
    from replay.clock import SystemClock

    require_suffix(output, _WRITTEN[form], "--output")
    if form == "pdf":
        # Before the computation, which may take minutes.
        from authorizer.cli.report.pdf_file import chromium

        chromium()
    resource_scope = None
    if any(resource[each] not in (None, False) for each in RESOURCES):
        resource_type, name = only_resource(resource)
        resource_scope = resource_type, parse_names(name)
    scope = Scope(tuple(sorted({str(each) for each in principals})), resource_scope)
    workspace = Workspace.given()
    settings = AuthorizerSettings.from_configs(workspace.config.properties)
    at = at_time if at_offset is None else at_offset
    state_source = _source(workspace, at, since, with_history=form == "html")
    _check_size(len(scope.table(state_source.image.merged().columns)), form)
    teams = Teams(workspace.config.console_teams)
    rules = _lint_rules(workspace.config.console_lint_rules)
    now_ms, maximum = SystemClock().now_ms(), _LINES_MAXIMUM.get(form)
    allowed_maximum = _ALLOWED_MAXIMUM.get(form)
    report = gather(state_source, scope, settings, now_ms, teams, rules, maximum, allowed_maximum)
    for each in report.left_out:
        note(f"left out: {each}")
    _write(_pieces(report, form, raw_cells=raw_cells), output)


def _lint_rules(path: str | None) -> LintRules:
    from authorizer.analysis.files.parsing import FileFormatError
    from authorizer.console.routes.findings import read_lint_rules

    try:
        return read_lint_rules(path)
    except FileFormatError as error:
        raise Failure(str(error), ExitCode.USAGE, "`aclog lint --help` has an example.") from error


def _source(
    workspace: Workspace, at: int | datetime | None, since: int | datetime | None, *, with_history: bool
) -> Source:
    from authorizer.cli.report.source import read_log, read_set

    source = named_set()
    if source is None:
        require_fitting_options()
        return read_log(workspace, at, since, with_history=with_history)
    if at is not None or since is not None:
        hint = "name the log with --log" if is_log(source) else "use `aclog diff A B` to compare any two sets"
        raise click.UsageError(f"--at-offset, --at-time and --since go with --log: {hint}")
    return read_set(workspace)


def _check_size(acls: int, form: str) -> None:
    most = _ACLS_MAXIMUM.get(form)
    if most is not None and acls > most:
        raise Failure(
            f"{acls:,} ACLs are too many for --format {form}: the maximum is {most:,}",
            ExitCode.USAGE,
            "Restrict it with --principal TYPE:NAME, --topic 'NAME*' or another resource's flag, or use "
            "--format json or csv.",
        )


def _pieces(report: Report, form: str, *, raw_cells: bool) -> Iterator[bytes]:
    from authorizer.cli.report import machine_output, page_file, pdf_file, print_file

    match form:
        case "html":
            with Waiting("rendering the page"):
                return iter([page_file.page(report)])
        case "print":
            return print_file.pages(report)
        case "pdf":
            with Waiting("printing"):
                return iter([pdf_file.pdf(print_file.pages(report), pdf_file.chromium())])
        case "csv":
            return machine_output.csv_lines(report, raw_cells=raw_cells)
        case _:
            return machine_output.json_lines(report)


def _write(pieces: Iterator[bytes], output: Path) -> None:
    with Progress("lines") as shown:
        if output == _STDOUT:
            for count, piece in enumerate(pieces):
                click.echo(piece, nl=False)
                shown.at(count)
            return
        with output_file(output) as file:
            for count, piece in enumerate(pieces):
                file.write(piece)
                shown.at(count)
