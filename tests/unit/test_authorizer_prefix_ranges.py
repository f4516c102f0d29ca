"""Prefix ranges in many chunks: whole chunks come and go, and every answer stays right."""

from __future__ import annotations

import random

import pytest

import authorizer.index.prefix_ranges
from authorizer.index.prefix_ranges import CHUNK_MAXIMUM, PrefixRanges

# Neighbours, nested ones, the empty one, and one without a successor.
PREFIXES = ("", "a", "aa", "ab", "abc", "b", "c", "d", "da", "dab", "e", "x\U0010ffff", "\U0010ffff")
NAMES = [*PREFIXES, *(f"{prefix}!" for prefix in PREFIXES), *(f"{prefix}z" for prefix in PREFIXES), "A", "zz"]


def check(ranges: PrefixRanges, truth: dict[str, int]) -> None:
    for name in NAMES:
        found = sorted((prefix for prefix in truth if name.startswith(prefix)), key=len, reverse=True)
        assert [prefix for prefix, _ in ranges.of_name(name)] == found
        assert ranges.mask(name, "h") == sum(truth[prefix] for prefix in found)


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, CHUNK_MAXIMUM])
@pytest.mark.parametrize("seed", range(10))
def test_prefixes_come_and_go_in_any_order(monkeypatch: pytest.MonkeyPatch, chunk: int, seed: int) -> None:
    """One at a time, all the way up and all the way down again."""
    monkeypatch.setattr(authorizer.index.prefix_ranges, "CHUNK_MAXIMUM", chunk)
    bits = {prefix: 1 << at for at, prefix in enumerate(PREFIXES)}
    rng = random.Random(seed)
    ranges, truth = PrefixRanges.of({}), dict[str, int]()
    for prefix in rng.sample(PREFIXES, len(PREFIXES)):
        truth[prefix] = bits[prefix]
        ranges = ranges.with_values({prefix: bits[prefix]})
        check(ranges, truth)
    check(PrefixRanges.of(dict(truth)), truth)
    for prefix in rng.sample(PREFIXES, len(PREFIXES)):
        del truth[prefix]
        ranges = ranges.with_values({prefix: None})
        check(ranges, truth)
    assert len(ranges) == 0


def test_a_change_shares_the_chunks_that_it_does_not_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new prefix copies the chunk that it begins in and the one that it ends in, however many there are."""
    monkeypatch.setattr(authorizer.index.prefix_ranges, "CHUNK_MAXIMUM", 4)
    before = PrefixRanges.of({f"{number:03}": 1 for number in range(0, 100, 2)})
    after = before.with_values({"051": 1})
    copied = {id(chunk) for chunk in before._chunks} - {id(chunk) for chunk in after._chunks}
    assert 1 <= len(copied) <= 2 < len(before._chunks)
