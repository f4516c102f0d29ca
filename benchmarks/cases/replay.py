"""A directory log into an image, CRCs checked, beside kio's record reader, which stops at record values."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate
from benchmarks.settings import progress
from benchmarks.stored import FEW_RECORDS, MANY_RECORDS, log_directory, log_with_history
from records.log.directory import DirectoryLog
from replay.load_image import load_image

# A part of the log says what its rate is.
_KIO_RECORDS = 100_000
_GOALS = {"w2": Goal("at least", 3, 6)}


def measure(arena: Arena) -> Iterator[Row]:
    limit = arena.settings.log_records
    # As elsewhere, imports are not measured: what a load needs is imported by the first one.
    replayed_per_s(log_directory(arena.directory, limit=limit), limit, limit)
    goal = _GOALS.get(arena.workload)
    for batch_records in (MANY_RECORDS, FEW_RECORDS):
        directory = log_directory(arena.directory, batch_records=batch_records, limit=limit)
        yield _row(arena, f"log to image, batches of {batch_records}", directory, limit, goal)
    directory, acls = log_with_history(arena.directory, records=limit)
    yield _row(arena, f"log with a history to image, batches of {MANY_RECORDS}", directory, acls)


def _row(arena: Arena, what: str, directory: Path, acls: int, goal: Goal | None = None) -> Row:
    """``acls``: how many are in force at the end of the log in this directory."""
    limit = arena.settings.log_records
    progress(f"{arena.workload}: {limit} records, {what}")
    ours, theirs = alternate(
        arena.settings.loads,
        partial(replayed_per_s, directory, limit, acls),
        partial(kio_per_s, directory, min(limit, _KIO_RECORDS)),
    )
    return Row(
        what=what,
        workload=arena.workload,
        unit="/s",
        ours=ours,
        other=theirs,
        against="kio, batches to record values",
        ratio=ours.over(theirs),
        goal=goal,
        note=f"{acls:,} ACLs in the end",
    )


def replayed_per_s(directory: Path, records: int, acls: int) -> float:
    """Records per second of CPU: read, checked, decoded, folded, hashed into the digest."""
    # A starting node has none of the other cases' requests in memory, which the garbage collector would
    # look through again and again.
    gc.freeze()
    began = time.thread_time()
    with DirectoryLog.open(directory) as log:
        image = load_image(log).image
    took = time.thread_time() - began
    gc.unfreeze()
    if len(image) != acls:
        raise RuntimeError(f"the image has {len(image)} ACLs, not {acls}")
    return records / took


def kio_per_s(directory: Path, records: int) -> float:
    """Records per second of CPU: read, checked, split into keys and values."""
    from kio.records.readers import read_batch  # noqa: PLC0415 - an extra

    segment = min(directory.glob("*.log"))
    began = time.thread_time()
    data = segment.read_bytes()
    position = read = 0
    while read < records:
        batch, size = read_batch(data, position)
        position += size
        read += len(batch.records)
    return read / (time.thread_time() - began)
