"""LogAclMutator and its purgatory: write, replay, answer, and the errors of each step."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.plans.plan import AclPlan, PlanOrigin, PlanResult
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
from records.log.base import LogIdentity, MetadataLog
from records.log_batch import LogBatch, LogRecord
from replay.clock import SystemClock
from replay.manifest import LogDeltaManifest, ReloadManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.nodes import SOON_S
from support.waiting import wait_until


class MemoryLog(MetadataLog):
    """A MetadataLog with its batches in a list.

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


class MutatorDriver:
    """A mutator, its log, and a loader that the test drives."""

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
        manifest = LogDeltaManifest(**self.manifest_values(delta))
        self.mutator.on_update(delta, self.image, manifest)
        self.mutator.settled()

    def manifest_values(self, delta: AclsDelta) -> dict[str, Any]:
        """The fields of both kinds of manifest."""
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
        """Reload the state before the log's first record."""
        delta = AclsDelta(AclsImage.EMPTY)
        self.image = delta.apply(Provenance(0, 1, 0))
        self.replayed_batches = 0
        manifest = ReloadManifest(**self.manifest_values(delta), origin="the log's start")
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

    def wait_for_batches(self, batches: int) -> None:
        """Wait until the log has this number of batches."""
        wait_until(lambda: len(self.log.batches) == batches)


@pytest.fixture
def driver() -> Iterator[MutatorDriver]:
    made = MutatorDriver()
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
    """The exception of each future, or None, once it is done."""
    results = [future.result(SOON_S) for future in futures]
    return [
        None if result.exception is None else f"{type(result.exception).__name__}: {result.exception}"
        for result in results
    ]


def deleted(future: Future[AclDeleteResult]) -> list[AclBinding]:
    return [each.acl_binding for each in future.result(SOON_S).acl_binding_delete_results]


# --- success -----------------------------------------------------------------------------------------------


def test_a_creation_completes_when_it_is_replayed_and_not_before(driver: MutatorDriver) -> None:
    """A commit is not enough: the node's decisions must include it."""
    (future,) = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    assert not future.done()
    driver.replay()
    assert errors([future]) == [None]


def test_one_operation_is_one_batch(driver: MutatorDriver) -> None:
    """All records of a call are appended together, so that each resource pattern changes in one step."""
    futures = driver.mutator.create_acls([topic("t"), topic(""), topic("u"), topic("t")])
    driver.wait_for_batches(1)
    driver.replay()
    assert errors(futures) == [None, "InvalidResourceError: Invalid empty resource name", None, None]
    assert [len(records) for _, records in driver.log.batches] == [2]


def test_appended_records_count_before_they_are_replayed(driver: MutatorDriver) -> None:
    """Create, create again and delete without waiting: one creation and one removal."""
    first = driver.mutator.create_acls([topic("t")])
    again = driver.mutator.create_acls([topic("t")])
    removal = driver.mutator.delete_acls([named("t"), named("u")])
    driver.wait_for_batches(2)
    driver.replay(1)
    assert errors(first) == [None]
    driver.replay(1)
    assert [deleted(future) for future in removal] == [[topic("t")], []]
    assert errors(again) == [None]
    assert len(driver.image) == 0


def test_a_success_without_a_record_waits_for_the_existing_acl(driver: MutatorDriver) -> None:
    """The equal ACL may be in the log and not be visible here yet."""
    first = driver.mutator.create_acls([topic("t")])
    again = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    wait_until(lambda: driver.mutator.purgatory.num_delayed_operations == 2)
    assert not any(future.done() for future in (*first, *again))
    driver.replay()
    assert errors([*first, *again]) == [None, None]
    # Now it is visible: the answer is immediate, without a replay.
    assert errors(driver.mutator.create_acls([topic("t")])) == [None]
    assert len(driver.log.batches) == 1


def test_foreign_ids_are_seen(driver: MutatorDriver) -> None:
    """An ACL that another program wrote under another id exists, and can be removed."""
    delta = AclsDelta(driver.image)
    foreign = AccessControlEntryRecord.from_binding(Uuid(b"f" * 16), topic("t"))
    delta.replay(LogRecord(0, 0, foreign))
    driver.log.end = 1
    driver.publish(delta, 1)
    assert errors(driver.mutator.create_acls([topic("t")])) == [None]
    (removal,) = driver.mutator.delete_acls([named("t")])
    driver.wait_for_batches(1)
    driver.replay()
    assert deleted(removal) == [topic("t")]
    assert len(driver.image) == 0


