"""LogAclMutator: creations and removals of ACLs go to the log and come back through replay.

Source: AclMutator and QuorumController; KIP-504, KIP-801. The rules:

- Nothing changes state but the log: a future is done when its records are committed *and* every face of the
  node shows them: decisions, listings, status, metrics (``settled``).
- An operation is checked against everything appended before it, replayed or not, and is one atomic batch.
- One thread of its own checks and appends, in the order of the calls. Callers never wait for the disk (a
  sidecar's event loop must not), operations need no lock among themselves, and the log sees one writer
  thread.
- A plan is checked against everything that is committed, and appended only if nothing came after that.
- A cluster's own log is written by asking the cluster (cluster_change, cluster_plan). Its answer counts once
  this node has replayed the log up to where it ended when the cluster had answered.
- A failing append fails the futures of its own operation and leaves nothing behind. Whether its records are
  in the log will be seen when they are replayed, or not.
- Where other nodes write to the log too, an operation is checked against everything that was committed when
  its turn came, and not against what happens to be replayed here: a removal finds what was created elsewhere.
- A log that is out of reach is tried again for half of the operation's time; what has not been appended by
  its end never is, and the answer says so.
- It is a success only if this node follows the log's history as it is then. After another leader came that
  may take a moment to be known, and it is waited for.
- A log that is loaded anew while the node is not ready may have lost what was written (I11): what waits for
  its replay is answered so, and does not count any more.

Futures always have a result; what went wrong is its ``exception`` (KIP-504), for each binding or filter.
"""

from __future__ import annotations

import queue
import threading
import uuid
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from authorizer.analysis.plan import PlanResult
from authorizer.analysis.plan_checks import MAX_REMOVED_PERCENT
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
from authorizer.node.writing.acl_control import plan_creation, plan_deletion
from authorizer.node.writing.cluster_change import ClusterCreation, ClusterDeletion
from authorizer.node.writing.cluster_plan import ClusterPlan
from authorizer.node.writing.plan_application import apply_plan
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

    from authorizer.analysis.plan import AclPlan
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.node.writing.acl_control import FindAcl
    from records.acl import AclBinding, AclBindingFilter
    from records.entries import AccessControlEntryRecord, AclContent, AclRecord
    from records.log.base import MetadataLog
    from replay.clock import Clock
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: How Kafka's StandardAuthorizer refuses a write.
NOT_CONTROLLER: Final = "The current node is not the active controller."

#: Between two looks at whether replay has followed a change of the log's leader.
_LOOK_S: Final = 0.02

_log = structlog.get_logger(__name__)


class Pending(Protocol):
    """What an operation does, decided on what was in force: acl_control, cluster_change, cluster_plan.

    Attributes:
        records: what it writes, as far as that is known before it is replayed.
    """

    @property
    def records(self) -> tuple[AclRecord, ...]: ...

    def write(self, log: MetadataLog) -> int | None:
        """Do it; the log's end offset then, None if there is nothing to do."""

    def answers(self, find: FindAcl, image: AclsImage) -> Sequence[object]:
        """One for each item, once everything below that offset is replayed."""


