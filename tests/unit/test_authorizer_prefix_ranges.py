"""Prefix ranges in many chunks and in blocks: they come and go, and every answer stays right."""

from __future__ import annotations

import random

import pytest

import authorizer.index.prefix_blocks
import authorizer.index.prefix_ranges
from authorizer.index.masks import leaf_mask
from authorizer.index.prefix_blocks import head_width
from authorizer.index.prefix_ranges import (
    CHUNK_MAXIMUM,
    SMALL_MAXIMUM,
    UNDIVIDED_MAXIMUM,
    PrefixRanges,
)

# Neighbours, nested ones, the empty one, and one without a successor.
# Some are before, in and behind the place that surrogates have in UTF-16.
PREFIXES = (
    *("", "a", "aa", "ab", "abc", "b", "c", "d", "da", "dab", "e", "x\U0010ffff", "\U0010ffff"),
    *("\ud7ff", "\ud800", "\ud800\udc00", "\udfffa", "\ue000", "\U00010000"),
)
NAMES = [*PREFIXES, *(f"{prefix}!" for prefix in PREFIXES), *(f"{prefix}z" for prefix in PREFIXES), "A", "zz"]


def check(ranges: PrefixRanges, truth: dict[str, int]) -> None:
    for name in NAMES:
        found = sorted((prefix for prefix in truth if name.startswith(prefix)), key=len, reverse=True)
        assert [prefix for prefix, _ in ranges.of_name(name)] == found
        # Twice: the first answer may be kept for the second.
        assert ranges.mask(name, "h") == ranges.mask(name, "h") == sum(truth[prefix] for prefix in found)
        if ranges.has_blocks:
            assert in_blocks(ranges, name) == in_blocks(ranges, name) == ranges.mask(name, "h")


def in_blocks(ranges: PrefixRanges, name: str) -> int:
    """In blocks, as a caller that remembers names finds it."""
    leaf = ranges.remembered.get(name)
    if leaf is None:
        leaf = ranges.remember(name)
    return ranges.mask(name, "h") if leaf is None else leaf_mask(leaf, "h")


def test_what_is_remembered_is_bounded_and_of_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of calls with many actions, in a table of each state's own; no more than so many."""
    monkeypatch.setattr(authorizer.index.prefix_ranges, "UNDIVIDED_MAXIMUM", 0)
    monkeypatch.setattr(authorizer.index.prefix_ranges, "REMEMBERED_MAXIMUM", 2)
    before = PrefixRanges.of({"a": 1, "ab": 2})
    assert [before.remember(name) for name in ("abc", "x" * 250, "x", "ac")] == [3, 0, 0, 1]
    assert before.remembered == {"abc": 3, "x": 0}
    after = before.with_values({"abc": 4})
    assert after.remembered == {}
    assert after.mask("abc", "h") == 7
    monkeypatch.setattr(authorizer.index.prefix_ranges, "UNDIVIDED_MAXIMUM", UNDIVIDED_MAXIMUM)
    assert not PrefixRanges.of({"a": 1}).has_blocks
    assert PrefixRanges.of({"a": 1}).remembered == {}


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, CHUNK_MAXIMUM])
@pytest.mark.parametrize(
    ("undivided", "small"), [(0, 0), (0, 4), (4, 4), (0, SMALL_MAXIMUM), (4, 12), (UNDIVIDED_MAXIMUM,) * 2]
)
@pytest.mark.parametrize("seed", range(10))
def test_prefixes_come_and_go_in_any_order(
    monkeypatch: pytest.MonkeyPatch, chunk: int, undivided: int, small: int, seed: int
) -> None:
    """One at a time, all the way up and all the way down again."""
    monkeypatch.setattr(authorizer.index.prefix_ranges, "CHUNK_MAXIMUM", chunk)
    monkeypatch.setattr(authorizer.index.prefix_ranges, "UNDIVIDED_MAXIMUM", undivided)
    monkeypatch.setattr(authorizer.index.prefix_ranges, "SMALL_MAXIMUM", small)
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


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_blocks_are_right_for_heads_of_any_width(
    monkeypatch: pytest.MonkeyPatch, width: int, at_once: int, seed: int
) -> None:
    """With prefixes and names that are shorter than a head, one, and longer."""
    monkeypatch.setattr(authorizer.index.prefix_ranges, "CHUNK_MAXIMUM", 4)
    monkeypatch.setattr(authorizer.index.prefix_ranges, "UNDIVIDED_MAXIMUM", 0)
    monkeypatch.setattr(authorizer.index.prefix_ranges, "SMALL_MAXIMUM", 0)
    monkeypatch.setattr(authorizer.index.prefix_ranges, "head_width", lambda bounds: width)
    bits = {prefix: 1 << at for at, prefix in enumerate(PREFIXES)}
    rng = random.Random(seed)
    ranges, truth = PrefixRanges.of({}), dict[str, int]()
    for _ in range(60):
        changes: dict[str, int | dict[str, int] | None] = {}
        for prefix in rng.sample(PREFIXES, at_once):
            if rng.random() < 0.4:
                changes[prefix] = None
                truth.pop(prefix, None)
            else:
                changes[prefix] = truth[prefix] = bits[prefix]
        ranges = ranges.with_values(changes)
        check(ranges, truth)
        if ranges.has_blocks:
            heads = {prefix[:width] for prefix in truth if len(prefix) >= width}
            assert ranges.blocks.width == width
            assert {head for head, _ in ranges.blocks.by_head.items()} == heads
            assert {*ranges.blocks.rest.owners} - {None} == {
                prefix for prefix in truth if len(prefix) < width
            }


