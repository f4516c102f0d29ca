"""Node: the composition root. It opens a log and a snapshot store, and wires replay, decisions and writes.

    log ------> Loader --> StandardAuthorizer, RecentStates, ChangeFeed, LogAclMutator, SnapshotGenerator
     ^            ^                                                           |           (in this order)
     |            +--- snapshots: store, .checkpoint files beside a broker's log
     +--- appends, by LogAclMutator

``open`` takes files and locks; ``start`` starts threads; ``close`` undoes both, in the reverse order. A node
that was opened lazily may be started while its log's cluster is down: it is not ready, says why, and tries
again (Backoff); ``reach`` waits for the answer.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import structlog

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.authorizer_api import AuthorizerServerInfo
from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import LOG_MODE, LOG_URL
from authorizer.configuration.keys.table import BY_NAME
from authorizer.configuration.load import Config
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.notes import unknown_settings
from authorizer.node.change_feed import ChangeFeed
from authorizer.node.effective_permissions_digest import NodeMeaning
from authorizer.node.metadata_warning import MetadataWarning
from authorizer.node.metrics import MetricSources, NodeCollector, metrics_registry
from authorizer.node.recent_states import RecentStates
from authorizer.node.reconfiguration import Reconfiguration
from authorizer.node.standard_authorizer import StandardAuthorizer
from authorizer.node.writing.acl_mutator import NOT_CONTROLLER, LogAclMutator
from records.errors import LogError, LogReadOnlyError, LogStorageError, LogUnreachableError
from records.log.open import DIRECTORY, kind_of, open_log
from replay.backoff import Backoff
from replay.clock import SystemClock
from replay.fault_handler import LoggingFaultHandler
from replay.loader import Loader
from replay.snapshot_generator import SnapshotGenerator
from replay.snapshot_source import CheckpointFiles, SnapshotSource, StoredSnapshots
from snapshot.digest import digest_to_string
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from prometheus_client import CollectorRegistry

    from authorizer.analysis.plan import PlanMutator
    from authorizer.api.authorizer_api import Endpoint
    from authorizer.node.writing.remote_writer import RemoteWriter
    from records.log.base import Freshness, LogIdentity, MetadataLog
    from replay.clock import Clock
    from replay.publisher import Publisher
    from replay.status import LoaderStatus
    from snapshot.metadata_image import MetadataImage

#: Publishers whose failure leaves every decision right.
_HARMLESS: Final = (
    SnapshotGenerator.name,
    LogAclMutator.name,
    RecentStates.name,
    ChangeFeed.name,
    MetadataWarning.name,
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One moment of a node: what /v1/state, /readyz and the command line show.

    Attributes:
        identity: which log it follows; None until its cluster has answered.
        log_url: where that is.
        end_offset: last applied offset + 1.
        epoch: leader epoch of the last applied batch.
        high_watermark: of the log when last looked at; None before the first look.
        uncommitted_from: from here on the last whole batch is taken for the last committed one (a broker's
            files); None: nowhere.
        lag_records: high watermark - end offset; None before the first look.
        lag_ms: for how long the node has not been known to be up to date; 0 when it is.
        freshness: how old the log's own answers may be; None where each look is one at its cluster.
        ready: whether decisions may be trusted.
        not_ready_reason: why not, for people; None when ready.
        acl_count: ACLs in force, by id.
        digest: of them, 32 hexadecimal digits (I12).
        writable: whether this node can create and remove ACLs.
    """

    identity: LogIdentity | None
    log_url: str
    end_offset: int
    epoch: int
    high_watermark: int | None
    uncommitted_from: int | None
    lag_records: int | None
    lag_ms: int
    freshness: Freshness | None
    ready: bool
    not_ready_reason: str | None
    acl_count: int
    digest: str
    writable: bool


