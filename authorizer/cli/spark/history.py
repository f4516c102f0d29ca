"""``aclog spark history``: queries the history that ``aclog spark changes`` has stored."""

from __future__ import annotations

import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from authorizer.api.acl_text import acl_text
from authorizer.cli.command import Group
from authorizer.cli.options import (
    EXAMPLE_TIME,
    PATTERN_TYPE,
    POINT,
    PRINCIPAL,
    at_time_option,
    history_cluster_option,
    offset_option,
    shared,
)
from authorizer.cli.rendering.output import JsonLines, answer, note, shown, utc
from authorizer.cli.spark.job import note_start, spark_session_of
from authorizer.cli.spark.job_output import print_times
from authorizer.cli.spark.options import SparkFlags, history_option, query_options
from authorizer.cli.spark.requirements import located, require_connect, require_history, require_spark
from records.acl import PatternType, ResourceType
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from records.principal import KafkaPrincipal
    from snapshot.jobs.changes.history import Answer, History

_history_options: Final = (
    history_option,
    history_cluster_option,
)
_filter_options: Final = (
    click.option("--principal", type=PRINCIPAL, help="Only ACLs of exactly this principal."),
    click.option(
        "--resource-type",
        type=click.Choice(
            [kind.name for kind in ResourceType if kind > ResourceType.ANY], case_sensitive=False
        ),
        help="With --resource-name: only ACLs of this resource.",
    ),
    click.option("--resource-name", metavar="NAME", help="The resource's name, as in the ACLs."),
    click.option(
        "--resource-pattern-type",
        type=PATTERN_TYPE,
        default=PatternType.ANY.name,
        show_default=True,
        help="Pattern type of the name: ANY, LITERAL or PREFIXED for ACLs with the same name; MATCH for all "
        "ACLs that match the resource.",
    ),
    click.option(
        "--remote",
        metavar="sc://HOST:PORT",
        help="Query by a Spark Connect server of Spark 4.2, without Java here. Both need access to DIR. The "
        "jobs, review, sql, maintain and doctor need a classic session (--master).",
    ),
    query_options,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Query(SparkFlags):
    """Options of both commands, by click's parameter names: the history, a filter of its rows, the output."""

    history: str
    cluster_id: str | None
    principal: KafkaPrincipal | None
    resource_type: str | None
    resource_name: str | None
    resource_pattern_type: PatternType
    remote: str | None
    as_json: bool

    def run(
        self,
        found_in: Callable[[History], Answer],
        text_of: Callable[[Mapping[str, Any]], str],
        summary_of: Callable[[int, Answer], str],
    ) -> None:
        """Query the history in a Spark session, and print the rows that pass the filter, in order."""
        if (self.resource_type is None) != (self.resource_name is None):
            raise click.UsageError("--resource-type and --resource-name must be given together")
        if self.remote is not None and (
            self.master or self.packages or self.spark_conf or self.archive is not None
        ):
            raise click.UsageError(
                "--remote uses the server's settings: --master, --packages, --conf and --archives are for a "
                "classic session"
            )
        require_history(self.history, self.cluster_id)
        if self.remote is None:
            require_spark()
        else:
            require_connect()
        from snapshot.jobs.changes.history import History

        note_start()
        began_s = time.perf_counter()
        with self._session() as spark:
            start_s = time.perf_counter() - began_s
            found = found_in(History.open(spark, located(self.history), self.cluster_id))
            count = self._print(found, text_of)
            work_s = time.perf_counter() - began_s - start_s
        if not self.as_json:
            answer(f"{summary_of(count, found)}: {shown(self.history)}")
            print_times(start_s, work_s)

    @contextmanager
    def _session(self) -> Iterator[Any]:
        if self.remote is None:
            with spark_session_of(self, "history", locations=[self.history]) as spark:
                yield spark
            return
        from snapshot.jobs.running.failure import as_job_failure
        from snapshot.jobs.session.connect import connect_session

        with as_job_failure():
            spark = connect_session(self.remote)
            try:
                yield spark
            finally:
                spark.stop()

    def _print(self, found: Answer, text_of: Callable[[Mapping[str, Any]], str]) -> int:
        note(*found.notes)
        # Partition by partition, because a history may not fit in memory.
        rows = (row.asDict(recursive=True) for row in self._filtered(found.rows).toLocalIterator())
        count = 0
        with JsonLines() if self.as_json else nullcontext() as lines:
            for count, row in enumerate(rows, 1):  # noqa: B007
                if lines is not None:
                    lines.write(row_json(row))
                else:
                    answer(text_of(row), indent=2)
        return count

    def _filtered(self, rows: Any) -> Any:
        from snapshot.jobs.changes.history import covering_resource, of_principal, of_resource

        if self.principal is not None:
            rows = of_principal(rows, str(self.principal))
        if self.resource_type is None or self.resource_name is None:
            return rows
        pattern_type = self.resource_pattern_type
        if pattern_type is PatternType.MATCH:
            return covering_resource(rows, self.resource_type, self.resource_name)
        named = None if pattern_type is PatternType.ANY else pattern_type.name
        return of_resource(rows, self.resource_type, self.resource_name, named)


@click.group("history", cls=Group)
def history_command() -> None:
    """Query the history: ACLs in force at an offset or time, and changes between two."""


@history_command.command("in-force")
@shared(
    *_history_options,
    offset_option("The state after the record at this offset.  [default: at the history's end]"),
    at_time_option,
    *_filter_options,
)
def in_force_command(*, at_offset: int | None, at_time: datetime | None, **options: Any) -> None:
    """List the ACLs that were in force at an offset or a time.

    By default it prints those at the history's end. At an offset it prints the ACLs by which `aclog check
    --at-offset` decides. Times are those of the records.

    \b
    Examples:
      aclog spark history in-force --history DIR --at-offset 51230
      aclog spark history in-force --history DIR --at-time 2026-11-21T02:33:16Z --principal User:alice --json
    """
    _Query(**options).run(
        lambda history: history.in_force(at_offset=at_offset, at_time=at_time),
        _in_force_text,
        lambda count, found: f"{_number(count, 'ACL')} in force at offset {found.at_offset}",
    )


@history_command.command("changes")
@shared(
    *_history_options,
    click.option(
        "--after",
        type=POINT,
        help=f"After the record at this offset, or after this time ({EXAMPLE_TIME}).  [default: the "
        "history's start]",
    ),
    click.option(
        "--until",
        type=POINT,
        help="Up to the record at this offset, inclusive, or this time.  [default: the history's end]",
    ),
    *_filter_options,
)
def changes_command(*, after: int | datetime | None, until: int | datetime | None, **options: Any) -> None:
    """List what changed between two offsets or times: added, replaced, removed.

    For a removal it prints the removed ACL. ACL records do not name who made a change.

    \b
    Examples:
      aclog spark history changes --history DIR --after 51000 --until 52000
      aclog spark history changes --history DIR --after 2026-11-20T00:00Z --resource-type TOPIC \\
          --resource-name orders --json
      aclog spark history changes --history s3a://bucket/history --remote sc://HOST:15002
    """
    _Query(**options).run(
        lambda history: history.changed(after=after, until=until),
        change_text,
        lambda count, found: (
            f"{_number(count, 'change')} after offset {found.after_offset} until {found.at_offset}"
        ),
    )


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def row_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON form of a row, with the names of all commands, ids in Kafka's form and times in ISO 8601."""
    return {_camel(name): _value_json(value) for name, value in row.items()}


def _value_json(value: Any) -> Any:
    match value:
        case dict():
            return row_json(value)
        case bytes() | bytearray():
            return uuid_to_string(bytes(value))
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return value


def _camel(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(word.title() for word in words)


def _in_force_text(row: Mapping[str, Any]) -> str:
    since = "from a checkpoint"
    if row["valid_from_offset"] is not None:
        since = f"since offset {row['valid_from_offset']}"
    return f"{_acl_text(row)} ({since}, {uuid_to_string(row['id'])})"


def change_text(row: Mapping[str, Any]) -> str:
    """Text of a row of the history: the change, the ACL and its offset."""
    before, after = row["before"], row["after"]
    text = _acl_text(after or before)
    if before is not None and after is not None and (was := _acl_text(before)) != text:
        text += f", was {was}"
    place = f"offset {row['offset']}, {utc(row['timestamp_ms'])}"
    return f"{row['change']:<8} {text} ({place}, {uuid_to_string(row['id'])})"


def _acl_text(acl: Mapping[str, Any]) -> str:
    return shown(acl_text({_camel(name): value for name, value in acl.items()}))
