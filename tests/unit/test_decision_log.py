"""Decision events: their content, the decisions that have one, and no delay of a decision."""

from __future__ import annotations

import io
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from authorizer.api.audit_levels import DEBUG, INFO, OFF, TRACE
from authorizer.api.authorizer_api import Action, HttpRequestContext, RequestContext
from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import LogOutput
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.decision_log.decision_log import DecisionLog
from records.entries import RemoveAccessControlEntryRecord
from records.ids import uuid_to_string
from records.principal import KafkaPrincipal, parse_kafka_principal
from support.acl_strategies import ODD_NAMES, naive_requests, request_of
from support.cloud_events import cloud_event
from support.decision_logs import MemoryDestination, events_to
from support.decisions import DESCRIBE, READ, WRITE, Fed, allow, context, deny, group, topic
from support.nodes import SOON_S
from support.waiting import wait_until

GATEWAY = parse_kafka_principal("User:gateway")
ALICE = context("User:alice")


def over_http(request_id: str | None = None) -> HttpRequestContext:
    return HttpRequestContext(
        parse_kafka_principal("User:alice"),
        "10.0.0.1",
        request_name="AuthZenEvaluation",
        caller=GATEWAY,
        caller_address="127.0.0.1",
        request_id=request_id,
    )


def decide(fed: Fed, *names: str, who: RequestContext = ALICE) -> None:
    fed.authorizer.authorize(who, [Action(READ, topic(name)) for name in names])


def wait_for(count: int, destination: MemoryDestination) -> None:
    wait_until(lambda: len(destination.lines) >= count)


def test_an_event_has_the_request_the_caller_and_the_deciding_acl() -> None:
    destination = MemoryDestination()
    grant = allow("User:alice", READ, topic("orders"))
    before = datetime.now(UTC)
    with events_to(destination) as audit:
        fed = Fed(grant, audit=audit)
        decide(fed, "orders", who=over_http("r-1"))
    (event,) = map(cloud_event, destination.lines)
    data = event.pop("data")
    at = datetime.fromisoformat(event.pop("time"))
    assert before <= at <= datetime.now(UTC)
    assert event.pop("id").endswith("-1")
    assert event == {
        "specversion": "1.0",
        "source": "//host/aclog",
        "type": "aclog.decision.v1",
        "subject": "User:alice",
        "datacontenttype": "application/json",
    }
    assert datetime.fromisoformat(data.pop("last_time")) == at
    assert data == {
        "result": "ALLOWED",
        "principal": "User:alice",
        "host": "10.0.0.1",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource_name": "orders",
        "resource_reference_count": 1,
        "request": "AuthZenEvaluation",
        "level": "DEBUG",
        "rule": "MatchingAcl",
        "acl": {
            "id": uuid_to_string(grant.id),
            "resourceType": "TOPIC",
            "resourceName": "orders",
            "patternType": "LITERAL",
            "principal": "User:alice",
            "host": "*",
            "operation": "READ",
            "permissionType": "ALLOW",
        },
        "offset": 1,
        "caller": "User:gateway",
        "caller_host": "127.0.0.1",
        "request_id": "r-1",
        "count": 1,
        "last_offset": 1,
    }


def test_rules_without_an_acl_and_requests_without_a_caller() -> None:
    destination = MemoryDestination()
    with events_to(destination) as audit:
        fed = Fed(audit=audit, super_users="User:root")
        decide(fed, "orders")
        decide(fed, "orders", who=context("User:root"))
        fed.authorizer.reconfigure({"allow.everyone.if.no.acl.found": "true"})
        decide(fed, "orders")
    assert [(data["result"], data["rule"], data["acl"]) for data in destination.data()] == [
        ("DENIED", "DefaultDeny", None),
        ("ALLOWED", "SuperUser", None),
        ("ALLOWED", "DefaultAllow", None),
    ]
    assert [data["request"] for data in destination.data()] == ["Fetch"] * 3
    absent = {"caller", "caller_host", "request_id", "client_id", "correlation_id"}
    assert not absent & set(destination.data()[0])