def test_an_empty_request_writes_nothing(driver: MutatorDriver) -> None:
    """No items, no futures, no record."""
    assert driver.mutator.create_acls([]) == []
    assert driver.mutator.delete_acls([]) == []
    assert driver.mutator.purgatory.size == 0


def test_futures_cannot_be_cancelled(driver: MutatorDriver) -> None:
    """An operation cannot be cancelled, and cancel() returns False."""
    (future,) = driver.mutator.create_acls([topic("t")])
    assert not future.cancel()
    driver.wait_for_batches(1)
    driver.replay()
    assert errors([future]) == [None]


def test_a_callback_may_wait_for_the_next_write(driver: MutatorDriver) -> None:
    """Callbacks do not run on the loader's thread, so that the replay continues."""
    (first,) = driver.mutator.create_acls([topic("t")])
    seen: Future[list[str | None]] = Future()

    def create_another(_: Future[AclCreateResult]) -> None:
        second = driver.mutator.create_acls([topic("u")])
        driver.wait_for_batches(2)
        seen.set_result([f"{len(driver.log.batches)} batches, done: {second[0].done()}"])

    driver.wait_for_batches(1)
    first.add_done_callback(create_another)
    driver.replay()
    assert seen.result(SOON_S) == ["2 batches, done: False"]
    driver.replay()


# --- failures ----------------------------------------------------------------------------------------------


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
def test_a_failing_append_fails_only_its_operation(
    driver: MutatorDriver, failure: Exception, error: type[Exception], text: str
) -> None:
    """The next operation is checked without the failed one, and is written."""
    driver.log.failure = failure
    failed = driver.mutator.create_acls([topic("t"), topic("u")])
    results = [future.result(SOON_S).exception for future in failed]
    assert [type(result) for result in results] == [error, error]
    assert text in str(results[0])
    again = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    driver.replay()
    assert errors(again) == [None]
    assert [len(records) for _, records in driver.log.batches] == [1]


def test_too_many_records_write_nothing(driver: MutatorDriver) -> None:
    """H26: every future of the operation says so, also those of refused bindings."""
    futures = driver.mutator.create_acls([topic(f"t{number}") for number in range(10_001)])
    assert {type(future.result(SOON_S).exception) for future in futures} == {PolicyViolationError}
    assert driver.log.batches == []


def test_nothing_is_written_before_the_log_is_loaded() -> None:
    """Until then the existing ACLs are unknown; nor is anything written on an invalid state."""
    driver = MutatorDriver(ready=False)
    try:
        assert errors(driver.mutator.create_acls([topic("t")])) == [
            "AuthorizerNotReadyError: Nothing was written, this node is not ready: loading"
        ]
        driver.publish(AclsDelta(driver.image), 0)
        driver.mutator.on_ready()
        driver.mutator.on_not_ready("batch at 7 is damaged")
        (future,) = driver.mutator.delete_acls([named("t")])
        assert isinstance(future.result(SOON_S).exception, AuthorizerNotReadyError)
        assert "batch at 7 is damaged" in str(future.result().exception)
        assert driver.log.batches == []
    finally:
        driver.mutator.close()


def test_a_timeout_says_that_the_records_are_in_the_log() -> None:
    """Appended and not replayed: the change becomes visible later, and a retry finds it."""
    driver = MutatorDriver(timeout_ms=500)
    try:
        (future,) = driver.mutator.create_acls([topic("t")])
        error = future.result(SOON_S).exception
        assert isinstance(error, OperationTimedOutError)
        assert "timed out after 500 ms. The records are in the log below offset 1" in str(error)
        driver.replay()
        assert len(driver.image) == 1
        assert errors(driver.mutator.create_acls([topic("t")])) == [None]
    finally:
        driver.mutator.close()


def test_a_timeout_says_that_the_outcome_is_unknown_or_that_nothing_was_written() -> None:
    """While the disk blocks: the running operation, and the queued one, which never starts."""
    driver = MutatorDriver(timeout_ms=500)
    try:
        driver.log.flowing.clear()
        (first,) = driver.mutator.create_acls([topic("t")])
        (second,) = driver.mutator.create_acls([topic("u")])
        assert "The outcome is unknown" in str(first.result(SOON_S).exception)
        assert "Nothing was written, and nothing will be" in str(second.result(SOON_S).exception)
        driver.log.flowing.set()
        driver.wait_for_batches(1)
        (third,) = driver.mutator.create_acls([topic("t")])
        wait_until(lambda: third.done() or driver.mutator.purgatory.num_delayed_operations == 1)
        driver.replay()
        assert [len(records) for _, records in driver.log.batches] == [1]
    finally:
        driver.mutator.close()


