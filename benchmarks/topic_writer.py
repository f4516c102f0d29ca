"""A process that writes to a topic: ``python -m benchmarks.topic_writer URL WORKLOAD``.

It says ``ready``; for each line of its input it appends one ACL and answers ``BEGAN END_OFFSET TOOK``: when
it began, by the clock that all processes share, and how long it took until the broker had committed it, in
seconds.
"""

from __future__ import annotations

import sys
import time
from itertools import cycle
from pathlib import Path

from benchmarks.requests import updates_file
from benchmarks.stored import read_acls
from records.log.topic import TopicLog


def main(url: str, workload: str) -> None:
    acls = list(read_acls(updates_file(Path(workload))))
    with TopicLog.open(url, mode="write") as log:
        log.append(acls[:1])  # makes the producer
        print("ready", flush=True)
        for _, acl in zip(sys.stdin, cycle(acls), strict=False):
            began = time.monotonic()
            end_offset = log.append([acl])
            print(began, end_offset, time.monotonic() - began, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
