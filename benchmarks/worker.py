"""A worker process: ``python -m benchmarks.worker LOG SNAPSHOTS WORKLOAD LIST SHARE``.

It loads everything, lets every principal ask once, says ``ready``, and for each line ``START SECONDS`` (of
the monotonic clock) decides what is asked in the list, beginning at SHARE of it, from START on for that long;
it answers with its decisions per second.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from authorizer.configuration.log_setup import setup_logging
from benchmarks.requests import PRINCIPALS, read_requests
from benchmarks.subject import Subject

_STRIDE = 256


def main(log: str, snapshots: str, workload: str, name: str, share: str) -> None:
    setup_logging("console", "ERROR")
    subject = Subject.open(Path(log), Path(snapshots))
    requests = [(request.context, request.actions) for request in read_requests(Path(workload), name)]
    first = int(float(share) * len(requests))
    requests = requests[first:] + requests[:first]
    subject.send_until_cached(read_requests(Path(workload), PRINCIPALS))
    print("ready", flush=True)
    for line in sys.stdin:
        start_s, seconds = map(float, line.split())
        time.sleep(max(0.0, start_s - time.monotonic()))
        end_s = start_s + seconds
        decided = at = 0
        authorize = subject.authorizer.authorize
        while time.monotonic() < end_s:
            for context, actions in requests[at : at + _STRIDE]:
                authorize(context, actions)
            decided += len(requests[at : at + _STRIDE])
            at = at + _STRIDE if at + _STRIDE < len(requests) else 0
        print(decided / (time.monotonic() - start_s), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