def test_few_prefixes_are_in_no_blocks_and_many_in_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no more than SMALL_MAXIMUM bounds to look at, whichever way they became many."""
    monkeypatch.setattr(authorizer.index.prefix_ranges, "SMALL_MAXIMUM", 512)
    few = {f"team{number:03}.": 1 for number in range(128)}
    assert not PrefixRanges.of(dict(few)).has_blocks
    some = {f"team{number:03}.": 1 for number in range(0, 500, 2)}
    both = PrefixRanges.of(dict(some))
    assert (both.only is None, both.has_blocks) == (False, True)
    many = {f"team{number:03}.{domain}": 1 for number in range(256) for domain in "abc"}
    grown = PrefixRanges.of({})
    for prefix in many:
        grown = grown.with_values({prefix: 1})
    for ranges in (PrefixRanges.of(dict(many)), grown):
        assert ranges.only is None
        assert max(len(block.bounds) for block in ranges.blocks.by_head.values()) < 64
        shrunk = ranges.with_values(dict.fromkeys(list(many)[20:]))
        assert (shrunk.only is None, shrunk.has_blocks) == (False, False)
        assert shrunk.mask("team006.a.orders", "h") == 1
        assert shrunk.mask("team007.a.orders", "h") == 0


def test_a_change_shares_the_blocks_that_it_does_not_touch() -> None:
    """One of a long prefix renews one block; one of a short prefix those that start with it."""
    before = PrefixRanges.of({f"{number:04}": 1 for number in range(2000)})
    width = before.blocks.width
    assert 1 < width < 4

    def renewed(after: PrefixRanges) -> set[str]:
        then = dict(before.blocks.by_head.items())
        return {head for head, block in after.blocks.by_head.items() if then.get(head) is not block}

    assert renewed(before.with_values({"1234x": 2})) == {"1234x"[:width]}
    assert renewed(before.with_values({"1": 2})) == {
        head for head, _ in before.blocks.by_head.items() if head.startswith("1")
    }


def test_heads_are_as_long_as_it_takes_to_tell_bounds_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that are all alike at the start need longer heads; one that is a head itself is enough."""
    monkeypatch.setattr(authorizer.index.prefix_blocks, "_APART", 1)
    assert head_width([]) == 1
    assert head_width(["a", "b", "c"]) == 1
    assert head_width([f"same-{letter}" for letter in "abcdef"]) == len("same-") + 1
    assert head_width(["", "\U0010ffff"]) == 1
    assert head_width(["ab", "abc"]) == 3