def test_a_request_of_kafkas_protocol_has_its_client_and_number() -> None:
    destination = MemoryDestination()
    with events_to(destination) as audit:
        who = msgspec.structs.replace(ALICE, request_type=30, client_id="terraform", correlation_id=7)
        decide(Fed(audit=audit), "orders", who=who)
    (data,) = destination.data()
    assert (data["request"], data["client_id"], data["correlation_id"]) == ("CreateAcls", "terraform", 7)


@given(st.lists(naive_requests().map(request_of), max_size=5), st.integers(0, 3))
def test_any_request_gives_a_valid_event(
    naive_requests: list[tuple[RequestContext, Action]], one_in: int
) -> None:
    """Names may be empty or contain half a surrogate pair."""
    destination = MemoryDestination()
    with events_to(destination, level=TRACE, rules=f"1/{one_in}" if one_in else "") as audit:
        fed = Fed(deny("User:a", READ, topic("a")), audit=audit)
        for who, action in naive_requests:
            fed.authorizer.authorize(who, [action])
    for event in map(cloud_event, destination.lines):
        assert event.get("sampledrate", 1) == max(one_in, 1)
    assert len(destination.lines) + audit.decision_log.sampled_out == len(naive_requests)  # type: ignore[union-attr]
    assert audit.failures == 0


def test_names_that_utf_8_cannot_encode_are_escaped() -> None:
    destination = MemoryDestination()
    names = [*ODD_NAMES, "\ud800", "a\nb", "\x00", '"']
    with events_to(destination) as audit:
        decide(Fed(audit=audit), *names)
    assert destination.names() == names
    assert not any(b"\n" in line for line in destination.lines)


@pytest.mark.parametrize(
    ("level", "expected"), [(INFO, ["denied"]), (DEBUG, ["denied", "allowed"]), (TRACE, None)]
)
def test_the_level_selects_the_decisions_with_events(level: int, expected: list[str] | None) -> None:
    """The lines of the audit log have a separate level."""
    destination = MemoryDestination()
    with events_to(destination, level=level, lines=OFF) as audit:
        fed = Fed(allow("User:alice", READ, topic("allowed")), audit=audit)
        decide(fed, "denied", "allowed")
        looked = Action(READ, topic("looked"), log_if_allowed=False, log_if_denied=False)
        fed.authorizer.authorize(ALICE, [looked])
    assert destination.names() == (expected or ["denied", "allowed", "looked"])


def test_audit_lines_do_not_depend_on_events() -> None:
    """Both have separate levels, and a dropped event drops no line."""
    destination, stream = MemoryDestination(), io.StringIO()
    decision_log = DecisionLog([destination], level=DEBUG, rules=())
    output = LogOutput(logging.StreamHandler(stream), as_json=True)
    with AuditWriter(output, INFO, max_lines=0, decision_log=decision_log) as audit:
        fed = Fed(allow("User:alice", READ, topic("allowed")), audit=audit)
        decide(fed, "allowed", "denied")
        assert destination.names() == ["allowed", "denied"]
        assert stream.getvalue().count("\n") == 1
        audit.set_level(OFF)
        decide(fed, "denied")
    assert len(destination.lines) == 3
    assert stream.getvalue().count("\n") == 1


def test_events_dropped_by_rules_are_counted() -> None:
    destination = MemoryDestination()
    rules = "drop principal=User:probe; keep result=DENIED; drop resource_type=TOPIC"
    with events_to(destination, rules=rules) as audit:
        fed = Fed(
            allow("User:alice", READ, topic("allowed")), allow("User:alice", READ, group("g")), audit=audit
        )
        decide(fed, "denied", who=context("User:probe"))
        decide(fed, "allowed", "denied")
        fed.authorizer.authorize(ALICE, [Action(READ, group("g"))])
    assert destination.names() == ["denied", "g"]
    assert audit.decision_log is not None
    assert audit.decision_log.dropped == 2


