"""The rows of the counts job and the files that they are put into; no Spark is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.log.base import LogIdentity
from snapshot.errors import SparkJobError
from snapshot.fold import DeltaCounts
from snapshot.image import Provenance
from snapshot.jobs.counts.count_files import CountFiles
from snapshot.jobs.counts.count_rows import MINUTE_MS, AclKind, CountRows, count_rows, counts_by_kind
from snapshot.jobs.counts.counts_job import CountsSink
from snapshot.jobs.folding.log_plan import AclCount, AclCountDelta, LogPlan, LogResult, LogSummary
from snapshot.jobs.sources.log_range import LogRange
from snapshot.store.manifest import SnapshotManifest
from support.snapshots import IDENTITY

# Kafka's codes: TOPIC, LITERAL, READ or WRITE, ALLOW.
READ, WRITE = (2, 3, 3, 3), (2, 3, 4, 3)
READ_KIND = AclKind("TOPIC", "LITERAL", "ALLOW", "READ")
WRITE_KIND = AclKind("TOPIC", "LITERAL", "ALLOW", "WRITE")
DAY_MS = 24 * 60 * MINUTE_MS

Codes = tuple[int, int, int, int]


def manifest(end: int, timestamp_ms: int, identity: LogIdentity = IDENTITY) -> SnapshotManifest:
    return SnapshotManifest(
        identity=identity,
        provenance=Provenance(end, 1, timestamp_ms),
        log_end_time_ms=0,
        count=0,
        count_by_resource_type={},
        digest=0,
        features={},
        parts=(),
    )


def result(
    start: int,
    end: int,
    after: Mapping[Codes, int],
    deltas: Mapping[tuple[int, Codes], int] | None = None,
    *,
    timestamp_ms: int = 0,
    base: SnapshotManifest | None = None,
    identity: LogIdentity = IDENTITY,
) -> LogResult:
    """A batch that came to these counts."""
    plan = LogPlan(
        range=LogRange(url="", identity=identity, start=start, end=end, end_epoch=None),
        start=start,
        log_end_time_ms=0,
        shards=2,
        attempt="a",
        store_url="",
        base=base,
        before=None,
        wants_changes=False,
        wants_count_deltas=True,
    )
    return LogResult(
        plan=plan,
        manifest=manifest(end, timestamp_ms, identity),
        summary=LogSummary(
            provenance=Provenance(end, 1, timestamp_ms),
            parts=[],
            digest="0" * 32,
            features={},
            records=0,
            counts=DeltaCounts(),
            acl_counts=[AclCount(*codes, count) for codes, count in after.items()],
            count_deltas=[
                AclCountDelta(minute_ms, *codes, delta)
                for (minute_ms, codes), delta in (deltas or {}).items()
            ],
        ),
    )


def counts_of(rows: CountRows) -> dict[AclKind, int]:
    return {
        AclKind(*(row[name] for name in AclKind._fields)): row["count"] for row in rows.counts.to_pylist()
    }


def deltas_of(rows: CountRows) -> dict[tuple[datetime, AclKind], int]:
    return {
        (row["minute"], AclKind(*(row[name] for name in AclKind._fields))): row["delta"]
        for row in rows.deltas.to_pylist()
    }


def at(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def paths(output: Path) -> list[str]:
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*.parquet"))


def test_shards_add_up_to_one_row_for_each_kind() -> None:
    """All rows of a batch say where it ended, and when the last record below that was written."""
    rows = count_rows(result(0, 9, {READ: 3, WRITE: 1}, {(0, READ): 3, (0, WRITE): 1}, timestamp_ms=7), {})
    assert counts_of(rows) == {READ_KIND: 3, WRITE_KIND: 1}
    assert {(row["end_offset"], row["time"]) for row in rows.counts.to_pylist()} == {(9, at(7))}
    assert deltas_of(rows) == {(at(0), READ_KIND): 3, (at(0), WRITE_KIND): 1}
    assert {row["end_offset"] for row in rows.deltas.to_pylist()} == {9}


def test_a_vanished_kind_has_one_more_row_with_0() -> None:
    """A graph of the counts then falls to zero; the next batch has no row of it."""
    vanished = count_rows(result(5, 9, {READ: 2}, {(0, WRITE): -1}), {READ_KIND: 2, WRITE_KIND: 1})
    assert counts_of(vanished) == {READ_KIND: 2, WRITE_KIND: 0}
    assert vanished.after == counts_by_kind(vanished.counts) == {READ_KIND: 2}
    assert counts_of(count_rows(result(9, 12, {READ: 2}), vanished.after)) == {READ_KIND: 2}


def test_a_batch_without_any_acl_has_no_rows() -> None:
    """The job begins with one: the log's first records are no ACLs."""
    rows = count_rows(result(0, 3, {}), {})
    assert (len(rows.counts), len(rows.deltas)) == (0, 0)


