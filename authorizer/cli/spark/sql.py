"""``aclog spark sql``: a query of a history's tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from authorizer.api.kafka_version import KafkaVersion
from authorizer.cli.command import Command
from authorizer.cli.options import RELEASE
from authorizer.cli.rendering.output import JsonLines, answer, note, shown, utc
from authorizer.cli.rendering.terminal import UNKNOWN, Column, Row, table_lines, width
from authorizer.cli.spark.history import row_json
from authorizer.cli.spark.job import note_start, spark_session_of
from authorizer.cli.spark.options import SparkFlags, history_option, query_options
from authorizer.cli.spark.requirements import located, require_history_directory, require_spark


@click.command("sql", cls=Command)
@click.argument("statement")
@history_option
@click.option("--cluster-id", metavar="ID", help="Only rows of this cluster.  [default: all clusters]")
@click.option(
    "--as",
    "release",
    metavar="RELEASE",
    type=RELEASE,
    help="The Kafka release by whose rules who_had_access compares hosts, 3.9 to 4.4.  [default: the release "
    "that the log's brokers had registered; if there is none, what every release allows]",
)
@query_options
def sql_command(
    *,
    statement: str,
    history: str,
    cluster_id: str | None,
    release: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Query the tables of a history with SQL.

    The tables are acl_changes, acl_in_force, acl_counts, access_changes and acl_coverage of `aclog spark
    changes --format delta`. The functions are acls_at(TIME), who_had_access(PRINCIPAL, 'TYPE:NAME', TIME),
    where a NULL principal means any, and grants_of(PRINCIPAL, FROM, TO). They read ACLs, not super users.
    Their arguments are constants. For a time before the tables of a cluster are complete (acl_coverage) they
    fail: exit code 2. A note names such clusters, because other queries have the rows that there are.

    \b
    Examples:
      aclog spark sql --history DIR "SELECT * FROM acl_changes ORDER BY offset DESC LIMIT 10"
      aclog spark sql --history DIR \\
          "SELECT * FROM access_changes WHERE change = 'granted' AND principal = 'User:*'"
      aclog spark sql --history DIR \\
          "SELECT * FROM who_had_access(NULL, 'TOPIC:orders', TIMESTAMP '2026-11-20 12:00')" --json
      aclog spark sql --history DIR \\
          "SELECT * FROM grants_of('User:alice', TIMESTAMP '2026-01-01', TIMESTAMP '2026-07-01')"
    """
    require_history_directory(history)
    require_spark()
    from authorizer.cli.spark.access_analysis import ReleaseHosts
    from snapshot.jobs.changes.tables.sql import begins_ms, query, register
    from snapshot.jobs.session.delta import SESSION_CONF

    note_start()
    with spark_session_of(SparkFlags(**flags), "sql", conf=SESSION_CONF, locations=[history]) as spark:
        hosts = ReleaseHosts(None if release is None else KafkaVersion(release))
        register(spark, located(history), hosts, cluster_id)
        for name, begin_ms in begins_ms(spark).items():
            note(
                f"the tables of cluster {shown(name)} are complete from {utc(begin_ms)} on, and lack "
                "earlier rows"
            )
        names, rows = query(spark, statement)
        if as_json:
            with JsonLines() as lines:
                for row in rows:
                    lines.write(row_json(dict(zip(names, row, strict=True))))
            return
        columns = [Column(name, -len(name)) for name in names]
        cells = [Row([_text(value) for value in row]) for row in rows]
    for line in table_lines(columns, cells, width()):
        answer(line)
    answer(f"{len(cells):,} row{'' if len(cells) == 1 else 's'}")


def _text(value: Any) -> str:
    match value:
        case None:
            return UNKNOWN
        case datetime():
            return utc(round(value.timestamp() * 1000))
        case list():
            return ", ".join(map(_text, value)) or UNKNOWN
        case dict():
            return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
        case _:
            return shown(str(value))
