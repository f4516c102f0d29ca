"""Benchmarks: aclog beside Kafka's own StandardAuthorizer, in one run, alternating, on CPU time.

``python -m benchmarks --help`` says how; docs/performance-tables.md has the figures and how to read them.
"""