def test_close_fails_pending_operations_with_their_known_outcome() -> None:
    """Written but not replayed, or never started; later operations are refused."""
    driver = MutatorDriver()
    (wait_for_batches,) = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    driver.mutator.close()
    driver.mutator.close()
    (late,) = driver.mutator.create_acls([topic("u")])
    assert "The records are in the log below offset 1" in str(wait_for_batches.result(SOON_S).exception)
    assert "The node was closed. Nothing was written." in str(late.result(SOON_S).exception)
    assert len(driver.log.batches) == 1
    assert not any(
        thread.name.startswith(("aclog-writer", "aclog-purgatory")) for thread in live_threads(driver)
    )


def live_threads(driver: MutatorDriver) -> list[threading.Thread]:
    threads = (driver.mutator._thread, driver.mutator.purgatory._thread)
    return [thread for thread in threads if thread is not None and thread.is_alive()]


def test_a_close_during_an_append_waits_for_it() -> None:
    """The finished append is answered as written; the queued operation never starts."""
    driver = MutatorDriver()
    driver.log.flowing.clear()
    (appending,) = driver.mutator.create_acls([topic("t")])
    (queued,) = driver.mutator.create_acls([topic("u")])
    assert driver.log.appending.wait(SOON_S)
    closing = threading.Thread(target=driver.mutator.close)
    closing.start()
    wait_until(lambda: driver.mutator._closed)
    driver.log.flowing.set()
    closing.join(SOON_S)
    assert "The records are in the log below offset 1" in str(appending.result(SOON_S).exception)
    assert "Nothing was written, and nothing will be" in str(queued.result(SOON_S).exception)
    assert len(driver.log.batches) == 1


# --- a shared log, and a truncated one ----------------------------------------------------------------------


class SharedMemoryLog(MemoryLog):
    """A log that other nodes also write; a query of its end raises ``unreachable`` for ``failures`` times.

    If ``elects`` is set, an append elects another leader, which replay does not follow yet.
    """

    is_shared = True
    unreachable: LogStorageError | None = None
    failures = 1_000_000
    is_followed = True
    elects = False

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        end_offset = super().append(records, after=after)
        self.is_followed = not self.elects
        return end_offset

    def verified_high_watermark(self) -> int | None:
        if self.unreachable is not None and self.failures:
            self.failures -= 1
            raise self.unreachable
        return self.end if self.is_followed else None


def foreign(name: str) -> AccessControlEntryRecord:
    return AccessControlEntryRecord.from_binding(binding_uuid(topic(name)), topic(name))


def test_a_removal_finds_what_another_node_has_created() -> None:
    """It is planned on all records committed at its start, not only on the replayed ones."""
    driver = MutatorDriver(log=SharedMemoryLog())
    try:
        driver.log.append([foreign("t")])
        (removal,) = driver.mutator.delete_acls([named("t")])
        time.sleep(0.05)  # nothing may happen during this time
        assert not removal.done()
        assert len(driver.log.batches) == 1
        driver.replay()
        driver.wait_for_batches(2)
        driver.replay()
        assert deleted(removal) == [topic("t")]
    finally:
        driver.mutator.close()


def test_a_node_that_does_not_catch_up_writes_nothing() -> None:
    """If it lags for too long, the answer says truthfully that nothing was written."""
    driver = MutatorDriver(log=SharedMemoryLog(), timeout_ms=1000)
    try:
        driver.log.append([foreign("t")])
        (future,) = driver.mutator.create_acls([topic("u")])
        error = future.result(SOON_S).exception
        assert isinstance(error, OperationTimedOutError)
        assert "Nothing was written: this node has replayed the log below 0, and it ends at 1" in str(error)
        assert len(driver.log.batches) == 1
    finally:
        driver.mutator.close()


def test_a_shared_log_out_of_reach_takes_nothing() -> None:
    """The existing ACLs are unknown: nothing is written, and the answer says so."""
    log = SharedMemoryLog()
    log.unreachable = LogStorageError("b:9092: timed out")
    driver = MutatorDriver(log=log)
    try:
        assert errors(driver.mutator.create_acls([topic("t")])) == [
            "OperationTimedOutError: Nothing was written: b:9092: timed out"
        ]
        assert log.batches == []
    finally:
        driver.mutator.close()


