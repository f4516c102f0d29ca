"""``aclog review``: which ACLs did the requests of an authorizer's log need?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode
from authorizer.cli.options import completes, progress_option
from authorizer.cli.plans.plan_file import note_next_steps
from authorizer.cli.reviews.options import (
    changes_of,
    changes_option,
    limit_option,
    reviewed,
    window_of,
    window_options,
)
from authorizer.cli.sets.allowed import given_set, set_source_options

if TYPE_CHECKING:
    from datetime import datetime


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
@changes_option(
    "FILE",
    "Also write the ACLs to be removed as changes for `aclog plan`: JSON lines, as `aclog diff --json` "
    "prints them.",
    click.Path(dir_okay=False, path_type=Path),
)
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
    former_changes: Path | None,
    limit: int,
    source: str | None,
    as_json: bool,
) -> None:
    """Which ACLs did the requests of an authorizer's log need?

    Prints a summary first: the window, how its requests were answered, and how many ACLs can be removed and
    why. An ALLOW can be removed if all that was allowed in the window is allowed without it, a DENY if it
    denies nothing that is allowed then. The ACLs to keep are the narrowest that suffice, whichever of them
    the log names; super users need none. Then come the first --limit requests that are answered otherwise
    now, ACLs to remove and ACLs to keep, each kind by itself.

    FILE has lines of Kafka's own kafka-authorizer.log, with anything before them, of `aclog serve`'s audit
    log in JSON, or its decision events. Kafka logs what it allows at DEBUG, and denials alone by default: set
    the level of its logger kafka.authorizer.logger to DEBUG, on every broker and controller, and give the
    lines of all of them. A time without a zone is taken as UTC, and --since and --until by the same clock.

    Super users and allow.everyone.if.no.acl.found come from --config. What is asked once a quarter is in no
    log of a week: look at the window before anything is removed. --changes writes what `aclog plan` takes,
    and prints the two commands that carry it out. Exit code 0: all ACLs are needed; 1: some can be removed.

    \b
    Examples:
      aclog review --requests /var/log/kafka/kafka-authorizer.log* --log DIR --config server.properties
      aclog review --requests decisions.jsonl.gz --acls http://127.0.0.1:8180 --changes removals.jsonl
      zcat logs/*.gz | aclog review --requests - --acls file:DIR@281 --since 2026-11-01 --json
    """
    from authorizer.cli.reviews.options import read_requests
    from authorizer.cli.reviews.report import Report, print_report

    window = window_of(since, until)
    acls, settings = given_set(source)
    traffic = read_requests((*first, *more), window)
    found = reviewed(acls, settings, traffic, fewest=fewest)
    report = Report(acls, found, traffic.coverage, window)
    print_report(report, as_json=as_json, limit=limit)
    if (path := changes_of(changes, former_changes)) is not None:
        report.write_changes(path)
        note_next_steps(path)
    if found.unneeded:
        raise click.exceptions.Exit(ExitCode.NO)
