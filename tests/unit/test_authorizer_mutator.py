"""LogAclMutator and its purgatory: written, replayed, answered; and what is said when that fails."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from authorizer.analysis.acl_comparison import ChangedAcls
from authorizer.analysis.plan import AclPlan, PlanOrigin, PlanResult
from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
from authorizer.api.errors import (
    AuthorizerNotReadyError,
    InvalidRequestError,
    NotControllerError,
    OperationTimedOutError,
    PolicyViolationError,
    UnknownServerError,
)
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.node.writing.acl_mutator import LogAclMutator
from authorizer.node.writing.purgatory import OPERATIONS_MAX
from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord, MetadataRecord
from records.errors import (
    EncodeError,
    LogMovedError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogStorageError,
    LogUnreachableError,
)
from records.ids import Uuid, binding_uuid, uuid_to_string
from records.log.base import LogIdentity
from records.log.defaults import LogDefaults
from records.log_batch import LogBatch, LogRecord
from replay.clock import SystemClock
from replay.manifest import LogDeltaManifest, ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.nodes import SOON_S
from support.waiting import wait_until


class MemoryLog(LogDefaults):
    """A MetadataLog that holds its batches in a list.

    ``stuck`` blocks appends until it is set again; ``failure`` is raised by the next append.
    """

    url = "memory:"
    identity = LogIdentity("cluster", Uuid(bytes(16)))

    def __init__(self) -> None:
        self.batches: list[tuple[int, Sequence[MetadataRecord]]] = []
        self.end = 0
        self.failure: Exception | None = None
        self.flowing = threading.Event()
        self.flowing.set()
        self.appending = threading.Event()

    def start_offset(self) -> int:
        return 0

    def high_watermark(self) -> int:
        return self.end

    def read(self, offset: int, *, max_bytes: int = 0) -> Sequence[LogBatch]:
        raise NotImplementedError("the tests replay by hand")

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        raise NotImplementedError("the tests replay by hand")

    def wait(self, offset: int, timeout_s: float) -> bool:
        raise NotImplementedError("the tests replay by hand")

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        self.appending.set()
        assert self.flowing.wait(SOON_S)
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if after not in (None, self.end):
            raise LogMovedError(f"it ends at {self.end}")
        self.batches.append((self.end, records))
        self.end += len(records)
        return self.end

    def close(self) -> None:
        self.flowing.set()


class Writing:
    """A mutator, its log, and the loader's part played by hand."""

    def __init__(self, *, timeout_ms: int = 60_000, ready: bool = True, log: MemoryLog | None = None) -> None:
        self.log = MemoryLog() if log is None else log
        ids = itertools.count(1)
        self.mutator = LogAclMutator(
            self.log,
            timeout_ms=timeout_ms,
            clock=SystemClock(),
            random_uuid=lambda: Uuid(next(ids).to_bytes(16, "big")),
        )
        self.image = AclsImage.EMPTY
        self.replayed_batches = 0
        if ready:
            self.publish(AclsDelta(self.image), 0)
            self.mutator.on_ready()

    def publish(self, delta: AclsDelta, end_offset: int) -> None:
        self.image = delta.apply(Provenance(end_offset, 1, 0))
        manifest = LogDeltaManifest(**self.told(delta))
        self.mutator.on_update(delta, self.image, manifest)
        self.mutator.settled()

    def told(self, delta: AclsDelta) -> dict[str, Any]:
        """What both kinds of manifest say."""
        return {
            "identity": self.log.identity,
            "provenance": self.image.provenance,
            "batches": 1,
            "records": 1,
            "size_bytes": 1,
            "counts": delta.counts,
            "high_watermark": self.log.end,
            "log_end_time_ms": 0,
        }

    def reload(self) -> None:
        """The whole state anew, as it is before the log's first record."""
        delta = AclsDelta(AclsImage.EMPTY)
        self.image = delta.apply(Provenance(0, 1, 0))
        self.replayed_batches = 0
        manifest = ReloadManifest(**self.told(delta), origin="the log's start")
        self.mutator.on_update(delta, self.image, manifest)
        self.mutator.settled()

    def replay(self, batches: int | None = None) -> None:
        """Replay the next batches of the log, by default all."""
        delta = AclsDelta(self.image)
        end_offset = self.image.provenance.end_offset
        stop = len(self.log.batches) if batches is None else self.replayed_batches + batches
        for base_offset, records in self.log.batches[self.replayed_batches : stop]:
            for index, record in enumerate(records):
                delta.replay(LogRecord(base_offset + index, 0, record))
            end_offset = base_offset + len(records)
        self.replayed_batches = stop
        self.publish(delta, end_offset)

    def written(self, batches: int) -> None:
        """Wait until the log has so many batches."""
        wait_until(lambda: len(self.log.batches) == batches)


