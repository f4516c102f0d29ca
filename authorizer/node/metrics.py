"""Prometheus metrics of a node, collected at each scrape from the layers' counters.

Names: aclog's own; Kafka's purgatory gauges (KIP-504); KIP-801's AclCount; and the four attributes that a
broker's authorizer has since KIP-877 (``kafka.server:type=plugins``), as the JMX exporter spells them. Its
rates are per minute over the last minute; here they are measured between scrapes.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Metric, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from authorizer.node.cluster_metadata_report import entries, newer_version, unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from authorizer.engine.decisions.audit import AuditLog
    from authorizer.engine.decisions.decision import DecisionCounts
    from authorizer.node.writing.purgatory import Purgatory
    from records.log.base import Freshness
    from replay.clock import Clock
    from replay.status import LoaderMetrics, LoaderStatus, SnapshotMetrics
    from snapshot.metadata_image import MetadataImage

#: KIP-504's name of this purgatory.
PURGATORY: Final = {"delayedOperation": "acl-update"}
#: The tags of KIP-877's MBean.
PLUGIN: Final = {"config": "authorizer.class.name", "class": "StandardAuthorizer", "role": "broker"}

_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """The layers' counters and the node's status."""

    status: Callable[[], LoaderStatus]
    freshness: Callable[[], Freshness | None]
    is_ready: Callable[[], bool]
    metadata: Callable[[], MetadataImage]
    decisions: DecisionCounts
    purgatory: Purgatory
    loader: LoaderMetrics
    snapshots: SnapshotMetrics | None
    clock: Clock


def metrics_registry(nodes: Collector, audit: AuditLog) -> CollectorRegistry:
    """Return a new registry with the node or nodes, their shared metrics, the process and the interpreter."""
    registry = CollectorRegistry()
    registry.register(SharedCollector(audit))
    registry.register(nodes)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


class RatePerMinute:
    """Growth of a total per minute, over about the last minute. Not thread-safe."""

    def __init__(self, now_s: float) -> None:
        self._samples: deque[tuple[float, int]] = deque([(now_s, 0)])

    def sample(self, total: int, now_s: float) -> float:
        """Add a sample; return the growth per minute since the newest minute-old sample, or the first."""
        samples = self._samples
        while len(samples) > 1 and now_s - samples[1][0] >= _MINUTE_S:
            samples.popleft()
        since_s, before = samples[0]
        # Frequent scrapes must not grow the memory.
        if now_s - samples[-1][0] >= 1:
            samples.append((now_s, total))
        return (total - before) * _MINUTE_S / (now_s - since_s) if now_s > since_s else 0.0


class SharedCollector(Collector):
    """Metrics that all nodes of a process share."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def collect(self) -> Iterator[Metric]:
        from importlib.metadata import version  # noqa: PLC0415 - 7 % of the time to import a node

        yield _gauge("aclog_build_info", "The running version.", 1, {"version": version("aclog")})
        audit = self._audit
        yield _counter("aclog_audit_failures", "Audit lines that could not be written.", audit.failures)
        yield _counter("aclog_audit_lost", "Audit lines left out because too many waited.", audit.lost)


