"""Purgatory: creations and removals of ACLs that wait until they are visible here or time out.

Source: DelayedOperationPurgatory and DelayedFuture; KIP-504 names the two gauges. An operation is QUEUED
while nothing of it was appended, WRITING while its outcome is unknown, and WRITTEN once its records are
committed below an end offset; it is answered when this node has replayed up to there. Its state determines
the answer on a timeout.

A separate thread resolves futures, because their callbacks are the callers' code: on the loader's thread they
would delay the replay, and one that waits for an offset would never return.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.errors import ApiError, OperationTimedOutError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from replay.clock import Clock

#: Maximum number of waiting operations, of at most 10,000 records each. Further ones are refused.
OPERATIONS_MAX: Final = 1_000

#: Answer to an operation whose records may have been lost with a part of the log.
HISTORY_LOST: Final = (
    "The outcome is unknown: the log was truncated, replaced or loaded anew before this node had replayed "
    "the records. List the ACLs before trying again."
)


class OperationState(Enum):
    """Progress of an operation."""

    QUEUED = "queued"
    WRITING = "writing"
    WRITTEN = "written"
    ANSWERED = "answered"


class DelayedOperation:
    """A creation or removal, with a future for each of its items.

    Attributes:
        futures: one for each binding or filter, resolved together.
        failure: converts an error to a future's result.
        end_offset: the operation is visible once everything below is replayed; None before it is written.
    """

    __slots__ = ("answers", "deadline_s", "end_offset", "failure", "futures", "state", "timeout_s")

    def __init__(self, futures: Sequence[Future[Any]], failure: Callable[[ApiError], object]) -> None:
        self.futures = futures
        self.failure = failure
        self.state = OperationState.QUEUED
        self.timeout_s = self.deadline_s = 0.0
        self.end_offset: int | None = None
        self.answers: Callable[[], Sequence[object]] = tuple

    def refuse(self, error: ApiError) -> None:
        """Set this error as the answer of every future."""
        self.answers = lambda: [self.failure(error)] * len(self.futures)


class Purgatory:
    """The waiting operations of one node. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        # In order of arrival, which is also the order of deadlines and of the end offsets of written ones.
        self._waiting: dict[DelayedOperation, None] = {}
        self._decided: list[DelayedOperation] = []
        self._replayed_end = 0
        self._refusal: ApiError | None = None
        self._thread: threading.Thread | None = None

    @property
    def num_delayed_operations(self) -> int:
        """NumDelayedOperations: operations without an outcome."""
        return len(self._waiting)

    @property
    def size(self) -> int:
        """PurgatorySize: operations without an outcome, or whose futures are not resolved yet."""
        return len(self._waiting) + len(self._decided)

    def watch(self, operation: DelayedOperation, timeout_s: float) -> bool:
        """Add a queued operation. False if it was refused: closed, or too many are waiting."""
        with self._changed:
            refusal = self._refusal
            if refusal is None and len(self._waiting) >= OPERATIONS_MAX:
                refusal = OperationTimedOutError(
                    f"{OPERATIONS_MAX} ACL operations are waiting already. Nothing was written; try again."
                )
            if refusal is None:
                operation.timeout_s = timeout_s
                operation.deadline_s = self._clock.monotonic_s() + timeout_s
                self._waiting[operation] = None
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="aclog-purgatory", daemon=True)
                    self._thread.start()
                self._changed.notify()
                return True
        self.refuse(operation, refusal)
        return False

    def refuse(self, operation: DelayedOperation, error: ApiError) -> None:
        operation.state = OperationState.ANSWERED
        operation.refuse(error)
        _resolve(operation)

    def begin(self, operation: DelayedOperation) -> bool:
        """Mark the operation as being appended; False if it has been answered already."""
        with self._changed:
            if operation.state is not OperationState.QUEUED:
                return False
            operation.state = OperationState.WRITING
            return True

    def requeue(self, operation: DelayedOperation) -> None:
        """Mark the operation as queued again: nothing was appended, and the writer will retry."""
        with self._changed:
            if operation.state is OperationState.WRITING:
                operation.state = OperationState.QUEUED

    def on_written(
        self, operation: DelayedOperation, answers: Callable[[], Sequence[object]], end_offset: int
    ) -> None:
        """Resolve the futures with ``answers`` once everything below ``end_offset`` is replayed."""
        with self._changed:
            if operation.state is not OperationState.WRITING:
                return  # it has timed out
            operation.state = OperationState.WRITTEN
            operation.answers = answers
            operation.end_offset = end_offset
            if end_offset <= self._replayed_end:
                self._decide(operation)

    def fail(self, operation: DelayedOperation, error: ApiError) -> None:
        with self._changed:
            if operation.state is not OperationState.ANSWERED:
                self._decide(operation, error)

    def on_replayed(self, end_offset: int) -> None:
        """Answer operations below ``end_offset``: they are visible. Called by the loader; never blocks."""
        with self._changed:
            self._replayed_end = end_offset
            for operation in list(self._waiting):
                if operation.end_offset is None or operation.end_offset > end_offset:
                    break
                self._decide(operation)

    def on_history_lost(self) -> None:
        """Fail written operations after a reload, which may have lost their records. Called by the loader."""
        with self._changed:
            self._replayed_end = 0
            for operation in [each for each in self._waiting if each.state is OperationState.WRITTEN]:
                self._decide(operation, OperationTimedOutError(HISTORY_LOST))

    def close(self) -> None:
        """Fail all waiting and all later operations. Idempotent."""
        why = "The node was closed."
        with self._changed:
            if self._refusal is None:
                self._refusal = OperationTimedOutError(f"{why} Nothing was written.")
                for operation in list(self._waiting):
                    self._decide(operation, _unanswered(operation, why))
                self._changed.notify()
            thread = self._thread
        # A future's callback runs in that thread and may close the node.
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _decide(self, operation: DelayedOperation, error: ApiError | None = None) -> None:
        """Set the outcome; the caller holds the lock."""
        operation.state = OperationState.ANSWERED
        if error is not None:
            operation.refuse(error)
        del self._waiting[operation]
        self._decided.append(operation)
        self._changed.notify()

    def _expire(self) -> None:
        now_s = self._clock.monotonic_s()
        for operation in list(self._waiting):
            if operation.deadline_s > now_s:
                break
            why = f"Request has been timed out after {round(operation.timeout_s * 1000)} ms."
            self._decide(operation, _unanswered(operation, why))

    def _run(self) -> None:
        while True:
            with self._changed:
                self._expire()
                while not self._decided:
                    if self._refusal is not None:
                        return
                    first = next(iter(self._waiting), None)
                    self._changed.wait(
                        None if first is None else max(0.0, first.deadline_s - self._clock.monotonic_s())
                    )
                    self._expire()
                decided = self._decided[:]
            for operation in decided:
                _resolve(operation)
            with self._changed:
                del self._decided[: len(decided)]


def _unanswered(operation: DelayedOperation, why: str) -> OperationTimedOutError:
    """Return the error of an operation without an answer, by its state."""
    match operation.state:
        case OperationState.QUEUED:
            return OperationTimedOutError(f"{why} Nothing was written, and nothing will be.")
        case OperationState.WRITING:
            return OperationTimedOutError(
                f"{why} The outcome is unknown: the log has not said whether it took the records."
            )
        case _:
            return OperationTimedOutError(
                f"{why} The records are in the log below offset {operation.end_offset}, but this node has "
                "not replayed them yet: they take effect here once it has."
            )


def _resolve(operation: DelayedOperation) -> None:
    for future, result in zip(operation.futures, operation.answers(), strict=True):
        # A failing callback is logged by the future itself.
        future.set_result(result)
