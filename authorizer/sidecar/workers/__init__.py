"""``aclog serve`` in several processes: workers that share the listeners, and their supervisor.

    supervisor        reserves the ports, starts the workers, restarts one that died, stops them all
    worker            what the supervisor gives to a worker: its number, the ports, the socket directory
    hosted_nodes      the nodes of a worker: one log, or the clusters of a fleet
    worker_api        what each worker answers to the others
    worker_fanout     queries all workers for readiness and metrics
    forwarded_writes  sends writes to the first worker, which writes the log
    shared_settings   changes the settings of all workers

Each worker follows the log itself (docs/adr/0009-processes.md): decisions share nothing between workers.
"""
