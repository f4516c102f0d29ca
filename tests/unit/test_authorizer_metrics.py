"""Metrics for Prometheus: names, values, and rates as in a broker's MBean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from authorizer.api.audit_levels import OFF
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.decision import DecisionCounts
from authorizer.node.metrics import MetricSources, NodeCollector, RatePerMinute, metrics_registry
from authorizer.node.writing.purgatory import DelayedOperation, Purgatory
from records.entries import METADATA_VERSION_FEATURE as VERSION
from records.entries import FeatureLevelRecord, TopicRecord
from records.log.base import Freshness
from replay.core import Phase
from replay.status import LoaderMetrics, LoaderStatus, SnapshotMetrics
from snapshot.metadata_image import MetadataImage
from support.snapshots import TOPIC_ID, replayed
from support.strategies import OTHER_RECORDS


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def now_ms(self) -> int:
        return int(self.s * 1000)

    def monotonic_s(self) -> float:
        return self.s


class ShownMetrics:
    """A registry of counters that the test sets."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.decisions = DecisionCounts()
        self.loader = LoaderMetrics()
        self.snapshots: SnapshotMetrics | None = SnapshotMetrics()
        self.purgatory = Purgatory(self.clock)
        self.freshness: Freshness | None = None
        self.ready = True
        self.metadata = MetadataImage.EMPTY
        self.status = LoaderStatus(
            identity=None,
            end_offset=8,
            epoch=1,
            acl_count=3,
            digest=7,
            phase=Phase.FOLLOWING,
            position=8,
            high_watermark=10,
            lag_records=2,
            lag_ms=40,
            ready=True,
            reason=None,
            error=None,
        )

    def registry(self) -> CollectorRegistry:
        sources = MetricSources(
            status=lambda: self.status,
            freshness=lambda: self.freshness,
            is_ready=lambda: self.ready,
            metadata=lambda: self.metadata,
            decisions=self.decisions,
            purgatory=self.purgatory,
            loader=self.loader,
            snapshots=self.snapshots,
            clock=self.clock,
        )
        return metrics_registry(NodeCollector(sources), AuditLog(OFF))


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Values by name and labels, without the metrics of the process."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


PLUGIN = "class=StandardAuthorizer,config=authorizer.class.name,role=broker"
PURGATORY = "delayedOperation=acl-update"