def test_the_start_state_is_reported_at_its_time() -> None:
    """A log that starts later is counted from a node's snapshot on: its ACLs came by then."""
    base = manifest(100, 5 * MINUTE_MS + 1)
    batch = result(100, 120, {READ: 4}, {(9 * MINUTE_MS, READ): 1}, timestamp_ms=DAY_MS, base=base)
    rows = count_rows(batch, {})
    assert deltas_of(rows) == {
        (at(5 * MINUTE_MS), READ_KIND): 3,
        (at(9 * MINUTE_MS), READ_KIND): 1,
    }
    assert (rows.start, rows.end, rows.date) == (100, 120, date(1970, 1, 2))


def test_reports_begin_at_a_stored_state_beyond_the_checkpoint() -> None:
    """Spark's batch is [0, 120), and the state at 100 is stored: earlier changes are already reported."""
    rows = count_rows(result(0, 120, {READ: 4}, base=manifest(100, 0)), {READ_KIND: 4})
    assert (rows.start, len(rows.deltas)) == (100, 0)


def test_compacted_removals_are_reported_at_the_end_of_the_batch() -> None:
    """The log was read again; the missing ACLs were removed at an unknown earlier time."""
    rows = count_rows(result(50, 60, {READ: 1}, timestamp_ms=3 * MINUTE_MS), {READ_KIND: 3})
    assert deltas_of(rows) == {(at(3 * MINUTE_MS), READ_KIND): -2}


def test_codes_without_a_name_are_numbers() -> None:
    """A newer Kafka may write codes that this build does not know."""
    rows = count_rows(result(0, 1, {(99, -5, 0, 3): 1}, {(0, (99, -5, 0, 3)): 1}), {})
    assert counts_of(rows) == {AclKind("99", "-5", "ALLOW", "UNKNOWN"): 1}


@pytest.mark.parametrize(
    ("timestamp_ms", "shown"),
    [(-(2**62), date(1, 1, 1)), (2**62, date(9999, 12, 31)), (-1, date(1969, 12, 31))],
)
def test_any_timestamp_has_a_date(timestamp_ms: int, shown: date) -> None:
    """A record's timestamp is what its writer says; the calendar's ends stand for what is beyond them."""
    minute_ms = timestamp_ms // MINUTE_MS * MINUTE_MS
    rows = count_rows(result(0, 1, {READ: 1}, {(minute_ms, READ): 1}, timestamp_ms=timestamp_ms), {})
    (counted,), (changed,) = rows.counts.to_pylist(), rows.deltas.to_pylist()
    assert (rows.date, counted["time"].date(), changed["minute"].date()) == (shown, shown, shown)


KINDS = st.sampled_from([READ, WRITE, (3, 4, 2, 2)])
COUNTS = st.dictionaries(KINDS, st.integers(1, 5))


@given(
    COUNTS,
    st.lists(
        st.tuples(
            COUNTS, st.dictionaries(st.tuples(st.sampled_from([0, MINUTE_MS]), KINDS), st.integers(-3, 3))
        )
    ),
)
def test_deltas_add_up_to_the_counts_at_every_batch(first: Any, batches: list[Any]) -> None:
    """For any records and any start state."""
    total: Counter[AclKind] = Counter()
    known: Mapping[AclKind, int] = {}
    for end, (after, deltas) in enumerate([(first, {}), *batches], 1):
        rows = count_rows(result(end - 1, end, after, deltas), known)
        for (_, kind), delta in deltas_of(rows).items():
            total[kind] += delta
        known = rows.after
        assert {kind: count for kind, count in total.items() if count} == known


def test_files_are_named_after_cluster_date_and_end_offset(tmp_path: Path) -> None:
    """Hive's layout, by which every reader of Parquet finds the columns; a cluster id is any text."""
    files = CountFiles(str(tmp_path))
    identity = LogIdentity("a/b=ü", IDENTITY.topic_id)
    rows = count_rows(result(0, 9, {READ: 1}, {(0, READ): 1}, timestamp_ms=DAY_MS, identity=identity), {})
    files.append([rows])
    name = "cluster_id=a%2Fb%3D%C3%BC/date=1970-01-02/00000000000000000009.parquet"
    assert paths(tmp_path) == [f"counts/{name}", f"counts_by_time/{name}"]
    assert pq.ParquetFile(tmp_path / "counts" / name).read().equals(rows.counts)
    assert pq.ParquetFile(tmp_path / "counts_by_time" / name).read().equals(rows.deltas)


