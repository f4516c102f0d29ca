"""The stored history of a log: the intervals that contain an offset are the ACLs in force there."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.jobs.changes.change_files import write_changes
from snapshot.jobs.changes.change_table import ended_intervals, net_changes
from snapshot.jobs.changes.coverage import Coverage
from snapshot.jobs.folding.schema import CHANGES_ARROW
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage
from support.example_counts import examples
from support.histories import as_record, open_intervals
from support.shard_folds import Counted, counted, folded, plan
from support.sim_history import EMPTY_STATE, State, fold
from support.snapshots import CLUSTER, IDENTITY, logged
from support.strategies import record_lists


@st.composite
def logs(draw: st.DrawFn) -> list[list[LogRecord]]:
    """A log in batches; none ends within a metadata transaction."""
    found: list[list[LogRecord]] = []
    for records in draw(st.lists(record_lists(max_size=12, with_transactions=True), min_size=1, max_size=4)):
        start = found[-1][-1].offset + 1 if found else 0
        if records:
            found.append(logged(records, start=start))
    return found


class FollowedHistory:
    """The output of the job for a log, batch by batch, without Spark."""

    def __init__(self) -> None:
        self.store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
        self.base: SnapshotManifest | None = None
        self.changes: list[dict[str, Any]] = []
        self.ended: list[dict[str, Any]] = []

    def process(self, records: Sequence[LogRecord], end: int, *, shards: int = 2, **planned: Any) -> None:
        of = plan(self.store, end, **({"base": self.base} | planned), shards=shards, wants_changes=True)
        result, changes = folded(of, records)
        # Spark delivers them in any order.
        random.Random(len(changes)).shuffle(changes)
        table = net_changes(pa.Table.from_pylist(changes, CHANGES_ARROW))
        self.changes += table.to_pylist()
        self.ended += ended_intervals(table).to_pylist()
        self.base = self.store.commit(result.manifest, attempts="job")

    def at(self, offset: int) -> dict[Uuid, AccessControlEntryRecord]:
        """The ACLs in force after the record at this offset."""
        assert self.base is not None
        found = {}
        for interval in [*self.ended, *open_intervals(self.store.read(self.base.ref).image)]:
            end = interval["valid_to_offset"]
            if interval["valid_from_offset"] <= offset and (end is None or offset < end):
                assert interval["id"] not in found
                found[interval["id"]] = as_record(interval)
        return found


def state_at(records: Sequence[Counted], offset: int, before: State = EMPTY_STATE) -> State:
    """The naive fold of the records that are applied up to the offset."""
    return fold([each.logged.record for each in records if each.applied_offset <= offset], before)  # type: ignore[misc]


@given(logs(), st.integers(1, 3))
@settings(max_examples=examples(gate=30, deep=80))
def test_the_intervals_give_the_state_at_every_offset(batches: list[list[LogRecord]], shards: int) -> None:
    """Records of a metadata transaction count together, however often they change one id."""
    history = FollowedHistory()
    everything = counted([entry for batch in batches for entry in batch])
    for batch in batches:
        history.process(batch, batch[-1].offset + 1, shards=shards)
    for offset in range(batches[-1][-1].offset + 1 if batches else 0):
        assert history.at(offset) == state_at(everything, offset).acls


@given(logs())
@settings(max_examples=examples(gate=30, deep=80))
def test_the_changes_lead_from_state_to_state(batches: list[list[LogRecord]]) -> None:
    """Each (offset, id) has at most one change, in order, and only for different content."""
    history = FollowedHistory()
    everything = counted([entry for batch in batches for entry in batch])
    for batch in batches:
        history.process(batch, batch[-1].offset + 1)
    keys = [(change["offset"], change["id"]) for change in history.changes]
    assert keys == sorted(set(keys))
    acls = dict(EMPTY_STATE.acls)
    for change in history.changes:
        before, after = (
            None if change[name] is None else as_record(change[name] | {"id": change["id"]})
            for name in ("before", "after")
        )
        assert acls.pop(change["id"], None) == before
        assert (before is None, after is None) == {
            "added": (True, False),
            "removed": (False, True),
            "replaced": (False, False),
        }[change["change"]]
        if after is not None:
            acls[change["id"]] = after
        # The last change of this offset: the state is complete.
        if (
            change is history.changes[-1]
            or history.changes[keys.index((change["offset"], change["id"])) + 1]["offset"] != change["offset"]
        ):
            assert acls == state_at(everything, change["offset"]).acls


@given(logs(), logs())
@settings(max_examples=examples(gate=30, deep=80))
def test_a_rebuilt_state_leaves_no_gap_in_the_history(
    first: list[list[LogRecord]], second: list[list[LogRecord]]
) -> None:
    """I10: the log was compacted meanwhile; reported changes do not change."""
    history = FollowedHistory()
    reported = counted([entry for batch in first for entry in batch])
    start = first[-1][-1].offset + 1 if first else 0
    for batch in first:
        history.process(batch, batch[-1].offset + 1)
    # The compacted log: other records, some at offsets whose changes are already reported.
    shift = start // 2
    still_there = [
        LogRecord(entry.offset + shift, entry.timestamp_ms, entry.record)
        for batch in second
        for entry in batch
    ]
    remaining = counted(still_there)
    end = max([start, *(entry.offset + 1 for entry in still_there)]) + 1
    history.process(still_there, end, base=None, before=history.base, start=start)
    for offset in range(start):
        assert history.at(offset) == state_at(reported, offset).acls
    assert history.at(end - 1) == state_at(remaining, end).acls


@given(logs())
@settings(max_examples=examples(gate=30, deep=80))
def test_a_repeated_batch_writes_the_same_files(batches: list[list[LogRecord]]) -> None:
    """Same names and same bytes for any order of its changes."""
    history = FollowedHistory()
    for batch in batches:
        history.process(batch, batch[-1].offset + 1)
    if not history.changes:
        return
    url = f"memory://{uuid.uuid4().hex}"
    storage = Storage(url)
    written = []
    for seed in range(2):
        rows = list(history.changes)
        random.Random(seed).shuffle(rows)
        table = net_changes(pa.Table.from_pylist(rows, CHANGES_ARROW))
        write_changes(storage, CLUSTER, 0, 77, table)
        written.append(
            {
                f"{directory}/{name}": storage.read(f"{directory}/{name}")
                for table_name in ("changes", "intervals")
                for date in storage.directories(f"{table_name}/cluster_id={CLUSTER}")
                for directory in [f"{table_name}/cluster_id={CLUSTER}/{date}"]
                for name in storage.files(directory)
            }
        )
    assert written[0] == written[1]
    assert all(path.endswith(f"/{0:020d}-{77:020d}.parquet") for path in written[0])


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 30)), min_size=1, max_size=12))
def test_coarse_spans_are_the_late_batches(steps: list[tuple[int, int]]) -> None:
    """Spans are in order and do not overlap; an end outside all spans is exact."""
    coverage = Coverage.beginning(IDENTITY, 0, 0)
    start, spans = 0, []
    for size, read_ahead in steps:
        end = start + size
        spans.append((start, max(end, start + read_ahead)))
        coverage = coverage.with_coarse(*spans[-1])
        coverage = coverage.with_coarse(*spans[-1])
        start = end
    bounds = [bound for span in coverage.coarse for bound in span]
    assert bounds == sorted(bounds)
    for end in range(60):
        assert coverage.is_coarse(end) == any(since < end < until for since, until in spans) or any(
            # Overlapping spans are merged.
            since < end < until
            for since, until in coverage.coarse
        )