def test_a_node_that_is_not_loaded_does_not_ask_a_shared_log() -> None:
    """A cluster without a leader answers with errors that would be reported as a timeout."""
    log = SharedMemoryLog()
    log.unreachable = LogStorageError("b:9092: UNKNOWN_SERVER_ERROR")
    driver = MutatorDriver(log=log, ready=False)
    try:
        assert errors(driver.mutator.create_acls([topic("t")])) == [
            "AuthorizerNotReadyError: Nothing was written, this node is not ready: loading"
        ]
    finally:
        driver.mutator.close()


STALE = LogUnreachableError("asking for the last stable offset: Leader epoch is older than broker epoch")


def test_an_unknown_leader_is_retried() -> None:
    """Within the operation's timeout, before and after the append, without an error for the caller."""
    log = SharedMemoryLog()
    log.unreachable, log.failures = STALE, 3
    log.flowing.clear()
    driver = MutatorDriver(log=log)
    try:
        (future,) = driver.mutator.create_acls([topic("t")])
        assert log.appending.wait(SOON_S)
        log.failures = 3
        log.flowing.set()
        driver.wait_for_batches(1)
        driver.replay()
        assert errors([future]) == [None]
        assert log.failures == 0
    finally:
        driver.mutator.close()


def test_a_permanently_unknown_leader_is_reported_in_time() -> None:
    """The error has the reason, and comes before the operation's timeout, which would not know it."""
    log = SharedMemoryLog()
    log.unreachable = STALE
    driver = MutatorDriver(log=log, timeout_ms=1000)
    try:
        assert errors(driver.mutator.create_acls([topic("t")])) == [
            f"OperationTimedOutError: Nothing was written: {STALE}"
        ]
        assert log.batches == []
    finally:
        driver.mutator.close()


def test_a_refused_append_is_retried(driver: MutatorDriver) -> None:
    """The first append wrote nothing, so the log has one batch."""
    driver.log.failure = LogUnreachableError("writing; nothing was written: no leader")
    (future,) = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    driver.replay()
    assert errors([future]) == [None]
    assert len(driver.log.batches) == 1


def test_an_append_that_is_always_refused_fails_in_time() -> None:
    """After half of the operation's timeout the answer has the log's error, and nothing is written later."""

    class RefusingLog(MemoryLog):
        def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
            raise LogUnreachableError("writing: no leader")

    driver = MutatorDriver(log=RefusingLog(), timeout_ms=1000)
    try:
        assert errors(driver.mutator.create_acls([topic("t")])) == [
            "OperationTimedOutError: Nothing was written, the log is out of reach: writing: no leader"
        ]
    finally:
        driver.mutator.close()


def test_an_operation_that_times_out_before_the_append_is_never_appended() -> None:
    """Its answer says that nothing was written, and that remains true."""
    log = SharedMemoryLog()
    driver = MutatorDriver(log=log, timeout_ms=400)
    try:
        queried = threading.Event()
        answer = threading.Event()

        def slow_end() -> int:
            queried.set()
            assert answer.wait(SOON_S)
            return log.end

        log.verified_high_watermark = slow_end  # type: ignore[method-assign]
        (future,) = driver.mutator.create_acls([topic("t")])
        assert queried.wait(SOON_S)
        assert "Nothing was written, and nothing will be." in str(future.result(SOON_S).exception)
        answer.set()
        driver.mutator.close()
        assert log.batches == []
    finally:
        answer.set()
        driver.mutator.close()


def test_a_write_waits_until_replay_follows_a_new_leader() -> None:
    """Replayed records may be lost; the check comes before the plan and before the answer."""
    log = SharedMemoryLog()
    log.is_followed, log.elects = False, True
    driver = MutatorDriver(log=log)
    try:
        (future,) = driver.mutator.create_acls([topic("t")])
        time.sleep(0.1)  # nothing may happen during this time
        assert log.batches == []
        log.is_followed = True
        driver.wait_for_batches(1)
        driver.replay()
        time.sleep(0.1)  # nothing may happen during this time
        assert not future.done()
        log.is_followed = True
        assert errors([future]) == [None]
    finally:
        driver.mutator.close()


