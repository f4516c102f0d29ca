"""A log loaded without Spark, in a process of its own: ``python -m benchmarks.fold_process``.

For each ``Task`` on its input it answers with a ``Done`` (benchmarks.spark_tasks). The snapshot that it
writes afterwards is not in the time.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from benchmarks.spark_tasks import Done, Task, answer_tasks, done_of
from records.log.open import open_log
from replay.load_image import load_image
from snapshot.store.snapshot_store import SnapshotStore


def fold(task: Task) -> Done:
    began = time.perf_counter()
    with closing(open_log(task.log)) as log:
        image = load_image(log).image
        took = time.perf_counter() - began
        identity = log.identity
    store = SnapshotStore(Path(task.scratch) / "folded")
    store.write(image, identity, log_end_time_ms=int(time.time() * 1000))
    return done_of(store, identity, took_s=took)


if __name__ == "__main__":
    answer_tasks(fold)
