"""The tables of a history, with the comments that a catalog shows."""

from __future__ import annotations

from typing import Final, NamedTuple

from snapshot.jobs.changes.change_table import CONTENT


class Column(NamedTuple):
    """One column: its name, its type in Spark's SQL, and its comment."""

    name: str
    type: str
    comment: str


PARTITIONS: Final = ("cluster_id", "month")


class Table(NamedTuple):
    """One table."""

    name: str
    comment: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = PARTITIONS

    @property
    def ddl(self) -> str:
        """The columns in Spark's SQL, without comments."""
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


#: Month of a row whose time is unknown: of an ACL that the log's first state had.
UNKNOWN_MONTH: Final = "unknown"

_CLUSTER: Final = Column("cluster_id", "string", "Cluster of the log")
_TOPIC: Final = Column("topic_id", "string", "Id of the log, as Kafka prints it")
_ID: Final = Column("id", "string", "Id of the ACL's record, as Kafka prints it")
_CONTENT: Final = tuple(Column(*each) for each in zip(
    CONTENT,
    ["string"] * len(CONTENT),
    (
        "Resource type of the ACL: TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER",
        "Name of the resource, its prefix, or *",
        "LITERAL or PREFIXED",
        "Principal of the ACL, Type:name; User:* means every principal",
        "Client host of the ACL; * means every host",
        "Operation of the ACL, as stored: ALL includes every operation",
        "ALLOW or DENY",
    ),
    strict=True,
))  # fmt: skip

ACL_CHANGES: Final = Table(
    "acl_changes",
    "Each ACL that was added, replaced or removed; one row for each id and offset",
    (
        _CLUSTER,
        Column("month", "string", "Month of time, in UTC: YYYY-MM"),
        _TOPIC,
        Column("offset", "bigint", "Offset of the log at which the change took effect"),
        Column("time", "timestamp", "Time of the record"),
        Column("change", "string", "added, replaced or removed"),
        _ID,
        *_CONTENT,
        Column(
            "previous",
            "struct<" + ", ".join(f"{name}: string" for name in CONTENT) + ", "
            "valid_from_offset: bigint, valid_from_time: timestamp>",
            "The ACL that was replaced or removed, and since when it was in force; null if added",
        ),
    ),
)
ACL_IN_FORCE: Final = Table(
    "acl_in_force",
    "Each period in which an ACL was in force under one id with one content (type 2 dimension)",
    (
        _CLUSTER,
        Column("month", "string", f"Month of valid_from_time, in UTC: YYYY-MM, or {UNKNOWN_MONTH}"),
        _TOPIC,
        _ID,
        *_CONTENT,
        Column(
            "valid_from_offset",
            "bigint",
            "Offset from which the ACL was in force, inclusive; null if it was in Kafka's oldest snapshot",
        ),
        Column("valid_to_offset", "bigint", "Offset at which it ended, exclusive; null while in force"),
        Column("valid_from_time", "timestamp", "Time of the record that began the period"),
        Column("valid_to_time", "timestamp", "Time of the record that ended it; null while in force"),
    ),
)
ACL_COUNTS: Final = Table(
    "acl_counts",
    "The number of ACLs of each kind after each offset at which it changed",
    (
        _CLUSTER,
        Column("month", "string", f"Month of time, in UTC: YYYY-MM, or {UNKNOWN_MONTH}"),
        Column("offset", "bigint", "Offset at which the number changed"),
        Column("time", "timestamp", "Time of the record"),
        *(column for column in _CONTENT if column.name in ("resource_type", "pattern_type")),
        *(column for column in _CONTENT if column.name in ("operation", "permission_type")),
        Column("delta", "bigint", "Change of the number"),
        Column("count", "bigint", "The number from this offset on"),
    ),
)
OMITTED: Final = "omitted"
DEFERRED: Final = "deferred"
#: Of a row that removes the deferred one of its offset, and is never in the table.
ANALYSED: Final = "analysed"
_NAME: Final = "name: string, pattern_type: string"
ACCESS_CHANGES: Final = Table(
    "access_changes",
    "What each change of ACLs granted and revoked: one row for each class of requests and operation",
    (
        _CLUSTER,
        Column("month", "string", "Month of time, in UTC: YYYY-MM"),
        _TOPIC,
        Column("offset", "bigint", "Offset of the log at which the change took effect"),
        Column("time", "timestamp", "Time of the record"),
        Column(
            "change",
            "string",
            "granted: only the state after it allows these requests. revoked: only the state before it. "
            "omitted: not everything about this change is listed. deferred: it is not analysed yet",
        ),
        Column(
            "principal",
            "string",
            "Principal of the requests; User:* means every principal but excluded_principals. "
            "Of an omitted or deferred row: of the changed ACLs, null if they have several",
        ),
        Column(
            "excluded_principals",
            "array<string>",
            "Principals with separate rows, if principal is User:*; null if they were not all analysed: then "
            "User:* means principals without related ACLs",
        ),
        Column("resource_type", "string", "Resource type of the requests"),
        Column("operation", "string", "Operation of the requests, a single one, implied ones included"),
        Column(
            "names",
            f"array<struct<{_NAME}, excluded: array<struct<{_NAME}>>>>",
            "Names of the resources: LITERAL is one name, PREFIXED all names with the prefix but those in "
            "excluded; an empty prefix means all names",
        ),
        Column("host", "string", "Client host or network of the requests; * means every host"),
        Column("excluded_hosts", "array<string>", "Hosts and networks that are not included in host"),
        Column(
            "releases",
            "string",
            "Kafka releases by whose rules this is a change; null: all that the brokers may have had",
        ),
        Column(
            "witness",
            "struct<principal: string, host: string, resource_name: string>",
            "One of these requests",
        ),
        Column("omitted_names", "bigint", "Number of names and exceptions that names does not list"),
        Column(
            "omitted_principals",
            "bigint",
            "Of an omitted row: number of principals that were not analysed; all without related ACLs count "
            "as one",
        ),
        Column("omitted_classes", "bigint", "Of an omitted row: number of classes without a row"),
    ),
)
COMPACTED_RANGES: Final = Column(
    "compacted_ranges",
    "array<struct<from_offset: bigint, until_offset: bigint>>",
    "Ranges of offsets, until_offset exclusive, that may have been compacted before they were read: changes "
    "in them may be missing, and ACLs may appear to start later than they did; null: an older version of "
    "aclog wrote the row",
)
ACL_COVERAGE: Final = Table(
    "acl_coverage",
    "From when on the other tables are complete, and where changes may be missing: one row for each cluster",
    (
        _CLUSTER,
        Column("begin_offset", "bigint", "The first offset from which on the tables have every change"),
        Column(
            "begin_time",
            "timestamp",
            "The first time whose state is in the tables; null: they have all states of the log",
        ),
        COMPACTED_RANGES,
    ),
    (),
)
#: The kind by which ACLs are counted.
KIND: Final = ("resource_type", "pattern_type", "operation", "permission_type")
TABLES: Final = (ACL_CHANGES, ACL_IN_FORCE, ACL_COUNTS, ACCESS_CHANGES, ACL_COVERAGE)