def test_a_write_to_a_new_history_fails_while_the_old_one_is_replayed() -> None:
    """Replay has reached its offset with another record: the answer says that the outcome is unknown."""
    log = SharedMemoryLog()
    log.elects = True
    driver = MutatorDriver(log=log)
    try:
        driver.publish(AclsDelta(driver.image), 9)
        (future,) = driver.mutator.create_acls([topic("t")])
        driver.wait_for_batches(1)
        time.sleep(0.1)  # nothing may happen during this time
        assert not future.done()
        driver.mutator.on_not_ready("log was truncated to 1, it had reached 9")
        assert "The outcome is unknown: the log was truncated" in str(future.result(SOON_S).exception)
    finally:
        driver.mutator.close()


def test_a_leader_that_replay_never_follows_is_reported() -> None:
    """Nothing is written, and the operation does not hang."""
    log = SharedMemoryLog()
    log.is_followed = False
    driver = MutatorDriver(log=log, timeout_ms=1000)
    try:
        (future,) = driver.mutator.create_acls([topic("t")])
        error = future.result(SOON_S).exception
        assert isinstance(error, OperationTimedOutError)
        assert "Nothing was written: The log has another leader" in str(error)
        assert log.batches == []
    finally:
        driver.mutator.close()


def test_an_unconfirmed_append_has_an_unknown_outcome() -> None:
    """The record is in the log, but it may be lost later."""
    log = SharedMemoryLog()
    log.flowing.clear()
    driver = MutatorDriver(log=log)
    try:
        (future,) = driver.mutator.create_acls([topic("t")])
        assert log.appending.wait(SOON_S)
        log.unreachable = LogStorageError("b:9092: timed out")
        log.flowing.set()
        assert errors([future]) == ["OperationTimedOutError: The outcome is unknown: b:9092: timed out"]
    finally:
        driver.mutator.close()


def test_a_reloaded_log_fails_pending_operations(driver: MutatorDriver) -> None:
    """I11: operations that wait for a lost record fail immediately and no longer count."""
    (lost,) = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    wait_until(lambda: driver.mutator._appended_end == 1)
    driver.mutator.on_not_ready("log was truncated to 0, it had reached 1")
    driver.log.batches.clear()
    driver.log.end = 0
    driver.reload()
    driver.mutator.on_ready()
    assert "The outcome is unknown: the log was truncated" in str(lost.result(SOON_S).exception)
    # The record does not count as existing, and no answer waits for an offset of the lost history.
    assert deleted(driver.mutator.delete_acls([named("t")])[0]) == []
    again = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    driver.replay()
    assert errors(again) == [None]


def test_an_append_that_ends_after_a_truncation_is_no_success(driver: MutatorDriver) -> None:
    """Its end offset is one of the lost history; the new history reaches it with other records."""
    driver.log.flowing.clear()
    (future,) = driver.mutator.create_acls([topic("t")])
    assert driver.log.appending.wait(SOON_S)
    driver.mutator.on_not_ready("log was truncated")
    driver.reload()
    driver.mutator.on_ready()
    driver.log.flowing.set()
    assert "The outcome is unknown: the log was truncated" in str(future.result(SOON_S).exception)


def test_a_reload_of_a_ready_node_keeps_pending_operations(driver: MutatorDriver) -> None:
    """After a rebuild from a valid log (I10, I11) pending records are still replayed."""
    (future,) = driver.mutator.create_acls([topic("t")])
    driver.wait_for_batches(1)
    driver.reload()
    assert not future.done()
    driver.replay()
    assert errors([future]) == [None]


# --- gauges and bounds -------------------------------------------------------------------------------------


def test_gauges_count_pending_operations(driver: MutatorDriver) -> None:
    """KIP-504's NumDelayedOperations and PurgatorySize increase and return to zero."""
    purgatory = driver.mutator.purgatory
    assert (purgatory.num_delayed_operations, purgatory.size) == (0, 0)
    futures = driver.mutator.create_acls([topic("t"), topic("u")]) + driver.mutator.create_acls([topic("v")])
    driver.wait_for_batches(2)
    assert (purgatory.num_delayed_operations, purgatory.size) == (2, 2)
    driver.replay()
    assert errors(futures) == [None] * 3
    wait_until(lambda: (purgatory.num_delayed_operations, purgatory.size) == (0, 0))


def test_operations_over_the_queue_limit_are_refused_immediately(driver: MutatorDriver) -> None:
    """The queue is bounded: an operation over the limit gets an error and is not written."""
    driver.log.flowing.clear()
    waiting = [driver.mutator.create_acls([topic(f"t{number}")])[0] for number in range(OPERATIONS_MAX)]
    (refused,) = driver.mutator.create_acls([topic("one too many")])
    assert refused.done()
    assert "Nothing was written; try again" in str(refused.result().exception)
    driver.log.flowing.set()
    driver.wait_for_batches(OPERATIONS_MAX)
    driver.replay()
    assert errors(waiting) == [None] * OPERATIONS_MAX


