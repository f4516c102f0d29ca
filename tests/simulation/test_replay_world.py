"""Many seeded worlds (support.sim_world): a node shows only states of the log, under any faults.

ACLOG_SIM_SEED=N repeats one of them; ACLOG_SIM_WORLDS=N runs N worlds from a random seed on.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from structlog.testing import capture_logs

from support.sim_world import World

WORLDS = 300
STEPS = 150
#: Worlds in one test; pytest-xdist distributes tests.
GROUP = 50


def seeds() -> list[int]:
    if seed := os.environ.get("ACLOG_SIM_SEED"):
        return [int(seed)]
    if worlds := os.environ.get("ACLOG_SIM_WORLDS"):
        first = random.SystemRandom().randrange(1 << 40)
        return list(range(first, first + int(worlds)))
    return list(range(WORLDS))


def groups() -> list[list[int]]:
    return [seeds()[start : start + GROUP] for start in range(0, len(seeds()), GROUP)]


def run_world(seed: int) -> World:
    with capture_logs() as lines:
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.live()
            world.settle()
        except BaseException:
            print(*lines[-30:], f"repeat with ACLOG_SIM_SEED={seed}", sep="\n")
            raise
        finally:
            world.loader.close()
    return world


@pytest.mark.parametrize("group", groups(), ids=lambda group: f"{group[0]}-{group[-1]}")
def test_a_node_shows_only_states_of_the_log(group: list[int]) -> None:
    """I1 to I13 over time: support.sim_world has the faults and the checks."""
    for seed in group:
        run_world(seed)


def test_a_seed_repeats_its_world() -> None:
    """A failure can be reproduced."""
    first, second = run_world(7), run_world(7)
    assert first.log.batches == second.log.batches
    assert first.node.calls == second.node.calls
    assert first.loader.metrics == second.loader.metrics


def test_the_worlds_are_eventful() -> None:
    """The events that the checks need happen: every counter of the last node is positive in some world."""
    counts: Counter[str] = Counter()
    for seed in range(GROUP):
        metrics = run_world(seed).loader.metrics
        counts.update(
            name
            for name in (
                "apply_errors",
                "read_errors",
                "gaps",
                "reloads",
                "offset_regressions",
                "snapshots_loaded",
                "snapshots_refused",
                "publisher_faults",
            )
            if getattr(metrics, name)
        )
    assert len(counts) == 8, counts
    assert min(counts.values()) >= 3, counts
