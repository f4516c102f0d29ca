"""Folding of repeated decisions into one event: every decision counts once, in the right event."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.audit_levels import DEBUG, INFO
from authorizer.api.authorizer_api import Action, HttpRequestContext, RequestContext
from authorizer.node.decision_log import folding as module
from authorizer.node.decision_log.event import DecisionEvent
from authorizer.node.decision_log.folding import CHARACTERS_MAX, Folding
from records.entries import RemoveAccessControlEntryRecord
from records.ids import uuid_to_string
from records.principal import parse_kafka_principal
from support.decisions import READ, WRITE, Fed, allow, context, deny, topic

WINDOW_S = 10.0
SOURCE = "//host/aclog"


class FoldedEvents:
    """A folding with a manual clock, and its events in order."""

    def __init__(self) -> None:
        self.folding = Folding(WINDOW_S, SOURCE)
        self.now_s = 100.0
        self.out: list[DecisionEvent] = []

    def decide(
        self,
        fed: Fed,
        name: str = "orders",
        *,
        who: RequestContext | None = None,
        level: int = INFO,
        count: int = 1,
        one_in: int = 1,
    ) -> None:
        who = context("User:alice") if who is None else who
        decided = fed.authorizer.answer(who, Action(READ, topic(name), count))
        decided.level = level
        # The wall clock advances an hour with each second of the monotonic clock, to tell them apart.
        decided.decided_s = self.now_s * 3600
        event = self.folding.take(decided, str(who.principal), one_in, self.now_s)
        self.out += [] if event is None else [event]

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.out += self.folding.ended(self.now_s)

    def end(self) -> None:
        self.out += self.folding.ended()

    def counts(self) -> list[tuple[str, int]]:
        return [(event.data.resource_name, event.data.count) for event in self.out]


def test_the_window_begins_with_the_first_event_and_ends_for_all() -> None:
    fed, folded = Fed(), FoldedEvents()
    folded.decide(fed)
    folded.wait(WINDOW_S - 1)
    folded.decide(fed)
    assert folded.out == []
    folded.wait(1)
    assert folded.counts() == [("orders", 2)]
    (event,) = folded.out
    assert (event.time.timestamp(), event.data.last_time.timestamp()) == (100 * 3600, 109 * 3600)
    folded.decide(fed)
    folded.end()
    assert folded.counts()[1:] == [("orders", 1)]
    assert folded.folding.folded == 1


def test_events_come_in_the_order_in_which_their_windows_end() -> None:
    fed, folded = Fed(), FoldedEvents()
    for name in ("a", "b", "a", "c"):
        folded.decide(fed, name)
        folded.wait(1)
    folded.wait(WINDOW_S - 3)
    assert folded.counts() == [("a", 2), ("b", 1)]
    folded.wait(2)
    assert folded.counts() == [("a", 2), ("b", 1), ("c", 1)]


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "payments"},
        {"who": context("User:bob")},
        {"who": context("User:alice", "10.0.0.2")},
        {"level": DEBUG},
        {"count": 2},
        {"one_in": 10},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_request_is_another_event(changed: dict[str, object]) -> None:
    fed, folded = Fed(), FoldedEvents()
    folded.decide(fed)
    folded.decide(fed, **changed)  # type: ignore[arg-type]
    folded.end()
    assert [count for _, count in folded.counts()] == [1, 1]


def test_events_are_separate_by_caller_and_not_by_request_id() -> None:
    def asks(caller: str, request_id: str) -> HttpRequestContext:
        return HttpRequestContext(
            parse_kafka_principal("User:alice"),
            "10.0.0.1",
            request_name="AuthZenEvaluation",
            caller=parse_kafka_principal(caller),
            caller_address="127.0.0.1",
            request_id=request_id,
        )

    fed, folded = Fed(), FoldedEvents()
    for caller, request_id in (("User:a", "1"), ("User:a", "2"), ("User:b", "3")):
        folded.decide(fed, who=asks(caller, request_id))
    folded.end()
    counted = [(event.data.caller, event.data.request_id, event.data.count) for event in folded.out]
    assert counted == [("User:a", "1", 2), ("User:b", "3", 1)]


def test_a_change_of_other_acls_ends_no_event_which_has_both_offsets() -> None:
    fed, folded = Fed(deny("User:alice", READ, topic("orders"))), FoldedEvents()
    folded.decide(fed)
    fed.publish(allow("User:x", WRITE, topic("other")))
    folded.decide(fed)
    folded.end()
    assert [(event.data.count, event.data.offset, event.data.last_offset) for event in folded.out] == [
        (2, 1, 2)
    ]


def test_the_same_result_for_another_reason_is_another_event() -> None:
    """An equal ACL replaces the deciding one: the result is the same, the reason is not."""
    first = deny("User:alice", READ, topic("orders"))
    fed, folded = Fed(first), FoldedEvents()
    folded.decide(fed)
    fed.publish(deny("User:alice", READ, topic("orders")), RemoveAccessControlEntryRecord(first.id))
    folded.decide(fed)
    folded.decide(fed)
    fed.authorizer.reconfigure({"super.users": "User:root"})
    folded.decide(fed)
    folded.end()
    assert [event.data.count for event in folded.out] == [1, 3]
    ids = [(event.data.acl or {})["id"] for event in folded.out]
    assert len(set(ids)) == 2


def test_a_change_of_settings_is_another_event() -> None:
    fed, folded = Fed(), FoldedEvents()
    folded.decide(fed)
    fed.authorizer.reconfigure({"super.users": "User:alice"})
    folded.decide(fed)
    folded.end()
    assert [(event.data.rule, event.data.count) for event in folded.out] == [
        ("DefaultDeny", 1),
        ("SuperUser", 1),
    ]


def test_the_number_of_open_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest one is written early, so that memory is bounded for any requests."""
    monkeypatch.setattr(module, "OPEN_MAX", 3)
    fed, folded = Fed(), FoldedEvents()
    for name in ("a", "b", "c", "a", "d"):
        folded.decide(fed, name)
    assert folded.counts() == [("a", 2)]
    folded.decide(fed, "a")
    assert folded.counts() == [("a", 2), ("b", 1)]


