"""What the processes of the Spark benchmarks are asked to do, and what they answer: a line of JSON each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from records.log.base import LogIdentity
from snapshot.digest import digest_to_string
from snapshot.store.snapshot_store import SnapshotStore

What: TypeAlias = Literal["snapshots", "nothing", "fold"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with all that a log has.

    Attributes:
        what: ``snapshots`` is the job; ``nothing`` reads the same source, and drops the rows; ``fold`` loads
            the log without Spark.
        log: its URL.
        scratch: directory of checkpoints and snapshots; the next task of the kind goes on there.
        max_offsets: of one batch.
    """

    what: What
    log: str
    scratch: str
    max_offsets: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch, as Spark reports it.

    Attributes:
        id: Spark's number of it.
        records: of the log.
        took_ms: from the trigger to the end of Spark's own commit.
        steps_ms: parts of that, by Spark's names.
    """

    id: int
    records: int
    took_ms: int
    steps_ms: dict[str, int]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task.

    Attributes:
        took_s: by the clock: the query from its start to its end, or the load.
        batches: those that had rows.
        count: ACLs at the end.
        digest: of them.
        stored_bytes: of the last snapshot.
        parts: files in it that hold ACLs.
        cpu_s: of the process and all below it, meanwhile; added by the process that asked.
    """

    took_s: float
    batches: Sequence[Batch] = ()
    cpu_s: float = 0.0
    count: int = 0
    digest: str = ""
    stored_bytes: int = 0
    parts: int = 0


def answer_tasks(do: Callable[[Task], Done]) -> None:
    """Do what stdin says, until it ends."""
    decode = msgspec.json.Decoder(Task).decode
    for line in sys.stdin:
        print(msgspec.json.encode(do(decode(line))).decode(), flush=True)


def done_of(
    store: SnapshotStore, identity: LogIdentity, *, took_s: float, batches: Sequence[Batch] = ()
) -> Done:
    """The newest snapshot. Raises RuntimeError: it is incomplete."""
    manifest = store.survey(identity)[-1].manifest
    if manifest is None:
        raise RuntimeError(f"the newest snapshot in {store.url} is incomplete")
    return Done(
        took_s=took_s,
        batches=batches,
        count=manifest.count,
        digest=digest_to_string(manifest.digest),
        stored_bytes=sum(file.bytes for file in manifest.files),
        parts=len(manifest.parts),
    )
