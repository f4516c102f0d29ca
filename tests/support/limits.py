"""The index's ways for much, tried with little."""

from __future__ import annotations

import pytest

from authorizer.engine.index import limits


def make_small(patches: pytest.MonkeyPatch) -> None:
    """Until these patches are undone."""
    small = {
        "UNION_HOSTS": 2,
        "REMEMBERED_BOUNDS": 6,
        "REMEMBERED_NAMES": 2,
        "REMEMBERED_REASONS": 1,
        "CHANGES": 1,
        "LAZY_PLACES": 3,
        "PLACES_FOR_AN_ANSWER": 1,
    }
    for name, value in small.items():
        patches.setattr(limits, name, value)
