"""WorkerFanout: readiness, metrics and settings of all workers of a sidecar, for the worker that is asked.

It queries all workers concurrently, each with a timeout shorter than a probe's. Concurrent requests share one
query, so that many requests cause only one.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.api.http.answers.node import Readiness
from authorizer.api.http.error_code import ErrorCode
from authorizer.listeners.unix_socket import UnixConnection
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.workers.metric_families import (
    Family,
    MergedFamilies,
    MetricArchive,
    family_by_worker,
    merge_families,
    read_archive,
)
from authorizer.sidecar.workers.worker import NewSettings, SettingsApplied, SettingsChange, SettingsResult
from authorizer.sidecar.workers.worker_api import METRICS_PATH, READINESS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from authorizer.node.reconfiguration import Change, Reconfiguration
    from authorizer.sidecar.workers.socket_directory import ConsoleStatus
    from authorizer.sidecar.workers.worker import Worker
    from authorizer.sidecar.workers.worker_api import HostedNodes

_ANSWER_S: Final = 10.0


class SharedSettings:
    """One worker's access to the settings of all; a change applies to every worker, or to none.

    The supervisor owns the settings. It reloads the file at a SIGHUP, validates changes, logs them and sends
    them to each worker, also to a restarted one. Changes are serialized, whichever worker receives the
    request. The response follows once every running worker has applied the change.
    """

    def __init__(self, worker: Worker, settings: Mapping[str, Reconfiguration]) -> None:
        """Start the receiving thread; ``settings``: the process's and each cluster's, by name."""
        self._worker = worker
        self._settings = settings
        self._answers: queue.SimpleQueue[SettingsResult] = queue.SimpleQueue()
        self._asking = threading.Lock()
        threading.Thread(target=self._follow, name="aclog-settings", daemon=True).start()

    def put(
        self, cluster: str, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False
    ) -> list[Change]:
        """Change settings in all workers, as ``Reconfiguration.put``; all errors become HttpErrors."""
        with self._asking:
            self._worker.report(SettingsChange(cluster, texts, by, is_trial))
            try:
                answer = self._answers.get(timeout=_ANSWER_S)
            except queue.Empty:
                raise HttpError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "it is unknown whether the settings were changed: GET them",
                ) from None
        if answer.refusal is not None:
            raise HttpError(ErrorCode.INVALID_CONFIG, answer.refusal)
        return answer.changes

    def _follow(self) -> None:
        while True:
            try:
                message = self._worker.pipe.recv()
            except (EOFError, OSError):
                return
            match message:
                case NewSettings():
                    self._settings[message.cluster].adopt(message.given, message.put)
                    self._worker.report(SettingsApplied())
                case SettingsResult():
                    self._answers.put(message)


_T = TypeVar("_T")

#: The default timeout of Kubernetes' probes is one second.
_READINESS_TIMEOUT_S: Final = 0.7
_METRICS_TIMEOUT_S: Final = 3.0

_readiness_of: Final = msgspec.json.Decoder(dict[str, Readiness]).decode
_families_of: Final = msgspec.msgpack.Decoder(list[Family]).decode


class WorkerFanout:
    """Belongs to one worker or to the console's process; used on its event loop only."""

    def __init__(self, worker: Worker, nodes: HostedNodes) -> None:
        self._worker = worker
        self._nodes = nodes
        self.counts = MetricArchive(nodes.metrics, worker.directory.counts(worker.number))
        self.settings = SharedSettings(worker, nodes.settings)
        self._threads = ThreadPoolExecutor(2 * worker.count, "aclog-peers")
        self._pending: dict[str, asyncio.Future[Any]] = {}

    def of(self, cluster: str) -> ClusterFanout:
        return ClusterFanout(self, cluster)

    async def readiness(self) -> dict[str, Readiness]:
        """Readiness by cluster: ready if every worker is; the offset is the lowest of them."""
        return await self._share_request(READINESS_PATH, self._readiness)

    async def metrics(self) -> MergedFamilies:
        return await self._share_request(METRICS_PATH, self._metrics)

    async def _readiness(self) -> dict[str, Readiness]:
        local = self._nodes.readiness()
        found = await self._query_workers(READINESS_PATH, _READINESS_TIMEOUT_S, _readiness_of, lambda: local)
        answers = [each or {} for each in found]
        return {cluster: _merge_readiness([each.get(cluster) for each in answers]) for cluster in local}

    async def _metrics(self) -> MergedFamilies:
        worker = self._worker
        console = worker.directory.console if worker.has_console else None
        found = await self._query_workers(
            METRICS_PATH, _METRICS_TIMEOUT_S, _families_of, self.counts.collect_and_store
        )
        counted = [
            read_archive(worker.directory.counts(number)) if each is None else each
            for number, each in enumerate(found)
        ]
        return MergedFamilies(
            [
                *(merge_families(dict(enumerate(counted))) if worker.count > 1 else counted[0]),
                Family(
                    "aclog_workers",
                    "Processes that are to answer.",
                    "gauge",
                    [("aclog_workers", {}, worker.count)],
                ),
                family_by_worker(
                    "aclog_worker_up",
                    "1 if the worker answers the others.",
                    "gauge",
                    (float(each is not None) for each in found),
                ),
                family_by_worker(
                    "aclog_worker_restarts",
                    "How often a worker that died was started again.",
                    "counter",
                    worker.directory.restarts,
                ),
                *([] if console is None else _console_families(console)),
            ]
        )

    async def _share_request(self, what: str, ask: Callable[[], Coroutine[None, None, _T]]) -> _T:
        """Return the result of a query, which may already be in progress."""
        task = self._pending.get(what)
        if task is None:
            task = self._pending[what] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda _: self._pending.pop(what))
        # A client that disconnects must not cancel it for the others.
        return await asyncio.shield(task)

    async def _query_workers(
        self, path: str, timeout_s: float, read: Callable[[bytes], _T], local: Callable[[], _T]
    ) -> list[_T | None]:
        """Return each worker's response by number; None if it does not answer."""
        loop = asyncio.get_running_loop()

        async def ask(number: int) -> _T | None:
            if number == self._worker.number:
                return await loop.run_in_executor(self._threads, local)
            return await loop.run_in_executor(
                self._threads, self._query_worker, number, path, timeout_s, read
            )

        return await asyncio.gather(*map(ask, range(self._worker.count)))

    def _query_worker(
        self, number: int, path: str, timeout_s: float, read: Callable[[bytes], _T]
    ) -> _T | None:
        try:
            with closing(UnixConnection(self._worker.directory.socket(number), timeout_s)) as connection:
                connection.request("GET", path)
                response = connection.getresponse()
                return read(response.read()) if response.status == HTTPStatus.OK else None
        except (OSError, HTTPException, msgspec.MsgspecError):
            return None


