"""The example with three brokers tells its story to the end, and nothing in it is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("examples-cluster")]


def test_nothing_is_lost_and_all_nodes_agree() -> None:
    """A broker and a node are killed; every acknowledged ACL is in force everywhere; it ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "examples.cluster"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "nothing acknowledged was lost, nothing removed came back, all nodes agree" in told
    # Each of them was really compared, and the second node really began at a snapshot.
    assert told.count("compared    equal to") == 3, told
    assert "snapshots it began at: 1" in told