@pytest.fixture
def writing() -> Iterator[Writing]:
    made = Writing()
    yield made
    made.log.close()
    made.mutator.close()


def topic(name: str) -> AclBinding:
    return AclBinding(
        ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL),
        AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW),
    )


def named(name: str) -> AclBindingFilter:
    return AclBindingFilter(ResourcePatternFilter(name=name))


def errors(
    futures: Sequence[Future[AclCreateResult]] | Sequence[Future[AclDeleteResult]],
) -> list[str | None]:
    """Of each future, once it is done: None, or the exception."""
    results = [future.result(SOON_S) for future in futures]
    return [
        None if result.exception is None else f"{type(result.exception).__name__}: {result.exception}"
        for result in results
    ]


def deleted(future: Future[AclDeleteResult]) -> list[AclBinding]:
    return [each.acl_binding for each in future.result(SOON_S).acl_binding_delete_results]


# --- the way through ---------------------------------------------------------------------------------------


def test_a_creation_is_done_when_it_is_replayed_and_not_before(writing: Writing) -> None:
    """Committed is not enough: the decisions here must follow from it."""
    (future,) = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    assert not future.done()
    writing.replay()
    assert errors([future]) == [None]


def test_one_operation_is_one_batch(writing: Writing) -> None:
    """All records of a call are appended together, so that each resource pattern changes at once."""
    futures = writing.mutator.create_acls([topic("t"), topic(""), topic("u"), topic("t")])
    writing.written(1)
    writing.replay()
    assert errors(futures) == [None, "InvalidResourceError: Invalid empty resource name", None, None]
    assert [len(records) for _, records in writing.log.batches] == [2]


def test_what_was_appended_counts_before_it_is_replayed(writing: Writing) -> None:
    """Create, create again and delete without waiting: one creation, one removal of it."""
    first = writing.mutator.create_acls([topic("t")])
    again = writing.mutator.create_acls([topic("t")])
    removal = writing.mutator.delete_acls([named("t"), named("u")])
    writing.written(2)
    writing.replay(1)
    assert errors(first) == [None]
    writing.replay(1)
    assert [deleted(future) for future in removal] == [[topic("t")], []]
    assert errors(again) == [None]
    assert len(writing.image) == 0


def test_a_success_without_a_record_waits_for_what_it_found(writing: Writing) -> None:
    """The equal ACL may be in the log and not be visible here yet."""
    first = writing.mutator.create_acls([topic("t")])
    again = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    wait_until(lambda: writing.mutator.purgatory.num_delayed_operations == 2)
    assert not any(future.done() for future in (*first, *again))
    writing.replay()
    assert errors([*first, *again]) == [None, None]
    # Now it is there: at once, and without any replay.
    assert errors(writing.mutator.create_acls([topic("t")])) == [None]
    assert len(writing.log.batches) == 1


def test_foreign_ids_are_seen(writing: Writing) -> None:
    """An ACL that another program wrote under an id of its own exists, and can be removed."""
    delta = AclsDelta(writing.image)
    foreign = AccessControlEntryRecord.from_binding(Uuid(b"f" * 16), topic("t"))
    delta.replay(LogRecord(0, 0, foreign))
    writing.log.end = 1
    writing.publish(delta, 1)
    assert errors(writing.mutator.create_acls([topic("t")])) == [None]
    (removal,) = writing.mutator.delete_acls([named("t")])
    writing.written(1)
    writing.replay()
    assert deleted(removal) == [topic("t")]
    assert len(writing.image) == 0


def test_nothing_asked_is_nothing_done(writing: Writing) -> None:
    """No items, no futures, no record."""
    assert writing.mutator.create_acls([]) == []
    assert writing.mutator.delete_acls([]) == []
    assert writing.mutator.purgatory.size == 0


