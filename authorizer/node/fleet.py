"""Fleet: the nodes of one process that follows several clusters, each on its own.

Each cluster has a thread that opens its node, has it answered for (``serve``), and looks after it as a
service manager looks after a process: what would end `aclog serve` on one log closes that node and opens it
again after a while (Backoff), and the others do not notice. Until then the cluster is not ready and says why.

Shared are the process's settings, its audit log, and whatever ``serve`` has: listeners, callers, limits.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Final, Self

import structlog
from prometheus_client import Metric
from prometheus_client.registry import Collector

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import CLUSTERS, LOG_URL
from authorizer.node.metrics import metrics_registry
from authorizer.node.node import Node
from authorizer.node.reconfiguration import Reconfiguration
from records.errors import AclogError
from replay.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from prometheus_client import CollectorRegistry

    from authorizer.configuration.load import Config
    from authorizer.engine.decisions.audit import AuditLog
    from authorizer.node.writing.remote_writer import RemoteWriter

log = structlog.get_logger(__name__)

#: How long the end waits for all nodes that are being opened or closed.
_CLOSE_S: Final = 30.0


class Member:
    """One cluster of a fleet.

    Attributes:
        name: by which it is asked.
        reconfiguration: its settings, whether it has a node or not.
        node: None while it cannot be opened.
        reason: why there is none.
    """

    def __init__(self, name: str, config: Config) -> None:
        self.name = name
        self.reconfiguration = Reconfiguration(config)
        self.node: Node | None = None
        self.reason = "its log is being opened"
        self._closing = threading.Lock()

    @property
    def log_url(self) -> str:
        """Where its log is."""
        return self.reconfiguration.config.require_log_url()

    def close(self) -> None:
        """Close its node, if it has one. Idempotent, and for any thread."""
        with self._closing:
            if self.node is not None:
                self.node.close()
                self.node = None


class Fleet:
    """See the module.

    Attributes:
        config: the process's settings, as they were at the start.
        reconfiguration: the same as they are now.
        members: by name, in the order of the configuration.
        collector: what all have counted.
        metrics: the same and the process's, for ``prometheus_client.generate_latest``.

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
        """Nothing is opened yet.

        Args:
            config: the process's settings.
            audit: where decisions are written down.
            clusters: settings of the clusters, by default what ``config`` says of them.
            writer: makes what another process is to each cluster that writes all logs (``Node.open``); by
                default this one writes them.
        """
        self.config = config
        self.reconfiguration = Reconfiguration(config)
        self.members = {
            name: Member(name, config.of_cluster(name) if clusters is None else clusters[name])
            for name in config.clusters
        }
        require_own_logs(config)
        self._writer = writer
        self.collector = FleetCollector(self.members.values())
        self.metrics: CollectorRegistry = metrics_registry(self.collector, audit)
        self._audit = audit
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, serve: Callable[[Member, Node], AbstractContextManager[None]]) -> None:
        """Open and load all of them at the same time. Call once.

        Args:
            serve: entered when a node was opened, left before it is closed.
        """
        for member in self.members.values():
            name = f"aclog-cluster-{member.name}"
            thread = threading.Thread(target=self._run, args=(member, serve), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def reload_on_hangup(self) -> None:
        """The settings of all, from the file; whole or not at all."""
        clusters = [member.reconfiguration for member in self.members.values()]
        self.reconfiguration.reload_on_hangup(clusters)

    def close(self) -> None:
        """Close all nodes. Idempotent."""
        self._closing.set()
        # All at the same time: one that waits for its cluster holds the others up no longer than itself.
        closing = [threading.Thread(target=member.close, daemon=True) for member in self.members.values()]
        for thread in closing:
            thread.start()
        ends_s = time.monotonic() + _CLOSE_S
        for thread in (*closing, *self._threads):
            thread.join(max(ends_s - time.monotonic(), 0))
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
                # The others go on, whatever this is.
                log.exception("cluster_failed", cluster=member.name)
                member.reason = f"internal error: {type(error).__name__}; see the log"
                self._pause(member, backoff)

    def _follow(
        self, member: Member, serve: Callable[[Member, Node], AbstractContextManager[None]], backoff: Backoff
    ) -> None:
        """Until the fleet is closed.

        Raises:
            AclogError: the log cannot be opened, or its cluster has answered that it is none for us.
        """
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
            # Answered for before it can be ready, so that who sees that it is gets answers.
            with serve(member, node):
                node.start()
                node.reach()
                backoff.reset()
                self._closing.wait()
        except AclogError as error:
            # Before the node is gone: who asks meanwhile is to hear why.
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
    """What each cluster has counted, with its name as the label ``cluster``.

    Attributes:
        others: what else has families of the same names: by cluster, or None for what is of none.
    """

    def __init__(self, members: Iterable[Member]) -> None:
        self._members = members
        self.others: list[tuple[str | None, Collector]] = []

    def describe(self) -> list[Metric]:
        """Nothing, as NodeCollector."""
        return []

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for name, collector in (*self._nodes(), *self.others):
            labels = {} if name is None else {"cluster": name}
            for each in collector.collect():
                family = families.setdefault(each.name, Metric(each.name, each.documentation, each.type))
                for sample in each.samples:
                    family.add_sample(sample.name, {**labels, **sample.labels}, sample.value)
        ready = families.setdefault(
            "aclog_ready", Metric("aclog_ready", "1 if decisions may be trusted.", "gauge")
        )
        for member in self._members:
            if member.node is None:
                ready.add_sample("aclog_ready", {"cluster": member.name}, 0)
        yield from families.values()

    def _nodes(self) -> list[tuple[str, Collector]]:
        opened = [(member.name, member.node) for member in self._members]
        return [(name, node.collector) for name, node in opened if node is not None]


def require_own_logs(config: Config) -> None:
    """Raise ConfigError unless each cluster of a fleet has a log."""
    for name in config.clusters:
        config.of_cluster(name).require_log_url()
    if config.log_url is not None:
        raise ConfigError(
            LOG_URL, config.log_url, f"unset where {CLUSTERS} is: each cluster names its own log"
        )
