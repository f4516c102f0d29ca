"""``aclog review``: the ACLs that the requests of a log needed; and the options of `aclog spark review`."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.acl_sources.options import load_set, set_source_options
from authorizer.cli.command import Command
from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.input import lines_of
from authorizer.cli.options import EXAMPLE_TIME, TIME, completes, progress_option, shared
from authorizer.cli.output_file import OutputFile
from authorizer.cli.rendering.output import Progress, note, shown
from records.request_traffic import Traffic, TrafficReader, Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.reviews.review import Review
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState


#: How to log what a review needs.
LOGGING_HINT: Final = (
    "Kafka logs what it allows at DEBUG: set the level of kafka.authorizer.logger in log4j2.yaml, or on a "
    "running broker by `kafka-configs --alter --entity-type broker-loggers`; `aclog serve` logs it with "
    "aclog.audit.level=DEBUG, or as aclog.decision.log."
)

window_options: Final = shared(
    click.option("--since", type=TIME, help=f"Requests at this time and after it, such as {EXAMPLE_TIME}."),
    click.option("--until", type=TIME, help="Requests before this time."),
    click.option(
        "--fewest",
        is_flag=True,
        help="Keep as few ACLs as possible, instead of the narrowest that suffice.",
    ),
)


#: Of the option --distinct of both commands.
DISTINCT_HELP: Final = (
    "Also write the requests as decision events, one for equal requests, with their number and the times of "
    "the first and last: --requests takes {} again, together with newer lines, and the console shows when "
    "rights were last used (aclog.console.requests)."
)

limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Maximum number of changed requests, ACLs to remove and ACLs to keep in text output; 0 for all. "
    "JSON has all.",
)


def window_of(since: datetime | None, until: datetime | None) -> Window:
    """The window of --since and --until."""
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until must be after --since")
    return Window(*(None if each is None else int(each.timestamp() * 1000) for each in (since, until)))


def review_set(acls: AclSet, settings: AuthorizerSettings, traffic: Traffic, *, fewest: bool) -> Review:
    """Review a set.

    Raises:
        Failure: nothing was allowed in the window, so every ACL would seem to be unneeded; or ACLs have
            networks as hosts, and the release that decided is unknown.
    """
    from authorizer.analysis.reviews.review import review
    from authorizer.engine.decisions.notes import unknown_release

    if not traffic.has_allowed:
        requests = traffic.coverage.requests
        reason = f"all {requests:,} requests were denied" if requests else "there are no requests"
        raise Failure(
            f"cannot review {acls.name}: {reason} in the lines of the window "
            f"({traffic.coverage.lines:,} lines were read)",
            ExitCode.BAD_DATA,
            LOGGING_HINT,
        )
    settings = settings.with_version_of(acls.image)
    state = acls.state(settings)
    for why in unknown_release(state):
        raise Failure(f"cannot review {acls.name}: {why}", ExitCode.USAGE)
    with Progress("requests") as progress:
        found = review(acls.table(), state, traffic, minimizes_count=fewest, on_progress=progress.at)
    _note_unknown_requests(state, found)
    return found


#: Requests that notes are searched for: one takes up to 0.1 s, where many names are compared.
_REQUESTS_MAX: Final = 20
_NOTES_MAX: Final = 5


def _note_unknown_requests(state: AuthorizerState, found: Review) -> None:
    """Print notes about requests that were allowed, and whose principal or resource no ACL names now."""
    from authorizer.analysis.permissions.witness import decision_arguments
    from authorizer.cli.request_notes import request_notes

    denied_now = (each.request for each in found.changed_decisions if not each.is_allowed_now)
    notes = {}
    for request in islice(denied_now, _REQUESTS_MAX):
        context, action = decision_arguments(*request)
        notes.update(dict.fromkeys(request_notes(state, context.principal, action, is_allowed=False)))
    note(*islice(notes, _NOTES_MAX))
    if len(notes) > _NOTES_MAX:
        note(f"{len(notes) - _NOTES_MAX} more such notes are not shown")


#: Lines between two progress reports.
_CHUNK_LINES: Final = 16_384


def read_requests(paths: Iterable[str], window: Window) -> Traffic:
    """Read the requests of a window; stdin for ``-``. Notes each file that has no allowed request."""
    traffic = Traffic()
    with Progress("lines") as progress:
        for path in paths:
            reader, number = TrafficReader(window), 1
            with lines_of(path) as lines:
                while chunk := list(islice(lines, _CHUNK_LINES)):
                    reader.read(chunk, path, number)
                    number += len(chunk)
                    progress.at(traffic.coverage.lines + number - 1)
            if reader.has_requests and not reader.has_allowed:
                note(f"{shown(path)} has no allowed request: Kafka logs those at DEBUG")
            traffic.add(reader.settle())
    return traffic


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
    from authorizer.cli.reviews.report import Report, print_report
    from authorizer.cli.reviews.review import read_requests

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
