"""How much is measured."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run's.

    Attributes:
        cache: where workloads, logs and snapshots are kept between runs.
        rounds: of each measurement.
        round_s: how long one round of something short is repeated, of CPU where that is measured.
        warm_s: how long Java is warmed up for each list of requests, of CPU.
        loads: how often a million ACLs are loaded, each time by a new process.
        decisions_checked: of each list, before anything is measured.
        log_records: how much of a log is replayed.
    """

    cache: Path
    rounds: int
    round_s: float
    warm_s: float
    loads: int
    decisions_checked: int
    log_records: int

    @classmethod
    def quick(cls, cache: Path) -> Settings:
        return cls(
            cache=cache,
            rounds=3,
            round_s=0.3,
            warm_s=2.5,
            loads=1,
            decisions_checked=2_000,
            log_records=100_000,
        )

    @classmethod
    def full(cls, cache: Path) -> Settings:
        return cls(
            cache=cache,
            rounds=7,
            round_s=0.8,
            warm_s=4.0,
            loads=3,
            decisions_checked=20_000,
            log_records=1_000_000,
        )


def progress(message: str) -> None:
    """To stderr: stdout holds the table."""
    print(f"  {message}", file=sys.stderr, flush=True)
