"""The same shape with 1,000 to 1,000,000 ACLs: decisions must stay flat, loading must be linear."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arena import Arena
from benchmarks.cases.start import cold_start
from benchmarks.figures import Row, Spread, alternate, faster
from benchmarks.settings import progress


def measure(arena: Arena) -> Iterator[Row]:
    started = cold_start(arena)
    acls = started.acls
    for name in ("zipf", "distinct"):
        arena.check_decisions(name)
        progress(f"{arena.workload}: authorize, {name}")
        theirs, ours = alternate(arena.settings.rounds, arena.java_round(name), arena.our_round(name))
        yield Row(
            what=f"decision among {acls:,} ACLs, {name}",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against="Java",
            ratio=faster(theirs, ours),
        )
    for what, unit, value in (
        ("load, for each ACL", "ns", started.cpu_s * 1e9 / acls),
        ("memory, for each ACL", "B", started.size_bytes / acls),
        ("memory when every principal has sent many requests, for each ACL", "B", started.warm_bytes / acls),
    ):
        yield Row(what=f"{what}, of {acls:,}", workload=arena.workload, unit=unit, ours=Spread.of(value))
