"""Many seeded worlds (support.sim_world): whatever happens, nothing is shown that the log never had.

ACLOG_SIM_SEED=N repeats one; ACLOG_SIM_WORLDS=N runs N of them from a random seed on, for hunting.
"""

from __future__ import annotations

import os
import random

import pytest

from support.sim_world import World

WORLDS = 150
STEPS = 150


def seeds() -> list[int]:
    if seed := os.environ.get("ACLOG_SIM_SEED"):
        return [int(seed)]
    if worlds := os.environ.get("ACLOG_SIM_WORLDS"):
        first = random.SystemRandom().randrange(1 << 40)
        return list(range(first, first + int(worlds)))
    return list(range(WORLDS))


def run_world(seed: int) -> World:
    world = World(seed)
    try:
        for _ in range(STEPS):
            world.live()
        world.come_to_rest()
    except BaseException:
        print(f"repeat with ACLOG_SIM_SEED={seed}")
        raise
    finally:
        world.loader.close()
    return world
