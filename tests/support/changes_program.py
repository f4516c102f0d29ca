"""A program that runs the changes job over what there is, and may be killed at any time.

python -m support.changes_program LOG HOME MAX_OFFSETS
"""

from __future__ import annotations

import sys

from snapshot.jobs.changes import run_changes
from snapshot.jobs.job import JobSettings
from snapshot.jobs.logs import resolve_logs
from support.spark import local_spark


def main(log: str, home: str, max_offsets: str) -> None:
    with local_spark() as spark:
        settings = JobSettings(
            logs=tuple(resolve_logs([f"file:{log}"])),
            checkpoint=f"{home}/checkpoint",
            store="",
            shards=2,
            max_offsets=int(max_offsets),
        )
        run_changes(spark, settings, f"{home}/out", lambda _: None)


if __name__ == "__main__":
    main(*sys.argv[1:])
