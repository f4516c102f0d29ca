"""A log in which few ACLs change often, across the end of a month."""

from __future__ import annotations

import random
from pathlib import Path

from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from records.log.directory.identity import random_id, write_owner
from support.snapshots import acl, acl_id

#: 2026-11-30, 22:00 UTC: the batches cross the end of the month.
BEGIN_MS = 1_796_076_000_000


def write_log(directory: Path, seed: int, batches: int, cluster_id: str) -> Path:
    """Few ids, added, replaced and removed, some of them at the offset where they were added."""
    draw = random.Random(seed)

    def change() -> MetadataRecord:
        number = draw.randrange(8)
        if draw.random() < 0.4:
            return RemoveAccessControlEntryRecord(acl_id(number))
        return acl(number, host=draw.choice(["*", "10.0.0.1"]), operation=draw.choice([3, 4]))

    records = [[change() for _ in range(1 + draw.randrange(4))] for _ in range(batches)]
    if not directory.exists():
        # No id that aclog gives, but one that a cluster may have.
        directory.mkdir()
        write_owner(directory, LogIdentity(cluster_id, random_id()))
    with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
        begin_ms = BEGIN_MS + 3_600_000 * log.high_watermark()
        log.append_batches([(batch, begin_ms + 3_600_000 * at) for at, batch in enumerate(records)])
    return directory
