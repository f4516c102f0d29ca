"""Changes of the directory by another process during a read: every change at every step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import AccessControlEntryRecord
from records.errors import LogNotFoundError
from records.log.directory import DirectoryLog
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from snapshot.files.kraft_checkpoint import write_checkpoint
from support.directory_logs import (
    TIMESTAMP_MS,
    acl,
    acls,
    append_bytes,
    batch_bytes,
    segment_path,
    write_segment,
)
from support.interleaving import interleave_at_every_access

Step = Callable[[Path], None]

#: Where the log ends before the other process takes its step: two segments, the second with two batches.
END = 8
SECOND = 4


def prepare(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    write_segment(directory, 0, batch_bytes(0, 2), batch_bytes(2, 2))
    write_segment(directory, SECOND, batch_bytes(4, 2), batch_bytes(6, 2))


def checkpoint(directory: Path, *, end_offset: int, log_end: int = END) -> None:
    """The broker's snapshot of all below; it appears atomically."""
    home = directory.parent / "made"
    shutil.rmtree(home, ignore_errors=True)
    write_segment(home, 0, batch_bytes(0, log_end))
    with DirectoryLog.open(home) as log:
        made = write_checkpoint(load_image(log, at_offset=end_offset - 1).image, home)
    made.rename(directory / made.name)


def rewritten(base_offset: int, count: int) -> bytes:
    """What another leader wrote there."""
    values = [encode_frame(acl(1000 + number)) for number in range(base_offset, base_offset + count)]
    return encode_batch(values, base_offset=base_offset, epoch=2, timestamp_ms=TIMESTAMP_MS)


def append(*parts: bytes) -> Step:
    def step(directory: Path) -> None:
        append_bytes(segment_path(directory, SECOND), *parts)

    return step


def roll(base_offset: int, *batches: bytes) -> Step:
    def step(directory: Path) -> None:
        write_segment(directory, base_offset, *batches)

    return step


def delete_first(directory: Path) -> None:
    removed = segment_path(directory, 0)
    removed.rename(removed.with_suffix(".log.deleted"))


def delete_second(directory: Path) -> None:
    segment_path(directory, SECOND).unlink()


def cut(base_offset: int) -> Step:
    """A follower drops what its leader does not have."""

    def step(directory: Path) -> None:
        os.truncate(segment_path(directory, base_offset), len(batch_bytes(base_offset, 2)))

    return step


def write_on(base_offset: int, *batches: bytes) -> Step:
    def step(directory: Path) -> None:
        append_bytes(segment_path(directory, base_offset), *batches)

    return step


#: What another process may do, each as one step or several consecutive ones.
CHANGES: dict[str, list[Step]] = {
    "append": [append(batch_bytes(8, 2))],
    "append some": [append(batch_bytes(8)), append(batch_bytes(9)), append(batch_bytes(10, 3))],
    "append some together": [append(batch_bytes(8), batch_bytes(9), batch_bytes(10, 3))],
    "append a part": [append(batch_bytes(8), batch_bytes(9)[:80])],
    "append less than a header": [append(batch_bytes(8)[:20])],
    "append zeros": [append(bytes(300))],
    "roll": [roll(8)],
    "append and roll": [append(batch_bytes(8, 2)), roll(10, batch_bytes(10, 2))],
    "roll twice": [roll(8, batch_bytes(8)), roll(9, batch_bytes(9)), roll(10, batch_bytes(10))],
    "retain": [partial(checkpoint, end_offset=SECOND + 2), delete_first],
    "retain and append": [
        partial(checkpoint, end_offset=SECOND + 2),
        delete_first,
        append(batch_bytes(8), batch_bytes(9)),
    ],
    "truncate": [cut(SECOND)],
    "truncate and write": [cut(SECOND), write_on(SECOND, rewritten(6, 1), rewritten(7, 4))],
    "truncate and write the same length": [cut(SECOND), write_on(SECOND, rewritten(6, 2))],
    "truncate into the first segment": [delete_second, cut(0)],
    "truncate into the first segment and write": [
        delete_second,
        cut(0),
        write_on(0, rewritten(2, 2)),
        roll(4, rewritten(4, 6)),
    ],
    # A follower that fell too far behind goes on from its leader's snapshot.
    "begin anew": [
        partial(checkpoint, end_offset=END + 4, log_end=END + 4),
        delete_first,
        delete_second,
        roll(END + 4),
    ],
}


def records(directory: Path) -> list[AccessControlEntryRecord]:
    """The ACLs of the state at the log's end, as a command that asks once gets it."""
    with DirectoryLog.open(directory) as log:
        image = load_image(log, [CheckpointFiles(log)]).image
    return sorted((applied.record for applied in image), key=lambda record: record.id)


@pytest.mark.parametrize("change", CHANGES)
def test_a_state_is_one_that_the_log_had(change: str, tmp_path: Path) -> None:
    """At any step of the read: no error, and never a mixture of two states."""
    directory, steps = tmp_path / "log", CHANGES[change]
    prepare(directory)
    states = [records(directory)]
    for step in steps:
        step(directory)
        if any(directory.glob("*.log")):
            states.append(records(directory))

    def change_it() -> None:
        for step in steps:
            step(directory)

    found: list[list[AccessControlEntryRecord]] = []
    places = interleave_at_every_access(
        lambda: prepare(directory), change_it, lambda: found.append(records(directory))
    )
    assert places > 20
    for place, state in enumerate(found):
        assert state in states, f"before look {place}"
    assert found[0] == states[-1]
    assert found[-1] == states[0]


def test_a_managed_log_is_read_up_to_the_acknowledged_end(tmp_path: Path) -> None:
    """Its writer appends, begins segments and a new epoch: complete batches, and none is missing."""
    made, directory = tmp_path / "made", tmp_path / "log"
    with DirectoryLog.open(made, mode="create", segment_bytes=400) as log:
        log.append_batches([(acls(0, 2), None), (acls(2, 4), None), (acls(4, 8), None)])
    found: list[int] = []

    def prepare_managed() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(made, directory)

    def write() -> None:
        with DirectoryLog.open(directory, mode="write", segment_bytes=400) as log:
            log.append(acls(8, 10))
            log.append(acls(10, 20))
            log.append(acls(20, 21))

    def read() -> None:
        state = records(directory)
        assert state == acls(0, len(state))
        found.append(len(state))

    assert interleave_at_every_access(prepare_managed, write, read) > 15
    assert found[0] == 21
    assert found[-1] == 8
    assert set(found) <= {8, 21}


def test_a_log_is_read_while_it_is_created(tmp_path: Path) -> None:
    """An early reader finds no log; a later one reads it."""
    directory = tmp_path / "log"
    found: list[int | None] = []

    def remove() -> None:
        shutil.rmtree(directory, ignore_errors=True)

    def create() -> None:
        with DirectoryLog.open(directory, mode="create") as log:
            log.append(acls(0, 3))

    def read() -> None:
        try:
            found.append(len(records(directory)))
        except LogNotFoundError:
            found.append(None)

    interleave_at_every_access(remove, create, read)
    assert found[0] == 3
    assert found[-1] is None
