"""Fleet: the nodes of one process that follows several clusters independently.

Each cluster has a thread that opens its node, serves it (``serve``) and restarts it, as a service manager
does with a process: an error that would end `aclog serve` on one log closes that node only, and opens it
again later (Backoff). Until then the cluster is not ready, with the reason. The nodes share the settings of
the process, its audit log, and listeners, callers and limits of ``serve``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Final, Self

import structlog
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from authorizer.api.authorizer_api import Endpoint
from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import CLUSTERS, LOG_URL
from authorizer.configuration.load import Config
from authorizer.engine.decisions.audit import AuditLog
from authorizer.node.metrics import metrics_registry
from authorizer.node.node import Node
from authorizer.node.reconfiguration import Reconfiguration
from authorizer.node.writing.acl_mutator import RemoteWriter
from records.errors import AclogError
from replay.clock import Backoff

log = structlog.get_logger(__name__)

#: Time for all nodes to close.
_CLOSE_TIMEOUT_S: Final = 30.0


class Member:
    """One cluster of a fleet.

    Attributes:
        name: in paths of requests.
        reconfiguration: its settings, also without a node.
    """

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.reconfiguration = Reconfiguration(config)
        self.node: Node | None = None
        self.reason = "its log is being opened"
        self._close_lock = threading.Lock()

    @property
    def log_url(self) -> str:
        return self.reconfiguration.config.require_log_url()

    def close(self) -> None:
        """Close its node, if it has one. Idempotent and thread-safe."""
        with self._close_lock:
            if self.node is not None:
                self.node.close()
                self.node = None


class Fleet:
    """The nodes of several clusters in one process.

    Attributes:
        reconfiguration: the process's present settings.
        metrics: metrics of all nodes and of the process, for ``prometheus_client.generate_latest``.
        serve_started: a context for each node that has started, entered with the futures of ``Node.start``
            and left before the node is closed; to be set before ``start``.

    Raises:
        ConfigError: a cluster has no log.
    """

    def __init__(
        self,
        config: Config,
        *,
        audit: AuditLog,
        clusters: Mapping[str, Config] | None = None,
        writer: Callable[[str, Config], RemoteWriter] | None = None,
    ) -> None:
        """Prepare all members; ``start`` opens them.

        ``writer`` returns a cluster's remote writer, if another process writes all logs (``Node.open``).
        """
        self.config = config
        self.reconfiguration = Reconfiguration(config)
        self.members = {
            name: Member(name, config.of_cluster(name) if clusters is None else clusters[name])
            for name in config.clusters
        }
        require_cluster_logs(config)
        self.serve_started: Callable[
            [Member, Node, Mapping[Endpoint, Future[None]]], AbstractContextManager[None]
        ] = lambda _member, _node, _opening: nullcontext()
        self._writer = writer
        self.collector = FleetCollector(self.members.values())
        self.metrics: CollectorRegistry = metrics_registry(self.collector, audit)
        self._audit = audit
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, serve: Callable[[Member, Node], AbstractContextManager[None]]) -> None:
        """Open and load all nodes concurrently. Call once.

        ``serve``: a context that is entered after a node was opened and left before it is closed.
        """
        for member in self.members.values():
            name = f"aclog-cluster-{member.name}"
            thread = threading.Thread(target=self._run, args=(member, serve), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def reload_on_sighup(self) -> None:
        """Reload the settings of the process and all clusters, atomically."""
        clusters = [member.reconfiguration for member in self.members.values()]
        self.reconfiguration.reload_on_sighup(clusters)

    def close(self) -> None:
        self._closing.set()
        # Concurrently: a node may wait for its cluster.
        closing = [threading.Thread(target=member.close, daemon=True) for member in self.members.values()]
        for thread in closing:
            thread.start()
        deadline_s = time.monotonic() + _CLOSE_TIMEOUT_S
        for thread in (*closing, *self._threads):
            thread.join(max(deadline_s - time.monotonic(), 0))
        self._threads.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self, member: Member, serve: Callable[[Member, Node], AbstractContextManager[None]]) -> None:
        backoff = Backoff()
        while not self._closing.is_set():
            try:
                self._follow(member, serve, backoff)
            except AclogError as error:
                member.reason = str(error)
                self._pause(member, backoff)
            except Exception as error:
                # A defect must not stop the other nodes.
                log.exception("cluster_failed", cluster=member.name)
                member.reason = f"internal error: {type(error).__name__}; see the log"
                self._pause(member, backoff)

    def _follow(
        self, member: Member, serve: Callable[[Member, Node], AbstractContextManager[None]], backoff: Backoff
    ) -> None:
        """Open and serve a node until the fleet is closed."""
        settings = member.reconfiguration
        config = settings.config
        with nullcontext() if self._writer is None else closing(self._writer(member.name, config)) as writer:
            node = Node.open(config, lazily=True, audit=self._audit, writer=writer, reconfiguration=settings)
            self._serve(member, node, serve, backoff)

    def _serve(
        self,
        member: Member,
        node: Node,
        serve: Callable[[Member, Node], AbstractContextManager[None]],
        backoff: Backoff,
    ) -> None:
        """Raises as ``_follow``."""
        member.node = node
        try:
            if self._closing.is_set():
                return
            # Served before it can be ready, so that a client that sees a ready node gets answers.
            with serve(member, node), self.serve_started(member, node, node.start()):
                node.connect()
                backoff.reset()
                self._closing.wait()
        except AclogError as error:
            # Set before the node is closed, so that every request gets a reason.
            member.reason = str(error)
            raise
        finally:
            member.close()

    def _pause(self, member: Member, backoff: Backoff) -> None:
        if self._closing.is_set():
            return
        wait_s = backoff.next_s()
        log.error("cluster_not_open", cluster=member.name, reason=member.reason, tried_again_in_s=wait_s)
        self._closing.wait(wait_s)


class FleetCollector(Collector):
    """Metrics of each cluster, with its name as the label ``cluster``.

    ``extra_collectors``: further collectors with the same metric names, by cluster; None for no cluster.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self._members = members
        self.extra_collectors: list[tuple[str | None, Collector]] = []

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        metrics: dict[str, Metric] = {}
        for name, collector in (*self._nodes(), *self.extra_collectors):
            labels = {} if name is None else {"cluster": name}
            for each in collector.collect():
                metric = metrics.setdefault(each.name, Metric(each.name, each.documentation, each.type))
                for sample in each.samples:
                    metric.add_sample(sample.name, {**labels, **sample.labels}, sample.value)
        ready = metrics.setdefault(
            "aclog_ready", Metric("aclog_ready", "1 if decisions may be trusted.", "gauge")
        )
        for member in self._members:
            if member.node is None:
                ready.add_sample("aclog_ready", {"cluster": member.name}, 0)
        yield from metrics.values()

    def _nodes(self) -> list[tuple[str, Collector]]:
        opened = [(member.name, member.node) for member in self._members]
        return [(name, node.collector) for name, node in opened if node is not None]


def require_cluster_logs(config: Config) -> None:
    """Raise ConfigError unless each cluster of a fleet has a log, and the process has none."""
    for name in config.clusters:
        config.of_cluster(name).require_log_url()
    if config.log_url is not None:
        raise ConfigError(LOG_URL, config.log_url, f"unset if {CLUSTERS} is set: each cluster names its log")
