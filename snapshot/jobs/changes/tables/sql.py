"""The tables of a history in Spark's SQL: a view of each, and functions for auditors.

    acls_at(at)                                  the ACLs in force at a time
    who_had_access(principal, resource, at)      who was allowed what on a resource; NULL: any principal
    grants_of(principal, from, to)               the ALLOW ACLs of a principal in a period

The state at a time is the one after the last change whose record is not later, as in history.py. Only ACLs
count: the log has neither super users nor ``allow.everyone.if.no.acl.found``. Hosts are networks where the
release at that time treats them so (KIP-1276).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    SUPPORTED_OPERATIONS,
    AclOperation,
    PatternType,
)
from records.principal import WILDCARD_PRINCIPAL
from snapshot.errors import HistoryQueryError
from snapshot.jobs.changes.coverage import BrokerLevels, covered_clusters, read_coverage
from snapshot.jobs.changes.tables.delta_tables import table_path
from snapshot.jobs.changes.tables.publication import require_tables
from snapshot.jobs.changes.tables.schema import ACL_IN_FORCE, TABLES
from snapshot.jobs.session.delta import require_delta
from snapshot.store.storage import Storage

_IN_FORCE: Final = ", ".join(f"acl.{name}" for name in ACL_IN_FORCE.names)
_STATES_AT: Final = """
CREATE OR REPLACE TEMPORARY FUNCTION states_at(at_time TIMESTAMP)
RETURNS TABLE (cluster_id STRING, last BIGINT)
RETURN
  SELECT cluster_id, max(offset) FROM (
    SELECT cluster_id, offset, time FROM acl_changes
    UNION ALL SELECT cluster_id, offset, time FROM acl_counts
  ) WHERE time <= states_at.at_time GROUP BY cluster_id
"""
_ACLS_AT: Final = f"""
CREATE OR REPLACE TEMPORARY FUNCTION acls_at(at_time TIMESTAMP)
RETURNS TABLE ({ACL_IN_FORCE.ddl})
RETURN
  SELECT {_IN_FORCE} FROM acl_in_force AS acl
  JOIN states_at(acls_at.at_time) AS state ON acl.cluster_id = state.cluster_id
  WHERE (acl.valid_from_offset IS NULL OR acl.valid_from_offset <= state.last)
    AND (acl.valid_to_offset IS NULL OR acl.valid_to_offset > state.last)
"""  # noqa: S608 - only names of columns
_WHO_HAD_ACCESS: Final = """
CREATE OR REPLACE TEMPORARY FUNCTION who_had_access(of_principal STRING, resource STRING, at_time TIMESTAMP)
RETURNS TABLE (cluster_id STRING, principal STRING, operation STRING, host STRING, excluded ARRAY<STRING>,
  acl_ids ARRAY<STRING>)
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
    FROM acls_at(who_had_access.at_time) AS acl JOIN rules ON rules.cluster_id = acl.cluster_id
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
_GRANTS_OF: Final = f"""
CREATE OR REPLACE TEMPORARY FUNCTION grants_of(of_principal STRING, from_time TIMESTAMP, to_time TIMESTAMP)
RETURNS TABLE ({ACL_IN_FORCE.ddl})
RETURN
  SELECT {_IN_FORCE} FROM acl_in_force AS acl
  WHERE acl.permission_type = 'ALLOW'
    AND acl.principal IN (grants_of.of_principal, '{WILDCARD_PRINCIPAL}')
    AND (acl.valid_from_time IS NULL OR acl.valid_from_time < grants_of.to_time)
    AND (acl.valid_to_time IS NULL OR acl.valid_to_time > grants_of.from_time)
"""  # noqa: S608 - only names of columns


class HostRules(Protocol):
    """How hosts of ACLs are compared. Spark sends ``prefix`` to the executors."""

    def rules(self, levels: Sequence[BrokerLevels]) -> Iterator[tuple[int, int, bool, bool]]:
        """Yield ranges of offsets, and whether hosts of ALLOW and of DENY ACLs are networks there."""

    def prefix(self, host: str) -> str | None:
        """The common bits of a host's or network's addresses, after 4 or 6; None: no client has it."""


def register(spark: SparkSession, output: str, hosts: HostRules) -> None:
    """Add the views and functions of a history to a session.

    Args:
        spark: the session, with Delta.
        output: directory of the history.
        hosts: how hosts are compared.

    Raises:
        HistoryMissingError: the history has no tables.
        SparkJobError: there is no Delta, or the tables are incomplete.
        SnapshotError: the history cannot be read.
    """
    require_delta(spark)
    storage = Storage(output)
    require_tables(storage)
    for table in TABLES:
        rows = spark.read.format("delta").load(table_path(output, table))
        rows.createOrReplaceTempView(table.name)
    brokers = {}
    for cluster_id in covered_clusters(storage):
        coverage = read_coverage(storage, cluster_id)
        brokers[cluster_id] = () if coverage is None else coverage.brokers
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
    for statement in (_STATES_AT, _ACLS_AT, _who_had_access(), _GRANTS_OF):
        spark.sql(statement)


def query(spark: SparkSession, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The columns and rows of a statement of SQL.

    Raises:
        HistoryQueryError: Spark does not accept it; with Spark's reason.
    """
    try:
        found = spark.sql(statement)
        names = found.columns
        if twice := {name for name in names if names.count(name) > 1}:
            raise HistoryQueryError(f"two columns are named {min(twice)}: rename one with AS")
        return names, [tuple(row.asDict(recursive=True).values()) for row in found.collect()]
    except (AnalysisException, ParseException) as error:
        # Without Spark's plan of the statement.
        reason = str(error).partition("\n\nJVM")[0].partition(";\n'")[0].strip()
        raise HistoryQueryError(f"Spark does not accept this query: {reason}") from error


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
