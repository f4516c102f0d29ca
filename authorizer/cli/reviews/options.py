"""Options and steps that both review commands share."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.input import lines_of
from authorizer.cli.options import EXAMPLE_TIME, TIME, shared
from authorizer.cli.rendering.output import Progress, note, shown
from records.request_traffic import Traffic, TrafficReader, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from pathlib import Path

    from authorizer.analysis.review import Review
    from authorizer.cli.acl_sources.acl_source import AclSet
    from authorizer.engine.decisions.state import AuthorizerSettings


_Command = TypeVar("_Command", bound="Callable[..., Any]")

#: How Kafka is made to log what a review needs.
LOGGED: Final = (
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


limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Maximum number of changed requests, ACLs to remove and ACLs to keep in text output; 0 for all. "
    "JSON has all.",
)


def changes_option(metavar: str, what: str, type_: click.Path) -> Callable[[_Command], _Command]:
    """--changes, and the name that it had."""
    return shared(
        click.option("--changes", type=type_, metavar=metavar, help=what),
        click.option("--plan", "former_changes", type=type_, hidden=True),
    )


def changes_of(changes: Path | None, former_changes: Path | None) -> Path | None:
    """Where the changes are to be written."""
    if former_changes is None:
        return changes
    if changes is not None:
        raise click.UsageError("--plan is the old name of --changes: use --changes only")
    note("note: --plan is now called --changes: it writes changes for `aclog plan`, not a plan")
    return former_changes


def window_of(since: datetime | None, until: datetime | None) -> Window:
    """The window that the flags name."""
    if since is not None and until is not None and until <= since:
        raise click.UsageError("--until must be after --since")
    return Window(*(None if each is None else int(each.timestamp() * 1000) for each in (since, until)))


def reviewed(acls: AclSet, settings: AuthorizerSettings, traffic: Traffic, *, fewest: bool) -> Review:
    """The review of a set.

    Raises:
        Failure: nothing was allowed in the window: every ACL would seem to be needless; or ACLs have networks
            as their hosts, and which release decided is not known.
    """
    from authorizer.analysis.review import review
    from authorizer.engine.decisions.notes import unknown_release

    if not traffic.has_allowed:
        requests = traffic.coverage.requests
        what = f"all {requests:,} requests were denied" if requests else "there are no requests"
        raise Failure(
            f"cannot review {acls.name}: {what} in the lines of the window "
            f"({traffic.coverage.lines:,} lines were read)",
            ExitCode.BAD_DATA,
            LOGGED,
        )
    settings = settings.with_version_of(acls.image)
    state = acls.state(settings)
    for why in unknown_release(state):
        raise Failure(f"cannot review {acls.name}: {why}", ExitCode.USAGE)
    with Progress("requests") as progress:
        return review(acls.table(), state, traffic, minimizes_count=fewest, on_progress=progress.at)


#: Lines between two looks at the progress.
_AT_ONCE: Final = 16_384


def read_requests(paths: Iterable[str], window: Window) -> Traffic:
    """What the lines of all files say of a window; stdin for ``-``. With a note where a file has no ALLOW.

    Raises:
        OSError: one cannot be read.
    """
    traffic = Traffic()
    with Progress("lines") as progress:
        for path in paths:
            reader, number = TrafficReader(window), 1
            with lines_of(path) as lines:
                while some := list(islice(lines, _AT_ONCE)):
                    reader.read(some, path, number)
                    number += len(some)
                    progress.at(traffic.coverage.lines + number - 1)
            if reader.has_requests and not reader.has_allowed:
                note(f"note: {shown(path)} has no allowed request: Kafka logs those at DEBUG")
            traffic.add(reader.settle())
    return traffic
