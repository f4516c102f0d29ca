"""Many small logs in one job beside one large log: ``python -m benchmarks.spark_fleet [LOGS] [RECORDS]``.

Both are topics of one broker with as many records in all. Printed are seconds by the clock and of CPU
(broker, driver, JVM and Python workers) of the snapshots job's run, of a run in which nothing is new, and of
one in which one log has a new record.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from uuid import uuid4

from benchmarks.process_tree import cpu_by_role, running
from benchmarks.topic import broker, new_topic, until_visible
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.log.topic import TopicLog
from snapshot.jobs.running.fleet import Fleet
from snapshot.jobs.running.job import JobSettings
from snapshot.jobs.running.query import RunControl
from snapshot.jobs.session.spark_session import spark_session
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.logs import TopicsPattern

_TRANSACTION = 5000


def acl(number: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        Uuid(uuid4().bytes), ResourceType.TOPIC, f"topic-{number}", PatternType.LITERAL,
        f"User:u{number % 500}", "*", AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip


def write(url: str, records: int) -> None:
    with TopicLog.open(url, mode="write") as log:
        end = 0
        for at in range(0, records, _TRANSACTION):
            end = log.append([acl(number) for number in range(at, min(at + _TRANSACTION, records))])
        until_visible(log, end)


def measured(what: str, run: Callable[[], None]) -> None:
    before, began_s = cpu_by_role(os.getpid(), running()), time.perf_counter()
    run()
    took_s = time.perf_counter() - began_s
    used = {role: sum_s - before[role] for role, sum_s in cpu_by_role(os.getpid(), running()).items()}
    parts = ", ".join(f"{role} {used_s:.1f}" for role, used_s in used.items())
    print(f"{what}: {took_s:.1f} s, {sum(used.values()):.1f} s of CPU ({parts})", flush=True)


def main(logs: int = 200, records: int = 100_000) -> None:
    with broker() as servers, TemporaryDirectory() as home:
        # One for each core, so that every worker runs.
        for number in range(os.cpu_count() or 1):
            write(new_topic(servers, f"warm-{number}"), 1000)
        write(new_topic(servers, "one"), records)
        urls = [new_topic(servers, f"many-{number:03}") for number in range(logs)]
        for url in urls:
            write(url, records // logs)
        spark = spark_session("aclog fleet")

        def run(name: str) -> None:
            settings = JobSettings(logs=(), checkpoint=f"file://{home}/cp-{name}", store=f"{home}/{name}")
            Fleet(TopicsPattern(servers, f"({name}-.+)"), lambda _: None).run(
                settings,
                lambda current, control: run_snapshots(spark, current, lambda _: None, control=control),
                RunControl(),
            )

        run("warm")
        for name, what in (("one", "one log"), ("many", f"{logs} logs")):
            measured(f"{what} with {records:,} records", lambda name=name: run(name))  # type: ignore[misc]
        for name, what in (("one", "one log"), ("many", f"{logs} logs")):
            measured(f"{what}, nothing new", lambda name=name: run(name))  # type: ignore[misc]
        write(urls[0], 1)
        measured(f"{logs} logs, one record", lambda: run("many"))
        spark.stop()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
