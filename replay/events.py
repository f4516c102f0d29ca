"""Events and effects of the core, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records.log.base import LogIdentity
from records.log_batch import LogBatch
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

# --- events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """A state from which replay can continue.

    Attributes:
        log_end_time_ms: the last time, since the epoch, at which its end offset was the log's end; None where
            that is not recorded (Kafka's checkpoints).
    """

    image: AclsImage
    log_end_time_ms: int | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Start of a replay, for Phase.RECOVERING.

    Attributes:
        log_start: first offset that the log holds.
        high_watermark: read before anything else: loading began here (I4).
        now_ms: time of that read.
        removal_retention_ms: how long the log retains removals (I10); None if it does not compact.
    """

    identity: LogIdentity
    snapshot: LoadedSnapshot | None
    log_start: int
    high_watermark: int
    now_ms: int
    removal_retention_ms: int | None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesRead:
    """The next batches of the log from ``core.position`` on.

    Attributes:
        batches: in order; empty at the high watermark.
        high_watermark: read *after* the batches, else a gap could hide records beyond it (I6).
        now_ms: since the epoch, after that.
    """

    batches: Sequence[LogBatch]
    high_watermark: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfRange:
    """The log does not hold ``core.position``: it holds [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """The log could not be read: undecodable (I7), corrupt, or out of reach."""

    error: Exception


@dataclass(frozen=True, slots=True)
class StateLost:
    """The applied state is unreliable: another log took the place of this one, or the program failed."""

    reason: str


Event = Recovered | BatchesRead | OutOfRange | ReadFailed | StateLost

# --- effects, in the order of their execution --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Give this update to every publisher."""

    delta: AclsDelta
    image: AclsImage
    manifest: LoaderManifest


@dataclass(frozen=True, slots=True)
class ReportReady:
    """The last published state is complete (I4)."""


@dataclass(frozen=True, slots=True)
class ReportNotReady:
    """The last published state must not be used for decisions."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Count and log this, wait, and retry the task of the core's phase."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Reload:
    """Count and log that the state will be rebuilt (I10, I11).

    ``lost``: the last published image may be no state of the log: give it to no further publisher.
    """

    reason: str
    lost: bool


@dataclass(frozen=True, slots=True)
class GapSeen:
    """Count and log a gap: [offset, next_offset) is not complete; nothing is published before ``until``."""

    offset: int
    next_offset: int
    until: int


Effect = Publish | ReportReady | ReportNotReady | Fail | Reload | GapSeen
