"""CheckpointId: which of Kafka's snapshots a ``.checkpoint`` file is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, order=True)
class CheckpointId:
    """A Kafka snapshot file: all below ``end_offset``, the last of it written in ``epoch``."""

    end_offset: int
    epoch: int
    path: Path
