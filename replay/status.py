"""LoaderStatus: phase, offsets, lag and readiness of a loader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from replay.core import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderStatus:
    """Status of a loader at one point in time.

    Attributes:
        identity: of the log that the last published image is of; None before the first. The log itself may
            have another one already, when it was replaced.
        end_offset: of the last published image, None before the first.
        position: offset of the next record to be applied; beyond ``end_offset`` while nothing is published.
        high_watermark: of the log at the last read, None before the first.
        lag_records: distance of the published image to the high watermark; None before the first read.
        lag_ms: how long the published image has not been known to be current; 0 if it is. Before the
            first read, the age of the loader.
        ready: whether decisions may be made.
        error: the last failure without a later success, also while ready.
    """

    identity: LogIdentity | None
    end_offset: int | None
    epoch: int
    acl_count: int
    digest: int
    phase: Phase
    position: int
    high_watermark: int | None
    lag_records: int | None
    lag_ms: int
    ready: bool
    reason: str | None
    error: str | None
