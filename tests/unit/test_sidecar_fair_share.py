"""FairShare: what holders get of places that they share."""

from __future__ import annotations

from authorizer.listeners.fair_share import FairShare

PLACES = 64


def taken_by(share: FairShare, holder: str) -> int:
    """Places that it gets while it takes all that it can."""
    count = 0
    while share.take(holder, PLACES):
        count += 1
    return count


def test_a_holder_gets_half_and_those_after_it_have_room() -> None:
    share = FairShare()
    assert [taken_by(share, holder) for holder in "abc"] == [32, 16, 8]
    assert share.taken == 56


def test_holders_that_compete_get_the_same() -> None:
    share = FairShare()
    while any([share.take(holder, PLACES) for holder in "abc"]):  # noqa: C419 - each of them
        pass
    assert [share._counts[holder] for holder in "abc"] == [16, 16, 16]
    assert share.take("d", PLACES)


def test_a_place_that_was_given_back_is_free() -> None:
    share = FairShare()
    for _ in range(3):
        taken = taken_by(share, "a")
        for _ in range(taken):
            share.release("a")
        assert (taken, share.taken, share._counts) == (32, 0, {})


def test_the_only_place_is_for_who_comes_first() -> None:
    share = FairShare()
    assert [share.take("a", 1), share.take("a", 1), share.take("b", 1)] == [True, False, False]
    assert not share.take("c", 0)
