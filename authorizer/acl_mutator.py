"""LogAclMutator: creations and removals of ACLs go to the log and come back through replay.

Source: AclMutator and QuorumController; KIP-504, KIP-801. The rules:

- Nothing changes state but the log: a future is done when its records are committed *and* the decisions here
  follow from them. That is why it is registered with the loader after the authorizer.
- An operation is checked against everything appended before it, replayed or not, and is one atomic batch.
- One thread of its own checks and appends, in the order of the calls. Callers never wait for the disk (a
  sidecar's event loop must not), operations need no lock among themselves, and the log sees one writer
  thread.
- A failing append fails the futures of its own operation and leaves nothing behind. Whether its records are
  in
  the log will be seen when they are replayed, or not.

Futures always have a result; what went wrong is its ``exception`` (KIP-504), for each binding or filter.
"""

from __future__ import annotations

import queue
import threading
import uuid
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

import structlog

from authorizer.acl_control import plan_creation, plan_deletion
from authorizer.api import AclCreateResult, AclDeleteResult
from authorizer.errors import (
    ApiError,
    AuthorizerNotReadyError,
    InvalidRequestError,
    NotControllerError,
    UnknownServerError,
)
from authorizer.purgatory import DelayedOperation, Purgatory
from authorizer.writer_view import WriterView
from records.errors import EncodeError, LogError, LogReadOnlyError
from records.ids import Uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.acl_control import Creation, Deletion
    from records.acl import AclBinding, AclBindingFilter
    from records.log.base import MetadataLog
    from replay.clock import Clock
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: How Kafka's StandardAuthorizer refuses a write.
NOT_CONTROLLER: Final = "The current node is not the active controller."

_log = structlog.get_logger(__name__)


class LogAclMutator:
    """Implements api.AclMutator and replay's Publisher. Thread-safe.

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
        random_uuid: Callable[[], Uuid] | None = None,
    ) -> None:
        """Wire it up; threads start with the first operation.

        Args:
            log: appended to by the mutator's own thread only; closed by whoever opened it.
            timeout_ms: for one operation, from the call to the answer.
            clock: for the timeout.
            refusal: why nothing can be written here, and the way out; None where it can.
            random_uuid: for ids whose UUIDv5 is taken.
        """
        self.purgatory = Purgatory(clock)
        self._log = log
        self._timeout_s = timeout_ms / 1000
        self._refusal = None if refusal is None else NotControllerError(refusal)
        self._random_uuid = _random_uuid if random_uuid is None else random_uuid
        # Guards the view, which the loader and the writer change, and what goes with it.
        self._lock = threading.Lock()
        self._view = WriterView()
        self._not_ready: str | None = "loading"
        self._appended_end = 0
        self._queue: queue.SimpleQueue[tuple[DelayedOperation, _Plan] | None] = queue.SimpleQueue()
        # One order for the queue and the purgatory.
        self._submitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    # --- AclMutator ----------------------------------------------------------------------------------------

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        """One future for each binding, in order; returns at once."""
        wanted = tuple(bindings)

        def plan() -> Creation:
            with self._lock:
                return plan_creation(self._view, wanted, self._random_uuid)

        return self._submit(len(wanted), plan, AclCreateResult)

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        """One future for each filter, in order; returns at once."""
        wanted = tuple(filters)

        def plan() -> Deletion:
            with self._lock:
                view = self._view.frozen()
            # Reads every ACL: the loader need not wait for that, and newer images say nothing new here.
            return plan_deletion(view, wanted)

        return self._submit(len(wanted), plan, lambda error: AclDeleteResult(exception=error))

    def close(self) -> None:
        """Fail what is pending, let a running append end, stop the threads. Idempotent."""
        with self._submitting:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            # Not for ever: a disk may never answer. The thread is a daemon.
            thread.join(self._timeout_s)
        self.purgatory.close()

    # --- Publisher -----------------------------------------------------------------------------------------

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        with self._lock:
            self._view.replayed(delta, image)
        self.purgatory.replayed(image.provenance.end_offset)

    def on_ready(self) -> None:
        with self._lock:
            self._not_ready = None

    def on_not_ready(self, reason: str) -> None:
        with self._lock:
            self._not_ready = reason

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
            if not self._closed and self.purgatory.begin(operation):
                self._carry_out(operation, plan)

    def _carry_out(self, operation: DelayedOperation, plan: _Plan) -> None:
        try:
            self._require_ready()
            planned = plan()
            if planned.records:
                end_offset = self._log.append(planned.records)
                with self._lock:
                    self._view.append(planned.records, end_offset)
                self._appended_end = end_offset
        except Exception as error:  # noqa: BLE001 - a future must never be left hanging
            self.purgatory.failed(operation, self._api_error(error))
            return
        # Without records, what it found may be on its way still: wait for that.
        self.purgatory.written(operation, planned.results, self._appended_end)

    def _require_ready(self) -> None:
        """Before everything is replayed, nobody knows what there is to remove."""
        with self._lock:
            not_ready = self._not_ready
        if not_ready is not None:
            raise AuthorizerNotReadyError(f"Nothing was written, this node is not ready: {not_ready}")

    def _api_error(self, error: Exception) -> ApiError:
        match error:
            case ApiError():
                return error
            case LogReadOnlyError():
                return NotControllerError(f"{NOT_CONTROLLER} {error}")
            case EncodeError():
                return InvalidRequestError(f"Nothing was written: {error}")
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
    _Plan = Callable[[], Creation | Deletion]


def _random_uuid() -> Uuid:
    return Uuid(uuid.uuid4().bytes)
