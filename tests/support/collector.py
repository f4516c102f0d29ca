"""A receiver of OTLP over HTTP, as an OpenTelemetry collector has at port 4318.

It decodes what the library's real exporter sends by OpenTelemetry's message classes, and stores it.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """The received telemetry.

    Attributes:
        url: the base that OTEL_EXPORTER_OTLP_ENDPOINT takes.
        spans: in order of arrival.
        metrics: the newest of each name.
        resources: of all spans and metrics.
        authorization: the header of each request.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []
        self.metrics: dict[str, Metric] = {}
        self.resources: list[Resource] = []
        self.authorization: list[str | None] = []

    def take(self, path: str, body: bytes) -> None:
        """Decode and store one request of an exporter."""
        if path == "/v1/traces":
            for traces in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(traces.resource)
                self.spans += [span for scope in traces.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.resources.append(metrics.resource)
                self.metrics |= {each.name: each for scope in metrics.scope_metrics for each in scope.metrics}
        else:
            raise ValueError(path)


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector on a free port."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.headers["content-type"] == "application/x-protobuf"
            received.authorization.append(self.headers.get("authorization"))
            received.take(self.path, body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        received = Collector(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


def attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """As a dictionary, of texts and numbers."""
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in pairs}