class ClusterFanout:
    """Readiness, metrics and settings of one cluster in all workers. Implements ``NodePeers``."""

    def __init__(self, peers: WorkerFanout, cluster: str) -> None:
        self._peers = peers
        self._cluster = cluster

    def put(self, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False) -> list[Change]:
        """Change the cluster's settings in all workers. Raises as ``SharedSettings.put``."""
        return self._peers.settings.put(self._cluster, texts, by, is_trial=is_trial)

    async def readiness(self) -> Readiness:
        return (await self._peers.readiness())[self._cluster]

    async def metrics(self) -> MergedFamilies:
        """The merged metrics of all workers; those of a fleet's cluster without its label."""
        found = await self._peers.metrics()
        return found if self._cluster == DEFAULT_CLUSTER else found.of_cluster(self._cluster)


def _console_families(console: ConsoleStatus) -> list[Family]:
    """The console's process is not a worker; these are its only metrics."""
    up, restarts = "aclog_console_up", "aclog_console_restarts"
    return [
        Family(up, "1 if the console's process answers.", "gauge", [(up, {}, float(console.is_up))]),
        Family(
            restarts,
            "How often the console's process was started again.",
            "counter",
            [(f"{restarts}_total", {}, console.restarts)],
        ),
    ]


def _merge_readiness(found: Sequence[Readiness | None]) -> Readiness:
    """Merge the readiness of one cluster, by worker; None: the worker does not answer."""
    answers = [each for each in found if each is not None]
    if len(found) == 1:
        return answers[0]
    lags = [each.lag_records for each in answers]
    reasons = ["does not answer" if each is None else each.reason for each in found]
    reason = next(
        (f"worker {number}: {reason}" for number, reason in enumerate(reasons) if reason is not None), None
    )
    return Readiness(
        reason is None,
        min(each.offset for each in answers),
        None if None in lags else max(lag for lag in lags if lag is not None),
        reason,
    )
