"""The structures of the index, each compared with its definition."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.engine.index.covers import NO_COVER, Cover, single_cover
from authorizer.engine.index.masks import HostMasks, Leaf, PatternLeaf, leaf_mask
from authorizer.engine.index.pattern_keys import PREFIXED
from authorizer.engine.index.prefix_ranges import PrefixRanges, successor
from authorizer.engine.index.rights import (
    NO_RIGHTS_OF_TYPE,
    ListableRights,
    MaterializedRights,
    Rights,
    cover_of,
)
from support.limits import make_small

# The last code point has no successor; it, its neighbours, and the neighbours of the UTF-16 surrogates.
PREFIXES = st.text("ab\U0010ffff\U0010fffe", max_size=4) | st.text(max_size=2)
LEAVES = st.integers(1, 7) | st.sampled_from(
    [HostMasks({"h": 9}, 1), HostMasks({"h": 16, "i": 2}, 0), HostMasks({"j": 5, "k": 5}, 1)]
)
HOSTS = ("h", "i", "j", "other")


def covers(literals: dict[str, PatternLeaf], prefixes: dict[str, PatternLeaf]) -> list[Cover]:
    """One cover for each pattern; rights are built from them."""
    found = [single_cover(0, name, leaf, None) for name, leaf in literals.items()]
    return found + [single_cover(PREFIXED, prefix, leaf, None) for prefix, leaf in prefixes.items()]


def mask_of(rights: Rights, name: str, host: str) -> int:
    return leaf_mask(cover_of(rights, name).combined, host)


def union_mask(leaves: list[Leaf], host: str) -> int:
    """The mask of all leaves together."""
    mask = 0
    for leaf in leaves:
        mask |= leaf_mask(leaf, host)
    return mask


@pytest.fixture(params=["small", "usual"])
def small_limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the structures for many entries also for few."""
    if request.param == "small":
        make_small(monkeypatch)


@pytest.mark.usefixtures("small_limits")
def test_ranges_find_every_prefix_of_a_name() -> None:
    """One bisection finds the same covers and masks as a test of every prefix."""

    @given(
        values=st.dictionaries(PREFIXES, LEAVES, max_size=12),
        everywhere=LEAVES | st.just(0),
        names=st.lists(PREFIXES, min_size=1),
    )
    def check(values: dict[str, PatternLeaf], everywhere: PatternLeaf, names: list[str]) -> None:
        last = single_cover(0, "*", everywhere, None) if everywhere else NO_COVER
        ranges = PrefixRanges.of(covers({}, values), last)
        assert list(ranges.bounds) == sorted(set(ranges.bounds))
        # There are no more ranges than necessary.
        assert all(one is not other for one, other in pairwise(ranges.covers))
        assert [each.name for each in ranges.stored()] == sorted(values)
        for name in [*names, *values, *(f"{prefix}a" for prefix in values)]:
            found = sorted((key for key in values if name.startswith(key)), key=len, reverse=True)
            cover = ranges.cover(name)
            assert [each.name for each in cover if each is not last] == found
            leaves: list[Leaf] = [everywhere, *(values[prefix] for prefix in found)]
            for host in HOSTS:
                assert leaf_mask(cover.combined, host) == union_mask(leaves, host)

    check()


@given(prefix=PREFIXES, name=PREFIXES)
def test_a_successor_bounds_what_starts_with_a_prefix(prefix: str, name: str) -> None:
    """Everything between a prefix and its successor starts with it, and nothing else does."""
    end = successor(prefix)
    assert name.startswith(prefix) is (prefix <= name and (end is None or name < end))


NAMES = ("*", "a", "ab", "b", "abc", "", "*a")
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.none() | LEAVES, max_size=3)
# Whether to begin with new rights; the changes of literal names, and those of prefixes.
STEPS = st.lists(st.tuples(st.booleans(), CHANGES, CHANGES), max_size=8)


@pytest.mark.usefixtures("small_limits")
def test_rights_of_a_name_are_those_of_its_covers() -> None:
    """The name, ``*`` and the prefixes, in every version, new or changed, in any order of requests."""

    @given(steps=STEPS)
    def check(steps: list[tuple[bool, dict[str, PatternLeaf | None], dict[str, PatternLeaf | None]]]) -> None:
        rights: ListableRights = NO_RIGHTS_OF_TYPE
        literals: dict[str, PatternLeaf] = {}
        prefixes: dict[str, PatternLeaf] = {}
        versions: list[tuple[ListableRights, dict[str, PatternLeaf], dict[str, PatternLeaf]]] = []
        for is_anew, changed, changed_prefixes in steps:
            before = MaterializedRights.of(covers(literals, prefixes)) if is_anew else rights
            rights = with_changes(before, changed, changed_prefixes)
            literals, prefixes = merged(literals, changed), merged(prefixes, changed_prefixes)
            versions += [
                (rights, literals, prefixes),
                (MaterializedRights.of(covers(literals, prefixes)), literals, prefixes),
            ]
            expect(rights, literals, prefixes)
        for version in versions:
            expect(*version)

    check()


def with_changes(
    rights: ListableRights, literals: dict[str, PatternLeaf | None], prefixes: dict[str, PatternLeaf | None]
) -> ListableRights:
    for name, leaf in literals.items():
        rights = rights.with_leaf(0, name, leaf)
    for prefix, leaf in prefixes.items():
        rights = rights.with_leaf(PREFIXED, prefix, leaf)
    return rights


def merged(before: dict[str, PatternLeaf], changes: dict[str, PatternLeaf | None]) -> dict[str, PatternLeaf]:
    return {name: leaf for name, leaf in {**before, **changes}.items() if leaf is not None}


