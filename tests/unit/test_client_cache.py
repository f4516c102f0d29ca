"""DecisionCache: each rule that a cached decision must meet to be served."""

from __future__ import annotations

import pytest

from authorizer.api.http.answers.acls import Acl
from authorizer.client import (
    AclOperation,
    AuthorizationRequest,
    CacheSettings,
    Decision,
    KafkaPrincipal,
    Question,
    ResourceType,
)
from authorizer.client.cache import DecisionCache
from authorizer.client.messages import ChangeEvent, ChangeEventDecoder

ALICE = KafkaPrincipal("User", "alice")
ORDERS = AuthorizationRequest(ALICE, AclOperation.READ, ResourceType.TOPIC, "orders", "10.0.0.1")
BOUND_S = 10.0


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> DecisionCache:
    """A cache with a connected stream at offset 5."""
    cache = DecisionCache(CacheSettings(max_age_s=BOUND_S, entries_max=3), clock)
    cache.on_connected()
    cache.on_event(event("start", 5))
    cache.on_event(event("current", 5))
    return cache


def event(name: str, offset: int | None = None, *changed: Acl) -> ChangeEvent:
    return ChangeEvent(name, offset, [], list(changed))


def acl(name: str = "orders", pattern: str = "LITERAL", resource_type: str = "TOPIC") -> Acl:
    return Acl("id", resource_type, name, pattern, "User:bob", "*", "READ", "ALLOW")


def decided(offset: int = 5) -> Decision:
    return Decision(True, "MatchingAcl", "an ACL allows it", offset)


def cache_decision(
    cache: DecisionCache, question: AuthorizationRequest = ORDERS, offset: int = 5
) -> Decision:
    answer = decided(offset)
    cache.put(cache.stamp(), question, answer)
    return answer


def test_a_decision_is_served_until_its_maximum_age(cache: DecisionCache, clock: Clock) -> None:
    """Its age counts from the request, not from the answer, with any events in between."""
    stamp = cache.stamp()
    clock.now_s += 4
    cache.put(stamp, ORDERS, decided())
    clock.now_s += BOUND_S - 4
    assert cache.get(ORDERS) == decided()
    cache.on_event(event("current", 6))
    clock.now_s += 0.001
    assert cache.get(ORDERS) is None
    clock.now_s -= 5
    assert cache.get(ORDERS) is None, "it is gone for good"


@pytest.mark.parametrize(
    ("changed", "is_invalidated"),
    [
        (acl(), True),
        (acl("*"), True),
        (acl("ord", "PREFIXED"), True),
        (acl("ord", "7"), True),
        (acl("ord"), False),
        (acl("orders.eu", "PREFIXED"), False),
        (acl(resource_type="GROUP"), False),
    ],
)
@pytest.mark.parametrize("removed", [False, True])
def test_a_change_invalidates_affected_decisions(
    cache: DecisionCache, changed: Acl, is_invalidated: bool, removed: bool
) -> None:
    """It affects a resource for all principals, because of allow.everyone.if.no.acl.found."""
    cache_decision(cache)
    cache.on_event(ChangeEvent("change", 7, [changed] if removed else [], [] if removed else [changed]))
    assert (cache.get(ORDERS) is None) == is_invalidated


def test_an_answer_older_than_a_change_is_not_cached(cache: DecisionCache) -> None:
    """The answer was pending when the change arrived; an answer at a later offset is cached."""
    stamp = cache.stamp()
    cache.on_event(event("change", 7, acl()))
    cache.put(stamp, ORDERS, decided(6))
    assert cache.get(ORDERS) is None
    cache_decision(cache, offset=9)
    cache.on_event(event("change", 9, acl()))
    assert cache.get(ORDERS) == decided(9)


def test_a_reload_invalidates_cached_and_pending_decisions(cache: DecisionCache) -> None:
    """Offsets may restart with it, so that earlier offsets are meaningless."""
    cache_decision(cache)
    stamp = cache.stamp()
    cache.on_event(event("reload", 2))
    assert cache.get(ORDERS) is None
    cache.put(stamp, ORDERS, decided(1000))
    assert cache.get(ORDERS) is None
    cache_decision(cache, offset=2)
    assert cache.get(ORDERS) == decided(2)