class NodeCollector(Collector):
    """Metrics of one node."""

    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        now_s = sources.clock.monotonic_s()
        self._requests, self._allowed, self._denied = (RatePerMinute(now_s) for _ in range(3))

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not collect; names are unique in this registry."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._state()
        yield from self._metadata()
        yield from self._decisions()
        yield from self._replay()
        yield from self._snapshots()
        yield from self._writes()

    def _state(self) -> Iterator[Metric]:
        status = self._sources.status()
        yield _gauge("aclog_acls_total", "ACLs in force, by id.", status.acl_count)
        yield _gauge(
            "kafka_server_authorizer_aclcount", "ACLs in force (KIP-801 AclCount).", status.acl_count
        )
        yield _gauge("kafka_server_plugins_acls_total_count", "ACLs in force.", status.acl_count, PLUGIN)
        yield _gauge("aclog_ready", "1 if decisions may be trusted.", int(self._sources.is_ready()))
        yield _gauge(
            "aclog_applied_offset", "Last offset of the log that was applied.", (status.end_offset or 0) - 1
        )
        if status.lag_records is not None:
            yield _gauge("aclog_lag_records", "Records of the log still to apply.", status.lag_records)
        yield _gauge("aclog_lag_ms", "For how long the node has been behind its log.", status.lag_ms)
        freshness = self._sources.freshness()
        if freshness is not None:
            if freshness.age_ms is not None:
                yield _gauge(
                    "aclog_poll_age_ms", "For how long a polled cluster has not answered.", freshness.age_ms
                )
            polls = CounterMetricFamily("aclog_polls", "Polls of a cluster.", labels=["result"])
            polls.add_metric(["answered"], freshness.polls)
            polls.add_metric(["failed"], freshness.failures)
            yield polls

    def _metadata(self) -> Iterator[Metric]:
        metadata = self._sources.metadata()
        known = GaugeMetricFamily(
            "aclog_metadata_entries", "What else the log knows, by kind.", labels=["kind"]
        )
        for kind, count in entries(metadata).items():
            known.add_metric([kind], count)
        yield known
        passed = GaugeMetricFamily(
            "aclog_metadata_unread_records",
            "Records of other types that are newer than this build, or damaged.",
            labels=["type", "version"],
        )
        for (record_type, record_version), count in unread(metadata).items():
            passed.add_metric([record_type, str(record_version)], count)
        yield passed
        levels = GaugeMetricFamily(
            "aclog_metadata_feature_level", "Levels of the features of the log's cluster.", labels=["feature"]
        )
        for feature, level in metadata.features.items():
            levels.add_metric([feature], level)
        yield levels
        is_newer = newer_version(metadata) is not None
        yield _gauge(
            "aclog_metadata_version_is_newer",
            "1 if the log, or a broker of it, is of a newer Kafka than this build.",
            int(is_newer),
        )

    def _decisions(self) -> Iterator[Metric]:
        counts = self._sources.decisions
        allowed, denied = counts.allowed, counts.denied
        decisions = CounterMetricFamily(
            "aclog_authorizations", "Actions asked about.", labels=["result", "rule"]
        )
        for result, rule, count in (
            ("allowed", "SuperUser", counts.super_user_allowed),
            ("allowed", "MatchingAcl", counts.acl_allowed),
            ("allowed", "DefaultAllow", counts.default_allowed),
            ("denied", "MatchingAcl", counts.acl_denied),
            ("denied", "DefaultDeny", counts.default_denied),
            ("not_ready", "", counts.not_ready),
        ):
            decisions.add_metric([result, rule], count)
        yield decisions
        now_s = self._sources.clock.monotonic_s()
        with self._lock:
            rates = (
                ("request", self._requests.sample(allowed + denied, now_s)),
                ("allowed", self._allowed.sample(allowed, now_s)),
                ("denied", self._denied.sample(denied, now_s)),
            )
        for kind, rate in rates:
            name = f"kafka_server_plugins_authorization_{kind}_rate_per_minute"
            yield _gauge(name, "Actions decided per minute, over the last minute.", rate, PLUGIN)

    def _replay(self) -> Iterator[Metric]:
        loader = self._sources.loader
        fold = loader.fold
        records = CounterMetricFamily(
            "aclog_replay_records", "ACL records by what they did to the state.", labels=["effect"]
        )
        for effect in ("added", "removed", "replaced", "repeated", "unknown_removals", "ignored"):
            records.add_metric([effect], getattr(fold, effect))
        yield records
        for name, text, count in (
            ("aclog_apply_errors", "Records or batches that could not be applied.", loader.apply_errors),
            ("aclog_read_errors", "Reads of the log that failed.", loader.read_errors),
            ("aclog_replay_batches", "Batches applied.", loader.batches),
            ("aclog_replay_bytes", "Bytes of the batches applied.", loader.size_bytes),
            ("aclog_publishes", "States published.", loader.publishes),
            ("aclog_publisher_faults", "Updates that a publisher failed to take.", loader.publisher_faults),
            ("aclog_reloads", "States built anew.", loader.reloads),
            ("aclog_gaps", "Gaps seen in the offsets.", loader.gaps),
            ("aclog_offset_regressions", "Reloads that went back in offsets.", loader.offset_regressions),
            ("aclog_snapshots_loaded", "Loads that began at a snapshot.", loader.snapshots_loaded),
            ("aclog_snapshots_refused", "Snapshots that could not be used.", loader.snapshots_refused),
        ):
            yield _counter(name, text, count)
        yield _gauge("aclog_last_publish_ms", "Time the last state took.", loader.last_publish_ms)

    def _snapshots(self) -> Iterator[Metric]:
        snapshots = self._sources.snapshots
        if snapshots is None:
            return
        yield _counter("aclog_snapshots_written", "Snapshots written.", snapshots.written)
        yield _counter("aclog_snapshot_failures", "Snapshots that could not be written.", snapshots.failed)
        if snapshots.last_end_offset is not None:
            yield _gauge(
                "aclog_snapshot_end_offset", "End offset of the last one.", snapshots.last_end_offset
            )
            yield _gauge("aclog_snapshot_write_ms", "Time the last one took.", snapshots.last_write_ms)
            yield _gauge(
                "aclog_snapshot_written_timestamp_seconds",
                "When the last one was written.",
                snapshots.last_written_ms / 1000,
            )

    def _writes(self) -> Iterator[Metric]:
        purgatory = self._sources.purgatory
        name = "kafka_server_delayedoperationpurgatory"
        yield _gauge(
            f"{name}_numdelayedoperations",
            "ACL creations and removals that wait (KIP-504 NumDelayedOperations).",
            purgatory.num_delayed_operations,
            PURGATORY,
        )
        yield _gauge(
            f"{name}_purgatorysize",
            "ACL creations and removals that are watched (KIP-504 PurgatorySize).",
            purgatory.size,
            PURGATORY,
        )


def _gauge(name: str, text: str, value: float, labels: dict[str, str] | None = None) -> Metric:
    family = GaugeMetricFamily(name, text, labels=list(labels or {}))
    family.add_metric(list((labels or {}).values()), value)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family
