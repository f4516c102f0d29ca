"""The tables of a history in Spark's SQL: a view of each, and functions for auditors.

    acls_at(at)                                  the ACLs in force at a time
    who_had_access(principal, resource, at)      who was allowed what on a resource; NULL: any principal
    grants_of(principal, from, to)               the ALLOW ACLs of a principal in a period

The state at a time is the one after the last change whose record is not later, as in history.py. Only ACLs
count: the log has neither super users nor ``allow.everyone.if.no.acl.found``. Hosts are networks where the
release at that time treats them so (KIP-1276). A function fails for a time before that from which on the
tables are complete, of any cluster: without rows it would look like an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
)
from records.principal import WILDCARD_PRINCIPAL
from snapshot.errors import HistoryQueryError, HistoryRangeError
from snapshot.jobs.changes.coverage import BrokerLevels, covered_clusters, find_history, read_coverage
from snapshot.jobs.changes.history import schema_of
from snapshot.jobs.changes.tables.delta_tables import table_path
from snapshot.jobs.changes.tables.publication import require_tables
from snapshot.jobs.changes.tables.schema import ACL_IN_FORCE, TABLES
from snapshot.jobs.session.delta import require_delta
from snapshot.store.storage import Storage

_IN_FORCE: Final = ", ".join(f"acl.{name}" for name in ACL_IN_FORCE.names)
_INCOMPLETE: Final = (
    "concat('the tables of cluster ', cluster_id, ' are complete from ', "
    "date_format(begin_time, \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\"), ' on, and the query is about ', "
    "date_format({at}, \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\"))"
)
_INCOMPLETE_ERROR: Final = re.compile(
    r"the tables of cluster .* are complete from \S+ on, and the query is about \S+"
)
_STATES_AT: Final = """
CREATE OR REPLACE TEMPORARY FUNCTION states_at(at_time TIMESTAMP)
RETURNS TABLE (cluster_id STRING, last BIGINT)
RETURN
  SELECT cluster_id, max(offset) FROM (
    SELECT cluster_id, offset, time FROM acl_changes
    UNION ALL SELECT cluster_id, offset, time FROM acl_counts
  ) WHERE time <= states_at.at_time GROUP BY cluster_id
"""
_KNOWN_ACLS_AT: Final = f"""
CREATE OR REPLACE TEMPORARY FUNCTION known_acls_at(at_time TIMESTAMP)
RETURNS TABLE ({ACL_IN_FORCE.ddl})
RETURN
  SELECT {_IN_FORCE} FROM acl_in_force AS acl
  JOIN states_at(known_acls_at.at_time) AS state ON acl.cluster_id = state.cluster_id
  WHERE (acl.valid_from_offset IS NULL OR acl.valid_from_offset <= state.last)
    AND (acl.valid_to_offset IS NULL OR acl.valid_to_offset > state.last)
"""  # noqa: S608 - only names of columns
_ACLS_AT: Final = """
CREATE OR REPLACE TEMPORARY FUNCTION acls_at(at_time TIMESTAMP)
RETURNS TABLE ({columns})
RETURN
  {incomplete} UNION ALL SELECT * FROM known_acls_at(acls_at.at_time)
