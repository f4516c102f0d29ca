"""LogAclMutator: writes creations and removals of ACLs to the log; replay makes them visible.

Source: AclMutator and QuorumController; KIP-504, KIP-801. The rules:

- Only the log changes state: a future is done when its records are committed *and* visible in the node's
  decisions, listings, status and metrics (``settled``).
- An operation is checked against everything appended before it, replayed or not, and is one atomic batch.
- One writer thread checks and appends, in the order of the calls. So callers (a sidecar's event loop) never
  wait for the disk, and operations need no lock among themselves.
- A plan is checked against everything that is committed, and appended only if nothing was appended since.
- A cluster's metadata log is written by requests to the cluster (cluster_change, cluster_plan). The operation
  is done once this node has replayed the log up to its end after the cluster's answer.
- A failed append fails the futures of its operation and leaves no state behind. If its records are in the log
  nevertheless, replay shows them.
- If other nodes write to the log too, an operation is checked against everything that was committed when it
  began, not only against what is replayed here: a removal finds ACLs that another node created.
- An unreachable log is retried for half of the operation's timeout. After that nothing is appended any more,
  and the answer says so.
- An operation succeeds only if this node follows the log's present history. After a change of leader, the
  operation waits until that is known.
- A reload of the log while the node is not ready may have lost appended records (I11): operations that wait
  for their replay fail.

Futures always have a result; an error is in its ``exception`` (KIP-504), for each binding or filter.
"""

from __future__ import annotations

import queue
import threading
import uuid
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from authorizer.analysis.plans.plan import PlanMutator, PlanResult
from authorizer.analysis.plans.plan_checks import MAX_REMOVED_PERCENT
from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
from authorizer.api.errors import (
    ApiError,
    AuthorizerNotReadyError,
    ClusterAuthorizationError,
    InvalidRequestError,
    NotControllerError,
    OperationTimedOutError,
    UnknownServerError,
)
from authorizer.engine.acl_validation import HostRules
from authorizer.node.writing.acl_control import apply_plan, plan_creation, plan_deletion
from authorizer.node.writing.cluster_change import ClusterCreation, ClusterDeletion
from authorizer.node.writing.cluster_plan import ClusterPlan
from authorizer.node.writing.purgatory import HISTORY_LOST, DelayedOperation, OperationState, Purgatory
from authorizer.node.writing.writer_view import WriterView
from records.errors import (
    EncodeError,
    LogError,
    LogMovedError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogRefusedError,
    LogUnreachableError,
)
from records.ids import Uuid, uuid_to_string
from replay.manifest import ReloadManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.analysis.plans.plan import AclPlan
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.node.writing.acl_control import FindAcl
    from records.acl import AclBinding, AclBindingFilter
    from records.entries import AccessControlEntryRecord, AclContent, AclRecord
    from records.log.base import MetadataLog
    from replay.clock import Clock
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: Message of Kafka's StandardAuthorizer for a refused write.
NOT_CONTROLLER: Final = "The current node is not the active controller."

#: Interval of polls until replay has followed a change of the log's leader.
_POLL_INTERVAL_S: Final = 0.02

_log = structlog.get_logger(__name__)


class Pending(Protocol):
    """An operation, decided on the ACLs in force: acl_control, cluster_change, cluster_plan.

    ``records``: the records that it writes, as far as they are known before their replay.
    """

    @property
    def records(self) -> tuple[AclRecord, ...]: ...

    def write(self, log: MetadataLog) -> int | None:
        """Write the operation; return the log's end offset afterwards, None if there is nothing to write."""

    def answers(self, find: FindAcl, image: AclsImage) -> Sequence[object]:
        """Return an answer for each item, once everything below that offset is replayed."""


class RemoteWriter(PlanMutator, Protocol):
    """Changes a node's ACLs in another process, which writes the log.

    Attributes:
        visible: set by the node before the first change; returns a future that is done when everything below
            an end offset is visible in this node.
    """

    writable: bool
    visible: Callable[[int], Future[bool]]

    def close(self) -> None:
        """Refuse new operations. Idempotent."""


