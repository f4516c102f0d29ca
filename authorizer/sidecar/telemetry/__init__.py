"""Metrics and traces for an OpenTelemetry collector, by OpenTelemetry's own environment variables.

Other modules of the sidecar import only ``telemetry``, which imports the library, an extra, if it is enabled.
"""
