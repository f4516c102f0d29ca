"""What goes into the core and what comes out of it: events and effects, plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records.log.base import LogIdentity
from records.log_batch import LogBatch
from replay.manifest import LoaderManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage

# --- events: what the driver saw ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSnapshot:
    """A state that a log can be continued from.

    Attributes:
        image: the state; its provenance says where in the log.
        log_end_time_ms: the last time, since the epoch, at which its end offset was the log's end; None where
            that is not recorded (Kafka's checkpoints).
        origin: its name, for people.
    """

    image: AclsImage
    log_end_time_ms: int | None
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Where to begin: the answer to being in Phase.RECOVERING.

    Attributes:
        identity: the log.
        snapshot: the newest usable one, or None.
        log_start: first offset that the log holds.
        high_watermark: looked up before anything else: loading began here (I4).
        now_ms: when that was.
        removal_retention_ms: for how long the log shows removals (I10); None if it does not compact.
        refused: why newer snapshots than this one were not usable.
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
    """What the log holds from ``core.position`` on, or the beginning of it.

    Attributes:
        batches: in order; empty at the high watermark.
        high_watermark: looked up *after* the batches were read, else a gap could hide records beyond it (I6).
        now_ms: since the epoch, after the batches were read.
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
    """What was applied can no longer be relied on: another log in its place, a fault of this program."""

    reason: str


Event = Recovered | BatchesRead | OutOfRange | ReadFailed | StateLost

# --- effects: what the driver is to do, in this order ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """Give this to every publisher."""

    delta: AclsDelta
    image: AclsImage
    manifest: LoaderManifest


@dataclass(frozen=True, slots=True)
class ReportReady:
    """The state published last is complete (I4)."""


@dataclass(frozen=True, slots=True)
class ReportNotReady:
    """Nothing may be decided on the state published last."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Count and log this, wait a little, and try again what the core's phase asks for."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Reload:
    """Count and log that the state is about to be built anew (I10, I11).

    Attributes:
        reason: why.
        lost: the image published last may be no state of the log any more: no other publisher gets it.
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
