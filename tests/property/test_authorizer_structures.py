"""The index's persistent structures, each against what it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import authorizer.index.masks
import authorizer.index.overlay
import authorizer.index.prefix_blocks
import authorizer.index.prefix_ranges
from authorizer.index.masks import Leaf, leaf_mask
from authorizer.index.overlay import Table, with_entries
from authorizer.index.prefix_blocks import successor
from authorizer.index.prefix_ranges import PrefixRanges
from authorizer.index.rights import NO_LEAVES, Rights

# The last code point has no successor; neighbours of it and of the surrogates' place in UTF-16.
PREFIXES = st.text("ab\U0010ffff\U0010fffe", max_size=4) | st.text(max_size=2)
CHANGES = st.lists(st.dictionaries(PREFIXES, st.none() | st.integers(1, 7), max_size=4), max_size=8)
HOSTED = st.lists(
    st.dictionaries(
        PREFIXES,
        st.none() | st.integers(1, 7) | st.sampled_from([{"*": 1, "h": 3}, {"*": 0, "h": 4, "i": 2}]),
        max_size=3,
    ),
    max_size=6,
)


@pytest.fixture(params=["tiny", "usual"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is for large tables is also tried with small ones."""
    if request.param == "tiny":
        monkeypatch.setattr(authorizer.index.overlay, "COPY_MAXIMUM", 2)
        monkeypatch.setattr(authorizer.index.overlay, "MERGE_SHARE", 1)
        monkeypatch.setattr(authorizer.index.prefix_ranges, "CHUNK_MAXIMUM", 2)
        monkeypatch.setattr(authorizer.index.prefix_ranges, "UNDIVIDED_MAXIMUM", 0)
        monkeypatch.setattr(authorizer.index.prefix_ranges, "SMALL_MAXIMUM", 0)
        monkeypatch.setattr(authorizer.index.prefix_blocks, "_APART", 1)


@pytest.mark.usefixtures("sizes")
def test_an_overlay_is_a_dict_that_stays() -> None:
    """Every version equals the dict after the same changes, also after many later ones."""

    @given(base=st.dictionaries(PREFIXES, st.integers(1, 7)), changes=CHANGES)
    def check(base: dict[str, int], changes: list[dict[str, int | None]]) -> None:
        table: Table[str, int] = dict(base)
        versions: list[tuple[Table[str, int], dict[str, int]]] = [(table, dict(base))]
        truth = dict(base)
        for entries in changes:
            table = with_entries(table, entries)
            truth.update({key: value for key, value in entries.items() if value is not None})
            for key in [key for key, value in entries.items() if value is None]:
                truth.pop(key, None)
            versions.append((table, dict(truth)))
        for version, expected in versions:
            assert dict(version.items()) == expected
            assert sorted(version.values()) == sorted(expected.values())
            assert len(version) == len(expected)
            assert all(version.get(key) == expected.get(key) for entries in changes for key in entries)

    check()


@pytest.mark.usefixtures("sizes")
def test_ranges_find_every_prefix_of_a_name() -> None:
    """By one bisection what looking at every prefix finds, in every version; updated or made anew."""

    @given(changes=HOSTED, names=st.lists(PREFIXES, min_size=1))
    def check(changes: list[dict[str, int | dict[str, int] | None]], names: list[str]) -> None:
        ranges = PrefixRanges.of({})
        truth: dict[str, int | dict[str, int]] = {}
        versions = [(ranges, truth)]
        for entries in changes:
            ranges = ranges.with_values(entries)
            merged = {**truth, **entries}
            truth = {key: value for key, value in merged.items() if value is not None}
            versions.append((ranges, truth))
        versions.append((PrefixRanges.of(dict(truth)), truth))
        asked = [*names, *truth, *(f"{prefix}a" for prefix in truth)]
        for version, expected in versions:
            assert dict(version.values.items()) == expected
            # No more ranges than need be, however it came about.
            assert cut(version) == cut(PrefixRanges.of(expected))
            for name in asked:
                found = sorted((key for key in expected if name.startswith(key)), key=len, reverse=True)
                assert [prefix for prefix, _ in version.of_name(name)] == found
                for host in ("h", "other"):
                    mask = 0
                    for prefix in found:
                        leaf = expected[prefix]
                        mask |= leaf if isinstance(leaf, int) else leaf.get(host, leaf["*"])
                    # Twice: the first answer may be kept for the second.
                    assert version.mask(name, host) == version.mask(name, host) == mask

    check()


