"""Seeds of tests that kill real processes at random points.

In `make test` and `make test-all` such a test runs once, with a fixed seed. `make test-soak` runs it with
ACLOG_SOAK_ROUNDS seeds from ACLOG_SOAK_SEED on. The seed is in the test's name; to repeat one:

    make test-soak SOAK_ROUNDS=1 SOAK_SEED=1764364523 PYTEST_ARGS="-k test_random_kills"
"""

from __future__ import annotations

import os

import pytest

ROUNDS = int(os.environ.get("ACLOG_SOAK_ROUNDS", "0"))
_FIRST = int(os.environ.get("ACLOG_SOAK_SEED", "0"))


def seeded(fixed: int) -> pytest.MarkDecorator:
    """Parametrize a test with ``seed``: ``fixed`` alone, or those of `make test-soak`."""
    return pytest.mark.parametrize(
        "seed",
        [pytest.param(seed, marks=pytest.mark.seeded) for seed in range(_FIRST, _FIRST + ROUNDS) or (fixed,)],
    )