class LogAclMutator:
    """Implements PlanMutator and replay's Publisher. Thread-safe.

    ``purgatory``: the waiting operations and their gauges.
    """

    name: Final = "acl_mutator"

    def __init__(
        self,
        log: MetadataLog,
        *,
        timeout_ms: int,
        clock: Clock,
        refusal: str | None = None,
        kafka_version: KafkaVersion | None = None,
        random_uuid: Callable[[], Uuid] | None = None,
        max_removed_percent: int = MAX_REMOVED_PERCENT,
    ) -> None:
        """Wire it up; threads start with the first operation.

        Only the mutator's thread appends to ``log``; its opener closes it. If it is shared, operations wait
        until everything committed before them is replayed here. ``timeout_ms`` is from an operation's call to
        its answer. ``refusal``: why nothing can be written here, and what to do; None if it can.
        ``kafka_version``: the release whose rules apply; None: the log's. ``random_uuid``: for ids whose
        UUIDv5 is in use. ``max_removed_percent``: of the ACLs, for a plan without its own limit.
        """
        self.purgatory = Purgatory(clock)
        self._log = log
        self._clock = clock
        self._kafka_version = kafka_version
        self._timeout_s = timeout_ms / 1000
        self._refusal = None if refusal is None else NotControllerError(refusal)
        self._max_removed_percent = max_removed_percent
        self._random_uuid = _random_uuid if random_uuid is None else random_uuid
        # Guards the view and the fields below, which the loader and the writer change.
        self._lock = threading.Lock()
        # Notified when the loader has applied records, or the node is not ready any more.
        self._changed = threading.Condition(self._lock)
        self._view = WriterView()
        self._not_ready: str | None = "loading"
        self._appended_end = self._replayed_end = 0
        # Number of reloads that may have lost appended records.
        self._generation = 0
        self._queue: queue.SimpleQueue[tuple[DelayedOperation, _Plan] | None] = queue.SimpleQueue()
        # Keeps the queue and the purgatory in the same order.
        self._submitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    # --- AclMutator ----------------------------------------------------------------------------------------

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        """Return a future for each binding, in order, without waiting."""
        all_bindings = tuple(bindings)

        def plan() -> Pending:
            with self._lock:
                if self._log.cluster_writer is not None:
                    return ClusterCreation(self._view.find, all_bindings)
                hosts = self._host_rules(self._view.image)
                return plan_creation(self._view, all_bindings, self._random_uuid, hosts)

        return self._submit(len(all_bindings), plan, AclCreateResult)

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        """Return a future for each filter, in order, without waiting."""
        all_filters = tuple(filters)

        def plan() -> Pending:
            with self._lock:
                view = self._view.frozen()
            if self._log.cluster_writer is not None:
                return ClusterDeletion(view, all_filters)
            # This reads every ACL, so it runs without the lock on a frozen view.
            return plan_deletion(view, all_filters)

        return self._submit(len(all_filters), plan, lambda error: AclDeleteResult(exception=error))

    def apply_plan(self, plan: AclPlan, max_removed_percent: int | None = None) -> Future[PlanResult]:
        """Return the future of a plan, without waiting."""
        limit = self._max_removed_percent if max_removed_percent is None else max_removed_percent

        deadline_s = self._clock.monotonic_s() + self._timeout_s

        def check_cancelled() -> None:
            # The operation has timed out by then, and others wait for this thread.
            if self._closed or self._clock.monotonic_s() > deadline_s:
                raise OperationTimedOutError(
                    "Nothing was written: to check what the plan means took longer than an operation may"
                )

        def checked() -> Pending:
            # Appended records are in the image once they are replayed.
            self._catch_up()
            with self._lock:
                image = self._view.image
            if self._log.cluster_writer is not None:
                identity = self._log.identity
                plan.require_log(identity.cluster_id, uuid_to_string(identity.topic_id))
                return ClusterPlan(plan, image, limit, check_cancelled)
            hosts = self._host_rules(image)
            return apply_plan(
                plan, image, self._log.identity, self._random_uuid, hosts, limit, check_cancelled
            )

        (future,) = self._submit(1, checked, PlanResult)
        return future

    def close(self) -> None:
        """Fail pending operations, wait for a running append, stop the threads. Idempotent."""
        with self._submitting:
            self._closed = True
            thread, self._thread = self._thread, None
        with self._changed:
            self._changed.notify_all()
        if thread is not None:
            self._queue.put(None)
            # With a timeout, because a disk may never answer. The thread is a daemon.
            thread.join(self._timeout_s)
        self.purgatory.close()

    # --- Publisher -----------------------------------------------------------------------------------------

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        with self._lock:
            if self._not_ready is not None and isinstance(manifest, ReloadManifest):
                # Under one lock: an append that ends now is either before or after the reload.
                self._generation += 1
                self._appended_end = 0
                self._view.forget_appends()
                self.purgatory.on_history_lost()
            self._view.on_replayed(delta, image)
            self._replayed_end = image.provenance.end_offset
            self._changed.notify_all()

    def settled(self) -> None:
        """Answer operations whose records are visible everywhere in the node; the loader's ``on_settled``."""
        self.purgatory.on_replayed(self._replayed_end)

    def on_ready(self) -> None:
        with self._lock:
            self._not_ready = None

    def on_not_ready(self, reason: str) -> None:
        with self._lock:
            self._not_ready = reason
            self._changed.notify_all()

    # --- the writer ----------------------------------------------------------------------------------------

    def _submit(self, items: int, plan: _Plan, failure: Callable[[ApiError], object]) -> list[Future[Any]]:
        futures: list[Future[Any]] = [Future() for _ in range(items)]
        for future in futures:
            # An operation cannot be cancelled, so cancel() must return False.
            future.set_running_or_notify_cancel()
        operation = DelayedOperation(futures, failure)
        if self._refusal is not None:
            self.purgatory.refuse(operation, self._refusal)
            return futures
        with self._submitting:
            if futures and self.purgatory.watch(operation, self._timeout_s):
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(target=self._run, name="aclog-writer", daemon=True)
                    self._thread.start()
                self._queue.put((operation, plan))
        return futures

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            operation, plan = item
            if not self._closed:
                self._execute(operation, plan)

    def _execute(self, operation: DelayedOperation, plan: _Plan) -> None:
        deadline_s = self._retry_deadline_s()
        try:
            while operation.state is OperationState.QUEUED:
                try:
                    self._attempt(operation, plan)
                except (LogUnreachableError, LogMovedError):
                    # Nothing was written, and a retry may succeed: a leader is being elected, or another node
                    # was faster.
                    if self._closed or self._clock.monotonic_s() > deadline_s:
                        raise
                    self.purgatory.requeue(operation)
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed, _POLL_INTERVAL_S)
        except Exception as error:  # noqa: BLE001 - a future must never be left hanging
            self.purgatory.fail(operation, self._api_error(error))

    def _attempt(self, operation: DelayedOperation, plan: _Plan) -> None:
        """Check and append once. Raises LogUnreachableError or LogMovedError if nothing was written."""
        if self._log.is_shared:
            # Before the load the cluster may have no leader, which would be reported as a timeout.
            self._require_ready()
            self._catch_up()
        generation = self._require_ready()
        pending = plan()
        if not self.purgatory.begin(operation):
            return
        end_offset = pending.write(self._log)
        if end_offset is not None and self._log.is_shared:
            self._require_history()
        self._on_written(operation, pending, end_offset, generation)

    def _on_written(
        self, operation: DelayedOperation, pending: Pending, end_offset: int | None, generation: int
    ) -> None:
        """Register that the records are in the log below ``end_offset``; None if there are no records."""
        with self._lock:
            appended_end = self._appended_end if end_offset is None else end_offset
            # A node that is not ready may have a lost history, in which other records had these offsets.
            if generation != self._generation or (
                self._not_ready is not None and appended_end <= self._replayed_end
            ):
                raise OperationTimedOutError(HISTORY_LOST)
            if end_offset is not None:
                self._view.append(pending.records, end_offset)
                self._appended_end = end_offset
            # Without records, the ACLs that it found may not be replayed yet: wait for them.
            self.purgatory.on_written(
                operation, partial(self._answers, operation, pending), self._appended_end
            )

    def _answers(self, operation: DelayedOperation, pending: Pending) -> Sequence[object]:

        def find(content: AclContent) -> AccessControlEntryRecord | None:
            with self._lock:
                return self._view.find(content)

        with self._lock:
            image = self._view.image
        try:
            return pending.answers(find, image)
        except Exception as error:  # noqa: BLE001 - a future must never be left hanging
            return [operation.failure(self._api_error(error))] * len(operation.futures)

    def _host_rules(self, image: AclsImage) -> HostRules:
        return HostRules.of(self._kafka_version, image)

    def _catch_up(self) -> None:
        """Wait until everything that is committed now is replayed here, or the node is not ready.

        The wait is shorter than the operation's timeout, so that the answer can say that nothing was written.
        """
        try:
            end_offset = self._followed_end()
        except (LogError, OperationTimedOutError) as error:
            raise OperationTimedOutError(f"Nothing was written: {error}") from error
        with self._changed:
            self._changed.wait_for(
                lambda: self._replayed_end >= end_offset or self._not_ready is not None or self._closed,
                self._timeout_s / 2,
            )
            if self._replayed_end < end_offset and self._not_ready is None:
                raise OperationTimedOutError(
                    f"Nothing was written: this node has replayed the log below {self._replayed_end}, and "
                    f"it ends at {end_offset}. Try again."
                )

    def _require_history(self) -> None:
        """Raise OperationTimedOutError if the history may have changed during an append."""
        try:
            self._followed_end()
        except (LogError, OperationTimedOutError) as error:
            raise OperationTimedOutError(f"The outcome is unknown: {error}") from error

    def _followed_end(self) -> int:
        """Return the log's end, once replay is known to follow its history or the node is not ready.

        LogError: the log cannot be read. LogUnreachableError, OperationTimedOutError: not in time.
        """
        deadline_s = self._retry_deadline_s()
        while True:
            is_late = self._clock.monotonic_s() > deadline_s
            try:
                end_offset = self._log.verified_high_watermark()
            except LogUnreachableError:
                if is_late:
                    raise
            else:
                if end_offset is not None:
                    return end_offset
                if is_late:
                    raise OperationTimedOutError(
                        "The log has another leader, and what this node has replayed was not compared with "
                        "its log in time."
                    )
            with self._changed:
                if self._changed.wait_for(
                    lambda: self._not_ready is not None or self._closed, _POLL_INTERVAL_S
                ):
                    return self._replayed_end

    def _retry_deadline_s(self) -> float:
        """Return the end of retries: before the operation's timeout, so that the answer has the reason."""
        return self._clock.monotonic_s() + self._timeout_s / 2

    def _require_ready(self) -> int:
        """Raise AuthorizerNotReadyError if the ACLs in force are unknown; return the present generation."""
        with self._lock:
            not_ready, generation = self._not_ready, self._generation
        if not_ready is not None:
            raise AuthorizerNotReadyError(f"Nothing was written, this node is not ready: {not_ready}")
        return generation

    def _api_error(self, error: Exception) -> ApiError:
        match error:
            case ApiError():
                return error
            case LogRefusedError() if self._log.cluster_writer is not None:
                return ClusterAuthorizationError(str(error))
            case LogReadOnlyError():
                return NotControllerError(f"{NOT_CONTROLLER} {error}")
            case EncodeError():
                return InvalidRequestError(f"Nothing was written: {error}")
            case LogOutcomeUnknownError():
                # As in Kafka, if the controller does not answer.
                _log.error("acl_append_failed", url=self._log.url, error=str(error))
                return OperationTimedOutError(f"The log has not confirmed the append: {error}")
            case LogMovedError():
                return OperationTimedOutError(f"Nothing was written, others write all the time: {error}")
            case LogUnreachableError():
                _log.error("acl_append_failed", url=self._log.url, error=str(error))
                return OperationTimedOutError(f"Nothing was written, the log is out of reach: {error}")
            case LogError():
                # The error's text says whether anything was appended, if that is known.
                _log.error("acl_append_failed", url=self._log.url, error=str(error))
                return UnknownServerError(f"The log could not be appended to: {error}")
            case _:
                _log.error("acl_append_failed", url=self._log.url, exc_info=error)
                return UnknownServerError(
                    f"It is not known whether the log holds the records, because appending failed: {error!r}"
                )


if TYPE_CHECKING:
    _Plan = Callable[[], Pending]


def _random_uuid() -> Uuid:
    return Uuid(uuid.uuid4().bytes)
