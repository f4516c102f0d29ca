"""Metrics of a job for Prometheus: Spark's progress of its query, and the counts."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from records.log.base import LogIdentity
from snapshot.fold import DeltaCounts
from snapshot.jobs.counts.count_rows import AclKind
from snapshot.jobs.counts.counts_job import AclCountMetric
from snapshot.jobs.planning.log_states import LogBacklog
from snapshot.jobs.running.job import BatchReport, LogReport
from snapshot.jobs.running.progress_metrics import LOGS_SHOWN, JobMetrics, QueryProgress
from snapshot.jobs.sources.logs import FollowedLog
from support.snapshots import TOPIC_ID
from support.spark_progress import RUN, progress

READ = AclKind("TOPIC", "LITERAL", "ALLOW", "READ")
WRITE = AclKind("TOPIC", "LITERAL", "ALLOW", "WRITE")

LOGS = (
    FollowedLog(url="/var/acls", identity=LogIdentity("dir", TOPIC_ID)),
    FollowedLog(url="kafka://b:9092/acls-x", identity=LogIdentity("x", TOPIC_ID), is_of_fleet=True),
    FollowedLog(url="kafka://b:9092/acls-y", identity=LogIdentity("y", TOPIC_ID), is_of_fleet=True),
)
#: Of BATCH.
TRIGGER_S = 1795222800.5


def ends(**offsets: int) -> tuple[str]:
    """The offsets of the query's source."""
    entries = {
        name: {"topicId": "dHR0dHR0dHR0dHR0dHR0dA", "offset": at, "epoch": 1} for name, at in offsets.items()
    }
    return (json.dumps(entries),)


BATCH = progress(
    ends(dir=45, x=7, y=0),
    ends(dir=50, x=7, y=3),
    durations_ms={"addBatch": 1500, "triggerExecution": 2000},
)


REPORT = BatchReport(
    batch_id=0,
    logs=tuple(
        LogReport(
            cluster_id=cluster_id,
            start=0,
            end=0,
            count=0,
            digest="",
            records=records,
            counts=DeltaCounts(),
            is_read_again=False,
        )
        for cluster_id, records in (("dir", 30), ("x", 10))
    ),
    elapsed_ms=1.0,
)


def report(**ends: int) -> BatchReport:
    """The logs of BATCH, which reached these ends."""
    logs = (replace(log, end=ends[log.cluster_id]) for log in REPORT.logs if log.cluster_id in ends)
    return replace(REPORT, logs=tuple(logs))


def watched(logs: Sequence[FollowedLog] = LOGS, now_s: float = TRIGGER_S) -> tuple[JobMetrics, QueryProgress]:
    """The metrics of one job at one time, and the progress of its query."""
    metrics = JobMetrics(logs, ["counts"], lambda: now_s)
    return metrics, metrics.queries["counts"]


