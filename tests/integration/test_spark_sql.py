"""The functions of SQL for times before the tables are complete, on small tables without Delta Lake."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from authorizer.cli.spark.access_analysis import ReleaseHosts
from snapshot.errors import HistoryRangeError
from snapshot.jobs.changes.tables.schema import ACL_IN_FORCE, TABLES
from snapshot.jobs.changes.tables.sql import begins_ms, define_functions, query

pytestmark = [pytest.mark.slow, pytest.mark.integration]

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
EARLIER, LATE = "TIMESTAMP '2026-11-20 11:00:00Z'", "TIMESTAMP '2026-11-20 12:00:00Z'"
NUMBERED = "SELECT count(*) AS number FROM "


def period(cluster_id: str, valid_from: int | None) -> dict[str, Any]:
    """An ALLOW of READ on a topic."""
    row: dict[str, Any] = dict.fromkeys(ACL_IN_FORCE.names)
    content = ("TOPIC", "orders", "LITERAL", "User:a", "*", "READ", "ALLOW")
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation")
    row |= dict(zip((*names, "permission_type"), content, strict=True))
    return row | {"cluster_id": cluster_id, "id": f"id-{cluster_id}", "valid_from_offset": valid_from}


FUNCTIONS = (
    ("who_had_access('User:a', 'TOPIC:orders', {})", 4),
    ("acls_at({})", 2),
    ("grants_of('User:a', {}, TIMESTAMP '2026-12-01')", 2),
)
STATEMENTS = (
    "SELECT * FROM {} WHERE operation = 'READ' AND principal = 'User:b'",
    "SELECT * FROM {}",
    "SELECT * FROM {} LIMIT 1",
    "SELECT * FROM {} WHERE host IS NULL",
    "SELECT principal FROM {} GROUP BY principal HAVING count(*) > 5",
    "SELECT count(*) AS number FROM {}",
    "SELECT count(*) AS number FROM acl_in_force WHERE id NOT IN (SELECT principal FROM {})",
)


def session_of(spark: SparkSession, coverage: list[tuple[Any, ...]]) -> SparkSession:
    """The tables of two clusters; one begins late."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows: dict[str, list[Any]] = {
        "acl_in_force": [period("all", None), period("late", 7)],
        "acl_counts": [
            {**dict.fromkeys(("month", "resource_type"), "-"), "cluster_id": name, "offset": at, "time": time}
            for name, at, time in (("all", 1, datetime(2026, 1, 1, tzinfo=UTC)), ("late", 7, BEGIN))
        ],
        "acl_coverage": coverage,
    }
    for table in TABLES:
        session.createDataFrame(rows.get(table.name, []), table.ddl).createOrReplaceTempView(table.name)
    define_functions(session, {"all": (), "late": ()}, ReleaseHosts())
    return session


def assert_earlier_times_fail(session: SparkSession, call: str, statements: Iterable[str]) -> None:
    for statement in statements:
        expected = (
            r"^the tables of cluster late are complete from 2026-11-20T12:00:00.000Z on, and the query is "
            r"about 2026-11-20T11:00:00.000Z: name a later time, or another cluster with --cluster-id$"
        )
        with pytest.raises(HistoryRangeError, match=expected):
            query(session, statement.format(call.format(EARLIER)))


COVERAGE: list[tuple[Any, ...]] = [("all", 0, None, []), ("late", 8, BEGIN, [])]


def test_a_function_fails_for_a_time_before_the_tables_are_complete(spark: SparkSession) -> None:
    session = session_of(spark, COVERAGE)
    assert begins_ms(session) == {"late": BEGIN.timestamp() * 1000}
    call, number = FUNCTIONS[0]
    assert query(session, NUMBERED + call.format(LATE))[1] == [(number,)]
    assert_earlier_times_fail(session, call, STATEMENTS[:1])


@pytest.mark.long
def test_each_function_fails_for_earlier_times_whatever_the_query_does_with_the_rows(
    spark: SparkSession,
) -> None:
    """Without the incomplete cluster it has rows."""
    session = session_of(spark, COVERAGE)
    for call, number in FUNCTIONS:
        assert query(session, NUMBERED + call.format(LATE))[1] == [(number,)]
        assert_earlier_times_fail(session, call, STATEMENTS)
    assert query(session_of(spark, COVERAGE[:1]), f"{NUMBERED} acls_at({EARLIER})")[1] == [(1,)]