def test_a_sample_has_the_configured_share_and_its_rate() -> None:
    """Each decision is sampled separately: a repeated request has events, too."""
    destination, total = MemoryDestination(), 20_000
    with events_to(destination, rules="1/10 result=DENIED") as audit:
        fed = Fed(allow("User:alice", READ, topic("allowed")), audit=audit)
        decide(fed, "allowed", *["denied"] * total)
    assert audit.decision_log is not None
    sampled = destination.names().count("denied")
    # Six standard deviations: once in a billion runs.
    assert abs(sampled - total / 10) < 6 * (total * 0.1 * 0.9) ** 0.5
    assert audit.decision_log.sampled_out == total - sampled
    assert destination.names().count("allowed") == 1
    assert [event.get("sampledrate") for event in destination.events()] == [None, *[10] * sampled]


def test_ids_are_numbered_and_differ_between_processes() -> None:
    first, second = MemoryDestination(), MemoryDestination()
    for destination in (first, second):
        with events_to(destination) as audit:
            decide(Fed(audit=audit), "a", "b", "c")
    ids = [event["id"] for event in (*first.events(), *second.events())]
    assert len(set(ids)) == 6
    assert [text.rpartition("-")[2] for text in ids] == ["1", "2", "3"] * 2
    assert len({text.rpartition("-")[0] for text in ids}) == 2


def test_an_event_has_the_reason_of_the_state_that_decided() -> None:
    """The ACL is removed before the event is formatted."""
    destination = MemoryDestination()
    denial = deny("User:alice", READ, topic("orders"))
    with events_to(destination, max_lines=1000) as audit:
        fed = Fed(denial, audit=audit)
        decide(fed, "orders")
        fed.publish(RemoveAccessControlEntryRecord(denial.id))
        decide(fed, "orders")
    first, second = destination.data()
    assert (first["rule"], first["acl"]["id"]) == ("MatchingAcl", uuid_to_string(denial.id))
    assert (second["rule"], second["acl"]) == ("DefaultDeny", None)
    assert (first["offset"], second["offset"]) == (1, 2)


class StuckDestination(MemoryDestination):
    """A destination that blocks until it is released, like a pipe without a reader."""

    def __init__(self) -> None:
        super().__init__("stuck")
        self.met = threading.Event()
        self.let_go = threading.Event()

    def put(self, events: Sequence[bytes]) -> None:
        if events:
            self.met.set()
            assert self.let_go.wait(SOON_S)
        super().put(events)


def test_under_pressure_no_decision_waits_and_lost_events_are_counted() -> None:
    """The destination blocks: decisions are answered nevertheless, and the queue is bounded."""
    stuck = StuckDestination()
    with capture_logs() as log_events, events_to(stuck, lines=INFO, max_lines=100) as audit:
        fed = Fed(allow("User:alice", READ, topic("allowed")), audit=audit)
        decide(fed, "first")
        assert stuck.met.wait(SOON_S)
        decide(fed, *["allowed"] * 300, *["denied"] * 700)
        assert audit.waiting == 100
        assert audit.decision_log is not None
        # An allowed decision has no line at INFO that could be lost.
        assert (audit.decision_log.lost, audit.lost) == (900, 700)
        assert fed.authorizer.metrics.allowed + fed.authorizer.metrics.denied == 1001
        stuck.let_go.set()
    assert stuck.names() == ["first", *["allowed"] * 100]
    lost = [event for event in log_events if event["event"] == "decision_events_lost"]
    assert sum(event["events"] for event in lost) == 900
    assert {event["destination"] for event in lost} == {"all"}
    assert "aclog.audit.queue.max.lines" in lost[0]["way_out"]