def test_futures_cannot_be_cancelled(writing: Writing) -> None:
    """What is on its way to the log cannot be called back, and cancel() says so."""
    (future,) = writing.mutator.create_acls([topic("t")])
    assert not future.cancel()
    writing.written(1)
    writing.replay()
    assert errors([future]) == [None]


def test_a_callback_may_wait_for_the_next_write(writing: Writing) -> None:
    """Callbacks do not run on the loader's thread: the replay goes on beside them."""
    (first,) = writing.mutator.create_acls([topic("t")])
    seen: Future[list[str | None]] = Future()

    def create_another(_: Future[AclCreateResult]) -> None:
        second = writing.mutator.create_acls([topic("u")])
        writing.written(2)
        seen.set_result([f"{len(writing.log.batches)} batches, done: {second[0].done()}"])

    writing.written(1)
    first.add_done_callback(create_another)
    writing.replay()
    assert seen.result(SOON_S) == ["2 batches, done: False"]
    writing.replay()


# --- what goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        (EncodeError("too long"), InvalidRequestError, "Nothing was written: too long"),
        (LogStorageError("x.log: No space left"), UnknownServerError, "x.log: No space left"),
        (LogOutcomeUnknownError("committing: no answer"), OperationTimedOutError, "committing: no answer"),
        (OSError(5, "I/O error"), UnknownServerError, "It is not known whether the log holds the records"),
        (
            LogReadOnlyError("file:x: the log was opened to read"),
            NotControllerError,
            "The current node is not the active controller. file:x: the log was opened to read",
        ),
    ],
)
def test_a_failing_append_fails_its_own_operation_only(
    writing: Writing, failure: Exception, error: type[Exception], text: str
) -> None:
    """The next operation is checked as if the failed one had never been, and is written."""
    writing.log.failure = failure
    failed = writing.mutator.create_acls([topic("t"), topic("u")])
    results = [future.result(SOON_S).exception for future in failed]
    assert [type(result) for result in results] == [error, error]
    assert text in str(results[0])
    again = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    writing.replay()
    assert errors(again) == [None]
    assert [len(records) for _, records in writing.log.batches] == [1]


def test_too_many_records_write_nothing(writing: Writing) -> None:
    """H26: every future of the operation says so, also those of refused bindings."""
    futures = writing.mutator.create_acls([topic(f"t{number}") for number in range(10_001)])
    assert {type(future.result(SOON_S).exception) for future in futures} == {PolicyViolationError}
    assert writing.log.batches == []


def test_nothing_is_written_before_the_log_is_loaded() -> None:
    """Until then nobody knows what exists; and never on a state that is not sound."""
    writing = Writing(ready=False)
    try:
        assert errors(writing.mutator.create_acls([topic("t")])) == [
            "AuthorizerNotReadyError: Nothing was written, this node is not ready: loading"
        ]
        writing.publish(AclsDelta(writing.image), 0)
        writing.mutator.on_ready()
        writing.mutator.on_not_ready("batch at 7 is damaged")
        (future,) = writing.mutator.delete_acls([named("t")])
        assert isinstance(future.result(SOON_S).exception, AuthorizerNotReadyError)
        assert "batch at 7 is damaged" in str(future.result().exception)
        assert writing.log.batches == []
    finally:
        writing.mutator.close()


def test_a_timeout_says_that_the_records_are_in_the_log() -> None:
    """Appended and not replayed: the change will come, and a retry finds it."""
    writing = Writing(timeout_ms=500)
    try:
        (future,) = writing.mutator.create_acls([topic("t")])
        error = future.result(SOON_S).exception
        assert isinstance(error, OperationTimedOutError)
        assert "timed out after 500 ms. The records are in the log below offset 1" in str(error)
        writing.replay()
        assert len(writing.image) == 1
        assert errors(writing.mutator.create_acls([topic("t")])) == [None]
    finally:
        writing.mutator.close()


def test_a_timeout_says_that_the_outcome_is_unknown_or_that_nothing_was_written() -> None:
    """While the disk does not answer: the operation it has, and the one behind it that is never begun."""
    writing = Writing(timeout_ms=500)
    try:
        writing.log.flowing.clear()
        (first,) = writing.mutator.create_acls([topic("t")])
        (second,) = writing.mutator.create_acls([topic("u")])
        assert "The outcome is unknown" in str(first.result(SOON_S).exception)
        assert "Nothing was written, and nothing will be" in str(second.result(SOON_S).exception)
        writing.log.flowing.set()
        writing.written(1)
        (third,) = writing.mutator.create_acls([topic("t")])
        wait_until(lambda: third.done() or writing.mutator.purgatory.num_delayed_operations == 1)
        writing.replay()
        assert [len(records) for _, records in writing.log.batches] == [1]
    finally:
        writing.mutator.close()


