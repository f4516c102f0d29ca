"""The files of a history, their coverage, and the files that a new checkpoint replaces."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.ids import uuid_to_string
from records.log.base import LogIdentity
from snapshot.errors import HistoryForeignError, SnapshotCorruptError, SnapshotUnsupportedError
from snapshot.jobs.changes.change_files import history_files, write_changes
from snapshot.jobs.changes.change_table import messages_of, net_changes
from snapshot.jobs.changes.changes_job import ChangesSink, _may_come_again
from snapshot.jobs.changes.coverage import Coverage, covered_clusters, put_coverage, read_coverage
from snapshot.jobs.folding.log_plan import LogPlan, LogResult
from snapshot.jobs.folding.schema import CHANGES_ARROW
from snapshot.store.storage import Storage
from support.shard_folds import folded, plan
from support.snapshots import CLUSTER, IDENTITY, acl_id

DAY_MS = 86_400_000


def acl_row(offset: int | None, **changes: Any) -> dict[str, Any]:
    fields = {
        "resource_type": "TOPIC",
        "resource_name": "t",
        "pattern_type": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "READ",
        "permission_type": "ALLOW",
        "offset": offset,
        "timestamp_ms": 0,
    }
    return fields | changes


def change(
    offset: int, number: int, before: dict[str, Any] | None, after: dict[str, Any] | None, *, at_ms: int = 0
) -> dict[str, Any]:
    name = "added" if before is None else "removed" if after is None else "replaced"
    return {
        "topic_id": uuid_to_string(IDENTITY.topic_id),
        "offset": offset,
        "timestamp_ms": at_ms,
        "change": name,
        "id": acl_id(number),
        "before": before,
        "after": after,
    }


def table(*changes: dict[str, Any]) -> pa.Table:
    return net_changes(pa.Table.from_pylist(list(changes), CHANGES_ARROW))


def storage() -> Storage:
    return Storage(f"memory://{uuid.uuid4().hex}")


def paths(store: Storage) -> list[str]:
    return sorted(file.path for file in history_files(store, CLUSTER))


def test_changes_undone_within_a_transaction_are_not_reported() -> None:
    """Added and removed at one offset; removed and added again is another life of the same content."""
    new, old = acl_row(9), acl_row(3)
    changes = table(
        change(9, 1, None, new),
        change(9, 1, new, None),
        change(9, 2, old, None),
        change(9, 2, None, new),
        change(9, 3, acl_row(3, host="h"), new),
        change(9, 3, new, None),
        change(9, 4, None, acl_row(9, host="h")),
        change(9, 4, acl_row(9, host="h"), new, at_ms=5),
    ).to_pylist()
    assert [(row["id"], row["change"]) for row in changes] == [
        (acl_id(2), "replaced"),
        (acl_id(3), "removed"),
        (acl_id(4), "added"),
    ]
    assert (changes[0]["before"], changes[0]["after"]) == (old, new)
    assert (changes[2]["after"], changes[2]["timestamp_ms"]) == (new, 5)


def test_each_day_of_the_records_has_a_file(tmp_path: Path) -> None:
    """In UTC; an interval lies on the day on which it ended. A day without one has no such file."""
    store = Storage(str(tmp_path))
    changes = table(
        change(5, 1, None, acl_row(5), at_ms=20_000 * DAY_MS - 1),
        change(6, 1, acl_row(5, timestamp_ms=20_000 * DAY_MS - 1), None, at_ms=20_000 * DAY_MS),
        change(7, 2, None, acl_row(7), at_ms=-1),
    )
    write_changes(store, "a/b", 5, 8, changes)
    name = f"{5:020d}-{8:020d}.parquet"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")) == [
        f"changes/cluster_id=a%2Fb/date=1969-12-31/{name}",
        f"changes/cluster_id=a%2Fb/date=2024-10-03/{name}",
        f"changes/cluster_id=a%2Fb/date=2024-10-04/{name}",
        f"intervals/cluster_id=a%2Fb/date=2024-10-04/{name}",
    ]
    assert {(file.start, file.end) for file in history_files(store, "a/b")} == {(5, 8)}
    # Not by its path: pyarrow would take the directories' names for columns.
    with (tmp_path / f"intervals/cluster_id=a%2Fb/date=2024-10-04/{name}").open("rb") as file:
        (interval,) = pq.read_table(file).to_pylist()
    assert (interval["valid_from_offset"], interval["valid_to_offset"]) == (5, 6)
    assert (interval["valid_to_time"] - interval["valid_from_time"]).total_seconds() == 0.001


def test_messages_have_the_names_of_other_json() -> None:
    """Names as in aclog's other JSON, ids as Kafka writes them."""
    ((offset, key, value),) = messages_of("c", table(change(5, 1, acl_row(None), None, at_ms=7)))
    text = uuid_to_string(acl_id(1))
    assert (offset, key) == (5, f"c/{text}".encode())
    assert json.loads(value) == {
        "clusterId": "c",
        "topicId": uuid_to_string(IDENTITY.topic_id),
        "offset": 5,
        "timestampMs": 7,
        "change": "removed",
        "id": text,
        "before": {
            "resourceType": "TOPIC",
            "resourceName": "t",
            "patternType": "LITERAL",
            "principal": "User:a",
            "host": "*",
            "operation": "READ",
            "permissionType": "ALLOW",
            "offset": None,
            "timestampMs": 0,
        },
        "after": None,
    }


