"""Lowers the index's limits, so that small tests reach the code for large sets."""

from __future__ import annotations

import pytest

from authorizer.engine.index import limits


def make_small(patches: pytest.MonkeyPatch) -> None:
    """Lower the limits until the patches are undone."""
    small = {
        "UNION_HOSTS": 2,
        "CACHE_BOUNDS_MINIMUM": 6,
        "CACHED_NAMES_MAXIMUM": 2,
        "CACHED_REASONS_MAXIMUM": 1,
        "MERGED_CHANGES": 1,
        "LAZY_PATTERNS": 3,
        "PATTERNS_PER_REQUEST": 1,
    }
    for name, value in small.items():
        patches.setattr(limits, name, value)