def cut(ranges: PrefixRanges) -> list[tuple[str, str | None]]:
    """Where each range begins, and its owner."""
    chunks = ranges._chunks
    return [each for chunk in chunks for each in zip(chunk.bounds, chunk.owners[1:], strict=True)]


@given(prefix=PREFIXES, name=PREFIXES)
def test_a_successor_bounds_what_starts_with_a_prefix(prefix: str, name: str) -> None:
    """Everything between a prefix and its successor starts with it, and nothing else does."""
    end = successor(prefix)
    assert name.startswith(prefix) is (prefix <= name and (end is None or name < end))


NAMES = st.sampled_from(["*", "a", "ab", "b", "abc", "", "*a"])
LEAVES = st.none() | st.integers(1, 7) | st.sampled_from([{"*": 1, "h": 9}, {"*": 0, "h": 16, "i": 2}])
# Whether to begin with rights that are made anew; whether prefixes change; how.
STEPS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.dictionaries(NAMES, LEAVES, max_size=3)), max_size=8
)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("hosts", [1, 2, 32])
def test_rights_are_what_covers_a_name(hosts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name, ``*`` and the prefixes, in every version, put together or not; updated or made anew.

    With few hosts in a union, some of it is not put together.
    """
    monkeypatch.setattr(authorizer.index.masks, "UNION_HOSTS_MAXIMUM", hosts)

    @given(steps=STEPS)
    def check(steps: list[tuple[bool, bool, dict[str, Leaf | None]]]) -> None:
        rights = anew = NO_LEAVES
        literals: dict[str, Leaf] = {}
        prefixes: dict[str, Leaf] = {}
        versions = []
        for is_anew, is_prefixed, leaves in steps:
            before = anew if is_anew else rights
            rights = before.with_prefixes(leaves) if is_prefixed else before.with_literals(leaves)
            merged = {**(prefixes if is_prefixed else literals), **leaves}
            changed = {name: leaf for name, leaf in merged.items() if leaf is not None}
            literals, prefixes = (literals, changed) if is_prefixed else (changed, prefixes)
            anew = Rights.of(dict(literals), PrefixRanges.of(dict(prefixes)) if prefixes else None)
            # What is put together needs no more look-ups: without very many hosts that is everything.
            if hosts > 4:
                assert anew.named.keys() == literals.keys()
                assert anew.others is None
            versions += [(rights, literals, prefixes), (anew, literals, prefixes)]
        for version, names, starts in versions:
            assert dict(version.literals()) == names
            for name in ("*", "a", "ab", "abc", "abcd", "b", "", "*a", "other"):
                assert version.literal(name) == names.get(name)
                for host in ("h", "i", "j"):
                    leaves_of_name = [names.get("*"), names.get(name)]
                    leaves_of_name += [leaf for prefix, leaf in starts.items() if name.startswith(prefix)]
                    expected = 0
                    for leaf in leaves_of_name:
                        expected |= 0 if leaf is None else leaf_mask(leaf, host)
                    assert version.said(name, host) == expected

    check()


def test_what_is_put_together_until_something_changes() -> None:
    """Then each part is asked for itself: of the literals that changed, or of all that may be covered."""
    rights = Rights.of({"a": 1, "b": 2}, PrefixRanges.of({"a": 4}))
    assert (rights.named, rights.others) == ({"a": 5, "b": 2}, None)
    changed = rights.with_literals({"c": 1})
    assert changed.named is rights.named
    assert changed.others == {"c": 1}
    for changed in (rights.with_prefixes({"c": 1}), rights.with_literals({"*": 1})):
        assert (changed.named, changed.literal("b")) == ({}, 2)


def test_what_says_nothing_more_is_kept_once() -> None:
    """Literals that nothing else covers are not copied, and need no second look."""
    literals: dict[str, Leaf] = {"a": 1, "b": {"*": 0, "h": 1}}
    rights = Rights.of(literals, PrefixRanges.of({"c": 4}))
    assert rights.named is literals
    assert rights.others is None