def samples(*collectors: Collector) -> dict[str, float]:
    """By name and labels as they are written."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_every_name_and_value_after_a_batch() -> None:
    """The complete page: directories and topics by cluster, durations in seconds, no invalid rate."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.done(REPORT)
    query.progressed(BATCH)
    assert samples(metrics) == {
        "aclog_spark_query_active{spark_job=counts}": 1,
        "aclog_spark_failing_logs{spark_job=counts}": 0,
        "aclog_spark_batches_total{spark_job=counts}": 1,
        "aclog_spark_rows_total{spark_job=counts}": 40,
        "aclog_spark_last_trigger_timestamp_seconds{spark_job=counts}": 1795222800.5,
        "aclog_spark_batch_rows{spark_job=counts}": 40,
        "aclog_spark_input_rows_per_second{spark_job=counts}": 0,
        "aclog_spark_processed_rows_per_second{spark_job=counts}": 20,
        "aclog_spark_batch_duration_seconds{phase=addBatch,spark_job=counts}": 1.5,
        "aclog_spark_batch_duration_seconds{phase=triggerExecution,spark_job=counts}": 2,
        "aclog_spark_query_failures_total{spark_job=counts}": 0,
        "aclog_spark_publication_pending_seconds{spark_job=counts}": 0,
        "aclog_spark_deferred_changes{spark_job=counts}": 0,
        "aclog_spark_logs{spark_job=counts}": 3,
        "aclog_spark_logs_behind{spark_job=counts}": 2,
        "aclog_spark_total_lag_offsets{spark_job=counts}": 8,
        "aclog_spark_max_lag_seconds{spark_job=counts}": 0,
        "aclog_spark_lag_seconds{cluster_id=dir,spark_job=counts}": 0,
        "aclog_spark_lag_seconds{cluster_id=x,spark_job=counts}": 0,
        "aclog_spark_lag_seconds{cluster_id=y,spark_job=counts}": 0,
        "aclog_spark_end_offset{cluster_id=dir,spark_job=counts}": 45,
        "aclog_spark_end_offset{cluster_id=x,spark_job=counts}": 7,
        "aclog_spark_end_offset{cluster_id=y,spark_job=counts}": 0,
        "aclog_spark_lag_offsets{cluster_id=dir,spark_job=counts}": 5,
        "aclog_spark_lag_offsets{cluster_id=x,spark_job=counts}": 0,
        "aclog_spark_lag_offsets{cluster_id=y,spark_job=counts}": 3,
    }


def test_before_the_first_batch_there_are_no_false_numbers() -> None:
    """Neither an offset nor a lag is known, nor when Spark looked."""
    metrics, query = watched()
    nothing = {
        "aclog_spark_query_failures_total{spark_job=counts}": 0.0,
        "aclog_spark_publication_pending_seconds{spark_job=counts}": 0.0,
        "aclog_spark_deferred_changes{spark_job=counts}": 0.0,
        "aclog_spark_logs{spark_job=counts}": 3.0,
        "aclog_spark_query_active{spark_job=counts}": 0.0,
        "aclog_spark_failing_logs{spark_job=counts}": 0.0,
        "aclog_spark_batches_total{spark_job=counts}": 0.0,
        "aclog_spark_rows_total{spark_job=counts}": 0.0,
    }
    assert samples(metrics) == nothing
    query.started("counts", RUN)
    query.progressed(progress(("null",), (None,)))
    shown = {
        "aclog_spark_query_active{spark_job=counts}": 1.0,
        "aclog_spark_failing_logs{spark_job=counts}": 0.0,
        "aclog_spark_last_trigger_timestamp_seconds{spark_job=counts}": 1795222800.5,
    }
    assert samples(metrics) == nothing | shown


