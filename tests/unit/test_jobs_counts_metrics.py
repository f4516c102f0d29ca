"""Metrics of a job for Prometheus: Spark's progress of its query, and the counts."""

from __future__ import annotations

import re
import uuid
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import SinkProgress, SourceProgress, StreamingQueryProgress

from records.log.base import LogIdentity
from snapshot.fold import DeltaCounts
from snapshot.jobs.counts.count_metrics import AclCountMetric
from snapshot.jobs.counts.count_rows import AclKind
from snapshot.jobs.running.job import BatchReport, LogReport
from snapshot.jobs.running.progress_metrics import JobMetrics, QueryProgress
from snapshot.jobs.sources.logs import FollowedLog
from support.snapshots import TOPIC_ID

READ = AclKind("TOPIC", "LITERAL", "ALLOW", "READ")
WRITE = AclKind("TOPIC", "LITERAL", "ALLOW", "WRITE")

LOGS = (
    FollowedLog(url="/var/acls", identity=LogIdentity("dir", TOPIC_ID)),
    FollowedLog(url="kafka://b:9092/acls-x", identity=LogIdentity("x", TOPIC_ID), is_of_fleet=True),
    FollowedLog(url="kafka://b:9092/acls-y", identity=LogIdentity("y", TOPIC_ID), is_of_fleet=True),
)
RUN = uuid.UUID(int=1)


def directory(offset: int) -> str:
    return f'{{"clusterId":"dir","topicId":"dHR0dHR0dHR0dHR0dHR0dA","offset":{offset}}}'


def topics(**ends: int) -> str:
    return "{" + ",".join(f'"acls-{name}":{{"0":{end}}}' for name, end in ends.items()) + "}"


def progress(
    ends: tuple[str | None, str | None],
    latest: tuple[str | None, str | None],
    *,
    run_id: uuid.UUID = RUN,
    durations_ms: dict[str, int] | None = None,
) -> StreamingQueryProgress:
    """As Spark 4.2 says it: ``addBatch`` is there if a batch was done."""
    fields: dict[str, Any] = {
        "id": uuid.UUID(int=9),
        "runId": run_id,
        "name": None,
        "timestamp": "2026-11-21T01:00:00.500Z",
        "batchId": 0,
        "batchDuration": 0,
        "durationMs": durations_ms or {"latestOffset": 3, "triggerExecution": 4},
        "eventTime": {},
        "stateOperators": [],
        "sources": [
            SourceProgress(
                description="a log",
                startOffset="",
                endOffset=end,  # type: ignore[arg-type] # None is null in Java
                latestOffset=late,  # type: ignore[arg-type]
                numInputRows=0,
                inputRowsPerSecond=0.0,
                processedRowsPerSecond=0.0,
                metrics={},
            )
            for end, late in zip(ends, latest, strict=True)
        ],
        "sink": SinkProgress(description="", numOutputRows=-1, metrics={}),
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "observedMetrics": {},
    }
    return StreamingQueryProgress(**fields)


BATCH = progress(
    (directory(45), topics(x=7, y=0)),
    (directory(50), topics(x=7, y=3)),
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


def watched() -> tuple[JobMetrics, QueryProgress]:
    """The metrics of one job, and the progress of its query."""
    metrics = JobMetrics(LOGS, ["counts"])
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
        "aclog_spark_query_active{job=counts}": 1,
        "aclog_spark_failing_logs{job=counts}": 0,
        "aclog_spark_batches_total{job=counts}": 1,
        "aclog_spark_rows_total{job=counts}": 40,
        "aclog_spark_last_trigger_timestamp_seconds{job=counts}": 1795222800.5,
        "aclog_spark_batch_rows{job=counts}": 40,
        "aclog_spark_input_rows_per_second{job=counts}": 0,
        "aclog_spark_processed_rows_per_second{job=counts}": 20,
        "aclog_spark_batch_duration_seconds{job=counts,phase=addBatch}": 1.5,
        "aclog_spark_batch_duration_seconds{job=counts,phase=triggerExecution}": 2,
        "aclog_spark_end_offset{cluster_id=dir,job=counts}": 45,
        "aclog_spark_end_offset{cluster_id=x,job=counts}": 7,
        "aclog_spark_end_offset{cluster_id=y,job=counts}": 0,
        "aclog_spark_lag_offsets{cluster_id=dir,job=counts}": 5,
        "aclog_spark_lag_offsets{cluster_id=x,job=counts}": 0,
        "aclog_spark_lag_offsets{cluster_id=y,job=counts}": 3,
    }


