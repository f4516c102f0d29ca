"""``aclog spark history``: what ``aclog spark changes`` has kept, though the log forgot it."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.cli.options import PATTERN_TYPE, PRINCIPAL, completes, shared
from authorizer.cli.output import JsonLines, answer, note, shown, utc
from authorizer.cli.spark.job import located, note_start, spark_session_of
from authorizer.cli.spark.needs import require_spark
from authorizer.cli.spark.options import SparkFlags, query_options
from records.acl import PatternType, ResourceType
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from records.principal import KafkaPrincipal
    from snapshot.jobs.changes.history import Answer, History

_TIME: Final = "2026-11-21T02:33:16Z"


class _TimeType(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """ISO 8601; UTC unless it says another zone."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"`{value}` is not a time such as {_TIME}", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class _PointType(_TimeType):
    """A place in a log: an offset, or a time."""

    name = "OFFSET|TIME"

    def convert(  # type: ignore[override]  # a wider answer
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | datetime:
        if isinstance(value, int):
            return value
        # Ten digits and more are an offset too: a time has separators.
        return int(value) if value.isascii() and value.isdigit() else super().convert(value, param, ctx)


_TIME_TYPE: Final = _TimeType()
_POINT_TYPE: Final = _PointType()

_history_option: Final = click.option(
    "--history",
    "history",
    metavar="DIR",
    required=True,
    shell_complete=completes("dir"),
    help="What --output of `aclog spark changes` named: a path, or a URL that Hadoop has a file system for.",
)
_cluster_id_option: Final = click.option(
    "--cluster-id", metavar="ID", help="Which cluster of the history.  [default: the only one]"
)
_choice_options: Final = shared(
    click.option("--principal", type=PRINCIPAL, help="Only ACLs of exactly this principal."),
    click.option(
        "--resource-type",
        type=click.Choice(
            [kind.name for kind in ResourceType if kind > ResourceType.ANY], case_sensitive=False
        ),
        help="With --resource-name: only ACLs of this resource.",
    ),
    click.option("--resource-name", metavar="NAME", help="The resource's name, as the ACLs have it."),
    click.option(
        "--resource-pattern-type",
        type=PATTERN_TYPE,
        default=PatternType.ANY.name,
        show_default=True,
        help="How the name is meant: ANY, LITERAL or PREFIXED is of ACLs with this very name; MATCH is of "
        "all ACLs that affect the resource.",
    ),
)


class _Choice:
    """Which of the rows are wanted."""

    def __init__(
        self,
        principal: KafkaPrincipal | None,
        resource_type: str | None,
        resource_name: str | None,
        pattern_type: PatternType,
    ) -> None:
        if (resource_type is None) != (resource_name is None):
            raise click.UsageError("--resource-type and --resource-name go together")
        self._principal = principal
        self._resource = (resource_type, resource_name)
        self._pattern_type = pattern_type

    def of(self, rows: Any) -> Any:
        """The same rows, or fewer."""
        from snapshot.jobs.changes.history import covering_resource, of_principal, of_resource

        if self._principal is not None:
            rows = of_principal(rows, str(self._principal))
        resource_type, name = self._resource
        if resource_type is None or name is None:
            return rows
        if self._pattern_type is PatternType.MATCH:
            return covering_resource(rows, resource_type, name)
        any_kind = self._pattern_type is PatternType.ANY
        return of_resource(rows, resource_type, name, None if any_kind else self._pattern_type.name)


@click.group("history")
def history_command() -> None:
    """Ask the history: ACLs in force at an offset or time, changes between two."""


@history_command.command("in-force")
@_history_option
@_cluster_id_option
@click.option(
    "--at-offset", type=click.IntRange(min=0), metavar="OFFSET", help="After the record at this one."
)
@click.option("--at-time", type=_TIME_TYPE, help=f"At this time, such as {_TIME}.")
@_choice_options
@query_options
def in_force_command(
    *,
    history: str,
    cluster_id: str | None,
    at_offset: int | None,
    at_time: datetime | None,
    principal: KafkaPrincipal | None,
    resource_type: str | None,
    resource_name: str | None,
    resource_pattern_type: PatternType,
    as_json: bool,
    **spark_flags: Any,
) -> None:
    """List the ACLs that were in force at an offset or a time.

    By default those at the history's end. At an offset it gives what `aclog check --at-offset` decides on.
    Times are those that the records carry.

    \b
    Examples:
      aclog spark history in-force --history DIR --at-offset 51230
      aclog spark history in-force --history DIR --at-time 2026-11-21T02:33:16Z --principal User:alice --json
    """
    if at_offset is not None and at_time is not None:
        raise click.UsageError("--at-offset and --at-time are two ways to say the same: name one")
    choice = _Choice(principal, resource_type, resource_name, resource_pattern_type)
    with _opened(history, cluster_id, SparkFlags(**spark_flags)) as opened:
        _print(opened.in_force(at_offset=at_offset, at_time=at_time), choice, _in_force_text, as_json=as_json)


@history_command.command("changes")
@_history_option
@_cluster_id_option
@click.option(
    "--after",
    type=_POINT_TYPE,
    help=f"After the record at this offset, or after this time ({_TIME}).  [default: since its beginning]",
)
@click.option(
    "--until",
    type=_POINT_TYPE,
    help="Up to and with the record at this offset, or this time.  [default: the history's end]",
)
@_choice_options
@query_options
def changes_command(
    *,
    history: str,
    cluster_id: str | None,
    after: int | datetime | None,
    until: int | datetime | None,
    principal: KafkaPrincipal | None,
    resource_type: str | None,
    resource_name: str | None,
    resource_pattern_type: PatternType,
    as_json: bool,
    **spark_flags: Any,
) -> None:
    """List what changed between two offsets or times: added, replaced, removed.

    A removal shows what was removed. No ACL record holds who did it.

    \b
    Examples:
      aclog spark history changes --history DIR --after 51000 --until 52000
      aclog spark history changes --history DIR --after 2026-11-20T00:00Z --resource-type TOPIC \\
          --resource-name orders --json
    """
    choice = _Choice(principal, resource_type, resource_name, resource_pattern_type)
    with _opened(history, cluster_id, SparkFlags(**spark_flags)) as opened:
        _print(opened.changed(after=after, until=until), choice, change_text, as_json=as_json)


@contextmanager
def _opened(history: str, cluster_id: str | None, flags: SparkFlags) -> Iterator[History]:
    require_spark()
    from snapshot.jobs.changes.history import History

    note_start()
    with spark_session_of(flags, "history", needs_kafka=False) as spark:
        yield History.open(spark, located(history), cluster_id)


def _print(
    found: Answer, choice: _Choice, text_of: Callable[[Mapping[str, Any]], str], *, as_json: bool
) -> None:
    for line in found.notes:
        note(f"note: {line}")
    # Partition by partition: a history may be larger than this machine.
    rows = (row.asDict(recursive=True) for row in choice.of(found.rows).toLocalIterator())
    if as_json:
        with JsonLines() as lines:
            for row in rows:
                lines.write(_row_json(row))
    else:
        for row in rows:
            answer(text_of(row), indent=2)


def _row_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row under the names that all commands use; an id as Kafka writes it, a time in ISO 8601."""
    return {_camel(name): _value_json(value) for name, value in row.items()}


def _value_json(value: Any) -> Any:
    match value:
        case dict():
            return _row_json(value)
        case bytes() | bytearray():
            return uuid_to_string(bytes(value))
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.title() for other in others)


def _in_force_text(row: Mapping[str, Any]) -> str:
    since = "from a checkpoint"
    if row["valid_from_offset"] is not None:
        since = f"since offset {row['valid_from_offset']}"
    return f"{_acl_text(row)} ({since}, {uuid_to_string(row['id'])})"


def change_text(row: Mapping[str, Any]) -> str:
    """A row of the history: what happened to which ACL, and where in the log."""
    before, after = row["before"], row["after"]
    text = _acl_text(after or before)
    if before is not None and after is not None and (was := _acl_text(before)) != text:
        text += f", was {was}"
    place = f"offset {row['offset']}, {utc(row['timestamp_ms'])}"
    return f"{row['change']:<8} {text} ({place}, {uuid_to_string(row['id'])})"


def _acl_text(acl: Mapping[str, Any]) -> str:
    return shown(
        f"{acl['permission_type']} {acl['principal']} {acl['operation']} on "
        f"{acl['resource_type']}:{acl['pattern_type']}:{acl['resource_name']} from {acl['host']}"
    )
