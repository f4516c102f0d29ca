"""The rows of the count tables for one batch and log.

    counts            end_offset, time, KIND, count          a row for each kind of ACL: its number at the end
    counts_by_time    end_offset, minute, KIND, delta        the change of that number by the minute's records

KIND is the resource type, pattern type, permission type and operation, by Kafka's names, or the number of a
code that has none. ``time`` is that of the last record below the batch's end; ``minute`` is that of the
records' own timestamps, also for late records.

At the end of every batch, the deltas of a log sum up to its counts. So there are also rows for changes
without a record in the batch: the state from which the job started, and removals that a compacted topic has
deleted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_to_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshot.jobs.folding.log_plan import AclCount, AclCountDelta, LogPlan, LogResult

#: Resolution of the table; `count_tables.by_window` aggregates to longer windows.
MINUTE_MS: Final = 60_000

# A record's timestamp may be any number, but a date has a year of four digits.
_FIRST_MS: Final = -62_135_596_800_000  # 0001-01-01
_LAST_MS: Final = 253_402_300_740_000  # 9999-12-31 23:59


class AclKind(NamedTuple):
    """The kind by which ACLs are counted, in Kafka's names."""

    resource_type: str
    pattern_type: str
    permission_type: str
    operation: str

    @classmethod
    def of(cls, counted: AclCount | AclCountDelta) -> AclKind:
        """From Kafka's codes."""
        return cls(
            code_to_name(ResourceType, counted.resource_type),
            code_to_name(PatternType, counted.pattern_type),
            code_to_name(AclPermissionType, counted.permission_type),
            code_to_name(AclOperation, counted.operation),
        )


_KIND: Final = [pa.field(name, pa.string(), nullable=False) for name in AclKind._fields]
_TIME: Final = pa.timestamp("ms", "UTC")
COUNTS_SCHEMA: Final = pa.schema(
    [
        pa.field("end_offset", pa.int64(), nullable=False),
        pa.field("time", _TIME, nullable=False),
        *_KIND,
        pa.field("count", pa.int64(), nullable=False),
    ]
)
DELTAS_SCHEMA: Final = pa.schema(
    [
        pa.field("end_offset", pa.int64(), nullable=False),
        pa.field("minute", _TIME, nullable=False),
        *_KIND,
        pa.field("delta", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRows:
    """The rows of one batch and log for both tables.

    Attributes:
        start: the first offset whose records are counted; earlier ones are in the tables.
        date: of the last record below the end, UTC: the partition of all rows.
        after: number of ACLs of each kind at the end; only kinds with ACLs.
        counts: rows of COUNTS_SCHEMA. A kind whose ACLs were all removed has a row with 0.
        deltas: rows of DELTAS_SCHEMA, none with 0.
    """

    cluster_id: str
    start: int
    end: int
    date: date
    after: Mapping[AclKind, int]
    counts: pa.Table
    deltas: pa.Table


def count_rows(result: LogResult, before: Mapping[AclKind, int]) -> CountRows:
    """The rows of one batch and log; ``before``: the tables' counts at `counted_from` of its plan."""
    plan, end_ms = result.plan, result.manifest.provenance.timestamp_ms
    after: Counter[AclKind] = Counter()
    deltas: Counter[tuple[int, AclKind]] = Counter()
    unrecorded: Counter[AclKind] = Counter()
    unrecorded.subtract(before)
    for counted in result.summary.acl_counts:
        after[AclKind.of(counted)] += counted.count
        unrecorded[AclKind.of(counted)] += counted.count
    for changed in result.summary.count_deltas:
        deltas[_in_calendar(changed.minute_ms), AclKind.of(changed)] += changed.delta
        unrecorded[AclKind.of(changed)] -= changed.delta
    # Changes without a record get the time of the base state, or of the batch's end if there is none.
    known_ms = end_ms if plan.base is None else plan.base.provenance.timestamp_ms
    for kind, delta in unrecorded.items():
        deltas[_minute_of(known_ms), kind] += delta
    counts = {**dict.fromkeys(before, 0), **after}
    return CountRows(
        cluster_id=plan.identity.cluster_id,
        start=counted_from(plan),
        end=plan.end,
        date=datetime.fromtimestamp(_in_calendar(end_ms) / 1000, UTC).date(),
        after={kind: count for kind, count in after.items() if count},
        counts=pa.Table.from_pylist(
            [
                {"end_offset": plan.end, "time": _in_calendar(end_ms), **kind._asdict(), "count": count}
                for kind, count in sorted(counts.items())
            ],
            schema=COUNTS_SCHEMA,
        ),
        deltas=pa.Table.from_pylist(
            [
                {"end_offset": plan.end, "minute": minute_ms, **kind._asdict(), "delta": delta}
                for (minute_ms, kind), delta in sorted(deltas.items())
                if delta
            ],
            schema=DELTAS_SCHEMA,
        ),
    )


def counted_from(plan: LogPlan) -> int:
    """The first offset that a batch counts; a stored state may be beyond Spark's checkpoint."""
    states = (plan.base, plan.before)
    return max([plan.start, *(state.provenance.end_offset for state in states if state is not None)])


def counts_by_kind(counts: pa.Table) -> dict[AclKind, int]:
    """Counts by kind from rows of COUNTS_SCHEMA of one log and end offset; without zeros."""
    return {
        AclKind(*(row[name] for name in AclKind._fields)): row["count"]
        for row in counts.to_pylist()
        if row["count"]
    }


def _minute_of(timestamp_ms: int) -> int:
    return _in_calendar(timestamp_ms) // MINUTE_MS * MINUTE_MS


def _in_calendar(timestamp_ms: int) -> int:
    return min(max(timestamp_ms, _FIRST_MS), _LAST_MS)