class Node:
    """A running aclog; made by ``open``. All methods may be called from any thread.

    Attributes:
        config: its settings as they are now.
        reconfiguration: how they change while it runs.
        log: the metadata log.
        authorizer: decisions, listings and writes (KIP-504).
        recent: its states before the current one.
        meaning: the digest of what its ACLs mean, where it is asked for.
        changes: what changed, for who follows it.
        loader: replay; more publishers may be added to it.
        audit: where decisions are written down; its level may change while running.
        mutator: changes of ACLs, already authorized.
        collector: what it has counted.
        metrics: the same and the process's, for ``prometheus_client.generate_latest``.
    """

    def __init__(
        self,
        config: Config,
        log: MetadataLog,
        *,
        writable: bool,
        clock: Clock,
        audit: AuditLog | None,
        writer: RemoteWriter | None,
        reconfiguration: Reconfiguration | None,
    ) -> None:
        """Wire everything to an open log; nothing runs yet.

        Raises:
            ConfigError: a setting that the authorizer refuses.
            SnapshotError: the store's URL makes no sense.
        """
        self.config = config
        self.reconfiguration = reconfiguration or Reconfiguration(config)
        self.log = log
        self.audit = AuditLog(AUDIT_LEVELS[config.audit_level]) if audit is None else audit
        self._writable = writable if writer is None else writer.writable
        self._clock = clock
        self._closing = threading.Event()
        store = None if config.snapshot_store is None else SnapshotStore(config.snapshot_store)
        sources: list[SnapshotSource] = [] if store is None else [StoredSnapshots(store)]
        sources.append(CheckpointFiles(log))
        self._mutator = LogAclMutator(
            log,
            timeout_ms=config.acl_update_timeout_ms,
            clock=clock,
            refusal=None if writable else _refusal(log),
            kafka_version=config.kafka_version,
            max_removed_percent=config.plan_max_removed_percent,
        )
        self.mutator: PlanMutator = self._mutator if writer is None else writer
        self.authorizer = StandardAuthorizer(
            audit=self.audit,
            mutator=self.mutator,
            of_brokers=log.is_cluster_metadata_log and config.broker_log is None,
        )
        self.authorizer.configure(config.properties)
        self.recent = RecentStates(self.authorizer)
        self.meaning = NodeMeaning(self.authorizer)
        self.changes = ChangeFeed()
        publishers: list[Publisher] = [
            self.authorizer,
            self.recent,
            self.changes,
            self._mutator,
            MetadataWarning(),
        ]
        generator = None
        if store is not None and writer is None:
            generator = SnapshotGenerator(
                store,
                keep=config.snapshot_keep,
                bytes_between=config.snapshot_max_bytes,
                interval_ms=config.snapshot_max_age_ms,
                clock=clock,
            )
            publishers.append(generator)
        self.loader = Loader(
            log,
            sources,
            publishers,
            fault_handler=LoggingFaultHandler(harmless=_HARMLESS),
            clock=clock,
            on_settled=self._mutator.settled,
        )
        self.collector = NodeCollector(
            MetricSources(
                status=self.loader.status,
                freshness=log.freshness,
                is_ready=lambda: self.status().ready,
                metadata=lambda: self.metadata,
                decisions=self.authorizer.metrics,
                purgatory=self._mutator.purgatory,
                loader=self.loader.metrics,
                snapshots=None if generator is None else generator.metrics,
                clock=clock,
            )
        )
        self.metrics: CollectorRegistry = metrics_registry(self.collector, self.audit)
        if writer is not None:
            writer.visible = self.visible
        # Last: to open the log may have taken its time, and they may have changed meanwhile.
        self.reconfiguration.add(self._take, config)

    @classmethod
    def open(
        cls,
        config: Config,
        *,
        clock: Clock | None = None,
        lazily: bool = False,
        audit: AuditLog | None = None,
        writer: RemoteWriter | None = None,
        reconfiguration: Reconfiguration | None = None,
    ) -> Self:
        """Open the log that the configuration names and wire everything to it.

        Args:
            config: what is wanted.
            clock: by default the machine's.
            lazily: do not wait for a topic's cluster; ``reach`` does, and says whether this is a log.
            audit: by default one that writes to the logger ``kafka.authorizer.logger``.
            writer: another process that writes the log for this node, and keeps the snapshots; by default
                this node does both.
            reconfiguration: of ``config``, where others have it, too.

        Raises:
            ConfigError: no log is named, or a setting is refused.
            LogError: there is no log, it is locked, damaged, or not to be had (see records.errors).
            SnapshotError: the snapshot store's URL makes no sense.
        """
        if writer is not None:
            config = config.with_value(Config.log_mode, "read")
        log, writable = _open_log(config, lazily=lazily)
        with ExitStack() as on_failure:
            on_failure.callback(log.close)
            node = cls(
                config,
                log,
                writable=writable,
                clock=clock or SystemClock(),
                audit=audit,
                writer=writer,
                reconfiguration=reconfiguration,
            )
            on_failure.pop_all()
        return node

    def start(self, server_info: AuthorizerServerInfo | None = None) -> Mapping[Endpoint, Future[None]]:
        """Begin to replay. Call once.

        Args:
            server_info: where the server listens; by default what the configuration says.

        Returns:
            For each endpoint, when it may accept (KIP-504): early-start listeners at once.
        """
        if server_info is None:
            identity = self._identity()
            server_info = AuthorizerServerInfo(
                cluster_id=None if identity is None else identity.cluster_id,
                broker_id=self.config.node_id,
                endpoints=self.config.listeners,
                early_start_listeners=self.config.early_start_listeners,
            )
        for warning in unknown_settings(self.authorizer.state.settings):
            _log.warning("brokers_setting_unknown", reason=warning)
        futures = self.authorizer.start(server_info)
        self.loader.start()
        return futures

    def reach(self) -> None:
        """Block until the log's cluster has answered, or the node is closed.

        Raises:
            LogError: it answered, and does not let us in, or there is no such log; trying again is no use.
        """
        backoff = Backoff()
        while not self._closing.is_set():
            try:
                self.log.connect()
            except LogUnreachableError:
                self._closing.wait(backoff.next_s())
            except LogError:
                if not self._closing.is_set():
                    raise
            else:
                return

    def status(self) -> NodeStatus:
        """Where the node stands; cheap."""
        status, freshness = self.loader.status(), self.log.freshness()
        reason = status.reason or self._lag_reason(status) or self._age_reason(freshness)
        return NodeStatus(
            identity=self._identity(),
            log_url=self.log.url,
            end_offset=status.end_offset or 0,
            epoch=status.epoch,
            high_watermark=status.high_watermark,
            uncommitted_from=self.log.uncommitted_from,
            lag_records=status.lag_records,
            lag_ms=status.lag_ms,
            freshness=freshness,
            ready=reason is None,
            not_ready_reason=reason,
            acl_count=status.acl_count,
            digest=digest_to_string(status.digest),
            writable=self._writable,
        )

    @property
    def refusal(self) -> str | None:
        """Why it changes no ACLs, and the way out; None where it does."""
        return None if self._writable else _refusal(self.log)

    @property
    def metadata(self) -> MetadataImage:
        """What else the log knows, as of the current state."""
        return self.authorizer.state.index.image.metadata

    def wait_for(self, end_offset: int, timeout_s: float) -> bool:
        """Block until everything below ``end_offset`` is visible here; False on timeout or close."""
        return self.loader.wait_for(end_offset, timeout_s)

    def visible(self, end_offset: int) -> Future[bool]:
        """Done when everything below ``end_offset`` is visible here (``Loader.visible``)."""
        return self.loader.visible(end_offset)

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Block until the first load is complete; False on timeout or close.

        Raises:
            AclogError: what keeps it from completing; the node goes on trying.
        """
        return self.loader.wait_until_ready(timeout_s)

    def close(self) -> None:
        """Fail what is pending, stop the threads, give the log back. Idempotent."""
        if not self._closing.is_set():
            self.reconfiguration.remove(self._take)
        self._closing.set()
        self.meaning.close()
        self._mutator.close()
        self.authorizer.close()
        self.loader.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _take(self, config: Config) -> None:
        """New values of dynamic keys; decisions see those of the authorizer in one swap."""
        settings, level = self.authorizer.state.settings, self.config.audit_level
        self.config = config
        self.authorizer.reconfigure(config.properties)
        if self.authorizer.state.settings != settings:
            # Who remembers decisions is to forget them.
            self.changes.restart()
        if config.audit_level != level:
            self.audit.set_level(AUDIT_LEVELS[config.audit_level])

    def _identity(self) -> LogIdentity | None:
        try:
            return self.log.identity
        except LogUnreachableError:
            return None

    def _lag_reason(self, status: LoaderStatus) -> str | None:
        """Why a node that may decide reports itself not ready all the same: it is too far behind."""
        allowed_ms = self.config.max_lag_ms
        if not allowed_ms or status.lag_ms <= allowed_ms:
            return None
        return (
            f"behind its log for {status.lag_ms} ms, and aclog.max.lag.ms is {allowed_ms}"
            f"{'' if status.error is None else f': {status.error}'}"
        )

    def _age_reason(self, freshness: Freshness | None) -> str | None:
        """The same where its cluster has not answered for too long."""
        allowed_ms = self.config.max_lag_ms
        if freshness is None or freshness.age_ms is None or not allowed_ms or freshness.age_ms <= allowed_ms:
            return None
        return (
            f"its cluster has not answered for {freshness.age_ms} ms, and aclog.max.lag.ms is {allowed_ms}"
            f"{'' if freshness.error is None else f': {freshness.error}'}"
        )


def _open_log(config: Config, *, lazily: bool) -> tuple[MetadataLog, bool]:
    """The log, and whether this node writes to it."""
    url, log_mode = config.require_log_url(), config.log_mode
    if config.log_url is None:
        if log_mode in ("write", "create"):
            raise ConfigError(LOG_MODE, log_mode, f"`read` for a broker's log; {LOG_URL} names another one")
        log_mode = "read"
    opened = partial(open_log, url, client=config.kafka, lazily=lazily)
    if log_mode == "read":
        return opened(mode="read"), False
    try:
        return opened(mode="create" if log_mode == "create" else "write"), True
    except LogReadOnlyError:
        if log_mode != "auto":
            raise
        return opened(mode="read"), False
    except LogStorageError as error:
        if not _can_be_read(url):
            raise
        variable = BY_NAME[LOG_MODE].variable
        raise LogStorageError(
            f"{error}. To serve it without writing, set {LOG_MODE}=read (or {variable}=read)"
        ) from error.__cause__


def _can_be_read(url: str) -> bool:
    """Whether it is a directory that only writing fails on: a full or read-only disk."""
    if kind_of(url) != DIRECTORY:
        return False
    try:
        open_log(url, mode="read").close()
    except LogError:
        return False
    return True


def _refusal(log: MetadataLog) -> str:
    """What a node that cannot write answers to a write: why, and the way out."""
    if log.is_read_only:
        why = (
            f"`{log.url}` has what a cluster's brokers have: change its ACLs with kafka-acls, on it, "
            "or follow its controllers (kraft://HOST:PORT), which are asked to"
        )
    else:
        who = "another node" if log.is_shared else "the node that owns it"
        why = f"`{log.url}` is open for reading: write through {who}, or set {LOG_MODE}=write"
    return f"{NOT_CONTROLLER} {why}."
