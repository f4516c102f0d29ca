"""Metrics and traces for an OpenTelemetry collector, by OpenTelemetry's own environment variables.

Only ``telemetry`` is imported by the others of the sidecar; the library, an extra, only where it is wanted.
"""
