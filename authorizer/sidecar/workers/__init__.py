"""``aclog serve`` in several processes: some that answer on the same listeners, and one that sees to them.

    supervisor      takes the ports, starts the workers, starts one again that died, ends them all
    worker          what one of them is given: its number, the ports, where it meets the others
    followed_nodes  what a worker has nodes of: one log, or the clusters of a fleet
    peers           what each asks the others: whether they are ready, and what they have counted
    private_app     what each answers to the others
    forwarded       the first worker writes the log; the others' changes go through it
    passed_on       requests of the console, from the workers to its process
    console_server  what that answers with; it is a worker without listeners

Each worker follows the log itself (docs/adr/0009-processes.md): decisions share nothing between workers.
"""