"""
_ACCESS: Final = (
    "cluster_id string, principal string, operation string, host string, excluded array<string>, "
    "acl_ids array<string>"
)
_WHO_HAD_ACCESS: Final = """
CREATE OR REPLACE TEMPORARY FUNCTION who_had_access(of_principal STRING, resource STRING, at_time TIMESTAMP)
RETURNS TABLE ({columns})
RETURN
  WITH rules AS (
    SELECT rule.cluster_id, rule.allow, rule.deny
    FROM states_at(who_had_access.at_time) AS state
    JOIN acl_host_rules AS rule ON rule.cluster_id = state.cluster_id
      AND rule.from_offset <= state.last AND rule.until_offset > state.last
  ), acls AS (
    SELECT acl.*, acl_host_prefix(host) AS prefix,
      coalesce(who_had_access.of_principal, principal) AS requested,
      CASE WHEN permission_type = 'ALLOW' THEN rules.allow ELSE rules.deny END AS networks
    FROM known_acls_at(who_had_access.at_time) AS acl JOIN rules ON rules.cluster_id = acl.cluster_id
    WHERE resource_type = split_part(who_had_access.resource, ':', 1)
      AND CASE WHEN pattern_type = '{prefixed}' THEN startswith({name}, resource_name)
          ELSE pattern_type = '{literal}' AND resource_name IN ({name}, '*') END
  ), covered AS (
    SELECT *, explode(CASE {operations} ELSE array() END) AS checked FROM acls
    WHERE host = '*' OR prefix IS NOT NULL AND (networks OR NOT contains(host, '/'))
  ), allowed AS (
    SELECT cluster_id, requested AS principal, checked AS operation, host, prefix,
      collect_list(id) AS acl_ids
    FROM covered
    WHERE permission_type = 'ALLOW'
      AND principal IN (requested, '{everyone}')
      AND (operation IN ('ALL', checked) {implied})
    GROUP BY cluster_id, requested, checked, host, prefix
  ), denied AS (
    SELECT cluster_id, principal, checked AS operation, host, prefix FROM covered
    WHERE permission_type <> 'ALLOW' AND operation IN ('ALL', checked)
  )
  {incomplete} UNION ALL
  SELECT allowed.cluster_id, allowed.principal, allowed.operation, allowed.host,
    collect_set(CASE WHEN denied.host IS NOT NULL THEN concat(denied.principal, ' from ', denied.host) END),
    allowed.acl_ids
  FROM allowed LEFT JOIN denied ON allowed.cluster_id = denied.cluster_id
    AND allowed.operation = denied.operation
    AND (denied.principal IN (allowed.principal, '{everyone}') OR allowed.principal = '{everyone}')
    AND ({allowed_within} OR {denied_within})
  GROUP BY allowed.cluster_id, allowed.principal, allowed.operation, allowed.host, allowed.acl_ids
  HAVING NOT coalesce(
    bool_or(denied.principal IN (allowed.principal, '{everyone}') AND {allowed_within}), false)
"""
# Whether a host is in another one. An IPv6 address is not the only one of its network: there are scopes.
_WITHIN: Final = (
    "({outer}.host IN ({inner}.host, '*') OR (contains({outer}.host, '/') OR startswith({outer}.prefix, '4'))"
    " AND coalesce(startswith({inner}.prefix, {outer}.prefix), false))"
)
_GRANTS_OF: Final = """
CREATE OR REPLACE TEMPORARY FUNCTION grants_of(of_principal STRING, from_time TIMESTAMP, to_time TIMESTAMP)
RETURNS TABLE ({columns})
RETURN
  {incomplete} UNION ALL
  SELECT {in_force} FROM acl_in_force AS acl
  WHERE acl.permission_type = 'ALLOW'
    AND acl.principal IN (grants_of.of_principal, '{everyone}')
    AND (acl.valid_from_time IS NULL OR acl.valid_from_time < grants_of.to_time)
    AND (acl.valid_to_time IS NULL OR acl.valid_to_time > grants_of.from_time)
