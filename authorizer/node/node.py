"""Node: the composition root. It opens a log and a snapshot store, and wires replay, decisions and writes.

    log ------> Loader --> StandardAuthorizer, RecentStates, ChangeFeed, LogAclMutator, SnapshotGenerator
     ^            ^                                                           |           (in this order)
     |            +--- snapshots: store, .checkpoint files beside a broker's log
     +--- appends, by LogAclMutator

``open`` opens files and locks; ``start`` starts threads; ``close`` undoes both, in the reverse order. A node
that was opened lazily may be started while its log's cluster is down: it is not ready, reports the reason
and retries (Backoff); ``connect`` waits for the cluster.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import structlog

from authorizer.api.audit_levels import AUDIT_LEVELS
from authorizer.api.authorizer_api import AuthorizerServerInfo, Endpoint
from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import LOG_MODE, LOG_URL
from authorizer.configuration.keys.table import BY_NAME
from authorizer.configuration.load import Config
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.notes import unknown_settings
from authorizer.node.change_feed import ChangeFeed
from authorizer.node.effective_permissions_digest import NodePermissionsDigest
from authorizer.node.metadata_warning import MetadataWarning
from authorizer.node.metrics import MetricSources, NodeCollector, metrics_registry
from authorizer.node.recent_states import RecentStates
from authorizer.node.reconfiguration import Reconfiguration
from authorizer.node.standard_authorizer import StandardAuthorizer
from authorizer.node.writing.acl_mutator import NOT_CONTROLLER, LogAclMutator, RemoteWriter
from records.errors import LogError, LogReadOnlyError, LogStorageError, LogUnreachableError
from records.log.open import open_log
from records.log.url import DIRECTORY, kind_of
from replay.clock import Backoff, Clock, SystemClock
from replay.loader import Loader
from replay.publishers import FaultHandler
from replay.snapshot_generator import SnapshotGenerator
from replay.snapshot_source import CheckpointFiles, SnapshotSource, StoredSnapshots
from snapshot.digest import digest_to_string

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from prometheus_client import CollectorRegistry

    from authorizer.analysis.plans.plan import PlanMutator
    from records.log.base import Freshness, LogIdentity, MetadataLog
    from replay.publishers import Publisher
    from replay.status import LoaderStatus
    from snapshot.metadata_image import MetadataImage
    from snapshot.store.snapshot_store import SnapshotStore

#: Publishers whose failure does not affect decisions.
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
    """Status of a node, for /v1/state, /readyz and the command line.

    Attributes:
        identity: of the log that the state is of; before the first load of the log itself, and None until its
            cluster has answered.
        high_watermark: of the log at the last poll; None before the first poll.
        uncommitted_from: from this offset on the last complete batch counts as the last committed one (files
            of a broker); None: nowhere.
        lag_records: high watermark - end offset; None before the first poll.
        lag_ms: time since the node was last known to be up to date; 0 if it is.
        freshness: age of the log's data; None if each poll queries the cluster.
        ready: whether decisions may be trusted.
        digest: of these ACLs, 32 hexadecimal digits (I12).
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
    """A running node; ``open`` returns one. Thread-safe.

    Attributes:
        authorizer: decisions, listings and writes (KIP-504).
        permissions_digest: digest of the effective permissions, computed on request.
        loader: replay; publishers may be added to it.
        mutator: changes of ACLs, without authorization.
        metrics: metrics of the node and the process, for ``prometheus_client.generate_latest``.
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
        """Wire everything to an open log; no thread runs yet. ConfigError, SnapshotError as ``open``."""
        self.config = config
        self.reconfiguration = reconfiguration or Reconfiguration(config)
        self.log = log
        self.audit = AuditLog(AUDIT_LEVELS[config.audit_level]) if audit is None else audit
        self._writable = writable if writer is None else writer.writable
        self._clock = clock
        self._closing = threading.Event()
        store: SnapshotStore | None = None
        if config.snapshot_store is not None:
            from snapshot.store.snapshot_store import SnapshotStore  # noqa: PLC0415 - loads Arrow and fsspec

            store = SnapshotStore(config.snapshot_store)
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
        self.recent_states = RecentStates(self.authorizer)
        self.permissions_digest = NodePermissionsDigest(self.authorizer)
        self.changes = ChangeFeed()
        publishers: list[Publisher] = [
            self.authorizer,
            self.recent_states,
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
            fault_handler=FaultHandler(harmless=_HARMLESS),
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
        # Last: the settings may have changed while the log was opened.
        self.reconfiguration.subscribe(self._apply_settings, config)

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
        """Open the configured log and wire everything to it.

        ``lazily``: do not wait for a topic's cluster; ``connect`` does, and checks that the topic is a log.
        ``writer``: another process that writes the log and the snapshots for this node; by default the node
        does both. ``reconfiguration``: of ``config``, if other components share it.

        Raises:
            ConfigError: no log is configured, or a setting is refused.
            LogError: the log does not exist, is locked, damaged or unreachable (see records.errors).
            SnapshotError: the snapshot store's URL is invalid.
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
        """Start to replay. Call once.

        Returns for each endpoint of ``server_info`` (by default the configuration's) a future that is done
        when it may accept connections (KIP-504).
        """
        if server_info is None:
            identity = self._identity()
            server_info = AuthorizerServerInfo(
                cluster_id=None if identity is None else identity.cluster_id,
                broker_id=self.config.node_id,
                endpoints=(*self.config.listeners, *self.config.admin_listeners),
                early_start_listeners=self.config.early_start_listeners,
            )
        for warning in unknown_settings(self.authorizer.state.settings):
            _log.warning("brokers_setting_unknown", reason=warning)
        if keys := self.config.unused_client_keys:
            _log.warning("client_keys_without_effect", file=self.config.command_config, keys=list(keys))
        futures = self.authorizer.start(server_info)
        self.loader.start()
        return futures

    def connect(self) -> None:
        """Block until the log's cluster has answered, or the node is closed.

        LogError: the cluster refuses access, or has no such log; a retry is useless.
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
        status, freshness = self.loader.status(), self.log.freshness()
        reason = status.reason or self._lag_reason(status) or self._age_reason(freshness)
        return NodeStatus(
            identity=status.identity or self._identity(),
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
        """Why this node cannot change ACLs, and what to do; None if it can."""
        return None if self._writable else _refusal(self.log)

    @property
    def metadata(self) -> MetadataImage:
        """The metadata of the current state, other than ACLs."""
        return self.authorizer.state.index.image.metadata

    def wait_for(self, end_offset: int, timeout_s: float) -> bool:
        """Block until everything below ``end_offset`` is visible here; False on timeout or close."""
        return self.loader.wait_for(end_offset, timeout_s)

    def visible(self, end_offset: int) -> Future[bool]:
        """Return a future that is done when everything below ``end_offset`` is visible here."""
        return self.loader.visible(end_offset)

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Block until the first load is complete; False on timeout or close.

        AclogError: the reason why it does not complete; the node continues to retry.
        """
        return self.loader.wait_until_ready(timeout_s)

    def close(self) -> None:
        """Fail pending operations, stop the threads, close the log. Idempotent."""
        if not self._closing.is_set():
            self.reconfiguration.unsubscribe(self._apply_settings)
        self._closing.set()
        self.permissions_digest.close()
        self._mutator.close()
        self.authorizer.close()
        self.loader.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _apply_settings(self, config: Config) -> None:
        """Apply new values of dynamic keys; decisions see those of the authorizer atomically."""
        settings, level = self.authorizer.state.settings, self.config.audit_level
        self.config = config
        self.authorizer.reconfigure(config.properties)
        if self.authorizer.state.settings != settings:
            # Clients must drop their cached decisions.
            self.changes.restart()
        if config.audit_level != level:
            self.audit.set_level(AUDIT_LEVELS[config.audit_level])

    def _identity(self) -> LogIdentity | None:
        try:
            return self.log.identity
        except LogUnreachableError:
            return None

    def _lag_reason(self, status: LoaderStatus) -> str | None:
        """Return the reason of a node that is too far behind its log."""
        allowed_ms = self.config.max_lag_ms
        if not allowed_ms or status.lag_ms <= allowed_ms:
            return None
        return (
            f"behind its log for {status.lag_ms} ms, and aclog.max.lag.ms is {allowed_ms}"
            f"{'' if status.error is None else f': {status.error}'}"
        )

    def _age_reason(self, freshness: Freshness | None) -> str | None:
        """Return the reason of a node whose cluster has not answered for too long."""
        allowed_ms = self.config.max_lag_ms
        if freshness is None or freshness.age_ms is None or not allowed_ms or freshness.age_ms <= allowed_ms:
            return None
        return (
            f"its cluster has not answered for {freshness.age_ms} ms, and aclog.max.lag.ms is {allowed_ms}"
            f"{'' if freshness.error is None else f': {freshness.error}'}"
        )


