"""Order and time: drives a log through the fold to the publishers.

Imports only `records` and `snapshot`; `replay.core` has no clock, thread or client.
"""