def test_before_the_first_batch_there_are_no_false_numbers() -> None:
    """Neither an offset nor a lag is known, nor when Spark looked."""
    metrics, query = watched()
    nothing = {
        "aclog_spark_query_active{job=counts}": 0.0,
        "aclog_spark_failing_logs{job=counts}": 0.0,
        "aclog_spark_batches_total{job=counts}": 0.0,
        "aclog_spark_rows_total{job=counts}": 0.0,
    }
    assert samples(metrics) == nothing
    query.started("counts", RUN)
    query.progressed(progress((None, "null"), (None, None)))
    shown = {
        "aclog_spark_query_active{job=counts}": 1.0,
        "aclog_spark_failing_logs{job=counts}": 0.0,
        "aclog_spark_last_trigger_timestamp_seconds{job=counts}": 1795222800.5,
    }
    assert samples(metrics) == nothing | shown


def test_a_poll_without_a_batch_keeps_the_values_of_the_last_batch() -> None:
    """The lag and the time of the look are of now, the rest is the batch's."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.done(REPORT)
    query.progressed(BATCH)
    before = samples(metrics)
    query.progressed(progress((directory(45), topics(x=7, y=0)), (directory(45), topics(x=7, y=9))))
    changed = {
        "aclog_spark_lag_offsets{cluster_id=dir,job=counts}": 0,
        "aclog_spark_lag_offsets{cluster_id=y,job=counts}": 9,
    }
    assert samples(metrics) == before | changed
    query.idle(RUN, "2026-11-21T01:00:10Z")
    assert samples(metrics)["aclog_spark_last_trigger_timestamp_seconds{job=counts}"] == 1795222810


def test_the_rate_is_over_the_time_between_two_polls() -> None:
    """Of what the job says that the batch had: to Spark a directory's batch is one row."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.idle(RUN, "2026-11-21T00:59:50.5Z")
    query.done(REPORT)
    query.progressed(BATCH)
    assert samples(metrics)["aclog_spark_input_rows_per_second{job=counts}"] == 4


def test_a_query_that_ended_is_not_active() -> None:
    """It may have failed; what it did stays."""
    metrics, query = watched()
    query.started("counts", RUN)
    query.done(REPORT)
    query.progressed(BATCH)
    query.terminated(RUN)
    found = samples(metrics)
    assert (
        found["aclog_spark_query_active{job=counts}"],
        found["aclog_spark_batches_total{job=counts}"],
    ) == (0, 1)


def test_other_queries_of_the_session_are_not_counted() -> None:
    """Only the one with the job's name."""
    (metrics, query), other = watched(), uuid.UUID(int=2)
    query.started("counts", RUN)
    before = samples(metrics)
    query.started("another", other)
    query.progressed(progress((directory(1), topics()), (directory(1), topics()), run_id=other))
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
    name = "aclog_spark_rows_total{{job={}}}"
    assert (found[name.format("counts")], found[name.format("snapshots")]) == (40, 0)
    assert sum(each.startswith("kafka_server_authorizer_aclcount") for each in found) == 1


def test_a_query_that_is_started_again_is_followed() -> None:
    """As on a machine that was too busy for the first start."""
    metrics, query = watched()
    query.started("counts", uuid.UUID(int=2))
    query.terminated(uuid.UUID(int=2))
    query.started("counts", RUN)
    assert samples(metrics)["aclog_spark_query_active{job=counts}"] == 1


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