def test_a_repeated_batch_writes_the_same_files_again(tmp_path: Path) -> None:
    """Byte by byte: what was written before it failed counts once."""
    rows = count_rows(result(0, 9, {READ: 1}, {(0, READ): 1}), {})
    contents = []
    for _ in range(2):
        CountFiles(str(tmp_path)).append([rows])
        contents.append({path: (tmp_path / path).read_bytes() for path in paths(tmp_path)})
    assert contents[0] == contents[1]


def test_files_of_an_uncommitted_batch_are_replaced_by_the_next(tmp_path: Path) -> None:
    """A new checkpoint cuts the batches elsewhere, and a record's date may be another after compaction."""
    first = count_rows(result(0, 5, {READ: 1}, {(0, READ): 1}), {})
    left = count_rows(result(5, 9, {READ: 2}, {(0, READ): 1}, timestamp_ms=DAY_MS), first.after)
    CountFiles(str(tmp_path)).append([first])
    CountFiles(str(tmp_path)).append([left])
    again = [
        count_rows(result(5, 7, {READ: 2}, {(0, READ): 1}), first.after),
        count_rows(result(7, 12, {READ: 2}), {READ_KIND: 2}),
    ]
    files = CountFiles(str(tmp_path))
    for rows in again:
        files.append([rows])
    assert [Path(path).name for path in paths(tmp_path / "counts")] == [
        f"{end:020}.parquet" for end in (5, 7, 12)
    ]
    assert [Path(path).name for path in paths(tmp_path / "counts_by_time")] == [
        f"{end:020}.parquet" for end in (5, 7)
    ]


def test_counts_of_another_cluster_are_kept(tmp_path: Path) -> None:
    """A batch that begins anew has nothing to do with the logs beside its own."""
    other = LogIdentity("other", IDENTITY.topic_id)
    CountFiles(str(tmp_path)).append([count_rows(result(0, 9, {READ: 1}, identity=other), {})])
    CountFiles(str(tmp_path)).append([count_rows(result(0, 3, {READ: 1}), {})])
    files = CountFiles(str(tmp_path))
    assert files.counts_at("other", 9) == files.counts_at(IDENTITY.cluster_id, 3) == {READ_KIND: 1}


def test_committed_counts_are_kept_without_their_states(tmp_path: Path) -> None:
    """Read from its start, a compacted topic would tell another history than the one that is there."""
    sink = CountsSink(CountFiles(str(tmp_path)))
    for start, end in ((0, 5), (5, 9)):
        sink.commit([result(start, end, {READ: 1})])
    before = paths(tmp_path)
    with pytest.raises(
        SparkJobError, match=r"counted up to offset 9, .* no stored state .* another --output"
    ):
        CountsSink(CountFiles(str(tmp_path))).commit([result(0, 7, {READ: 1})])
    assert paths(tmp_path) == before


def test_an_uncommitted_first_batch_is_replaced(tmp_path: Path) -> None:
    """There is one such batch at most; the job begins again."""
    for end in (5, 7):
        sink = CountsSink(CountFiles(str(tmp_path)))
        sink.commit([result(0, end, {READ: end})])
        assert sink.counts(IDENTITY.cluster_id) == {READ_KIND: end}
    assert CountFiles(str(tmp_path)).ends(IDENTITY.cluster_id) == {7}


def test_the_counts_before_a_batch_are_those_of_the_preceding_batch(tmp_path: Path) -> None:
    """By end offset, whatever the dates; nothing before the first batch."""
    files = CountFiles(str(tmp_path))
    batches = [
        count_rows(result(0, 5, {READ: 1}, timestamp_ms=2 * DAY_MS), {}),
        count_rows(result(5, 9, {READ: 2}), {}),
    ]
    for rows in batches:
        files.append([rows])
    found = {end: files.counts_at(IDENTITY.cluster_id, end) for end in (4, 5, 8, 9, 10)}
    assert found == {4: {}, 5: {READ_KIND: 1}, 8: {READ_KIND: 1}, 9: {READ_KIND: 2}, 10: {READ_KIND: 2}}


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """The job cannot go on from it; nothing is made up."""
    CountFiles(str(tmp_path)).append([count_rows(result(0, 9, {READ: 1}), {})])
    (path,) = (tmp_path / "counts").rglob("*.parquet")
    path.write_bytes(b"no Parquet")
    with pytest.raises(SparkJobError, match=rf"{path.name} is not a table of counts"):
        CountFiles(str(tmp_path)).counts_at(IDENTITY.cluster_id, 9)


def test_reports_begin_at_the_state_to_compare_with() -> None:
    """I10: the state before the rebuild says up to where the tables go."""
    batch = result(0, 9, {READ: 1})
    batch = replace(batch, plan=replace(batch.plan, before=manifest(4, 0)))
    assert count_rows(batch, {}).start == 4