def _open_log(config: Config, *, lazily: bool) -> tuple[MetadataLog, bool]:
    """Open the log; return it and whether this node writes to it."""
    url, log_mode = config.require_log_url(), config.log_mode
    if config.log_url is None:
        if log_mode in ("write", "create"):
            raise ConfigError(LOG_MODE, log_mode, f"`read` for a broker's log; {LOG_URL} names another one")
        log_mode = "read"
    open_in_mode = partial(open_log, url, client=config.kafka, lazily=lazily)
    if log_mode == "read":
        return open_in_mode(mode="read"), False
    try:
        return open_in_mode(mode="create" if log_mode == "create" else "write"), True
    except LogReadOnlyError:
        if log_mode != "auto":
            raise
        return open_in_mode(mode="read"), False
    except LogStorageError as error:
        if not _can_be_read(url):
            raise
        variable = BY_NAME[LOG_MODE].variable
        raise LogStorageError(
            f"{error}. To serve it without writing, set {LOG_MODE}=read (or {variable}=read)"
        ) from error.__cause__


def _can_be_read(url: str) -> bool:
    """Whether the log is a directory that can be read but not written: a full or read-only disk."""
    if kind_of(url) != DIRECTORY:
        return False
    try:
        open_log(url, mode="read").close()
    except LogError:
        return False
    return True


def _refusal(log: MetadataLog) -> str:
    """Return the answer of a read-only node to a write: why, and what to do."""
    if log.is_read_only:
        why = (
            f"`{log.url}` has what a cluster's brokers have: change its ACLs with kafka-acls, on it, "
            "or follow its controllers (kraft://HOST:PORT), which are asked to"
        )
    else:
        who = "another node" if log.is_shared else "the node that owns it"
        why = f"`{log.url}` is open for reading: write through {who}, or set {LOG_MODE}=write"
    return f"{NOT_CONTROLLER} {why}."
