"""The records of logs that a task of the Spark jobs folds; without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Barrier, Event
from typing import Any

import pytest

from records.codecs.avro import encode
from records.codecs.kraft import encode_frame
from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError, LogError, UnsupportedVersionError
from records.ids import Uuid, uuid_to_string
from records.log.base import LogIdentity
from records.log.topic.codec import decode_messages
from records.log_batch import LogBatch
from snapshot.jobs.folding.log_fold import FoldedLog, fold_logs
from snapshot.jobs.folding.log_plan import LogPlan
from snapshot.jobs.folding.stored_state import StoredState
from snapshot.store.manifest import SnapshotPart
from snapshot.store.snapshot_store import SnapshotStore
from support.column_logs import frame_of
from support.shard_folds import plan
from support.snapshots import acl, acl_id

BEGIN, END, ABORT = (
    encode_frame(marker)
    for marker in (BeginTransactionRecord("t"), EndTransactionRecord(), AbortTransactionRecord())
)
FRAMES = [encode_frame(acl(number)) for number in range(6)]
CLUSTER_ID = "c-1"
TOPIC_ID = Uuid(bytes(15) + b"\x01")
NAME = "kafka://b:9092/acls"
PLANNED = f"the log of cluster {CLUSTER_ID}, topic id {uuid_to_string(TOPIC_ID)}"


def batch(*values: bytes | None, start: int = 0, keys: Sequence[bytes | None] = ()) -> LogBatch:
    """A batch of messages, as the reader of a topic's range decodes them; it raises the reader's errors."""
    offsets = [*range(start, start + len(values))]
    keys = keys or [None] * len(values)
    found, problem = decode_messages(keys, values, offsets, [1000 + at for at in offsets], columns_from=1)
    if problem is not None:
        raise problem.located(source=NAME)
    return LogBatch(start, start + len(values), 1, 1000, 0, found)


def planned(cluster_id: str = CLUSTER_ID) -> LogPlan:
    store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
    return plan(store, 99, base=None, wants_changes=True, identity=LogIdentity(cluster_id, TOPIC_ID))


def planned_logs() -> dict[str, LogPlan]:
    return {name: planned(name) for name in (CLUSTER_ID, "other")}


def decoded(*batches: LogBatch) -> list[tuple[int, int]]:
    """Number of each ACL that a history would have, and the offset at which it takes effect."""
    changes: list[Any] = []
    fold = fold_logs(
        [(CLUSTER_ID, batches)],
        plans={CLUSTER_ID: planned()},
        write_changes=lambda _, found: changes.extend(found.to_pylist()),
    )
    list(fold)
    return [(int(change["after"]["resource_name"][2:]), change["offset"]) for change in changes]


def test_the_records_of_a_transaction_are_applied_at_its_end() -> None:
    """KIP-868: the records' own offsets stay, also where the transaction reaches over several batches."""
    assert decoded(batch(FRAMES[0], BEGIN, FRAMES[1], END, FRAMES[2])) == [(0, 0), (1, 3), (2, 4)]
    assert decoded(
        batch(FRAMES[0], BEGIN, FRAMES[1]),
        batch(FRAMES[2], FRAMES[3], start=3),
        batch(FRAMES[4], END, FRAMES[5], start=5),
    ) == [(0, 0), (1, 6), (2, 6), (3, 6), (4, 6), (5, 7)]


def test_an_aborted_transaction_gives_no_rows() -> None:
    """KIP-868: what it held never existed; what stands around it did."""
    assert decoded(batch(FRAMES[0], BEGIN, FRAMES[1]), batch(FRAMES[2], ABORT, FRAMES[3], start=3)) == [
        (0, 0),
        (3, 5),
    ]
    assert decoded(batch(BEGIN, ABORT), batch(BEGIN, END, start=2)) == []


@pytest.mark.parametrize(
    ("values", "offset", "reason"),
    [
        ([BEGIN, FRAMES[0]], 0, "has no end in this batch"),
        ([FRAMES[0], END], 1, "ends that never began"),
        ([BEGIN, END, ABORT], 2, "ends that never began"),
        ([BEGIN, FRAMES[0], BEGIN], 2, "begins within another"),
    ],
)
def test_an_incomplete_transaction_fails_the_query(values: list[bytes], offset: int, reason: str) -> None:
    """Its other part is in another batch of the query, or missing: there is no state."""
    with pytest.raises(DecodeError, match=reason) as caught:
        decoded(batch(*values))
    assert (caught.value.source, caught.value.offset) == (PLANNED, offset)