"""


class HostRules(Protocol):
    """How hosts of ACLs are compared. Spark sends ``prefix`` to the executors."""

    def rules(self, levels: Sequence[BrokerLevels]) -> Iterator[tuple[int, int, bool, bool]]:
        """Yield ranges of offsets, and whether hosts of ALLOW and of DENY ACLs are networks there."""

    def prefix(self, host: str) -> str | None:
        """The common bits of a host's or network's addresses, after 4 or 6; None: no client has it."""


def register(spark: SparkSession, output: str, hosts: HostRules, cluster_id: str | None = None) -> None:
    """Add the views and functions of a history to a session.

    Args:
        spark: the session, with Delta.
        output: directory of the history.
        hosts: how hosts are compared.
        cluster_id: the views have rows of this cluster only.

    Raises:
        HistoryMissingError: the history has no tables, or not this cluster.
        SparkJobError: there is no Delta, or the tables are incomplete.
        SnapshotError: the history cannot be read.
    """
    require_delta(spark)
    storage = Storage(output)
    require_tables(storage)
    if cluster_id is not None:
        find_history(output, cluster_id)
    for table in TABLES:
        rows = spark.read.format("delta").load(table_path(output, table))
        # An older version of aclog wrote the table.
        lacking = (column for column in table.columns if column.name not in rows.columns)
        rows = rows.withColumns({each.name: F.lit(None).cast(each.type) for each in lacking})
        if cluster_id is not None:
            rows = rows.where(F.col("cluster_id") == cluster_id)
        rows.createOrReplaceTempView(table.name)
    brokers = {}
    for covered_id in covered_clusters(storage):
        coverage = read_coverage(storage, covered_id)
        brokers[covered_id] = () if coverage is None else coverage.brokers
    define_functions(spark, brokers, hosts)


def define_functions(
    spark: SparkSession,
    brokers: Mapping[str, Sequence[BrokerLevels]],
    hosts: HostRules,
) -> None:
    """Add the functions to a session with the views; see ``register``."""
    rules = [(cluster_id, *rule) for cluster_id, levels in brokers.items() for rule in hosts.rules(levels)]
    schema = "cluster_id string, from_offset long, until_offset long, allow boolean, deny boolean"
    spark.createDataFrame(rules, schema).createOrReplaceTempView("acl_host_rules")
    spark.udf.register("acl_host_prefix", hosts.prefix, "string")
    grants_of = _GRANTS_OF.format(
        columns=ACL_IN_FORCE.ddl,
        incomplete=_incomplete(ACL_IN_FORCE.ddl, "grants_of.from_time"),
        in_force=_IN_FORCE,
        everyone=WILDCARD_PRINCIPAL,
    )
    acls_at = _ACLS_AT.format(
        columns=ACL_IN_FORCE.ddl, incomplete=_incomplete(ACL_IN_FORCE.ddl, "acls_at.at_time")
    )
    for statement in (_STATES_AT, _KNOWN_ACLS_AT, acls_at, _who_had_access(), grants_of):
        spark.sql(statement)


def begins_ms(spark: SparkSession) -> dict[str, int]:
    """From when on the registered tables are complete, of each cluster whose earlier rows they lack."""
    rows = spark.sql(
        "SELECT cluster_id, unix_millis(begin_time) FROM acl_coverage WHERE begin_time IS NOT NULL ORDER BY 1"
    )
    return dict(map(tuple, rows.collect()))


def query(spark: SparkSession, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows of a statement of SQL.

    Raises:
        HistoryQueryError: Spark does not accept it; with Spark's reason.
        HistoryRangeError: a function is called for a time before the tables are complete.
    """
    try:
        found = spark.sql(statement)
        names = found.columns
        if twice := {name for name in names if names.count(name) > 1}:
            raise HistoryQueryError(f"two columns are named {min(twice)}: rename one with AS")
        return names, [tuple(row.asDict(recursive=True).values()) for row in found.collect()]
    except (AnalysisException, ParseException) as error:
        # Without Spark's plan of the statement.
        text = str(error).partition("\n\nJVM")[0].partition(";\n'")[0].strip()
        raise HistoryQueryError(f"Spark does not accept this query: {text}") from error
    except PySparkException as error:
        if (reason := _INCOMPLETE_ERROR.search(str(error))) is None:
            raise
        raise HistoryRangeError(
            f"{reason[0]}: name a later time, or another cluster with --cluster-id"
        ) from error


def _incomplete(columns: str, at: str) -> str:
    """A query that fails if a cluster's tables are complete only from after the time ``at`` on."""
    # Each column fails, too: Spark may test a condition of the caller on them before this one.
    is_earlier = f"begin_time > {at}"
    reason = _INCOMPLETE.format(at=at)
    failing = ", ".join(
        f"CASE WHEN {is_earlier} THEN CAST(raise_error({reason}) AS {field.dataType.simpleString()}) END"
        for field in schema_of(columns).fields[1:]
    )
    return (
        f"SELECT cluster_id, {failing} FROM acl_coverage "  # noqa: S608 - only names of columns
        f"WHERE {is_earlier} AND assert_true(NOT {is_earlier}, {reason}) IS NULL"
    )


def _who_had_access() -> str:
    operations = " ".join(
        f"WHEN resource_type = '{kind.name}' THEN array({_quoted(supported)})"
        for kind, supported in SUPPORTED_OPERATIONS.items()
    )
    implied = "".join(
        f" OR checked = '{checked.name}' AND operation IN ({_quoted(sorted(by))})"
        for checked, by in (
            (AclOperation.DESCRIBE, IMPLIES_DESCRIBE),
            (AclOperation.DESCRIBE_CONFIGS, IMPLIES_DESCRIBE_CONFIGS),
        )
    )
    return _WHO_HAD_ACCESS.format(
        columns=_ACCESS,
        incomplete=_incomplete(_ACCESS, "who_had_access.at_time"),
        prefixed=PatternType.PREFIXED.name,
        literal=PatternType.LITERAL.name,
        name="substr(who_had_access.resource, locate(':', who_had_access.resource) + 1)",
        operations=operations,
        implied=implied,
        everyone=WILDCARD_PRINCIPAL,
        allowed_within=_WITHIN.format(inner="allowed", outer="denied"),
        denied_within=_WITHIN.format(inner="denied", outer="allowed"),
    )


def _quoted(operations: Iterable[AclOperation]) -> str:
    return ", ".join(f"'{each.name}'" for each in operations)