def test_coverage_is_stored_and_checked() -> None:
    store = storage()
    coverage = Coverage.beginning(LogIdentity("a/b", IDENTITY.topic_id), 7, 70).with_coarse(7, 12)
    assert read_coverage(store, "a/b") is None
    put_coverage(store, coverage)
    assert read_coverage(store, "a/b") == coverage
    assert covered_clusters(store) == ("a/b",)
    path = "coverage/a%2Fb.json"
    good = json.loads(store.read(path))
    store.put(path, json.dumps(good | {"formatVersion": 2, "more": 1}).encode())
    with pytest.raises(SnapshotUnsupportedError, match="format version 2"):
        read_coverage(store, "a/b")
    for damaged in (b"", b"[]", b"{}", json.dumps(good | {"topicId": "x"}).encode()):
        store.put(path, damaged)
        with pytest.raises(SnapshotCorruptError, match=r"a%2Fb\.json is damaged"):
            read_coverage(store, "a/b")


def sink(store: Storage, *, compacting: bool = False) -> ChangesSink:
    clusters = frozenset([CLUSTER]) if compacting else frozenset()
    return ChangesSink(store.shown(""), compacting=clusters, may_find_leftovers=True)


def planned(start: int, end: int) -> LogPlan:
    from snapshot.store.snapshot_store import SnapshotStore  # noqa: PLC0415

    return plan(SnapshotStore("memory://unused"), end, base=None, start=start)


def test_a_repeated_batch_replaces_its_earlier_files() -> None:
    """Whatever its end was then: of what counts, nothing begins where it begins."""
    store = storage()
    changes = table(change(5, 1, acl_row(1), None))
    for start, end in ((0, 5), (5, 9), (5, 12)):
        write_changes(store, CLUSTER, start, end, changes)
    remaining = {file.path for file in history_files(store, CLUSTER) if file.end == 5}
    sink(store)._remove_leftovers(planned(5, 12))
    assert set(paths(store)) == remaining


@pytest.mark.parametrize(
    ("planned_batches", "done_batches", "expected"),
    [((), (), True), ((0,), (), True), ((0, 1), (0, 1), False), ((8, 9, 10), (9,), True)],
)
def test_a_batch_may_be_repeated_after_a_restart(
    planned_batches: tuple[int, ...], done_batches: tuple[int, ...], expected: bool
) -> None:
    """Under a new checkpoint, and where Spark planned one that it did not finish."""
    checkpoint = storage()
    for directory, batches in (("offsets", planned_batches), ("commits", done_batches)):
        for batch in batches:
            checkpoint.put(f"{directory}/{batch}", b"v1")
            checkpoint.put(f"{directory}/.{batch}.crc", b"")
    assert _may_come_again(checkpoint) is expected


@pytest.mark.parametrize("start", [0, 3])
def test_a_history_beyond_the_state_is_refused(start: int) -> None:
    """The state was lost: to continue would report every change twice. Nothing is removed."""
    store = storage()
    changes = table(change(5, 1, acl_row(1), None))
    for begin, end in ((0, 5), (5, 9)):
        write_changes(store, CLUSTER, begin, end, changes)
    before = paths(store)
    with pytest.raises(HistoryForeignError, match=f"ends at offset {start}. Restore the content"):
        sink(store)._remove_leftovers(planned(start, 20))
    assert paths(store) == before


def result(start: int, end: int, gap_until: int = 0) -> LogResult:
    made, _ = folded(planned(start, end), [])
    return replace(made, manifest=replace(made.manifest, gap_until=gap_until))


def test_a_topic_is_coarse_where_it_was_read_late() -> None:
    """At the start of a run, and again where the log had more than the batch; a directory never is."""
    store = storage()
    follower = sink(store, compacting=True)
    for batch in (result(0, 10, 30), result(10, 20, 30), result(20, 30), result(30, 31), result(31, 40, 50)):
        follower.commit([batch])
        follower.commit([batch])
    coverage = read_coverage(store, CLUSTER)
    assert coverage is not None
    assert coverage.coarse == ((0, 30), (31, 50))
    assert [coverage.is_coarse(end) for end in (0, 1, 29, 30, 31, 32, 50)] == [
        False,
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert coverage.has_coarse(30, 31) is False
    assert coverage.has_coarse(29, 31) is True
    sink(store, compacting=True).commit([result(50, 51)])
    again = read_coverage(store, CLUSTER)
    assert again is not None
    assert again.coarse == ((0, 30), (31, 50), (50, 51))
    directory = storage()
    sink(directory).commit([result(0, 10)])
    found = read_coverage(directory, CLUSTER)
    assert found is not None
    assert (found.begin_offset, found.coarse) == (0, ())
