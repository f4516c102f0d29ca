"""OpenTelemetry: a trace goes on in the sidecar, metrics are Prometheus' own, and none of it by default."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from authorizer.api.errors import ConfigError
from authorizer.node.node import Node
from authorizer.sidecar.telemetry.telemetry import Signal, Telemetry, enabled_signals
from records.install_command import install_command
from records.log.directory import DirectoryLog
from support.collector import Collector, attributes, collector
from support.kafka_broker import free_ports
from support.metric_scrapes import scrape
from support.node_acls import topic_acl
from support.nodes import create, running_node, sidecar_of
from support.serving_workers import serving_workers
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ONE = "/access/v1/evaluation"
QUESTION = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with running_node(tmp_path / "log", log_mode="create", describe_principals="User:ANONYMOUS") as node:
        create(node, [topic_acl("orders")])
        yield node


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Batches go quickly. What still tries to send draws random numbers, which other tests may, too."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
    yield monkeypatch
    for thread in threading.enumerate():
        if thread.name.startswith(("OtelBatch", "aclog-telemetry")):
            thread.join()


@pytest.fixture
def receiver(environ: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with collector() as receiver:
        environ.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        yield receiver


def test_a_trace_continues_in_the_sidecar(node: Node, receiver: Collector) -> None:
    """The caller's span is the parent of ours; an evaluation, a refusal and an unknown path have theirs."""
    with sidecar_of(node) as url, httpx.Client(base_url=url) as client:
        answer = client.post(ONE, json=QUESTION, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
        assert answer.json()["decision"] is True
        assert client.post(ONE, content=b"{").status_code == 400
        assert client.get("/v1/nowhere").status_code == 404
        client.get("/readyz")
        wait_until(lambda: len(receiver.spans) >= 3)
    evaluation, refused, unknown = receiver.spans
    assert (evaluation.trace_id.hex(), evaluation.parent_span_id.hex()) == (TRACE, PARENT)
    assert (evaluation.name, evaluation.kind) == (f"POST {ONE}", Span.SPAN_KIND_SERVER)
    assert attributes(evaluation.attributes) == {
        "http.request.method": "POST",
        "http.route": ONE,
        "http.response.status_code": 200,
        "url.path": ONE,
        "url.scheme": "http",
        "client.address": "127.0.0.1",
        "aclog.listener": "PLAINTEXT",
    }
    assert 0 < evaluation.end_time_unix_nano - evaluation.start_time_unix_nano < 60e9
    assert refused.trace_id != evaluation.trace_id
    assert not refused.parent_span_id
    assert attributes(refused.attributes)["http.response.status_code"] == 400
    assert refused.status.code == Status.STATUS_CODE_UNSET  # the client's error, not ours
    assert (unknown.name, attributes(unknown.attributes)["http.response.status_code"]) == ("GET", 404)
    assert len(receiver.spans) == 3, "health is asked too often to be traced"


def test_the_callers_sampling_decision_is_followed(node: Node, receiver: Collector) -> None:
    """Its flag says so, and the default sampler follows the parent's."""
    with sidecar_of(node) as url, httpx.Client(base_url=url) as client:
        client.post(ONE, json=QUESTION, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
        client.post(ONE, json=QUESTION)
        wait_until(lambda: receiver.spans)
    assert [span.trace_id.hex() == TRACE for span in receiver.spans] == [False]


def test_exported_metrics_equal_prometheus_metrics(node: Node, receiver: Collector) -> None:
    """The same names but for _total, the same labels and values, from counters that never go back."""
    with sidecar_of(node) as url, httpx.Client(base_url=url) as client:
        for _ in range(3):
            client.post(ONE, json=QUESTION)
            client.get("/v1/state")
        scraped = scrape(client)
    # The end sends what there is.
    names = {name for name, family in scraped.metric_families.items() if family.samples}
    assert names == receiver.metrics.keys()
    decided = receiver.metrics["aclog_authorizations"].sum
    assert decided.is_monotonic
    assert decided.aggregation_temporality == 2  # cumulative
    points = {tuple(attributes(each.attributes).values()): each.as_double for each in decided.data_points}

    assert points["allowed", "MatchingAcl"] == 3
    assert scraped.value("aclog_authorizations_total", result="allowed", rule="MatchingAcl") == 3
    durations = receiver.metrics["aclog_http_request_duration_seconds"]
    assert durations.unit == "s"
    (states,) = [
        each
        for each in durations.histogram.data_points
        if attributes(each.attributes) == {"method": "GET", "endpoint": "/v1/state", "status": "200"}
    ]
    assert states.count == sum(states.bucket_counts) == 3
    assert len(states.bucket_counts) == len(states.explicit_bounds) + 1
    assert states.sum > 0
    assert not states.HasField("min")
    assert receiver.metrics["aclog_ready"].gauge.data_points[0].as_double == 1


def test_the_resource_is_aclog_unless_the_environment_sets_it(
    node: Node, receiver: Collector, environ: pytest.MonkeyPatch
) -> None:
    """OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_HEADERS are the library's own."""
    with sidecar_of(node):
        pass
    found = attributes(receiver.resources[-1].attributes)
    assert found["service.name"] == "aclog"
    assert found["service.version"]
    environ.setenv("OTEL_SERVICE_NAME", "gate")
    environ.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    environ.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t0ken")
    with sidecar_of(node):
        pass
    found = attributes(receiver.resources[-1].attributes)
    assert (found["service.name"], found["deployment.environment.name"]) == ("gate", "test")
    assert receiver.authorization[-1] == "Bearer t0ken"


def test_each_worker_is_a_separate_instance(
    tmp_path: Path, receiver: Collector, environ: pytest.MonkeyPatch
) -> None:
    """Also where the environment has one id for all of them: what they count would be one series."""
    environ.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=node-1")
    DirectoryLog.open(tmp_path / "log", mode="create").close()

    def instances(come: Collector) -> set[Any]:
        return {attributes(each.attributes)["service.instance.id"] for each in come.resources}

    with serving_workers(tmp_path, tmp_path / "log", {}):
        wait_until(lambda: len(instances(receiver)) == 2)
    assert instances(receiver) == {"node-1/0", "node-1/1"}


def test_traces_and_metrics_are_switched_separately(
    node: Node, receiver: Collector, environ: pytest.MonkeyPatch
) -> None:
    """OTEL_TRACES_EXPORTER=none: evaluations are answered inline, as without telemetry."""
    environ.setenv("OTEL_TRACES_EXPORTER", "none")
    with sidecar_of(node) as url:
        httpx.post(f"{url}{ONE}", json=QUESTION)
    assert receiver.metrics
    assert receiver.spans == []


def test_an_unreachable_collector_delays_nothing(node: Node, environ: pytest.MonkeyPatch) -> None:
    """Requests are answered, and the shutdown waits a few seconds at most."""
    (port,) = free_ports(1)
    environ.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    with sidecar_of(node) as url:
        for _ in range(5):
            assert httpx.post(f"{url}{ONE}", json=QUESTION).json()["decision"] is True
        time.sleep(0.5)  # the exporters fail during this time
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 20


@pytest.mark.parametrize(
    ("variables", "signals"),
    [
        ({}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, set()),
        ({"OTEL_SERVICE_NAME": "a"}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, {Signal.TRACES, Signal.METRICS}),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, set()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, {Signal.METRICS}),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/v1/traces"}, {Signal.TRACES}),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, {Signal.METRICS}),
    ],
)
def test_environment_variables_are_applied(variables: dict[str, str], signals: set[Signal]) -> None:
    assert enabled_signals(variables).keys() == signals
    assert set(enabled_signals(variables).values()) <= variables.keys()


@pytest.mark.parametrize(
    ("variables", "name", "way_out"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER", "otlp or none"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/protobuf",
        ),
    ],
)
def test_unsupported_variables_stop_the_start(variables: dict[str, str], name: str, way_out: str) -> None:
    """With the variable, its value and what is allowed."""
    with pytest.raises(ConfigError, match=way_out) as raised:
        enabled_signals(variables)
    assert name in str(raised.value)


def test_an_invalid_variable_is_wrong_usage(tmp_path: Path) -> None:
    """`aclog serve` ends before it opens the log, and says nothing of files or flags."""
    done = subprocess.run(
        [sys.executable, "-m", "authorizer.cli", "serve", "--log", str(tmp_path / "none")],
        cwd=ROOT,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "Error: invalid value `collector:4317` for `OTEL_EXPORTER_OTLP_ENDPOINT`: a URL of http or https, "
        "such as http://localhost:4318\n"
    )


def test_an_interval_must_be_a_number(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1m")
    with pytest.raises(ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL"):
        Telemetry()


def test_without_the_extra_the_error_names_it(
    environ: pytest.MonkeyPatch,
) -> None:
    """The error comes before a log is opened."""
    environ.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    environ.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("otel"))):
        Telemetry()


def test_opentelemetry_is_not_imported_by_default() -> None:
    """It takes a third of a second and twenty megabytes."""
    code = (
        "import sys, authorizer.sidecar.server as s; s.Telemetry(); "
        "sys.exit(any(m.startswith('opentelemetry') for m in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