def test_the_page_has_every_name_and_value() -> None:
    """The complete page: aclog's names, Kafka's purgatory gauges, KIP-801's count, KIP-877's attributes."""
    shown = ShownMetrics()
    counts = shown.decisions
    counts.super_user_allowed, counts.acl_allowed, counts.default_allowed = 1, 2, 3
    counts.acl_denied, counts.default_denied, counts.not_ready = 1, 2, 1
    shown.loader.apply_errors, shown.loader.gaps, shown.loader.reloads = 1, 2, 3
    shown.loader.fold.replaced, shown.loader.fold.repeated, shown.loader.fold.unknown_removals = 4, 5, 6
    shown.snapshots = SnapshotMetrics(
        written=2, failed=1, last_end_offset=8, last_write_ms=1.5, last_written_ms=1_700_000_000_500
    )
    image = replayed([*OTHER_RECORDS[:5], TopicRecord(2, 0, TOPIC_ID, "t"), FeatureLevelRecord(VERSION, 34)])
    shown.metadata = image.metadata
    shown.freshness = Freshness(age_ms=9, refresh_ms=100, polls=7, failures=2, error=None)
    operation = DelayedOperation([], lambda _: None)
    assert shown.purgatory.watch(operation, 60.0)
    registry = shown.registry()
    shown.clock.s += 30.0
    found = samples(registry)
    shown.purgatory.close()
    expected = {
        "aclog_acls_total": 3,
        "kafka_server_authorizer_aclcount": 3,
        f"kafka_server_plugins_acls_total_count{{{PLUGIN}}}": 3,
        f"kafka_server_plugins_authorization_request_rate_per_minute{{{PLUGIN}}}": 18,
        f"kafka_server_plugins_authorization_allowed_rate_per_minute{{{PLUGIN}}}": 12,
        f"kafka_server_plugins_authorization_denied_rate_per_minute{{{PLUGIN}}}": 6,
        "aclog_authorizations_total{result=allowed,rule=SuperUser}": 1,
        "aclog_authorizations_total{result=allowed,rule=MatchingAcl}": 2,
        "aclog_authorizations_total{result=allowed,rule=DefaultAllow}": 3,
        "aclog_authorizations_total{result=denied,rule=MatchingAcl}": 1,
        "aclog_authorizations_total{result=denied,rule=DefaultDeny}": 2,
        "aclog_authorizations_total{result=not_ready,rule=}": 1,
        "aclog_applied_offset": 7,
        "aclog_lag_records": 2,
        "aclog_lag_ms": 40,
        "aclog_poll_age_ms": 9,
        "aclog_polls_total{result=answered}": 7,
        "aclog_polls_total{result=failed}": 2,
        "aclog_ready": 1,
        "aclog_metadata_entries{kind=topics}": 1,
        "aclog_metadata_entries{kind=scram_users}": 0,
        "aclog_metadata_unread_records{type=PARTITION_RECORD,version=3}": 1,
        "aclog_metadata_unread_records{type=TOPIC_RECORD,version=0}": 1,
        "aclog_metadata_unread_records{type=UNKNOWN_RECORD_TYPE_99,version=1}": 1,
        "aclog_metadata_feature_level{feature=metadata.version}": 34,
        "aclog_metadata_version_is_newer": 1,
        "aclog_apply_errors_total": 1,
        "aclog_gaps_total": 2,
        "aclog_reloads_total": 3,
        "aclog_replay_records_total{effect=replaced}": 4,
        "aclog_replay_records_total{effect=repeated}": 5,
        "aclog_replay_records_total{effect=unknown_removals}": 6,
        "aclog_snapshots_written_total": 2,
        "aclog_snapshot_failures_total": 1,
        "aclog_snapshot_end_offset": 8,
        "aclog_snapshot_write_ms": 1.5,
        "aclog_snapshot_written_timestamp_seconds": 1_700_000_000.5,
        f"kafka_server_delayedoperationpurgatory_numdelayedoperations{{{PURGATORY}}}": 1,
        f"kafka_server_delayedoperationpurgatory_purgatorysize{{{PURGATORY}}}": 1,
    }
    assert {name: found[name] for name in expected} == expected
    assert any(name.startswith("process_") for name in found)


def test_a_log_without_other_metadata_has_no_version() -> None:
    found = samples(ShownMetrics().registry())
    assert (found["aclog_metadata_entries{kind=topics}"], found["aclog_metadata_version_is_newer"]) == (0, 0)
    assert not [name for name in found if name.startswith("aclog_metadata_feature_level")]


def test_a_node_before_its_load_shows_no_false_numbers() -> None:
    """Not ready, no offset, no lag, and no snapshot metrics without a store."""
    shown = ShownMetrics()
    shown.ready, shown.snapshots = False, None
    shown.status = replace(
        shown.status, end_offset=None, high_watermark=None, lag_records=None, acl_count=0, ready=False
    )
    found = samples(shown.registry())
    assert (found["aclog_ready"], found["aclog_applied_offset"], found["aclog_acls_total"]) == (0, -1, 0)
    assert "aclog_lag_records" not in found
    assert not any(name.startswith(("aclog_snapshot_", "aclog_poll")) for name in found)


def test_nodes_have_separate_registries() -> None:
    """Two nodes in one process, or the library in another program, do not share a registry."""
    first, second = ShownMetrics(), ShownMetrics()
    first.status = replace(first.status, acl_count=1)
    registries = first.registry(), second.registry()
    assert [samples(each)["aclog_acls_total"] for each in registries] == [1, 3]


@pytest.mark.parametrize("interval_s", [1.0, 5.0, 15.0, 60.0, 90.0])
def test_rates_are_right_at_any_scrape_interval(interval_s: float) -> None:
    """Ten a second are 600 a minute at any scrape interval."""
    rate = RatePerMinute(0.0)
    for scrape in range(1, 100):
        now_s = scrape * interval_s
        assert rate.sample(round(now_s * 10), now_s) == pytest.approx(600.0)


def test_a_rate_forgets_what_is_older_than_a_minute() -> None:
    """A burst does not count two minutes later, and many scrapes store few samples."""
    rate = RatePerMinute(0.0)
    assert rate.sample(1000, 60.0) == pytest.approx(1000.0)
    later = [rate.sample(1000, 60.0 + tenth / 10) for tenth in range(1, 1300)]
    assert later[-1] == 0.0
    assert len(rate._samples) < 70