@pytest.mark.parametrize(
    ("key", "value", "cls"),
    [
        (None, b"\x01\x12\x01" + FRAMES[0][3:], UnsupportedVersionError),
        (None, FRAMES[0][:-1], DecodeError),
        (None, FRAMES[0].replace(b"t-0", b"t-\xff"), DecodeError),
        (None, None, DecodeError),
        (None, b"", DecodeError),
        (b"no key", encode(acl(0)), DecodeError),
        (uuid_to_string(acl_id(1)).encode(), encode(acl(0)), DecodeError),
        (uuid_to_string(acl_id(1)).encode(), FRAMES[0], DecodeError),
        (None, encode(acl(0)).replace(b"t-0", b"t-\xff"), DecodeError),
        (None, b"\xc3\x01" + bytes(8) + encode(acl(0))[10:], UnsupportedVersionError),
    ],
)
def test_a_record_that_cannot_be_decoded_fails_the_query(
    key: bytes | None, value: bytes | None, cls: type[DecodeError]
) -> None:
    """I7: with the log and the offset; what is right around it does not help."""
    with pytest.raises(cls) as caught:
        decoded(batch(*FRAMES[:2], value, *FRAMES[3:], keys=[None, None, key, None, None, None]))
    assert (caught.value.source, caught.value.offset) == (NAME, 2)
    assert f"(in {NAME}, offset 2" in str(caught.value)


def failing() -> Iterator[LogBatch]:
    """A log whose second batch cannot be read."""
    yield batch(FRAMES[0])
    yield batch(b"no record", FRAMES[2], start=1)


def test_log_that_fails_does_not_fail_the_other_ones_of_a_task() -> None:
    """Whether it comes first or last."""
    plans = planned_logs()

    def folded(logs: list[tuple[str, Iterable[LogBatch]]], *, isolates_logs: bool) -> dict[str, FoldedLog]:
        found = fold_logs(logs, plans=plans, write_changes=None, isolates_logs=isolates_logs)
        return {each.cluster_id: each for each in found}

    for order in (1, -1):
        found = folded(
            [(CLUSTER_ID, failing()), ("other", [batch(*FRAMES[:2])])][::order], isolates_logs=True
        )
        other = found["other"].summary
        assert other is not None
        assert other.records == 2
        assert found["other"].failure is None
        assert found[CLUSTER_ID].summary is None
        assert f"(in {NAME}, offset 1" in (found[CLUSTER_ID].failure or "")
    with pytest.raises(DecodeError):
        folded([(CLUSTER_ID, failing())], isolates_logs=False)


@pytest.mark.parametrize(("end", "is_overlapped"), [(99, True), (100_000, False)])
def test_a_small_state_is_written_while_the_next_log_is_read(
    monkeypatch: pytest.MonkeyPatch,
    end: int,
    is_overlapped: bool,
) -> None:
    """A write waits for a disk or an object store. Several large states may not fit in memory."""
    plans = {name: replace(each, range=replace(each.range, end=end)) for name, each in planned_logs().items()}
    is_next_read, put, waited = Event(), StoredState.put, list[bool]()

    def slow_put(state: StoredState, *arguments: Any, **given: Any) -> list[SnapshotPart]:
        waited.append(is_next_read.wait(5 if is_overlapped else 0.1))
        return put(state, *arguments, **given)

    def next_batches() -> Iterator[LogBatch]:
        is_next_read.set()
        yield batch(*FRAMES[:2])

    monkeypatch.setattr(StoredState, "put", slow_put)
    logs: list[tuple[str, Iterable[LogBatch]]] = [(CLUSTER_ID, [batch(FRAMES[0])]), ("other", next_batches())]
    found = list(fold_logs(logs, plans=plans, write_changes=None))
    assert [each.cluster_id for each in found] == [CLUSTER_ID, "other"]
    assert waited == [is_overlapped, True]


def test_log_whose_files_cannot_be_written_does_not_fail_those_written_beside_it() -> None:
    """All three are written at the same time."""
    together = Barrier(3, timeout=10)

    def write_changes(of: LogPlan, _: object) -> None:
        together.wait()
        if of.identity.cluster_id == "b":
            raise LogError("no room")

    plans = {name: planned(name) for name in "abc"}
    logs = [(name, [batch(FRAMES[0])]) for name in plans]
    found = list(fold_logs(logs, plans=plans, write_changes=write_changes, isolates_logs=True))
    assert [(each.cluster_id, each.failure) for each in found] == [("a", None), ("b", "no room"), ("c", None)]
    assert [each.summary is None for each in found] == [False, True, False]
    with pytest.raises(LogError, match="no room"):
        list(fold_logs(logs, plans=plans, write_changes=write_changes))


def test_other_records_are_skipped() -> None:
    """They are known by their header; batches of nothing else, and no batch at all, change nothing."""
    other_frames = [frame_of(OtherRecord(20, 0)), b"\x01\x80\x02\x09 an api key of two bytes"]
    assert decoded(batch(*other_frames)) == decoded() == []
    assert decoded(batch(other_frames[0], FRAMES[0], other_frames[1])) == [(0, 1)]


def test_a_tombstone_is_a_removal() -> None:
    """Its key is the id, as text or as bytes."""
    keys = [uuid_to_string(acl_id(1)).encode(), bytes(acl_id(2))]
    removals = [RemoveAccessControlEntryRecord(acl_id(number)) for number in (1, 2)]
    assert [logged.record for logged in batch(None, None, keys=keys).records] == removals
