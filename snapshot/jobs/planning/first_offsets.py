"""Where a job begins in each log, and the name of what it writes: decided once, kept in its checkpoint.

Until its first batch is committed Spark asks a source again where to begin, and the store may have newer
snapshots by then. So the answer is written down before the query starts, in ``<checkpoint>/aclog-job.json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from snapshot.errors import SparkJobError
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from snapshot.jobs.sources.logs import FollowedLog

FIRST_OFFSETS_NAME: Final = "aclog-job.json"


class FirstOffsets(msgspec.Struct, frozen=True):
    """What is kept.

    Attributes:
        writer: what the names of the job's files begin with, and of no other job's.
        starts: by cluster id, the first offset that the query reads.
    """

    writer: str
    starts: dict[str, int]


def read_first_offsets(
    checkpoint: str, logs: Sequence[FollowedLog], choose_start: Callable[[FollowedLog], int]
) -> FirstOffsets:
    """The job's beginning, as it was decided at its first start.

    A topic that joined the job later begins at 0: there Spark begins with it.

    Args:
        checkpoint: Spark's.
        logs: of the job.
        choose_start: asked for each log of a fresh checkpoint.

    Raises:
        SparkJobError: the file in the checkpoint makes no sense.
        SnapshotError: the checkpoint cannot be read or written.
    """
    storage = Storage(checkpoint)
    try:
        stored: FirstOffsets | None = msgspec.json.decode(storage.read(FIRST_OFFSETS_NAME), type=FirstOffsets)
    except FileNotFoundError:
        stored = None
    except msgspec.MsgspecError as error:
        raise SparkJobError(
            f"{storage.shown(FIRST_OFFSETS_NAME)} is damaged: {error}. Start with another --checkpoint"
        ) from error
    if stored is None:
        starts = {log.identity.cluster_id: choose_start(log) for log in logs}
        made = FirstOffsets(writer=uuid4().hex[:12], starts=starts)
    else:
        joined = {log.identity.cluster_id: 0 for log in logs}
        made = FirstOffsets(writer=stored.writer, starts=joined | stored.starts)
    if made != stored:
        storage.put(FIRST_OFFSETS_NAME, msgspec.json.encode(made) + b"\n")
    return made
