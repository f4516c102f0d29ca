"""Telemetry: sends metrics and traces to an OpenTelemetry collector, if the environment names one.

A signal is sent once an endpoint is named for it, or its exporter: the specification's default, to send
everything to localhost, would make every node look for a collector.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from enum import Enum
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import structlog

from authorizer.api.errors import ConfigError
from records.install_command import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp

    from authorizer.sidecar.http.application import Application

_PROTOCOL: Final = "http/protobuf"
_OTLP: Final = "otlp"


class Signal(Enum):
    """A signal, as the variables spell it."""

    TRACES = "TRACES"
    METRICS = "METRICS"


def enabled_signals(environ: Mapping[str, str]) -> dict[Signal, str]:
    """The enabled signals, each with the variable that enables it; none by default."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return {}
    found = ((signal, _enabling_variable(signal, environ)) for signal in Signal)
    return {signal: variable for signal, variable in found if variable is not None}


def _enabling_variable(signal: Signal, environ: Mapping[str, str]) -> str | None:
    prefix = f"OTEL_EXPORTER_OTLP_{signal.value}"
    chosen, exporter = _first(environ, f"OTEL_{signal.value}_EXPORTER")
    if exporter not in ("", "none", _OTLP):
        raise ConfigError(chosen, exporter, f"{_OTLP} or none")
    named, endpoint = _first(environ, f"{prefix}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if exporter == "none" or not (exporter or endpoint):
        return None
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise ConfigError(named, endpoint, "a URL of http or https, such as http://localhost:4318")
    spoken, protocol = _first(environ, f"{prefix}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in ("", _PROTOCOL):
        raise ConfigError(spoken, protocol, f"{_PROTOCOL}, which collectors take at port 4318")
    return named if endpoint else chosen


def _first(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first variable that is set, and its value; an empty one counts as not set."""
    for name in names:
        if value := environ.get(name, "").strip():
            return name, value
    return names[-1], ""


log = structlog.get_logger(__name__)

#: How long the end waits for what is still to be sent.
_SHUTDOWN_TIMEOUT_S: Final = 5.0
_INSTANCE_ID: Final = "service.instance.id"
_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"


class Telemetry:
    """The telemetry of one sidecar; the library reads the environment of the process."""

    def __init__(self, worker: int | None = None) -> None:
        """``worker``: the number of the worker process; None without workers.

        ConfigError: an unsupported exporter or protocol, or the extra is not installed.
        """
        self._signals = enabled_signals(os.environ)
        self._worker = worker
        self._interval_s = _interval_s()
        self._closing = threading.Event()
        self._tracer_provider: TracerProvider | None = None
        self._metric_exporter: OTLPMetricExporter | None = None
        self._threads: list[threading.Thread] = []
        if self._signals:
            try:
                import_module("opentelemetry.exporter.otlp.proto.http")
            except ImportError as error:
                variable = next(iter(self._signals.values()))
                raise ConfigError(
                    variable, os.environ[variable], f"it takes OpenTelemetry: {install_command('otel')}"
                ) from error

    def start(self, registry: CollectorRegistry) -> None:
        if not self._signals:
            return
        resource = _resource(self._worker)
        log.info("telemetry", signals=sorted(signal.value.lower() for signal in self._signals))
        if Signal.METRICS in self._signals:
            self._start_metrics(registry, resource)
        if Signal.TRACES in self._signals:
            self._start_traces(resource)

    def traced(self, app: Application) -> ASGIApp:
        """``app``, with tracing if traces are enabled."""
        if self._tracer_provider is None:
            return app
        from authorizer.sidecar.telemetry.traces import TracedApp  # noqa: PLC0415

        return TracedApp(app, self._tracer_provider.get_tracer("aclog", version("aclog")))

    def close(self) -> None:
        """Send the remaining data, for some seconds at most. Idempotent."""
        self._closing.set()
        if self._tracer_provider is not None:
            self._threads.append(_start_thread(self._tracer_provider.shutdown))
            self._tracer_provider = None
        ends_s = time.monotonic() + _SHUTDOWN_TIMEOUT_S
        for thread in self._threads:
            thread.join(max(ends_s - time.monotonic(), 0))
        self._threads.clear()
        if self._metric_exporter is not None:
            self._metric_exporter.shutdown()
            self._metric_exporter = None

    def _start_traces(self, resource: Resource) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        self._tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))

    def _start_metrics(self, registry: CollectorRegistry, resource: Resource) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

        from authorizer.sidecar.telemetry.metric_data import metrics_data  # noqa: PLC0415

        exporter = self._metric_exporter = OTLPMetricExporter()
        since_ns = time.time_ns()

        def send() -> None:
            is_last = False
            while not is_last:
                is_last = self._closing.wait(self._interval_s)
                metric_families = registry.collect()
                exporter.export(
                    metrics_data(metric_families, resource, since_ns=since_ns, now_ns=time.time_ns())
                )

        self._threads.append(_start_thread(send))


def _start_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work, name="aclog-telemetry", daemon=True)
    thread.start()
    return thread


def _interval_s() -> float:
    text = os.environ.get(_INTERVAL, "").strip() or "60000"
    if not text.isdecimal() or not int(text):
        raise ConfigError(_INTERVAL, text, "milliseconds, such as 60000")
    return int(text) / 1000


def _resource(worker: int | None) -> Resource:
    """Defaults, overridden by OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.

    Each worker adds its number to an instance id from the environment: otherwise their series would collide.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415

    defaults = Resource(
        {"service.name": "aclog", "service.version": version("aclog"), _INSTANCE_ID: str(uuid4())}
    )
    found = Resource.create(defaults.merge(OTELResourceDetector().detect()).attributes)
    if worker is None:
        return found
    return found.merge(Resource({_INSTANCE_ID: f"{found.attributes[_INSTANCE_ID]!s}/{worker}"}))
