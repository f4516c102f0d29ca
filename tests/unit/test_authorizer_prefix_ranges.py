"""PrefixRanges: the example of the module; tests/property checks all inputs."""

from __future__ import annotations

import gc
import sys

from authorizer.engine.index.covers import NO_COVER, Cover, single_cover
from authorizer.engine.index.masks import HostMasks, PatternLeaf
from authorizer.engine.index.pattern_keys import PREFIXED
from authorizer.engine.index.prefix_ranges import PrefixRanges


def stored(leaves: dict[str, PatternLeaf]) -> dict[str, Cover]:
    """Covers of these prefixes, not yet combined."""
    return {name: single_cover(PREFIXED, name, leaf, None) for name, leaf in leaves.items()}


def test_prefixes_split_all_names_into_ranges() -> None:
    """As in the module's example; adjacent prefixes have no empty range between them."""
    prefixes = stored({"a": 1, "ab": 2})
    ranges = PrefixRanges.of(prefixes.values(), NO_COVER)
    assert ranges.bounds == ("a", "ab", "ac", "b")
    assert ranges.covers == (NO_COVER, prefixes["a"], prefixes["ab"], prefixes["a"], NO_COVER)
    assert [cover.combined for cover in ranges.covers] == [0, 1, 3, 1, 0]
    assert [*prefixes["ab"]] == [prefixes["ab"], prefixes["a"]]
    assert [*ranges.stored()] == [*prefixes.values()]
    ranges = PrefixRanges.of(stored({"a": 1, "b": 2}).values(), single_cover(0, "*", 4, None))
    assert ranges.bounds == ("a", "b", "c")
    assert [cover.combined for cover in ranges.covers] == [4, 5, 6, 4]


def test_the_garbage_collector_does_not_track_ranges() -> None:
    """Otherwise its pauses would grow with the number of requested names."""
    hosts = HostMasks({"h": 1}, 2)
    prefixes = stored({f"p{number}": 1 if number % 2 else hosts for number in range(100)})
    ranges = PrefixRanges.of(prefixes.values(), NO_COVER)
    gc.collect()
    # Since 3.14 every dictionary is tracked, as one object.
    tracked = prefixes if sys.version_info < (3, 14) else 0
    held = (hosts, tracked, *prefixes.values(), ranges, ranges.bounds, ranges.covers)
    assert not any(map(gc.is_tracked, held))
