"""The core's rules as stories: tests/scenarios/replay/*.txt, in the form of support/sim_scenario.py.

ACLOG_REWRITE=1 writes the answers into the files anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.sim_scenario import run_scenario

SCENARIOS = sorted((Path(__file__).parent / "replay").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_core_answers_as_the_scenario_says(path: Path) -> None:
    """Every effect of every event, in order, and the phase, position and readiness after it."""
    written = path.read_text()
    answered = run_scenario(written)
    if os.environ.get("ACLOG_REWRITE"):
        path.write_text(answered)
    else:
        assert answered == written


def test_there_are_scenarios() -> None:
    """The folder is found."""
    assert len(SCENARIOS) >= 10
