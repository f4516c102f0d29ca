"""The index's structures, each against what it stands for."""

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

# The last code point has no successor; neighbours of it and of the surrogates' place in UTF-16.
PREFIXES = st.text("ab\U0010ffff\U0010fffe", max_size=4) | st.text(max_size=2)
LEAVES = st.integers(1, 7) | st.sampled_from(
    [HostMasks({"h": 9}, 1), HostMasks({"h": 16, "i": 2}, 0), HostMasks({"j": 5, "k": 5}, 1)]
)
HOSTS = ("h", "i", "j", "other")


def places(literals: dict[str, PatternLeaf], prefixes: dict[str, PatternLeaf]) -> list[Cover]:
    """Each alone, as rights are made of them."""
    found = [single_cover(0, name, leaf, None) for name, leaf in literals.items()]
    return found + [single_cover(PREFIXED, prefix, leaf, None) for prefix, leaf in prefixes.items()]


def said(rights: Rights, name: str, host: str) -> int:
    return leaf_mask(cover_of(rights, name).combined, host)


def said_by(leaves: list[Leaf], host: str) -> int:
    """All of them together."""
    mask = 0
    for leaf in leaves:
        mask |= leaf_mask(leaf, host)
    return mask


@pytest.fixture(params=["small", "usual"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is for much is also tried with little."""
    if request.param == "small":
        make_small(monkeypatch)


@pytest.mark.usefixtures("sizes")
def test_ranges_find_every_prefix_of_a_name() -> None:
    """By one bisection what looking at every prefix finds, and what is said of every name."""

    @given(
        values=st.dictionaries(PREFIXES, LEAVES, max_size=12),
        everywhere=LEAVES | st.just(0),
        names=st.lists(PREFIXES, min_size=1),
    )
    def check(values: dict[str, PatternLeaf], everywhere: PatternLeaf, names: list[str]) -> None:
        last = single_cover(0, "*", everywhere, None) if everywhere else NO_COVER
        ranges = PrefixRanges.of(places({}, values), last)
        assert list(ranges.bounds) == sorted(set(ranges.bounds))
        # No more ranges than need be.
        assert all(one is not other for one, other in pairwise(ranges.covers))
        assert [each.name for each in ranges.stored()] == sorted(values)
        for name in [*names, *values, *(f"{prefix}a" for prefix in values)]:
            found = sorted((key for key in values if name.startswith(key)), key=len, reverse=True)
            cover = ranges.cover(name)
            assert [each.name for each in cover if each is not last] == found
            leaves: list[Leaf] = [everywhere, *(values[prefix] for prefix in found)]
            for host in HOSTS:
                assert leaf_mask(cover.combined, host) == said_by(leaves, host)

    check()


@given(prefix=PREFIXES, name=PREFIXES)
def test_a_successor_bounds_what_starts_with_a_prefix(prefix: str, name: str) -> None:
    """Everything between a prefix and its successor starts with it, and nothing else does."""
    end = successor(prefix)
    assert name.startswith(prefix) is (prefix <= name and (end is None or name < end))


NAMES = ("*", "a", "ab", "b", "abc", "", "*a")
CHANGES = st.dictionaries(st.sampled_from(NAMES), st.none() | LEAVES, max_size=3)
# Whether to begin with rights that are made anew; how literal names change, and how prefixes do.
STEPS = st.lists(st.tuples(st.booleans(), CHANGES, CHANGES), max_size=8)


@pytest.mark.usefixtures("sizes")
def test_rights_are_what_covers_a_name() -> None:
    """The name, ``*`` and the prefixes, in every version, made anew or changed, whoever asks when."""

    @given(steps=STEPS)
    def check(steps: list[tuple[bool, dict[str, PatternLeaf | None], dict[str, PatternLeaf | None]]]) -> None:
        rights: ListableRights = NO_RIGHTS_OF_TYPE
        literals: dict[str, PatternLeaf] = {}
        prefixes: dict[str, PatternLeaf] = {}
        versions: list[tuple[ListableRights, dict[str, PatternLeaf], dict[str, PatternLeaf]]] = []
        for is_anew, changed, changed_prefixes in steps:
            before = MaterializedRights.of(places(literals, prefixes)) if is_anew else rights
            rights = with_changes(before, changed, changed_prefixes)
            literals, prefixes = merged(literals, changed), merged(prefixes, changed_prefixes)
            versions += [
                (rights, literals, prefixes),
                (MaterializedRights.of(places(literals, prefixes)), literals, prefixes),
            ]
            expect(rights, literals, prefixes)
        for version in versions:
            expect(*version)

    check()


def with_changes(
    rights: ListableRights, literals: dict[str, PatternLeaf | None], prefixes: dict[str, PatternLeaf | None]
) -> ListableRights:
    for name, leaf in literals.items():
        rights = rights.with_place(0, name, leaf)
    for prefix, leaf in prefixes.items():
        rights = rights.with_place(PREFIXED, prefix, leaf)
    return rights


def merged(before: dict[str, PatternLeaf], changes: dict[str, PatternLeaf | None]) -> dict[str, PatternLeaf]:
    return {name: leaf for name, leaf in {**before, **changes}.items() if leaf is not None}


def expect(
    rights: ListableRights, literals: dict[str, PatternLeaf], prefixes: dict[str, PatternLeaf]
) -> None:
    """The rights say what these leaves say."""
    assert {each.name: each.leaf for each in rights.places() if not each.prefixed} == literals
    assert {each.name: each.leaf for each in rights.places() if each.prefixed} == prefixes
    for name in (*NAMES, "abcd", "other"):
        assert rights.at(0, name).leaf == literals.get(name, 0)
        assert rights.at(PREFIXED, name).leaf == prefixes.get(name, 0)
        around = sorted((each for each in prefixes if name.startswith(each)), key=len, reverse=True)
        chain = [(0, name)] if name in literals and name != "*" else []
        chain += [(PREFIXED, each) for each in around]
        chain += [(0, "*")] if "*" in literals else []
        cover = cover_of(rights, name)
        assert [(each.prefixed, each.name) for each in cover] == chain
        leaves: list[Leaf] = [(prefixes if kind else literals)[each] for kind, each in chain]
        assert [each.leaf for each in cover] == leaves
        for host in HOSTS:
            # Twice: the first answer may be remembered.
            assert said(rights, name, host) == said(rights, name, host) == said_by(leaves, host)


def test_literals_are_kept_once() -> None:
    """But where other names are remembered beside them."""
    covers = places({"a": 1, "b": HostMasks({"h": 1}, 0)}, {"a": 1})
    rights = MaterializedRights.of(covers)
    assert rights.named is rights.own


def test_rights_without_changes_any_more_are_those_before() -> None:
    """What came and went leaves nothing behind."""
    made = MaterializedRights.of(places({"a": 1}, {"p": 1}))
    changed = made.with_place(0, "b", 2).with_place(PREFIXED, "q", 2)
    assert changed is not made
    assert changed.with_place(0, "b", None).with_place(PREFIXED, "q", None) is made


def test_many_changes_are_put_together() -> None:
    """What decisions look at apart stays little beside what they find at once."""
    rights: ListableRights = MaterializedRights.of(places({}, {}))
    made = 0
    for number in range(1_000):
        rights = rights.with_place(0, str(number), 1)
        made += isinstance(rights, MaterializedRights)
    assert 10 < made < 60
    assert len([*rights.places()]) == 1_000


def test_names_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """By rights that do so, of a usual length; others are found anew each time."""
    make_small(monkeypatch)
    literals: dict[str, PatternLeaf] = {"ab": 8}
    prefixes: dict[str, PatternLeaf] = {"a": 1, "ab": 2}
    names = ("x" * 250, "ab", "abc", "x", "ac")
    remembering = MaterializedRights.of(places(literals, prefixes), remembers=True)
    changed = remembering.with_place(0, "b", 4)
    for rights in (remembering, changed, MaterializedRights.of(places(literals, prefixes))):
        for _ in range(2):
            assert [said(rights, name, "h") for name in names] == [0, 11, 3, 0, 1]
    assert {name: cover.combined for name, cover in remembering.named.items()} == {"ab": 11, "abc": 3, "x": 0}
    assert MaterializedRights.of(places({}, {"a": 1, "c": 1, "e": 1})).remembers
    assert changed.named == {}
    assert MaterializedRights.of(places(literals, prefixes)).named.keys() == {"ab"}


def test_a_name_that_changed_is_remembered_until_the_next_change() -> None:
    """Put together once, and anew when anything changes; a version of before stays what it was."""
    changed = (
        MaterializedRights.of(places({"pa": 1}, {"p": 2})).with_place(0, "pa", 4).with_place(0, "pb", None)
    )
    assert changed.named == {}
    cover = cover_of(changed, "pa")
    assert (cover.combined, said(changed, "pb", "h"), said(changed, "pc", "h")) == (6, 2, 2)
    assert changed.named == {"pa": cover}
    assert cover_of(changed, "pa") is cover
    assert said(changed.with_place(PREFIXED, "p", 8), "pa", "h") == 12
    assert said(changed.with_place(0, "pa", None), "pa", "h") == 2
    assert cover_of(changed, "pa") is cover


def test_what_is_remembered_is_not_what_changes_say() -> None:
    """A name that rights remember is asked again after each change of what covers it."""
    rights = MaterializedRights.of(places({"t": 1}, {"p": 2}), remembers=True)
    assert [said(rights, name, "h") for name in ("pq", "x")] == [2, 0]
    later: list[tuple[ListableRights, list[int]]] = [
        (rights.with_place(0, "x", 4), [2, 4]),
        (rights.with_place(0, "*", 4), [6, 4]),
        (rights.with_place(PREFIXED, "p", None), [0, 0]),
        (rights.with_place(PREFIXED, "", 8), [10, 8]),
        (rights, [2, 0]),
    ]
    for changed, expected in later:
        for _ in range(2):
            assert [said(changed, name, "h") for name in ("pq", "x")] == expected


def test_rights_put_together_again_remember_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they do is kept; what they remembered is not."""
    make_small(monkeypatch)
    for remembers in (False, True):
        rights: ListableRights = MaterializedRights.of(places({}, {"p": 2}), remembers=remembers)
        assert said(rights, "pq", "h") == 2
        for prefix in ("pq", "pr"):
            rights = rights.with_place(PREFIXED, prefix, 4)
        assert isinstance(rights, MaterializedRights)
        assert rights.remembers is remembers
        assert said(rights, "pq", "h") == 6
        assert rights.named.keys() == ({"pq"} if remembers else set())
