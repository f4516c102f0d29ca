"""``aclog review``: the ACLs that the requests of an authorizer's log needed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from authorizer.cli.acl_sources.options import load_set, set_source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import completes, progress_option
from authorizer.cli.output_file import OutputFile
from authorizer.cli.reviews.options import (
    DISTINCT_HELP,
    limit_option,
    review_set,
    window_of,
    window_options,
)


@click.command("review", cls=Command)
@click.option(
    "--requests",
    "first",
    metavar="FILE",
    required=True,
    multiple=True,
    shell_complete=completes("file"),
    help="Lines of requests, gzip or not; - is stdin. Several: --requests FILE FILE ...",
)
@click.argument("more", nargs=-1, metavar="")
@window_options
@click.option(
    "--changes",
    type=OutputFile("JSON"),
    metavar="FILE",
    help="Also write the ACLs to be removed as changes for `aclog plan`: JSON lines, as `aclog diff --json` "
    "prints them.",
)
@click.option("--distinct", type=OutputFile("JSON"), metavar="FILE", help=DISTINCT_HELP.format("it"))
@limit_option
@set_source_options
@progress_option
def review_command(
    *,
    first: tuple[str, ...],
    more: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    fewest: bool,
    changes: Path | None,
    distinct: Path | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find the ACLs that the requests of an authorizer's log did not need.

    Prints a summary: the window, how its requests were answered, and how many ACLs can be removed and why. An
    ALLOW can be removed if all requests that were allowed in the window are allowed without it, and a DENY
    if it denies none of them. The ACLs to keep are the narrowest that suffice, even if the log names others;
    super users need none. Then come, --limit of each: requests that have another answer now, ACLs to remove,
    ACLs to keep.

    FILE has lines of Kafka's own kafka-authorizer.log, with anything before them, of `aclog serve`'s audit
    log in JSON, or its decision events. Kafka logs what it allows at DEBUG, and denials alone by default: set
    the level of its logger kafka.authorizer.logger to DEBUG, on every broker and controller, and give the
    lines of all of them. A time without a zone is taken as UTC, and --since and --until by the same clock.

    Super users and allow.everyone.if.no.acl.found come from --config. The log of a week has no request that
    is made once a quarter: check the window before you remove ACLs. --changes writes changes for `aclog
    plan`, and prints the two commands that apply them.

    Exit code 0: all ACLs are needed; 1: some can be removed.

    \b
    Examples:
      aclog review --requests requests.jsonl kafka-authorizer.log --log DIR --distinct requests-2.jsonl
      aclog review --requests /var/log/kafka/kafka-authorizer.log* --log DIR --config server.properties
      aclog review --requests decisions.jsonl.gz --acls http://127.0.0.1:8180 --changes removals.jsonl
      zcat logs/*.gz | aclog review --requests - --acls file:DIR@281 --since 2026-11-01 --json
    """
    from authorizer.cli.reviews.options import read_requests
    from authorizer.cli.reviews.report import Report, print_report

    window = window_of(since, until)
    acls, settings = load_set()
    traffic = read_requests((*first, *more), window)
    found = review_set(acls, settings, traffic, fewest=fewest)
    report = Report(acls, found, traffic, window)
    print_report(report, as_json=as_json, limit=limit)
    if changes is not None:
        report.write_changes(changes)
    if distinct is not None:
        report.write_requests(distinct)
    if found.unused:
        raise click.exceptions.Exit(ExitCode.NO)