def test_close_fails_what_is_pending_and_says_what_is_known() -> None:
    """Written but not replayed, and never begun; afterwards nothing is taken in."""
    writing = Writing()
    (written,) = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    writing.mutator.close()
    writing.mutator.close()
    (late,) = writing.mutator.create_acls([topic("u")])
    assert "The records are in the log below offset 1" in str(written.result(SOON_S).exception)
    assert "The node was closed. Nothing was written." in str(late.result(SOON_S).exception)
    assert len(writing.log.batches) == 1
    assert not any(thread.name.startswith(("aclog-writer", "aclog-purgatory")) for thread in alive(writing))


def alive(writing: Writing) -> list[threading.Thread]:
    own = (writing.mutator._thread, writing.mutator.purgatory._thread)
    return [thread for thread in own if thread is not None and thread.is_alive()]


def test_a_close_during_an_append_waits_for_it() -> None:
    """What the disk takes in the end is answered as written; what waits behind it is not begun."""
    writing = Writing()
    writing.log.flowing.clear()
    (appending,) = writing.mutator.create_acls([topic("t")])
    (queued,) = writing.mutator.create_acls([topic("u")])
    assert writing.log.appending.wait(SOON_S)
    closing = threading.Thread(target=writing.mutator.close)
    closing.start()
    wait_until(lambda: writing.mutator._closed)
    writing.log.flowing.set()
    closing.join(SOON_S)
    assert "The records are in the log below offset 1" in str(appending.result(SOON_S).exception)
    assert "Nothing was written, and nothing will be" in str(queued.result(SOON_S).exception)
    assert len(writing.log.batches) == 1


# --- a log that others write to, and one that was truncated -------------------------------------------------


class SharedMemoryLog(MemoryLog):
    """A log that other nodes write to as well; ``away`` is raised by who asks for its end, so many ``times``.

    From ``elects`` on an append brings another leader with it, and replay has not followed to it.
    """

    is_shared = True
    away: LogStorageError | None = None
    times = 1_000_000
    is_followed = True
    elects = False

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        end_offset = super().append(records, after=after)
        self.is_followed = not self.elects
        return end_offset

    def verified_high_watermark(self) -> int | None:
        if self.away is not None and self.times:
            self.times -= 1
            raise self.away
        return self.end if self.is_followed else None


