"""A program that writes ACLs through a node until it is killed, and prints each acknowledgement.

    python node_writer.py LOG_DIR [THREADS] [SEED]

One line for each acknowledgement, written with one system call once the future is done: ``+ NAME`` for a
created ACL on topic NAME, ``- NAME`` for a removed one. Before each call, ``? NAME``: its outcome is
unknown until it is acknowledged.
"""

from __future__ import annotations

import os
import random
import sys
import threading

from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.node.node import Node
from support.node_acls import CONTEXT, named, topic_acl


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def write(node: Node, thread: int, seed: int) -> None:
    rng = random.Random(seed * 1000 + thread)
    held: set[str] = set()
    for number in range(10**9):
        if held and rng.random() < 0.3:
            name = rng.choice(sorted(held))
            tell(f"? {name}")
            (removal,) = node.authorizer.delete_acls(CONTEXT, [named(name)])
            assert removal.result().exception is None
            held.discard(name)
            tell(f"- {name}")
        else:
            name = f"s{seed}-t{thread}-n{number}"
            tell(f"? {name}")
            (creation,) = node.authorizer.create_acls(CONTEXT, [topic_acl(name)])
            assert creation.result().exception is None
            held.add(name)
            tell(f"+ {name}")


def main(directory: str, threads: str = "3", seed: str = "1") -> None:
    # Log lines go to stderr: stdout is for the acknowledgements.
    setup_logging("json", "WARNING")
    config = load_config(environ={}, flags={"aclog.log.url": directory, "aclog.log.mode": "create"})
    with Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(30)
        workers = [
            threading.Thread(target=write, args=(node, number, int(seed))) for number in range(int(threads))
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
