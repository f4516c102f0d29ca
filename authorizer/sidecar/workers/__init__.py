"""``aclog serve`` in several processes: workers that share the listeners, and their supervisor.

Each worker follows the log itself (docs/adr/0009-processes.md): decisions share nothing between workers.
"""
