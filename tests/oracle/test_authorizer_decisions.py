"""Every recorded answer of Kafka 4.3.1, compared; the totals are in the terminal summary."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.oracle import EQUAL, LISTING_THREW, OTHER_STATE, case_names, compare, load_case

# Profiles with records that no real controller writes; only these may have the listed differences.
MAY_DIFFER = {"dups": OTHER_STATE, "weird-records": LISTING_THREW}


@pytest.mark.parametrize("name", case_names())
def test_answers_equal_those_of_kafka(name: str, record_property: Callable[[str, object], None]) -> None:
    """Result, rule, ACL, audit line and level, KIP-430 bits, by resource type, listings, counts, errors."""
    found = compare(load_case(name))
    for outcome, count in found.items():
        record_property(f"oracle: {outcome}", count)
    allowed = MAY_DIFFER.get(name.partition("-")[2])
    assert found[EQUAL] > 0
    assert set(found) <= {EQUAL, allowed}


def test_no_case_is_missing() -> None:
    """195 random cases and three real logs."""
    assert len(case_names()) == 198
