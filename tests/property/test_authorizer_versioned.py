"""Versioned: each version is the map that it was made as, whoever makes others of it, or reads meanwhile."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.index.versioned import Versioned

KEYS = range(6)
# Which version to follow, counted from the newest: mostly that one. A key, and its value or None.
steps = st.tuples(
    st.sampled_from([0, 0, 0, 0, 0, 1, 2, 7]), st.sampled_from(KEYS), st.none() | st.integers(0, 3)
)


@given(
    steps=st.lists(steps, max_size=60),
    reading=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=20),
    maximum=st.sampled_from([0, 1, 3, 1_000]),
)
def test_a_version_never_changes(
    steps: list[tuple[int, int, int | None]], reading: list[tuple[int, bool]], maximum: int
) -> None:
    """Also not by being read before the others are made, by a key or as a whole."""
    with patch("authorizer.index.versioned._STEPS_MAXIMUM", maximum):
        versions: list[tuple[Versioned[int, int], dict[int, int]]] = [(Versioned({}), {})]
        for back, key, value in steps:
            follows, held = versions[max(0, len(versions) - 1 - back)]
            truth = {**held}
            if value is None:
                truth.pop(key, None)
            else:
                truth[key] = value
            versions.append((follows.with_one(key, value), truth))
            for number, whole in reading:
                version, truth = versions[number % len(versions)]
                if whole:
                    assert version.copy() == truth
                else:
                    assert version.get(number % len(KEYS)) == truth.get(number % len(KEYS))
        for _ in range(2):
            for version, truth in versions:
                assert {key: version.get(key) for key in KEYS} == {key: truth.get(key) for key in KEYS}
                assert version.copy() == truth


class Thing:
    """A value that can be asked whether it is still held."""


def test_what_was_overwritten_goes_with_the_last_who_may_read_it() -> None:
    """Nothing is kept for versions that nobody holds, however many came since."""
    first = Thing()
    gone = weakref.ref(first)
    earlier = Versioned({"a": first})
    del first
    version = earlier
    for _ in range(1_000):
        version = version.with_one("a", Thing())
    assert earlier.get("a") is gone() is not None
    del earlier
    assert gone() is None
    assert version.since is None


def test_a_long_time_of_updates_is_looked_through_once() -> None:
    """Who holds an early version pays for what happened since once, not with every look."""
    earlier: Versioned[int, int] = Versioned({})
    version = earlier
    for number in range(10_000):
        version = version.with_one(number % 100, number)
    assert earlier.get(7) is None
    assert earlier.get(1_000) is None
    assert earlier.since is not None
    assert earlier.since[1] is version


class Interrupted(dict[str, int]):
    """A dict in which another thread's turn comes in the middle of whatever is done with it."""

    def __init__(self, turn: Callable[[], None]) -> None:
        super().__init__(a=1, b=2)
        self.turn: Callable[[], None] | None = turn

    def _interrupt(self) -> None:
        turn, self.turn = self.turn, None
        if turn is not None:
            turn()
            self.turn = turn

    def __setitem__(self, key: str, value: int) -> None:
        self._interrupt()
        super().__setitem__(key, value)
        self._interrupt()

    def pop(self, key: str, default: None = None) -> int | None:  # type: ignore[override]
        self._interrupt()
        value = super().pop(key, default)
        self._interrupt()
        return value

    def get(self, key: str, default: None = None) -> int | None:  # type: ignore[override]
        self._interrupt()
        return super().get(key, default)

    def copy(self) -> dict[str, int]:
        self._interrupt()
        return {**self}


@pytest.mark.parametrize("value", [5, None])
@pytest.mark.parametrize("key", ["a", "new"])
def test_a_reader_may_come_while_a_version_is_made(key: str, value: int | None) -> None:
    """Before the dict is written and after it: the version before is what it was."""
    seen = []

    def read() -> None:
        seen.append(({name: version.get(name) for name in ("a", "b", "new")}, version.copy()))

    version = Versioned(Interrupted(read))
    later = version.with_one(key, value)
    assert len(seen) == 3  # what was there is read, too
    assert all(each == ({"a": 1, "b": 2, "new": None}, {"a": 1, "b": 2}) for each in seen)
    assert later.get(key) == value


@pytest.mark.parametrize("value", [5, None])
@pytest.mark.parametrize("key", ["a", "new"])
def test_a_version_may_be_made_while_a_reader_reads(key: str, value: int | None) -> None:
    """The reader does not see the write, although it asks the dict after it."""

    def write() -> None:
        written.append(version.with_one(key, value))

    for whole in (False, True):
        written: list[Versioned[str, int]] = []
        version = Versioned(Interrupted(write))
        if whole:
            assert version.copy() == {"a": 1, "b": 2}
        else:
            assert version.get(key) == (1 if key == "a" else None)
        assert written
        assert written[0].get(key) == value