def test_nothing_is_served_without_a_change_stream(cache: DecisionCache) -> None:
    """From the end of a stream until the next one has delivered the missed changes."""
    cache_decision(cache)
    cache.on_disconnected()
    assert (cache.get(ORDERS), cache.serves) == (None, False)
    cache.on_connected()
    cache.on_event(event("start", 5))
    assert cache.get(ORDERS) is None
    cache.on_event(event("change", 6, acl("other")))
    cache.on_event(event("current", 8))
    assert (cache.get(ORDERS), cache.serves, cache.offset) == (decided(), True, 8)


def test_nothing_is_served_while_the_node_is_not_ready(cache: DecisionCache) -> None:
    cache_decision(cache)
    cache.on_event(event("not-ready"))
    assert cache.get(ORDERS) is None
    cache.on_event(event("current", 6))
    assert cache.get(ORDERS) is None
    cache.on_event(event("ready"))
    assert cache.get(ORDERS) == decided()


def test_min_offset_is_checked_against_the_stream(cache: DecisionCache) -> None:
    """A decision without affecting changes holds for every state up to the stream's offset."""
    cache_decision(cache)
    assert cache.get(ORDERS, min_offset=6) is None
    cache.on_event(event("change", 6, acl("other")))
    assert cache.get(ORDERS, min_offset=6) == decided()
    assert cache.get(ORDERS, min_offset=7) is None


def test_errors_are_not_cached(cache: DecisionCache) -> None:
    cache.put(cache.stamp(), ORDERS, Decision(False, "Unavailable", "gone", None))
    assert cache.get(ORDERS) is None
    unheard = DecisionCache(CacheSettings(max_age_s=1), Clock())
    cache_decision(unheard)
    unheard.on_connected()
    unheard.on_event(event("current", 5))
    assert unheard.get(ORDERS) is None


def test_the_oldest_decisions_are_evicted(cache: DecisionCache) -> None:
    questions = [
        AuthorizationRequest(ALICE, AclOperation.READ, ResourceType.TOPIC, name, "10.0.0.1")
        for name in "abcd"
    ]
    for question in questions:
        cache_decision(cache, question)
    assert [cache.get(question) is None for question in questions] == [True, False, False, False]


def test_the_earlier_name_of_a_request_still_works() -> None:
    assert Question is AuthorizationRequest


@pytest.mark.parametrize("settings", [{"max_age_s": 0}, {"max_age_s": 1, "entries_max": 0}])
def test_a_cache_of_size_zero_is_disabled(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CacheSettings(**settings)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_events_are_read_from_pieces_of_any_size(size: int) -> None:
    """Comments are skipped, and only a line feed ends a line: a name may contain U+2028 and U+0085."""
    added = Acl("i", "TOPIC", "a\u2028\u0085b", "LITERAL", "User:a", "*", "READ", "ALLOW")
    fields = (
        '"id":"i","resourceType":"TOPIC","resourceName":"a\u2028\u0085b","patternType":"LITERAL",'
        '"principal":"User:a","host":"*","operation":"READ","permissionType":"ALLOW"'
    )
    stream = (
        'id: 4\nevent: start\ndata: {"offset":4}\n\n:\n\n'
        f'id: 5\nevent: change\ndata: {{"offset":5,"removed":[],"added":[{{{fields}}}]}}\n\n'
        'event: not-ready\ndata: {"reason":"x"}\n\nid: 6\nevent: cur'
    ).encode()
    decoder = ChangeEventDecoder()
    events = [found for at in range(0, len(stream), size) for found in decoder.feed(stream[at : at + size])]
    assert events == [event("start", 4), event("change", 5, added), event("not-ready")]


def test_an_invalid_event_ends_the_stream() -> None:
    with pytest.raises(ValueError, match="no event"):
        list(ChangeEventDecoder().feed(b"id: 1\nevent: start\n\n"))
