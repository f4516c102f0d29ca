"""Benchmarks: aclog and Kafka's StandardAuthorizer, measured alternately in one run, in CPU time.

``python -m benchmarks --help`` shows the options; docs/performance-tables.md has the figures.
"""