def test_concurrent_callers_get_consistent_answers(driver: MutatorDriver) -> None:
    """Threads that create and delete the same few ACLs: answers agree with the order in the log."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.is_set():
            if len(driver.log.batches) > driver.replayed_batches:
                driver.replay()
            time.sleep(0.0005)  # several writes are replayed together

    counts = {"created": 0, "deleted": 0}
    counting = threading.Lock()

    def work(seed: int) -> None:
        for number in range(40):
            name = f"t{(seed + number) % 3}"
            if (seed + number) % 2:
                assert errors(driver.mutator.create_acls([topic(name)])) == [None]
            else:
                removed = deleted(driver.mutator.delete_acls([named(name)])[0])
                with counting:
                    counts["deleted"] += len(removed)

    follower = threading.Thread(target=follow)
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in (follower, *workers):
        thread.start()
    for thread in workers:
        thread.join(SOON_S)
    stop.set()
    follower.join(SOON_S)
    added = sum(len(records) for _, records in driver.log.batches) - counts["deleted"]
    assert added - counts["deleted"] == len(driver.image)


# --- plans --------------------------------------------------------------------------------------------------


def plan_for(driver: MutatorDriver, name: str) -> AclPlan:
    """A plan that adds an ACL on a topic to the replayed state."""
    added = AclTable.of([AppliedAcl(foreign(name), None, 0)])
    changed = ChangedAcls(AclTable.of(()), added)
    identity = MemoryLog.identity
    origin = PlanOrigin(MemoryLog.url, identity.cluster_id, uuid_to_string(identity.topic_id))
    return AclPlan.of(origin, driver.image, changed, AuthorizerSettings())


@pytest.mark.parametrize("has_other_permissions", [True, False])
def test_a_plan_is_checked_again_after_a_concurrent_write(*, has_other_permissions: bool) -> None:
    """It is refused if the effective permissions differ; otherwise it is written after the other record."""

    class OvertakenLog(SharedMemoryLog):
        foreign_records: tuple[AccessControlEntryRecord, ...] = ()

        def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
            foreign_records, self.foreign_records = self.foreign_records, ()
            if foreign_records:
                super().append(foreign_records)
            return super().append(records, after=after)

    log = OvertakenLog()
    driver = MutatorDriver(log=log)
    try:
        log.append([foreign("t")])
        driver.replay()
        # An equal ACL under another id gives the same permissions.
        log.foreign_records = (
            foreign("u")
            if has_other_permissions
            else msgspec.structs.replace(foreign("t"), id=Uuid(bytes(15) + b"x")),
        )
        future = driver.mutator.apply_plan(plan_for(driver, "new"))
        wait_until(lambda: len(log.batches) == 2)
        assert not future.done()
        driver.replay()
        if has_other_permissions:
            assert "the effective permissions have changed" in str(future.result(SOON_S).exception)
            assert len(log.batches) == 2
            return
        wait_until(lambda: len(log.batches) == 3)
        driver.replay()
        assert [each.resource_name for each in future.result(SOON_S).added] == ["new"]
    finally:
        driver.mutator.close()


def test_the_check_of_a_plan_has_the_operation_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other operations wait for the writing thread, and the plan's caller no longer waits."""
    driver = MutatorDriver(timeout_ms=500)
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
        result = driver.mutator.apply_plan(plan_for(driver, "t")).result(SOON_S)
        assert isinstance(result.exception, OperationTimedOutError)
        assert ended.wait(SOON_S)
        (creation,) = driver.mutator.create_acls([topic("t")])
        wait_until(lambda: len(driver.log.batches) == 1)
        driver.replay()
        assert creation.result(SOON_S).exception is None
    finally:
        driver.mutator.close()


def test_a_plan_is_checked_with_earlier_appended_records() -> None:
    """The plan waits for records that are not replayed yet. An ACL in force needs no record."""
    driver = MutatorDriver()
    try:
        plan = plan_for(driver, "t")
        (creation,) = driver.mutator.create_acls([topic("t")])
        application = driver.mutator.apply_plan(plan)
        wait_until(lambda: len(driver.log.batches) == 1)
        driver.replay()
        assert creation.result(SOON_S).exception is None
        assert application.result(SOON_S) == PlanResult(acl_count=1)
        assert len(driver.log.batches) == 1
    finally:
        driver.mutator.close()
