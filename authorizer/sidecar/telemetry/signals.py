"""Signals that OpenTelemetry's environment variables enable.

A signal is sent once an endpoint is named for it, or its exporter: the specification's default, to send
everything to localhost, would make every node look for a collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from authorizer.api.errors import ConfigError

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