def test_a_poll_without_a_batch_keeps_the_values_of_the_last_batch() -> None:
    """The lag and the time of the look are of now, the rest is the batch's."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.done(REPORT)
    query.progressed(BATCH)
    before = samples(metrics)
    query.progressed(progress(ends(dir=45, x=7, y=0), ends(dir=45, x=7, y=9)))
    changed = {
        "aclog_spark_lag_offsets{cluster_id=dir,spark_job=counts}": 0,
        "aclog_spark_lag_offsets{cluster_id=y,spark_job=counts}": 9,
        "aclog_spark_logs_behind{spark_job=counts}": 1,
        "aclog_spark_total_lag_offsets{spark_job=counts}": 9,
    }
    assert samples(metrics) == before | changed
    query.idle(RUN, "2026-11-21T01:00:10Z")
    assert samples(metrics)["aclog_spark_last_trigger_timestamp_seconds{spark_job=counts}"] == 1795222810


def planned(query: QueryProgress, cluster_id: str, start: int, log_end: int, *times_s: float | None) -> None:
    """A batch of a log begins; the times are those of its first record, and of the first one after it."""
    oldest_ms, next_ms = (None if at_s is None else int(at_s * 1000) for at_s in times_s)
    backlog = LogBacklog(
        cluster_id=cluster_id, start=start, log_end=log_end, oldest_ms=oldest_ms, next_ms=next_ms
    )
    query.planned(backlog)


def lag_of(metrics: JobMetrics, cluster_id: str) -> tuple[float, float]:
    """In offsets and in seconds."""
    found, labels = samples(metrics), f"{{cluster_id={cluster_id},spark_job=counts}}"
    return found[f"aclog_spark_lag_offsets{labels}"], found[f"aclog_spark_lag_seconds{labels}"]


def test_lag_while_a_batch_runs_and_when_it_is_stored() -> None:
    """From its plan on, by the time of the oldest record that is not stored, also if the batch fails."""
    metrics, query = watched()
    query.started("counts", RUN)
    planned(query, "dir", 40, 60, TRIGGER_S - 100, TRIGGER_S - 30)
    assert lag_of(metrics, "dir") == (20, 100)
    query.failed()
    query.terminated(RUN)
    assert lag_of(metrics, "dir") == (20, 100)
    assert samples(metrics)["aclog_spark_query_failures_total{spark_job=counts}"] == 1
    query.started("counts", RUN)
    planned(query, "dir", 40, 60, TRIGGER_S - 100, TRIGGER_S - 30)
    query.done(report(dir=45))
    assert lag_of(metrics, "dir") == (15, 30)
    planned(query, "dir", 45, 60, TRIGGER_S - 30, None)
    # Spark reports the batch before, late.
    query.progressed(BATCH)
    assert lag_of(metrics, "dir") == (15, 30)
    query.done(report(dir=60))
    assert lag_of(metrics, "dir") == (0, 0)


def test_lag_of_records_whose_time_cannot_be_read_begins_when_it_is_seen() -> None:
    """A damaged record has no time, nor has a log that Spark reports without a batch."""
    now_s = TRIGGER_S
    metrics = JobMetrics(LOGS, ["counts"], lambda: now_s)
    query = metrics.queries["counts"]
    query.started("counts", RUN)
    planned(query, "dir", 40, 60, None, None)
    now_s += 50
    planned(query, "dir", 40, 60, None, None)
    assert lag_of(metrics, "dir") == (20, 50)
    query.progressed(BATCH)
    assert lag_of(metrics, "y") == (3, 50)


def test_many_logs_have_series_only_for_those_that_lag_most() -> None:
    names = [f"c{number:03}" for number in range(LOGS_SHOWN + 30)]
    logs = [FollowedLog(url=f"/var/{name}", identity=LogIdentity(name, TOPIC_ID)) for name in names]
    metrics, query = watched(logs)
    for number, name in enumerate(names):
        planned(query, name, 0, 0 if name == names[0] else 5, TRIGGER_S - number, None)
    found = samples(metrics)
    shown = sorted(name for name in found if name.startswith("aclog_spark_lag_seconds"))
    assert shown == [f"aclog_spark_lag_seconds{{cluster_id={name},spark_job=counts}}" for name in names[30:]]
    assert found["aclog_spark_logs_behind{spark_job=counts}"] == len(names) - 1
    assert found["aclog_spark_total_lag_offsets{spark_job=counts}"] == 5 * (len(names) - 1)
    assert found["aclog_spark_max_lag_seconds{spark_job=counts}"] == len(names) - 1
    query.follow(logs[:1])
    assert samples(metrics)["aclog_spark_logs_behind{spark_job=counts}"] == 0


def test_a_publication_is_pending_until_the_tables_have_it() -> None:
    now_s = TRIGGER_S
    metrics = JobMetrics(LOGS, ["changes"], lambda: now_s)
    query = metrics.queries["changes"]

    def pending_s() -> float:
        return samples(metrics)["aclog_spark_publication_pending_seconds{spark_job=changes}"]

    with query.publication():
        now_s += 7
        assert pending_s() == 7
    assert pending_s() == 0
    with pytest.raises(OSError, match="full"), query.publication():
        raise OSError("full")
    now_s += 5
    assert pending_s() == 5


def test_the_time_of_the_last_listing() -> None:
    metrics, query = watched()
    query.listed()
    name = "aclog_spark_last_listing_timestamp_seconds{spark_job=counts}"
    assert samples(metrics)[name] == TRIGGER_S


def test_the_rate_is_over_the_time_between_two_polls() -> None:
    """Of what the job says that the batch had: to Spark a directory's batch is one row."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.idle(RUN, "2026-11-21T00:59:50.5Z")
    query.done(REPORT)
    query.progressed(BATCH)
    assert samples(metrics)["aclog_spark_input_rows_per_second{spark_job=counts}"] == 4


