"""Records decoded in Arrow, as a task of the Spark jobs does it; without Spark."""

from __future__ import annotations

import json
import uuid
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
from records.errors import DecodeError, UnsupportedVersionError
from records.ids import uuid_from_string, uuid_to_string
from records.log.base import LogIdentity
from snapshot.errors import SparkJobError
from snapshot.jobs.folding.decode import decode_rows
from snapshot.jobs.folding.log_fold import fold_logs
from snapshot.store.snapshot_store import SnapshotStore
from support.column_logs import frame_of
from support.shard_folds import plan
from support.snapshots import acl, acl_id
from support.source_rows import CLUSTER_ID, TOPIC_ID, Row, source_batch

BEGIN, END, ABORT = (
    encode_frame(marker)
    for marker in (BeginTransactionRecord("t"), EndTransactionRecord(), AbortTransactionRecord())
)
FRAMES = [encode_frame(acl(number)) for number in range(6)]
NAME = f"the log of cluster {CLUSTER_ID}, topic id {TOPIC_ID}"


def frames(*values: bytes | None, start: int = 0) -> list[Row]:
    return [Row(start + at, 1000 + at, None, value) for at, value in enumerate(values)]


def decoded(*batches: list[Row]) -> list[tuple[int, int]]:
    """Offset and applied offset of each ACL that a history would have."""
    changes: list[Any] = []
    store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
    identity = LogIdentity(CLUSTER_ID, uuid_from_string(TOPIC_ID))
    of = plan(store, 99, base=None, wants_changes=True, identity=identity)
    fold = fold_logs(
        map(source_batch, batches),
        plans={CLUSTER_ID: of},
        write_changes=lambda _, found: changes.extend(found.to_pylist()),
    )
    list(fold)
    return [(int(change["after"]["resource_name"][2:]), change["offset"]) for change in changes]


def test_the_records_of_a_transaction_are_applied_at_its_end() -> None:
    """KIP-868: the records' own offsets stay, also where the transaction reaches over several batches."""
    assert decoded(frames(FRAMES[0], BEGIN, FRAMES[1], END, FRAMES[2])) == [(0, 0), (1, 3), (2, 4)]
    assert decoded(
        frames(FRAMES[0], BEGIN, FRAMES[1]),
        frames(FRAMES[2], FRAMES[3], start=3),
        frames(FRAMES[4], END, FRAMES[5], start=5),
    ) == [(0, 0), (1, 6), (2, 6), (3, 6), (4, 6), (5, 7)]


def test_an_aborted_transaction_gives_no_rows() -> None:
    """KIP-868: what it held never existed; what stands around it did."""
    assert decoded(frames(FRAMES[0], BEGIN, FRAMES[1]), frames(FRAMES[2], ABORT, FRAMES[3], start=3)) == [
        (0, 0),
        (3, 5),
    ]
    assert decoded(frames(BEGIN, ABORT), frames(BEGIN, END, start=2)) == []


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
        decoded(frames(*values))
    assert (caught.value.source, caught.value.offset) == (NAME, offset)


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
    rows = [*frames(*FRAMES[:2]), Row(2, 0, key, value), *frames(*FRAMES[3:], start=3)]
    with pytest.raises(cls) as caught:
        decoded(rows)
    assert (caught.value.source, caught.value.offset) == (NAME, 2)
    assert f"(in {NAME}, offset 2" in str(caught.value)


def test_an_unknown_log_fails_the_query() -> None:
    """A topic that a pattern found after the start has no cluster id: the message names it."""
    rows = [*frames(FRAMES[0]), Row(1, 0, None, FRAMES[1], cluster_id=None, topic_id="new")]
    with pytest.raises(DecodeError, match="topic new was created after the job's start") as caught:
        decoded(rows)
    assert caught.value.offset == 1


def isolated(*batches: list[Row], isolates_logs: bool = True) -> dict[str, tuple[int | None, str | None]]:
    """Records and failure by cluster, of a task with two logs."""
    store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
    topic_id = uuid_from_string(TOPIC_ID)
    plans = {
        name: plan(store, 99, base=None, identity=LogIdentity(name, topic_id))
        for name in (CLUSTER_ID, "other")
    }
    rows = fold_logs(map(source_batch, batches), plans=plans, write_changes=None, isolates_logs=isolates_logs)
    return {
        row["cluster_id"]: (row["summary"] and json.loads(row["summary"])["records"], row["failure"])
        for batch in rows
        for row in batch.to_pylist()
    }


def of_other(*values: bytes) -> list[Row]:
    return [Row(at, 1000, None, value, cluster_id="other") for at, value in enumerate(values)]


def test_log_that_fails_does_not_fail_the_other_ones_of_a_task() -> None:
    """Whether it comes first or last, in a batch with another one or alone; its later rows are skipped."""
    bad = frames(FRAMES[0], b"no record", FRAMES[2])
    for batches in (
        [[*bad, *of_other(*FRAMES[:2])]],
        [of_other(*FRAMES[:2]), bad, frames(FRAMES[3], start=3)],
    ):
        found = isolated(*batches)
        assert found["other"] == (2, None)
        records, failure = found[CLUSTER_ID]
        assert records is None
        assert failure is not None
        assert f"(in {NAME}, offset 1" in failure
        with pytest.raises(DecodeError):
            isolated(*batches, isolates_logs=False)


def test_rows_without_a_log_end_the_task_of_isolated_logs() -> None:
    """Otherwise logs whose rows follow would look as if they had no records."""
    unknown = Row(1, 0, None, FRAMES[1], cluster_id=None, topic_id="new")
    with pytest.raises(DecodeError, match="topic new was created"):
        isolated(frames(FRAMES[0]), [unknown], of_other(FRAMES[0]))


def test_rows_of_a_log_are_together() -> None:
    with pytest.raises(SparkJobError, match="the rows of the log are not together in the task"):
        isolated(frames(FRAMES[0]), of_other(FRAMES[0]), frames(FRAMES[1], start=1))


def test_other_records_are_skipped() -> None:
    """They are known by their header; batches of nothing else, and no batch at all, give no rows."""
    other_frames = [frame_of(OtherRecord(20, 0)), b"\x01\x80\x02\x09 an api key of two bytes"]
    assert decoded(frames(*other_frames)) == decoded() == decoded([]) == []
    assert decoded(frames(other_frames[0], FRAMES[0], other_frames[1])) == [(0, 1)]


def test_a_tombstone_is_a_removal() -> None:
    """Its key is the id, as text or as bytes."""
    keys = [uuid_to_string(acl_id(1)).encode(), bytes(acl_id(2))]
    rows = [Row(at, 0, key, None) for at, key in enumerate(keys)]
    removals = [RemoveAccessControlEntryRecord(acl_id(number)) for number in (1, 2)]
    assert [logged.record for logged in decode_rows(source_batch(rows), 0, NAME)] == removals
