"""A process that writes: ``python -m benchmarks.writer LOG WORKLOAD PER_SECOND``.

It says ``ready``; from one line of its input to the next it adds and removes ACLs, each in a batch of its
own, at an even pace, then answers with their number. What came due while the disk was syncing is synced
together, as the log does it when several threads append.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator
from itertools import chain, cycle, islice
from pathlib import Path

from benchmarks.requests import updates_file
from benchmarks.stored import read_acls
from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from records.log.directory import DirectoryLog


def main(log: str, workload: str, per_second: str) -> None:
    acls = list(read_acls(updates_file(Path(workload))))
    records: Iterator[MetadataRecord] = chain.from_iterable(
        (acl, RemoveAccessControlEntryRecord(acl.id)) for acl in cycle(acls)
    )
    interval_s = 1 / float(per_second)
    with DirectoryLog.open(Path(log), mode="write") as directory:
        print("ready", flush=True)
        while sys.stdin.readline():
            began_s, written = time.perf_counter(), 0
            while not _line_within(began_s + (written + 1) * interval_s - time.perf_counter()):
                due = max(1, int((time.perf_counter() - began_s) / interval_s) - written)
                directory.append_batches([([record], None) for record in islice(records, due)])
                written += due
            sys.stdin.readline()
            print(written, flush=True)


def _line_within(seconds: float) -> bool:
    """Wait this long for a line, or only look where there is no time left."""
    return bool(select.select([sys.stdin], [], [], max(0.0, seconds))[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