def test_events_lost_by_one_destination_are_reported_and_others_have_them() -> None:
    full, destination = MemoryDestination("file:/full"), MemoryDestination()
    full.has_room = False
    with capture_logs() as log_events, events_to(full, destination) as audit:
        fed = Fed(audit=audit)
        for _ in range(5):
            decide(fed, "a", "b")
    lost = [event for event in log_events if event["event"] == "decision_events_lost"]
    assert [event["destination"] for event in lost] == ["file:/full"] * 2
    assert sum(event["events"] for event in lost) == full.lost == 10
    assert (lost[0]["reason"], lost[0]["log_level"]) == ("no room", "warning")
    assert len(destination.lines) == 10


def test_events_are_written_soon_without_a_flush() -> None:
    destination = MemoryDestination()
    with events_to(destination, max_lines=1000) as audit:
        decide(Fed(audit=audit), "orders")
        wait_for(1, destination)


def test_repeats_are_written_when_their_window_ends() -> None:
    """Also without a later decision, and if each event is written before its answer."""
    for max_lines in (0, 1000):
        destination = MemoryDestination()
        with events_to(destination, fold_s=0.2, max_lines=max_lines) as audit:
            decide(Fed(audit=audit), "orders", "orders", "orders")
            assert destination.lines == []
            wait_for(1, destination)
        assert [data["count"] for data in destination.data()] == [3]


def test_a_decision_that_cannot_be_encoded_loses_no_other_event() -> None:
    class Unprintable(KafkaPrincipal, frozen=True):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    destination = MemoryDestination()
    with events_to(destination, max_lines=1000) as audit:
        fed = Fed(audit=audit)
        decide(fed, "before")
        decide(fed, "broken", who=RequestContext(Unprintable("User", "b"), "10.0.0.1"))
        decide(fed, "after")
    assert destination.names() == ["before", "after"]
    assert audit.failures == 1


def test_an_exception_of_a_destination_fails_no_decision() -> None:
    class Broken(MemoryDestination):
        def put(self, events: Sequence[bytes]) -> None:
            if events:
                raise RuntimeError("a defect")

    with events_to(Broken(), max_lines=1000) as audit:
        decide(Fed(audit=audit), "orders")
        wait_until(lambda: audit.failures)


def test_concurrent_decisions_have_one_event_each() -> None:
    destination = MemoryDestination()
    with events_to(destination) as audit:
        fed = Fed(audit=audit)
        threads = [threading.Thread(target=decide, args=(fed, *[f"{n}"] * 200)) for n in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert Counter(destination.names()) == {f"{n}": 200 for n in range(4)}
    assert len({event["id"] for event in destination.events()}) == 800


def test_metrics_count_written_lost_dropped_and_folded_events() -> None:
    full, destination = MemoryDestination("file:/full"), MemoryDestination("stdout")
    full.has_room = False
    registry = CollectorRegistry()
    with events_to(full, destination, rules="drop operation=WRITE", fold_s=60) as audit:
        audit.show_to(registry)
        fed = Fed(audit=audit)
        decide(fed, "a", "a", "b")
        fed.authorizer.authorize(ALICE, [Action(WRITE, topic("a")), Action(DESCRIBE, topic("a"))])

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("aclog_decision_events_written_total", destination="stdout") == 3
    assert value("aclog_decision_events_written_total", destination="file:/full") == 0
    assert value("aclog_decision_events_lost_total", destination="file:/full") == 3
    without = {
        why: value("aclog_decisions_without_event_total", why=why)
        for why in ("dropped", "sampled_out", "folded", "lost")
    }
    assert without == {"dropped": 1, "sampled_out": 0, "folded": 1, "lost": 0}


def test_without_destinations_there_is_no_decision_log() -> None:
    output = LogOutput(logging.StreamHandler(io.StringIO()), as_json=True)
    registry = CollectorRegistry()
    with AuditWriter.configured(load_config(environ={}), output) as audit:
        audit.show_to(registry)
        assert audit.decision_log is None
        assert audit.threshold == INFO
    assert list(registry.collect()) == []