def expect(
    rights: ListableRights, literals: dict[str, PatternLeaf], prefixes: dict[str, PatternLeaf]
) -> None:
    """Compare the rights with these leaves."""
    assert {each.name: each.leaf for each in rights.covers() if not each.prefixed} == literals
    assert {each.name: each.leaf for each in rights.covers() if each.prefixed} == prefixes
    for name in (*NAMES, "abcd", "other"):
        assert rights.pattern_cover(0, name).leaf == literals.get(name, 0)
        assert rights.pattern_cover(PREFIXED, name).leaf == prefixes.get(name, 0)
        around = sorted((each for each in prefixes if name.startswith(each)), key=len, reverse=True)
        chain = [(0, name)] if name in literals and name != "*" else []
        chain += [(PREFIXED, each) for each in around]
        chain += [(0, "*")] if "*" in literals else []
        cover = cover_of(rights, name)
        assert [(each.prefixed, each.name) for each in cover] == chain
        leaves: list[Leaf] = [(prefixes if kind else literals)[each] for kind, each in chain]
        assert [each.leaf for each in cover] == leaves
        for host in HOSTS:
            # Twice: the second answer may come from the cache.
            assert mask_of(rights, name, host) == mask_of(rights, name, host) == union_mask(leaves, host)


def test_literals_are_stored_once() -> None:
    """Rights without cached names share the dict of literals."""
    both = covers({"a": 1, "b": HostMasks({"h": 1}, 0)}, {"a": 1})
    rights = MaterializedRights.of(both)
    assert rights.by_name is rights.literals


def test_undone_changes_give_the_earlier_rights() -> None:
    """An added and removed pattern leaves nothing behind."""
    made = MaterializedRights.of(covers({"a": 1}, {"p": 1}))
    changed = made.with_leaf(0, "b", 2).with_leaf(PREFIXED, "q", 2)
    assert changed is not made
    assert changed.with_leaf(0, "b", None).with_leaf(PREFIXED, "q", None) is made


def test_many_changes_are_merged() -> None:
    """The number of unmerged changes that a decision reads stays small."""
    rights: ListableRights = MaterializedRights.of(covers({}, {}))
    made = 0
    for number in range(1_000):
        rights = rights.with_leaf(0, str(number), 1)
        made += isinstance(rights, MaterializedRights)
    assert 10 < made < 60
    assert len([*rights.covers()]) == 1_000


def test_the_cache_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights with a cache store names of usual length; others are computed each time."""
    make_small(monkeypatch)
    literals: dict[str, PatternLeaf] = {"ab": 8}
    prefixes: dict[str, PatternLeaf] = {"a": 1, "ab": 2}
    names = ("x" * 250, "ab", "abc", "x", "ac")
    remembering = MaterializedRights.of(covers(literals, prefixes), caches_names=True)
    changed = remembering.with_leaf(0, "b", 4)
    for rights in (remembering, changed, MaterializedRights.of(covers(literals, prefixes))):
        for _ in range(2):
            assert [mask_of(rights, name, "h") for name in names] == [0, 11, 3, 0, 1]
    assert {name: cover.combined for name, cover in remembering.by_name.items()} == {
        "ab": 11,
        "abc": 3,
        "x": 0,
    }
    assert MaterializedRights.of(covers({}, {"a": 1, "c": 1, "e": 1})).caches_names
    assert changed.by_name == {}
    assert MaterializedRights.of(covers(literals, prefixes)).by_name.keys() == {"ab"}


def test_a_changed_name_is_cached_until_the_next_change() -> None:
    """It is merged once, and again after any change; an earlier version does not change."""
    changed = (
        MaterializedRights.of(covers({"pa": 1}, {"p": 2})).with_leaf(0, "pa", 4).with_leaf(0, "pb", None)
    )
    assert changed.by_name == {}
    cover = cover_of(changed, "pa")
    assert (cover.combined, mask_of(changed, "pb", "h"), mask_of(changed, "pc", "h")) == (6, 2, 2)
    assert changed.by_name == {"pa": cover}
    assert cover_of(changed, "pa") is cover
    assert mask_of(changed.with_leaf(PREFIXED, "p", 8), "pa", "h") == 12
    assert mask_of(changed.with_leaf(0, "pa", None), "pa", "h") == 2
    assert cover_of(changed, "pa") is cover


def test_a_change_invalidates_cached_names() -> None:
    """A cached name is computed again after each change of its covers."""
    rights = MaterializedRights.of(covers({"t": 1}, {"p": 2}), caches_names=True)
    assert [mask_of(rights, name, "h") for name in ("pq", "x")] == [2, 0]
    later: list[tuple[ListableRights, list[int]]] = [
        (rights.with_leaf(0, "x", 4), [2, 4]),
        (rights.with_leaf(0, "*", 4), [6, 4]),
        (rights.with_leaf(PREFIXED, "p", None), [0, 0]),
        (rights.with_leaf(PREFIXED, "", 8), [10, 8]),
        (rights, [2, 0]),
    ]
    for changed, expected in later:
        for _ in range(2):
            assert [mask_of(changed, name, "h") for name in ("pq", "x")] == expected


def test_merged_rights_start_with_an_empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merging retains whether there is a cache, not its entries."""
    make_small(monkeypatch)
    for remembers in (False, True):
        rights: ListableRights = MaterializedRights.of(covers({}, {"p": 2}), caches_names=remembers)
        assert mask_of(rights, "pq", "h") == 2
        for prefix in ("pq", "pr"):
            rights = rights.with_leaf(PREFIXED, prefix, 4)
        assert isinstance(rights, MaterializedRights)
        assert rights.caches_names is remembers
        assert mask_of(rights, "pq", "h") == 6
        assert rights.by_name.keys() == ({"pq"} if remembers else set())
