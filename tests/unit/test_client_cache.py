"""DecisionCache: when a kept decision is served, and when it must not be. Every rule by itself."""

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
    """One whose stream is up, and has said everything up to offset 5."""
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


def keep(cache: DecisionCache, question: AuthorizationRequest = ORDERS, offset: int = 5) -> Decision:
    answer = decided(offset)
    cache.put(cache.stamp(), question, answer)
    return answer


def test_a_decision_is_served_until_it_is_as_old_as_the_bound(cache: DecisionCache, clock: Clock) -> None:
    """Counted from before it was asked for, not from when it came; and whatever the stream says meanwhile."""
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
    ("changed", "is_gone"),
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
def test_a_change_forgets_what_it_may_touch(
    cache: DecisionCache, changed: Acl, is_gone: bool, removed: bool
) -> None:
    """By resource, for any principal: allow.everyone.if.no.acl.found looks at those of others, too."""
    keep(cache)
    cache.on_event(ChangeEvent("change", 7, [changed] if removed else [], [] if removed else [changed]))
    assert (cache.get(ORDERS) is None) == is_gone


def test_an_answer_that_does_not_know_of_a_change_is_not_kept(cache: DecisionCache) -> None:
    """It was under way when the change was heard of; one that knows of it is kept, before and after."""
    stamp = cache.stamp()
    cache.on_event(event("change", 7, acl()))
    cache.put(stamp, ORDERS, decided(6))
    assert cache.get(ORDERS) is None
    keep(cache, offset=9)
    cache.on_event(event("change", 9, acl()))
    assert cache.get(ORDERS) == decided(9)


def test_a_reload_forgets_everything_and_what_is_being_asked(cache: DecisionCache) -> None:
    """Offsets may begin anew with it, so that those of before say nothing."""
    keep(cache)
    stamp = cache.stamp()
    cache.on_event(event("reload", 2))
    assert cache.get(ORDERS) is None
    cache.put(stamp, ORDERS, decided(1000))
    assert cache.get(ORDERS) is None
    keep(cache, offset=2)
    assert cache.get(ORDERS) == decided(2)


def test_nothing_is_served_while_the_changes_are_not_heard(cache: DecisionCache) -> None:
    """From the end of a stream until the next one has said what was missed."""
    keep(cache)
    cache.on_disconnected()
    assert (cache.get(ORDERS), cache.serves) == (None, False)
    cache.on_connected()
    cache.on_event(event("start", 5))
    assert cache.get(ORDERS) is None
    cache.on_event(event("change", 6, acl("other")))
    cache.on_event(event("current", 8))
    assert (cache.get(ORDERS), cache.serves, cache.offset) == (decided(), True, 8)


def test_nothing_is_served_while_the_node_is_not_ready(cache: DecisionCache) -> None:
    keep(cache)
    cache.on_event(event("not-ready"))
    assert cache.get(ORDERS) is None
    cache.on_event(event("current", 6))
    assert cache.get(ORDERS) is None
    cache.on_event(event("ready"))
    assert cache.get(ORDERS) == decided()


def test_a_write_of_ones_own_is_known(cache: DecisionCache) -> None:
    """min_offset: what no change has touched is the decision of every state up to the stream's offset."""
    keep(cache)
    assert cache.get(ORDERS, min_offset=6) is None
    cache.on_event(event("change", 6, acl("other")))
    assert cache.get(ORDERS, min_offset=6) == decided()
    assert cache.get(ORDERS, min_offset=7) is None


def test_what_was_not_decided_is_not_kept(cache: DecisionCache) -> None:
    cache.put(cache.stamp(), ORDERS, Decision(False, "Unavailable", "gone", None))
    assert cache.get(ORDERS) is None
    unheard = DecisionCache(CacheSettings(max_age_s=1), Clock())
    keep(unheard)
    unheard.on_connected()
    unheard.on_event(event("current", 5))
    assert unheard.get(ORDERS) is None


def test_the_oldest_make_room(cache: DecisionCache) -> None:
    questions = [
        AuthorizationRequest(ALICE, AclOperation.READ, ResourceType.TOPIC, name, "10.0.0.1")
        for name in "abcd"
    ]
    for question in questions:
        keep(cache, question)
    assert [cache.get(question) is None for question in questions] == [True, False, False, False]


def test_the_earlier_name_of_a_request_still_works() -> None:
    assert Question is AuthorizationRequest


@pytest.mark.parametrize("settings", [{"max_age_s": 0}, {"max_age_s": 1, "entries_max": 0}])
def test_a_cache_without_room_is_none(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        CacheSettings(**settings)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_events_are_read_however_they_are_cut(size: int) -> None:
    """Comments are none, and only a line feed ends a line: a name may hold U+2028 and U+0085."""
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


def test_what_is_no_event_breaks_the_stream() -> None:
    with pytest.raises(ValueError, match="no event"):
        list(ChangeEventDecoder().feed(b"id: 1\nevent: start\n\n"))
