"""The Hypothesis profile of a run, and how many random examples its tests try.

`ACLOG_HYPOTHESIS_PROFILE` names the profile:

- `fast`, the default: one's own runs.
- `ci`, the default where `CI` is set: the gate.
- `deep`: `make test-all`, and the search for defects. Its examples differ in every run.
"""

from __future__ import annotations

import os

PROFILE = os.environ.get("ACLOG_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "fast")


def examples(*, gate: int, deep: int) -> int:
    """Return the number of examples in this run; `fast` has a third of the gate's."""
    return {"fast": max(1, gate // 3), "ci": gate, "deep": deep}[PROFILE]
