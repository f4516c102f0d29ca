"""Names of snapshots in a store, and of Kafka's checkpoints without the suffix: end offset and epoch."""

from __future__ import annotations

import re
from typing import Final

_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})")


def snapshot_name(end_offset: int, epoch: int) -> str:
    """``00000000000000000266-0000000001``."""
    return f"{end_offset:020d}-{epoch:010d}"


def parse_snapshot_name(name: str) -> tuple[int, int] | None:
    """(end offset, epoch), or None for any other text."""
    found = _SNAPSHOT_NAME.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None
