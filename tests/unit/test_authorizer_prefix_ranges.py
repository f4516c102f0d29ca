"""PrefixRanges: an example that can be drawn; that they are right is a property (tests/property)."""

from __future__ import annotations

import gc

from authorizer.index.masks import HostMasks
from authorizer.index.prefix_ranges import Owner, PrefixRanges


def test_prefixes_cut_all_names_into_ranges() -> None:
    """As the module draws them; a prefix that ends where the next one begins leaves no empty range."""
    ranges = PrefixRanges.of({"a": 1, "ab": 2})
    assert ranges.bounds == ("a", "ab", "ac", "b")
    a = Owner("a", 1, None)
    assert ranges.owners == (None, a, Owner("ab", 2, a), a, None)
    assert ranges.leaves == (0, 1, 3, 1, 0)
    ranges = PrefixRanges.of({"a": 1, "b": 2}, 4)
    assert ranges.bounds == ("a", "b", "c")
    assert ranges.leaves == (4, 5, 6, 4)


def test_the_garbage_collector_has_nothing_to_look_at() -> None:
    """Else its pauses would grow with all that was ever asked about."""
    hosts = HostMasks({"h": 1}, 2)
    ranges = PrefixRanges.of({f"p{number}": 1 if number % 2 else hosts for number in range(100)})
    gc.collect()
    held = (hosts, ranges, ranges.values, ranges.bounds, ranges.owners, ranges.leaves)
    assert not any(map(gc.is_tracked, held))
