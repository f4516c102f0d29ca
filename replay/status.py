"""Where a loader stands, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.core import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderStatus:
    """One moment of a loader.

    Attributes:
        end_offset: of the image published last, None before the first.
        epoch: leader epoch of its last batch.
        acl_count: ACLs in it.
        digest: of them (I12).
        phase: what replay is doing.
        position: offset of the next record to be applied; beyond ``end_offset`` while nothing is published.
        high_watermark: of the log when last looked at, None before the first look.
        lag_records: how far the high watermark is beyond what is published; None before the first look.
        lag_ms: for how long what is published has not been known to be all there is; 0 when it is. Before the
            first look, for how long the loader has been there.
        ready: whether decisions may be made.
        reason: why not; None when ready.
        error: what failed last and has not gone well since, also while ready.
    """

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
