"""WorkerFanout: readiness, metrics and settings of all workers of a sidecar, for the worker that is asked.

It asks the others at the moment of the question, all at once, each no longer than a probe waits. Who asks
while that is under way gets the same answer, so that no number of requests makes more than one of it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.api.http.answers import Readiness
from authorizer.sidecar.http.unix_socket import UnixConnection
from authorizer.sidecar.workers.metric_archive import MetricArchive, read_archive
from authorizer.sidecar.workers.metric_families import (
    Family,
    MergedFamilies,
    family_by_worker,
    merge_families,
)
from authorizer.sidecar.workers.shared_settings import SharedSettings
from authorizer.sidecar.workers.worker_api import METRICS_PATH, READINESS_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from authorizer.node.reconfiguration import Change
    from authorizer.sidecar.workers.hosted_nodes import HostedNodes
    from authorizer.sidecar.workers.socket_directory import ConsoleStatus
    from authorizer.sidecar.workers.worker import Worker

_T = TypeVar("_T")

#: Kubernetes' probes wait for a second.
_READINESS_TIMEOUT_S: Final = 0.7
_METRICS_TIMEOUT_S: Final = 3.0

_readiness_of: Final = msgspec.json.Decoder(dict[str, Readiness]).decode
_families_of: Final = msgspec.msgpack.Decoder(list[Family]).decode


class WorkerFanout:
    """Of one worker, or of the console's process, which is none; from its event loop only.

    Attributes:
        counts: its own.
        settings: those of all.
    """

    def __init__(self, worker: Worker, nodes: HostedNodes) -> None:
        self._worker = worker
        self._nodes = nodes
        self.counts = MetricArchive(nodes.metrics, worker.directory.counts(worker.number))
        self.settings = SharedSettings(worker, nodes.settings)
        self._threads = ThreadPoolExecutor(2 * worker.count, "aclog-peers")
        self._pending: dict[str, asyncio.Future[Any]] = {}

    def of(self, cluster: str) -> ClusterFanout:
        """What they say of one cluster."""
        return ClusterFanout(self, cluster)

    async def readiness(self) -> dict[str, Readiness]:
        """Of all, by cluster: ready if each is, as far as the last of them."""
        return await self._share_request(READINESS_PATH, self._readiness)

    async def metrics(self) -> MergedFamilies:
        """Of all, for Prometheus."""
        return await self._share_request(METRICS_PATH, self._metrics)

    async def _readiness(self) -> dict[str, Readiness]:
        own = self._nodes.readiness()
        found = await self._ask(READINESS_PATH, _READINESS_TIMEOUT_S, _readiness_of, lambda: own)
        answers = [each or {} for each in found]
        return {cluster: _merge_readiness([each.get(cluster) for each in answers]) for cluster in own}

    async def _metrics(self) -> MergedFamilies:
        worker = self._worker
        console = worker.directory.console if worker.has_console else None
        found = await self._ask(METRICS_PATH, _METRICS_TIMEOUT_S, _families_of, self.counts.show)
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
        """The answer to a question that may be under way already."""
        task = self._pending.get(what)
        if task is None:
            task = self._pending[what] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda _: self._pending.pop(what))
        # Who goes away does not end it for the others.
        return await asyncio.shield(task)

    async def _ask(
        self, path: str, timeout_s: float, read: Callable[[bytes], _T], own: Callable[[], _T]
    ) -> list[_T | None]:
        """What each worker answers, by number; None of one that does not."""
        loop = asyncio.get_running_loop()

        async def ask(number: int) -> _T | None:
            if number == self._worker.number:
                return await loop.run_in_executor(self._threads, own)
            return await loop.run_in_executor(self._threads, self._answer, number, path, timeout_s, read)

        return await asyncio.gather(*map(ask, range(self._worker.count)))

    def _answer(self, number: int, path: str, timeout_s: float, read: Callable[[bytes], _T]) -> _T | None:
        """In a thread."""
        try:
            with closing(UnixConnection(self._worker.directory.socket(number), timeout_s)) as connection:
                connection.request("GET", path)
                response = connection.getresponse()
                return read(response.read()) if response.status == HTTPStatus.OK else None
        except (OSError, HTTPException, msgspec.MsgspecError):
            return None


class ClusterFanout:
    """What all workers say of one cluster, and its settings in all of them."""

    def __init__(self, peers: WorkerFanout, cluster: str) -> None:
        self._peers = peers
        self._cluster = cluster

    def put(self, texts: Mapping[str, str | None], by: str, *, is_trial: bool = False) -> list[Change]:
        """Change the cluster's settings in all workers. Raises as ``SharedSettings.put``."""
        return self._peers.settings.put(self._cluster, texts, by, is_trial=is_trial)

    async def readiness(self) -> Readiness:
        """Ready if each is, as far as the last of them."""
        return (await self._peers.readiness())[self._cluster]

    async def metrics(self) -> MergedFamilies:
        """Of all, for Prometheus; of a cluster without its label."""
        found = await self._peers.metrics()
        return found if self._cluster == DEFAULT_CLUSTER else found.of_cluster(self._cluster)


def _console_families(console: ConsoleStatus) -> list[Family]:
    """The console's process is no worker, and counts for nothing else here."""
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
    """Of one cluster, by worker; None: that does not answer."""
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
