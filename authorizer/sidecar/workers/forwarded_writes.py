"""Forwards ACL writes to the worker that writes the log.

This worker authorizes them by its own state, and answers once they are visible here, as one process does.
While the writer restarts they wait for up to half of their timeout. If the connection breaks, the outcome is
unknown, and the response says so.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeVar

import msgspec

from authorizer.analysis.plans.plan import AclPlan, PlanResult, application_body
from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
from authorizer.api.cluster_name import CLUSTERS_PATH
from authorizer.api.errors import ApiError, OperationTimedOutError, UnknownServerError
from authorizer.api.http.acl_requests import creation_body, deletion_body
from authorizer.api.http.answers.acls import (
    CreationResult,
    CreationResults,
    DeletionResult,
    DeletionResults,
    PlanOutcomes,
)
from authorizer.listeners.unix_socket import UnixConnection
from authorizer.sidecar.workers.worker import WRITER
from authorizer.sidecar.workers.worker_api import ACLS_PATH, PLANS_PATH, WRITABLE_PATH
from records.errors import LogUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.sidecar.workers.socket_directory import SocketDirectory
    from records.acl import AclBinding, AclBindingFilter

_Result = TypeVar("_Result", AclCreateResult, AclDeleteResult, PlanResult)
_Item = TypeVar("_Item")


class _Answers(Protocol[_Item]):
    @property
    def end_offset(self) -> int: ...
    @property
    def results(self) -> list[_Item]: ...


#: Concurrently forwarded operations; others are queued.
_THREADS: Final = 8
_RETRY_INTERVAL_S: Final = 0.05


class ForwardedWrites:
    """Implements RemoteWriter. Thread-safe.

    Attributes:
        writable: whether the writer can change ACLs.
        visible: of this worker's node: the future is done when everything below an offset is visible. Must be
            set before the first write.
    """

    visible: Callable[[int], Future[bool]]

    def __init__(self, place: SocketDirectory, timeout_ms: int, *, writable: bool, cluster: str = "") -> None:
        """``timeout_ms``: for one operation; ``cluster``: in a fleet."""
        self.writable = writable
        self._path = place.socket(WRITER)
        self._prefix = _prefix(cluster)
        self._timeout_s = timeout_ms / 1000
        self._closing = threading.Event()
        self._threads = ThreadPoolExecutor(_THREADS, "aclog-forward")

    @classmethod
    def of_cluster(cls, place: SocketDirectory, timeout_ms: int, cluster: str) -> Self:
        """Connect to the writer for one cluster; LogUnreachableError: it has not opened the cluster's log."""
        try:
            with closing(UnixConnection(place.socket(WRITER), timeout_ms / 1000)) as connection:
                connection.request("GET", _prefix(cluster) + WRITABLE_PATH)
                response = connection.getresponse()
                text = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise LogUnreachableError("the worker that writes the logs does not answer") from error
        if response.status != HTTPStatus.OK:
            raise LogUnreachableError("the worker that writes the logs has not opened this one")
        return cls(place, timeout_ms, writable=json.loads(text), cluster=cluster)

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        """Return one future for each binding, in order, without waiting."""
        return self._forward(
            len(bindings),
            "POST",
            ACLS_PATH,
            creation_body(bindings),
            CreationResults,
            CreationResult.value,
            AclCreateResult,
        )

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        """Return one future for each filter, in order, without waiting."""
        return self._forward(
            len(filters),
            "DELETE",
            ACLS_PATH,
            deletion_body(filters),
            DeletionResults,
            DeletionResult.value,
            lambda error: AclDeleteResult(exception=error),
        )

    def apply_plan(self, plan: AclPlan, max_removed_percent: int | None = None) -> Future[PlanResult]:
        """Return one future, without waiting."""
        body = application_body(plan, max_removed_percent)
        (future,) = self._forward(
            1, "POST", PLANS_PATH, body, PlanOutcomes, PlanResult.from_answer, PlanResult
        )
        return future

    def close(self) -> None:
        """Start no more operations. Idempotent."""
        self._closing.set()
        self._threads.shutdown(wait=False)

    def _forward(
        self,
        items: int,
        method: str,
        path: str,
        body: bytes,
        answer: type[_Answers[_Item]],
        read: Callable[[_Item], _Result],
        failed: Callable[[ApiError], _Result],
    ) -> list[Future[_Result]]:
        futures: list[Future[_Result]] = [Future() for _ in range(items)]
        for future in futures:
            future.set_running_or_notify_cancel()

        def carry_out() -> None:
            try:
                results = list(map(read, self._carried_out(method, path, body, answer).results))
            except ApiError as error:
                results = [failed(error)] * items
            except Exception as error:  # noqa: BLE001 - a future must never be left hanging
                unknown = UnknownServerError(f"It is not known whether the log holds the records: {error!r}")
                results = [failed(unknown)] * items
            for future, result in zip(futures, results, strict=True):
                future.set_result(result)

        try:
            self._threads.submit(carry_out)
        except RuntimeError:  # closed
            carry_out()
        return futures

    def _carried_out(
        self, method: str, path: str, body: bytes, kind: type[_Answers[_Item]]
    ) -> _Answers[_Item]:
        """Return the writer's response when the change is visible here."""
        if self._closing.is_set():
            raise OperationTimedOutError("Nothing was written: this worker is ending")
        began_s = time.monotonic()
        with closing(self._connected(began_s + self._timeout_s / 2)) as connection:
            try:
                connection.request(method, self._prefix + path, body)
                response = connection.getresponse()
                text = response.read()
                if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
                    raise OperationTimedOutError(
                        "Nothing was written: the worker that writes the log has not opened it"
                    )
                answer = msgspec.json.decode(text, type=kind)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise OperationTimedOutError(
                    "The outcome is unknown: the worker that writes the log has not answered "
                    f"({str(error) or type(error).__name__})"
                ) from error
        offset = answer.end_offset
        left_s = began_s + self._timeout_s - time.monotonic()
        try:
            is_visible = self.visible(offset).result(max(0.0, left_s))
        except TimeoutError:
            is_visible = False
        if not is_visible:
            raise OperationTimedOutError(
                f"It was carried out, and can be seen from offset {offset} on, which is not reached here yet"
            )
        return answer

    def _connected(self, give_up_s: float) -> UnixConnection:
        while True:
            # Longer than the writer's own timeout, so that its response arrives.
            connection = UnixConnection(self._path, self._timeout_s + 1)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                if self._closing.is_set() or time.monotonic() > give_up_s:
                    raise OperationTimedOutError(
                        "Nothing was written: the worker that writes the log is not there"
                    ) from error
            else:
                return connection
            self._closing.wait(_RETRY_INTERVAL_S)


def _prefix(cluster: str) -> str:
    return f"{CLUSTERS_PATH}{cluster}" if cluster else ""