def foreign(name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord.from_binding(binding_uuid(topic(name)), topic(name))


def test_a_removal_finds_what_another_node_has_created() -> None:
    """It is planned on all that was committed when its turn came, not on what is replayed here by chance."""
    writing = Writing(log=SharedMemoryLog())
    try:
        writing.log.append([foreign("t")])
        (removal,) = writing.mutator.delete_acls([named("t")])
        time.sleep(0.05)  # nothing may happen meanwhile
        assert not removal.done()
        assert len(writing.log.batches) == 1
        writing.replay()
        writing.written(2)
        writing.replay()
        assert deleted(removal) == [topic("t")]
    finally:
        writing.mutator.close()


def test_a_node_that_does_not_catch_up_writes_nothing() -> None:
    """Behind the log for too long: the answer says that nothing was written, and that is so."""
    writing = Writing(log=SharedMemoryLog(), timeout_ms=1000)
    try:
        writing.log.append([foreign("t")])
        (future,) = writing.mutator.create_acls([topic("u")])
        error = future.result(SOON_S).exception
        assert isinstance(error, OperationTimedOutError)
        assert "Nothing was written: this node has replayed the log below 0, and it ends at 1" in str(error)
        assert len(writing.log.batches) == 1
    finally:
        writing.mutator.close()


def test_a_shared_log_out_of_reach_takes_nothing() -> None:
    """Nobody can say what is there: nothing is tried, and the answer says so."""
    log = SharedMemoryLog()
    log.away = LogStorageError("b:9092: timed out")
    writing = Writing(log=log)
    try:
        assert errors(writing.mutator.create_acls([topic("t")])) == [
            "OperationTimedOutError: Nothing was written: b:9092: timed out"
        ]
        assert log.batches == []
    finally:
        writing.mutator.close()


STALE = LogUnreachableError("asking for the last stable offset: Leader epoch is older than broker epoch")


def test_a_leader_that_is_not_known_yet_is_asked_again() -> None:
    """Within the operation's time, before the append and after it: the caller sees nothing of it."""
    log = SharedMemoryLog()
    log.away, log.times = STALE, 3
    log.flowing.clear()
    writing = Writing(log=log)
    try:
        (future,) = writing.mutator.create_acls([topic("t")])
        assert log.appending.wait(SOON_S)
        log.times = 3
        log.flowing.set()
        writing.written(1)
        writing.replay()
        assert errors([future]) == [None]
        assert log.times == 0
    finally:
        writing.mutator.close()


def test_a_leader_that_is_never_known_is_told_in_time() -> None:
    """With the reason, and before the operation's time is up, which would not know it."""
    log = SharedMemoryLog()
    log.away = STALE
    writing = Writing(log=log, timeout_ms=1000)
    try:
        assert errors(writing.mutator.create_acls([topic("t")])) == [
            f"OperationTimedOutError: Nothing was written: {STALE}"
        ]
        assert log.batches == []
    finally:
        writing.mutator.close()


def test_an_append_that_the_log_could_not_take_is_tried_again(writing: Writing) -> None:
    """Nothing was written by it, so the second one is the only one."""
    writing.log.failure = LogUnreachableError("writing; nothing was written: no leader")
    (future,) = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    writing.replay()
    assert errors([future]) == [None]
    assert len(writing.log.batches) == 1


def test_an_append_that_the_log_never_takes_ends_in_time() -> None:
    """Half of the operation's time: the answer says what the log said, and nothing comes later."""

    class Refusing(MemoryLog):
        def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
            raise LogUnreachableError("writing: no leader")

    writing = Writing(log=Refusing(), timeout_ms=1000)
    try:
        assert errors(writing.mutator.create_acls([topic("t")])) == [
            "OperationTimedOutError: Nothing was written, the log is out of reach: writing: no leader"
        ]
    finally:
        writing.mutator.close()


def test_an_operation_whose_time_is_up_before_the_append_is_never_appended() -> None:
    """Its answer said that nothing was written, and nothing will be."""
    log = SharedMemoryLog()
    writing = Writing(log=log, timeout_ms=400)
    try:
        asked = threading.Event()
        answer = threading.Event()

        def slow_end() -> int:
            asked.set()
            assert answer.wait(SOON_S)
            return log.end

        log.verified_high_watermark = slow_end  # type: ignore[method-assign]
        (future,) = writing.mutator.create_acls([topic("t")])
        assert asked.wait(SOON_S)
        assert "Nothing was written, and nothing will be." in str(future.result(SOON_S).exception)
        answer.set()
        writing.mutator.close()
        assert log.batches == []
    finally:
        answer.set()
        writing.mutator.close()


def test_a_write_waits_until_replay_has_followed_to_a_new_leader() -> None:
    """What is replayed may be gone: before the write is planned, and again before it is answered."""
    log = SharedMemoryLog()
    log.is_followed, log.elects = False, True
    writing = Writing(log=log)
    try:
        (future,) = writing.mutator.create_acls([topic("t")])
        time.sleep(0.1)  # nothing may happen meanwhile
        assert log.batches == []
        log.is_followed = True
        writing.written(1)
        writing.replay()
        time.sleep(0.1)  # nothing may happen meanwhile
        assert not future.done()
        log.is_followed = True
        assert errors([future]) == [None]
    finally:
        writing.mutator.close()


def test_a_write_to_a_new_history_is_no_success_before_the_old_one_is_gone() -> None:
    """Replay has seen its offset, with another record: the answer says that nothing is known."""
    log = SharedMemoryLog()
    log.elects = True
    writing = Writing(log=log)
    try:
        writing.publish(AclsDelta(writing.image), 9)
        (future,) = writing.mutator.create_acls([topic("t")])
        writing.written(1)
        time.sleep(0.1)  # nothing may happen meanwhile
        assert not future.done()
        writing.mutator.on_not_ready("log was truncated to 1, it had reached 9")
        assert "The outcome is unknown: the log was truncated" in str(future.result(SOON_S).exception)
    finally:
        writing.mutator.close()


def test_a_leader_that_is_never_followed_is_told() -> None:
    """Nothing is written then, and nothing hangs."""
    log = SharedMemoryLog()
    log.is_followed = False
    writing = Writing(log=log, timeout_ms=1000)
    try:
        (future,) = writing.mutator.create_acls([topic("t")])
        error = future.result(SOON_S).exception
        assert isinstance(error, OperationTimedOutError)
        assert "Nothing was written: The log has another leader" in str(error)
        assert log.batches == []
    finally:
        writing.mutator.close()


def test_an_append_that_the_log_does_not_confirm_has_no_known_outcome() -> None:
    """It is there, and whether it stays there nobody says."""
    log = SharedMemoryLog()
    log.flowing.clear()
    writing = Writing(log=log)
    try:
        (future,) = writing.mutator.create_acls([topic("t")])
        assert log.appending.wait(SOON_S)
        log.away = LogStorageError("b:9092: timed out")
        log.flowing.set()
        assert errors([future]) == ["OperationTimedOutError: The outcome is unknown: b:9092: timed out"]
    finally:
        writing.mutator.close()


def test_a_log_loaded_anew_leaves_nothing_behind(writing: Writing) -> None:
    """I11: what waited for a replay that never comes is told so at once, and does not count any more."""
    (lost,) = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    wait_until(lambda: writing.mutator._appended_end == 1)
    writing.mutator.on_not_ready("log was truncated to 0, it had reached 1")
    writing.log.batches.clear()
    writing.log.end = 0
    writing.reload()
    writing.mutator.on_ready()
    assert "The outcome is unknown: the log was truncated" in str(lost.result(SOON_S).exception)
    # Neither is it taken for there, nor does the next answer wait for an offset of the lost history.
    assert deleted(writing.mutator.delete_acls([named("t")])[0]) == []
    again = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    writing.replay()
    assert errors(again) == [None]


def test_an_append_that_ends_after_the_loss_is_not_a_success(writing: Writing) -> None:
    """Its end offset is of a history that is gone, and the new one will reach it with other records."""
    writing.log.flowing.clear()
    (future,) = writing.mutator.create_acls([topic("t")])
    assert writing.log.appending.wait(SOON_S)
    writing.mutator.on_not_ready("log was truncated")
    writing.reload()
    writing.mutator.on_ready()
    writing.log.flowing.set()
    assert "The outcome is unknown: the log was truncated" in str(future.result(SOON_S).exception)


def test_a_reload_of_a_ready_node_loses_nothing(writing: Writing) -> None:
    """A state built anew from a sound log (I10, I11): what is on its way still comes."""
    (future,) = writing.mutator.create_acls([topic("t")])
    writing.written(1)
    writing.reload()
    assert not future.done()
    writing.replay()
    assert errors([future]) == [None]


# --- gauges and bounds -------------------------------------------------------------------------------------


def test_gauges_count_what_waits(writing: Writing) -> None:
    """KIP-504's NumDelayedOperations and PurgatorySize rise with the waiting and fall to nothing."""
    purgatory = writing.mutator.purgatory
    assert (purgatory.num_delayed_operations, purgatory.size) == (0, 0)
    futures = writing.mutator.create_acls([topic("t"), topic("u")]) + writing.mutator.create_acls(
        [topic("v")]
    )
    writing.written(2)
    assert (purgatory.num_delayed_operations, purgatory.size) == (2, 2)
    writing.replay()
    assert errors(futures) == [None] * 3
    wait_until(lambda: (purgatory.num_delayed_operations, purgatory.size) == (0, 0))


def test_a_flood_is_refused_at_once(writing: Writing) -> None:
    """The queue is bounded: what does not fit is told so, and is not written."""
    writing.log.flowing.clear()
    waiting = [writing.mutator.create_acls([topic(f"t{number}")])[0] for number in range(OPERATIONS_MAX)]
    (refused,) = writing.mutator.create_acls([topic("one too many")])
    assert refused.done()
    assert "Nothing was written; try again" in str(refused.result().exception)
    writing.log.flowing.set()
    writing.written(OPERATIONS_MAX)
    writing.replay()
    assert errors(waiting) == [None] * OPERATIONS_MAX


def test_many_callers_get_their_own_answers(writing: Writing) -> None:
    """Threads that create and delete the same few ACLs: answers agree with the order in the log."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.is_set():
            if len(writing.log.batches) > writing.replayed_batches:
                writing.replay()
            time.sleep(0.0005)  # so that several writes are replayed together

    counts = {"created": 0, "deleted": 0}
    counting = threading.Lock()

    def work(seed: int) -> None:
        for number in range(40):
            name = f"t{(seed + number) % 3}"
            if (seed + number) % 2:
                assert errors(writing.mutator.create_acls([topic(name)])) == [None]
            else:
                gone = deleted(writing.mutator.delete_acls([named(name)])[0])
                with counting:
                    counts["deleted"] += len(gone)

    follower = threading.Thread(target=follow)
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in (follower, *workers):
        thread.start()
    for thread in workers:
        thread.join(SOON_S)
    stop.set()
    follower.join(SOON_S)
    added = sum(len(records) for _, records in writing.log.batches) - counts["deleted"]
    assert added - counts["deleted"] == len(writing.image)


# --- plans --------------------------------------------------------------------------------------------------


def plan_for(writing: Writing, name: str) -> AclPlan:
    """To add an ACL on a topic to what is replayed."""
    added = AclTable.of([AppliedAcl(foreign(name), None, 0)])
    changed = ChangedAcls(AclTable.of(()), added)
    identity = MemoryLog.identity
    origin = PlanOrigin(MemoryLog.url, identity.cluster_id, uuid_to_string(identity.topic_id))
    return AclPlan.of(origin, writing.image, changed, AuthorizerSettings())


@pytest.mark.parametrize("moves", [True, False])
def test_a_plan_meets_a_write_between_its_check_and_its_append(*, moves: bool) -> None:
    """It is checked again, with that: refused if the meaning is another one, else written behind it."""

    class Overtaken(SharedMemoryLog):
        others: tuple[AccessControlEntryRecord, ...] = ()

        def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
            others, self.others = self.others, ()
            if others:
                super().append(others)
            return super().append(records, after=after)

    log = Overtaken()
    writing = Writing(log=log)
    try:
        log.append([foreign("t")])
        writing.replay()
        # The same under another id means the same.
        log.others = (
            foreign("u") if moves else msgspec.structs.replace(foreign("t"), id=Uuid(bytes(15) + b"x")),
        )
        future = writing.mutator.apply_plan(plan_for(writing, "new"))
        wait_until(lambda: len(log.batches) == 2)
        assert not future.done()
        writing.replay()
        if moves:
            assert "the effective permissions have changed" in str(future.result(SOON_S).exception)
            assert len(log.batches) == 2
            return
        wait_until(lambda: len(log.batches) == 3)
        writing.replay()
        assert [each.resource_name for each in future.result(SOON_S).added] == ["new"]
    finally:
        writing.mutator.close()


def test_a_plan_is_checked_no_longer_than_an_operation_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for the thread that writes; nobody waits for the plan any more."""
    writing = Writing(timeout_ms=500)
    ended = threading.Event()

    def endless(*args: Any) -> Any:
        check_cancelled = args[-1]
        try:
            while True:
                check_cancelled()
        finally:
            ended.set()

    monkeypatch.setattr("authorizer.node.writing.acl_mutator.apply_plan", endless)
    try:
        result = writing.mutator.apply_plan(plan_for(writing, "t")).result(SOON_S)
        assert isinstance(result.exception, OperationTimedOutError)
        assert ended.wait(SOON_S)
        (creation,) = writing.mutator.create_acls([topic("t")])
        wait_until(lambda: len(writing.log.batches) == 1)
        writing.replay()
        assert creation.result(SOON_S).exception is None
    finally:
        writing.mutator.close()


def test_a_plan_is_checked_with_what_was_appended_before_it() -> None:
    """And not replayed yet: it waits for that. What is in force already takes no record."""
    writing = Writing()
    try:
        plan = plan_for(writing, "t")
        (creation,) = writing.mutator.create_acls([topic("t")])
        application = writing.mutator.apply_plan(plan)
        wait_until(lambda: len(writing.log.batches) == 1)
        writing.replay()
        assert creation.result(SOON_S).exception is None
        assert application.result(SOON_S) == PlanResult(acl_count=1)
        assert len(writing.log.batches) == 1
    finally:
        writing.mutator.close()
