"""A directory log into an image, CRCs checked, beside kio's record reader, which stops at record values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate
from benchmarks.settings import progress
from benchmarks.stored import FEW_RECORDS, MANY_RECORDS, log_directory, log_with_history
from records.log.directory import DirectoryLog
from replay.load import load_image

# A part of the log says what its rate is.
_KIO_RECORDS = 100_000
_GOALS = {"w2": Goal("at least", 3, 6)}


def measure(arena: Arena) -> Iterator[Row]:
    limit = arena.settings.log_records
    for batch_records in (MANY_RECORDS, FEW_RECORDS):
        progress(f"{arena.workload}: replaying {limit} records in batches of {batch_records}")
        directory = log_directory(arena.directory, batch_records=batch_records, limit=limit)
        ours, theirs = alternate(
            arena.settings.loads,
            partial(replayed_per_s, directory, limit, limit),
            partial(kio_per_s, directory, min(limit, _KIO_RECORDS)),
        )
        yield Row(
            what=f"log to image, batches of {batch_records}",
            workload=arena.workload,
            unit="/s",
            ours=ours,
            other=theirs,
            against="kio, batches to record values",
            ratio=ours.over(theirs),
            goal=_GOALS.get(arena.workload),
        )
    yield _history(arena)


def _history(arena: Arena) -> Row:
    limit = arena.settings.log_records
    progress(f"{arena.workload}: replaying {limit} records of a log with a history")
    directory, acls = log_with_history(arena.directory, records=limit)
    ours, theirs = alternate(
        arena.settings.loads,
        partial(replayed_per_s, directory, limit, acls),
        partial(kio_per_s, directory, min(limit, _KIO_RECORDS)),
    )
    return Row(
        what=f"log with a history to image, batches of {MANY_RECORDS}",
        workload=arena.workload,
        unit="/s",
        ours=ours,
        other=theirs,
        against="kio, batches to record values",
        ratio=ours.over(theirs),
        note=f"{acls} ACLs in the end",
    )


def replayed_per_s(directory: Path, records: int, acls: int) -> float:
    """Records per second of CPU: read, checked, decoded, folded, hashed into the digest."""
    began = time.thread_time()
    with DirectoryLog.open(directory) as log:
        image = load_image(log).image
    took = time.thread_time() - began
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
