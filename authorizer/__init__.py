"""Decisions, and everything that people and programs talk to: the library, the sidecar, the command line.

The highest layer: it may import all the others, and none imports it.
"""