class LogAclMutator:
    """Implements api.PlanMutator and replay's Publisher. Thread-safe.

    Attributes:
        purgatory: what is waiting, with its gauges.
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

        Args:
            log: appended to by the mutator's own thread only; closed by its opener. If it is
                shared, operations wait until what was committed before them is replayed here.
            timeout_ms: for one operation, from the call to the answer.
            clock: for the timeout.
            refusal: why nothing can be written here, and the way out; None where it can.
            kafka_version: whose rules are followed; None: what the log tells.
            random_uuid: for ids whose UUIDv5 is taken.
            max_removed_percent: of the ACLs, what a plan may remove that does not say more itself.
        """
        self.purgatory = Purgatory(clock)
        self._log = log
        self._clock = clock
        self._kafka_version = kafka_version
        self._timeout_s = timeout_ms / 1000
        self._refusal = None if refusal is None else NotControllerError(refusal)
        self._max_removed_percent = max_removed_percent
        self._random_uuid = _random_uuid if random_uuid is None else random_uuid
        # Guards the view, which the loader and the writer change, and what goes with it.
        self._lock = threading.Lock()
        # Notified when the loader has gone on, or the node is not ready any more.
        self._changed = threading.Condition(self._lock)
        self._view = WriterView()
        self._not_ready: str | None = "loading"
        self._appended_end = self._replayed_end = 0
        # How often what was appended may have been lost.
        self._losses = 0
        self._queue: queue.SimpleQueue[tuple[DelayedOperation, _Plan] | None] = queue.SimpleQueue()
        # One order for the queue and the purgatory.
        self._submitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    # --- AclMutator ----------------------------------------------------------------------------------------

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        """One future for each binding, in order; returns at once."""
        wanted = tuple(bindings)

        def plan() -> Pending:
            with self._lock:
                if self._log.cluster_writer is not None:
                    return ClusterCreation(self._view.find, wanted)
                hosts = self._host_rules(self._view.image)
                return plan_creation(self._view, wanted, self._random_uuid, hosts)

        return self._submit(len(wanted), plan, AclCreateResult)

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        """One future for each filter, in order; returns at once."""
        wanted = tuple(filters)

        def plan() -> Pending:
            with self._lock:
                view = self._view.frozen()
            if self._log.cluster_writer is not None:
                return ClusterDeletion(view, wanted)
            # Reads every ACL: the loader need not wait for that, and newer images say nothing new here.
            return plan_deletion(view, wanted)

        return self._submit(len(wanted), plan, lambda error: AclDeleteResult(exception=error))

    def apply_plan(self, plan: AclPlan, max_removed_percent: int | None = None) -> Future[PlanResult]:
        """One future; returns without waiting for it."""
        limit = self._max_removed_percent if max_removed_percent is None else max_removed_percent

        give_up_s = self._clock.monotonic_s() + self._timeout_s

        def check_cancelled() -> None:
            # It is answered as timed out by then, and others wait for this thread.
            if self._closed or self._clock.monotonic_s() > give_up_s:
                raise OperationTimedOutError(
                    "Nothing was written: to check what the plan means took longer than an operation may"
                )

        def checked() -> Pending:
            # What was appended is in the image once it is replayed.
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
        """Fail what is pending, let a running append end, stop the threads. Idempotent."""
        with self._submitting:
            self._closed = True
            thread, self._thread = self._thread, None
        with self._changed:
            self._changed.notify_all()
        if thread is not None:
            self._queue.put(None)
            # Not for ever: a disk may never answer. The thread is a daemon.
            thread.join(self._timeout_s)
        self.purgatory.close()

    # --- Publisher -----------------------------------------------------------------------------------------

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        with self._lock:
            if self._not_ready is not None and isinstance(manifest, ReloadManifest):
                # One lock for all of it: an append that ends just now counts before the loss or after it.
                self._losses += 1
                self._appended_end = 0
                self._view.forget_appends()
                self.purgatory.lost()
            self._view.replayed(delta, image)
            self._replayed_end = image.provenance.end_offset
            self._changed.notify_all()

    def settled(self) -> None:
        """The loader's ``on_settled``: every face shows what was replayed, and writers get their answers."""
        self.purgatory.replayed(self._replayed_end)

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
            # It cannot be called back: cancel() is to say so.
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
        while (taken := self._queue.get()) is not None:
            operation, plan = taken
            if not self._closed:
                self._carry_out(operation, plan)

    def _carry_out(self, operation: DelayedOperation, plan: _Plan) -> None:
        give_up_s = self._give_up_s()
        try:
            while operation.state is OperationState.QUEUED:
                try:
                    self._attempt(operation, plan)
                except (LogUnreachableError, LogMovedError):
                    # Nothing was written, and the log may take it soon: a leader is being elected, or another
                    # node was quicker.
                    if self._closed or self._clock.monotonic_s() > give_up_s:
                        raise
                    self.purgatory.put_back(operation)
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed, _LOOK_S)
        except Exception as error:  # noqa: BLE001 - a future must never be left hanging
            self.purgatory.failed(operation, self._api_error(error))

    def _attempt(self, operation: DelayedOperation, plan: _Plan) -> None:
        """Check and append once. LogUnreachableError, LogMovedError: nothing was written."""
        if self._log.is_shared:
            self._catch_up()
        losses = self._require_ready()
        planned = plan()
        if not self.purgatory.begin(operation):
            return
        end_offset = planned.write(self._log)
        if end_offset is not None and self._log.is_shared:
            self._see_history()
        self._settle(operation, planned, end_offset, losses)

    def _settle(
        self, operation: DelayedOperation, planned: Pending, end_offset: int | None, losses: int
    ) -> None:
        """What was planned is in the log below ``end_offset``; None if it took no records."""
        with self._lock:
            appended_end = self._appended_end if end_offset is None else end_offset
            # A node that is not ready may hold a history that is gone, which had these offsets too.
            if losses != self._losses or (self._not_ready is not None and appended_end <= self._replayed_end):
                raise OperationTimedOutError(HISTORY_LOST)
            if end_offset is not None:
                self._view.append(planned.records, end_offset)
                self._appended_end = end_offset
            # Without records, what it found may be on its way still: wait for that.
            self.purgatory.written(operation, partial(self._answers, operation, planned), self._appended_end)

    def _answers(self, operation: DelayedOperation, planned: Pending) -> Sequence[object]:
        """What was written is replayed."""

        def find(content: AclContent) -> AccessControlEntryRecord | None:
            with self._lock:
                return self._view.find(content)

        with self._lock:
            image = self._view.image
        try:
            return planned.answers(find, image)
        except Exception as error:  # noqa: BLE001 - a future must never be left hanging
            return [operation.failure(self._api_error(error))] * len(operation.futures)

    def _host_rules(self, image: AclsImage) -> HostRules:
        return HostRules.of(self._kafka_version, image)

    def _catch_up(self) -> None:
        """Wait until everything that is committed now is replayed here, or the node cannot be ready.

        Not as long as the operation may take: the answer then is that nothing was written.
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

    def _see_history(self) -> None:
        """After an append: the history may have changed while it was written."""
        try:
            self._followed_end()
        except (LogError, OperationTimedOutError) as error:
            raise OperationTimedOutError(f"The outcome is unknown: {error}") from error

    def _followed_end(self) -> int:
        """The log's end, once what is replayed here is known to be of its history, or the node is not ready.

        Raises:
            LogError: the log cannot be asked; LogUnreachableError: not in time.
            OperationTimedOutError: that was not known in time.
        """
        give_up_s = self._give_up_s()
        while True:
            is_late = self._clock.monotonic_s() > give_up_s
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
                if self._changed.wait_for(lambda: self._not_ready is not None or self._closed, _LOOK_S):
                    return self._replayed_end

    def _give_up_s(self) -> float:
        """Until when something is tried: earlier than the operation is given up, to be able to say why."""
        return self._clock.monotonic_s() + self._timeout_s / 2

    def _require_ready(self) -> int:
        """What there is to remove is known once everything is replayed. Returns the losses so far."""
        with self._lock:
            not_ready, losses = self._not_ready, self._losses
        if not_ready is not None:
            raise AuthorizerNotReadyError(f"Nothing was written, this node is not ready: {not_ready}")
        return losses

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
                # As Kafka answers a client whose controller does not answer.
                _log.error("acl_append_failed", url=self._log.url, error=str(error))
                return OperationTimedOutError(f"The log has not confirmed the append: {error}")
            case LogMovedError():
                return OperationTimedOutError(f"Nothing was written, others write all the time: {error}")
            case LogUnreachableError():
                _log.error("acl_append_failed", url=self._log.url, error=str(error))
                return OperationTimedOutError(f"Nothing was written, the log is out of reach: {error}")
            case LogError():
                # Its text says whether anything was appended, where that is known.
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
