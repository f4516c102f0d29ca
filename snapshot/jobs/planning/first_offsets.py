"""First offset of a job in each log, and its files' prefix; stored in ``<checkpoint>/aclog-job.json``.

Until its first batch is committed, a restarted query asks its sources again for the first offset, and the
store may have newer snapshots by then. So they are chosen once and stored before the query starts.
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
    """The content of ``aclog-job.json``.

    Attributes:
        writer: unique prefix of the names of the job's files.
        starts: first offset of the query by cluster id.
    """

    writer: str
    starts: dict[str, int]


def read_first_offsets(
    checkpoint: str,
    logs: Sequence[FollowedLog],
    choose_starts: Callable[[], dict[str, int]],
) -> FirstOffsets:
    """Read the first offsets, or choose and store them at the job's first start.

    A topic that joins the job later starts at 0, as in Spark.

    Args:
        checkpoint: Spark's.
        logs: of the job.
        choose_starts: chooses the first offsets of a new checkpoint, by cluster id; its errors are raised.

    Raises:
        SparkJobError: the file in the checkpoint is damaged.
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
        current = FirstOffsets(writer=uuid4().hex[:12], starts=choose_starts())
    else:
        joined = {log.identity.cluster_id: 0 for log in logs}
        current = FirstOffsets(writer=stored.writer, starts=joined | stored.starts)
    if current != stored:
        storage.put(FIRST_OFFSETS_NAME, msgspec.json.encode(current) + b"\n")
    return current