def test_very_long_requests_are_not_folded() -> None:
    fed, folded = Fed(), FoldedEvents()
    folded.decide(fed, "x" * CHARACTERS_MAX)
    folded.decide(fed, "x" * CHARACTERS_MAX)
    assert [event.data.count for event in folded.out] == [1, 1]
    folded.end()
    assert len(folded.out) == 2


_STEPS = st.one_of(
    st.tuples(st.just("decide"), st.sampled_from(["a", "b", "c", "d"])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, WINDOW_S / 2, WINDOW_S])),
    st.tuples(st.just("publish"), st.sampled_from(["a", "b", "*"])),
)


@given(st.lists(_STEPS, max_size=40), st.integers(1, 4))
def test_every_decision_is_counted_once(steps: list[tuple[str, str | float]], most: int) -> None:
    """In any sequence the counts add up to the decisions; an event has one request and one answer."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "OPEN_MAX", most)
        fed, folded = Fed(), FoldedEvents()
        decided: Counter[tuple[str, str | None]] = Counter()
        for what, value in steps:
            if what == "decide":
                action = Action(READ, topic(str(value)))
                acl = fed.authorizer.decide(context("User:alice"), action).acl
                decided[str(value), None if acl is None else uuid_to_string(acl.record.id)] += 1
                folded.decide(fed, str(value))
            elif what == "wait":
                folded.wait(float(value))
                assert all(each.ends_s > folded.now_s for each in folded.folding._windows.values())
            else:
                fed.publish(deny("User:alice", READ, topic(str(value))))
            assert len(folded.folding._windows) <= most
        folded.end()
    counted: Counter[tuple[str, str | None]] = Counter()
    for event in folded.out:
        data = event.data
        counted[data.resource_name, None if data.acl is None else data.acl["id"]] += data.count
        assert event.time <= data.last_time
        assert data.offset <= data.last_offset
    assert counted == decided
    assert folded.folding.folded == sum(counted.values()) - len(folded.out)