def test_a_query_that_ended_is_not_active() -> None:
    """It may have failed; what it did stays."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.done(REPORT)
    query.progressed(BATCH)
    query.terminated(RUN)
    found = samples(metrics)
    assert (
        found["aclog_spark_query_active{spark_job=counts}"],
        found["aclog_spark_batches_total{spark_job=counts}"],
    ) == (0, 1)


def test_other_queries_of_the_session_are_not_counted() -> None:
    """Only the one with the job's name."""
    (metrics, query), other = watched(), uuid.UUID(int=2)
    query.started("counts", RUN)
    before = samples(metrics)
    query.started("another", other)
    query.progressed(progress(ends(dir=1), ends(dir=1), run_id=other))
    query.idle(other, "2026-11-21T01:00:10Z")
    query.terminated(other)
    assert samples(metrics) == before


def test_jobs_of_one_session_are_separate() -> None:
    """Each family once, with a sample for each job; a collector that a job adds is served, too."""
    metrics, metric = JobMetrics(LOGS, ["snapshots", "counts"]), AclCountMetric()
    metrics.add(metric)
    metric.publish("a", {READ: 2})
    metrics.queries["counts"].started("counts", RUN)
    metrics.done("counts", REPORT)
    metrics.queries["counts"].progressed(BATCH)
    names = [family.name for family in metrics.collect()]
    assert len(names) == len(set(names))
    found = samples(metrics)
    name = "aclog_spark_rows_total{{spark_job={}}}"
    assert (found[name.format("counts")], found[name.format("snapshots")]) == (40, 0)
    assert sum(each.startswith("kafka_server_authorizer_aclcount") for each in found) == 1


def test_a_query_that_is_started_again_is_followed() -> None:
    """As on a machine that was too busy for the first start."""
    metrics, query = watched()
    query.started("counts", uuid.UUID(int=2))
    query.terminated(uuid.UUID(int=2))
    query.started("counts", RUN)
    assert samples(metrics)["aclog_spark_query_active{spark_job=counts}"] == 1


def test_a_kind_without_acls_has_the_value_0() -> None:
    """A graph of it goes down, and does not end in the air; clusters do not mix."""
    metric = AclCountMetric()
    metric.publish("a", {READ: 2, WRITE: 1})
    metric.publish("b", {READ: 5})
    metric.publish("a", {READ: 3})
    kind = "operation={},pattern_type=LITERAL,permission_type=ALLOW,resource_type=TOPIC"
    name = "kafka_server_authorizer_aclcount{{cluster_id={},{}}}"
    assert samples(metric) == {
        name.format("a", kind.format("READ")): 3,
        name.format("a", kind.format("WRITE")): 0,
        name.format("b", kind.format("READ")): 5,
    }


def test_names_are_as_promtool_wants_them() -> None:
    """The rules of `promtool check metrics`: help, base units in full, `_total` for counters alone."""
    metrics, query = watched()
    metrics.add(AclCountMetric())
    query.started("counts", RUN)
    query.done(REPORT)
    query.progressed(BATCH)
    for family in metrics.collect():
        assert family.documentation
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", family.name)
        assert not re.search(
            r"(_ms|_millis|_milliseconds|_minutes|_kb|_mb|_count|_sum|_bucket|_gauge)$", family.name
        )
        totals = [sample.name.endswith("_total") for sample in family.samples]
        assert totals == [family.type == "counter"] * len(totals)
        assert all(re.fullmatch(r"[a-z_]+", label) for sample in family.samples for label in sample.labels)
