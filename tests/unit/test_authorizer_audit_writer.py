"""The queued audit log of `aclog serve`: order, limits, lost lines, and the values of each line."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.audit_levels import INFO, OFF
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.configuration.load import load_config
from authorizer.configuration.log_setup import LogOutput, setup_logging
from authorizer.node.audit_writer import AuditWriter
from records.entries import RemoveAccessControlEntryRecord
from records.ids import uuid_to_string
from records.principal import KafkaPrincipal
from support.decisions import READ, Fed, allow, deny, topic
from support.nodes import SOON_S
from support.waiting import wait_until

PLENTY = 100_000
WHO = RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1")


class Gate(io.StringIO):
    """A stream that blocks while it is shut, like a pipe without a reader, and fails if it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.met = threading.Event()
        self.is_broken = False

    def write(self, text: str) -> int:
        self.met.set()
        assert self.open.wait(SOON_S)
        if self.is_broken:
            raise OSError("disk full")
        return super().write(text)

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def names(self) -> list[object]:
        """The topics of the audit log's lines."""
        return [line["resource_name"] for line in self.events() if "resource_name" in line]


@contextmanager
def shut(gate: Gate, fed: Fed) -> Iterator[None]:
    """Block the writer in its first line, ``first``."""
    gate.met.clear()
    gate.open.clear()
    decide(fed, "first")
    assert gate.met.wait(SOON_S)
    yield
    gate.open.set()


def output(stream: io.StringIO, kind: str = "json") -> LogOutput:
    return setup_logging(kind, "INFO", stream=stream)


def decide(fed: Fed, *names: str, context: RequestContext = WHO) -> None:
    fed.authorizer.authorize(context, [Action(READ, topic(name)) for name in names])


def wait_for_text(text: str, gate: Gate) -> None:
    wait_until(lambda: text in gate.getvalue())


def test_lines_are_written_soon_without_a_flush() -> None:
    gate = Gate()
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        decide(Fed(audit=audit), "orders")
        wait_for_text("Topic:LITERAL:orders", gate)


def test_close_writes_queued_lines_in_the_order_of_each_thread() -> None:
    """From any thread: no line is missing, repeated or out of order."""
    gate, threads, calls = Gate(), 4, 500
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        fed = Fed(audit=audit)

        def decide_in_thread(thread: int) -> None:
            for call in range(calls):
                decide(fed, f"{thread}.{call}.0", f"{thread}.{call}.1")

        deciding = [threading.Thread(target=decide_in_thread, args=(thread,)) for thread in range(threads)]
        for each in deciding:
            each.start()
        for each in deciding:
            each.join()
    written = gate.names()
    for thread in range(threads):
        of_thread = [name for name in written if str(name).startswith(f"{thread}.")]
        assert of_thread == [f"{thread}.{call}.{n}" for call in range(calls) for n in range(2)]
    assert len(written) == threads * calls * 2
    assert (audit.lost, audit.failures, audit.waiting) == (0, 0, 0)


@given(st.lists(st.integers(1, 300), max_size=8), st.sampled_from(["json", "console"]))
def test_any_calls_give_their_lines_in_order(sizes: list[int], kind: str) -> None:
    gate = Gate()
    names = [f"t{number}." for number in range(sum(sizes))]
    with AuditWriter(output(gate, kind), INFO, max_lines=PLENTY) as audit:
        fed, rest = Fed(audit=audit), iter(names)
        for size in sizes:
            decide(fed, *(next(rest) for _ in range(size)))
    lines = gate.getvalue().splitlines()
    assert len(lines) == len(names)
    assert all(f"Topic:LITERAL:{name} " in line for line, name in zip(lines, names, strict=True))


def test_queued_lines_are_written_in_pieces() -> None:
    """Requests run between two pieces."""

    class Counting(Gate):
        def write(self, text: str) -> int:
            sizes.append(text.count("\n"))
            return super().write(text)

    gate, sizes, count = Counting(), list[int](), 2000
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        fed = Fed(audit=audit)
        with shut(gate, fed):
            decide(fed, *(f"t{number}" for number in range(count)))
    assert sizes[0] == 1
    assert sum(sizes) == count + 1
    assert max(sizes) <= count // 8


def test_under_pressure_no_decision_waits_and_lost_lines_are_counted_and_reported() -> None:
    """No reader takes the lines: decisions are answered nevertheless, and the queue is bounded."""
    gate = Gate()
    with AuditWriter(output(gate), INFO, max_lines=100) as audit:
        fed = Fed(audit=audit)
        with shut(gate, fed):
            decide(fed, *(f"t{number}" for number in range(1000)))
            assert (audit.waiting, audit.lost) == (100, 900)
            assert fed.authorizer.metrics.denied == 1001
    assert gate.names() == ["first", *(f"t{number}" for number in range(100))]
    warnings = [event for event in gate.events() if event["event"] == "audit_lines_lost"]
    assert sum(int(str(event["lines"])) for event in warnings) == 900
    assert "aclog.audit.queue.max.lines" in str(warnings[0]["way_out"])
    assert warnings[0]["level"] == "warning"


def test_lost_lines_are_reported_at_intervals_and_at_the_end() -> None:
    """Warnings are rare, because the log has no room for the lines either."""
    gate = Gate()
    with AuditWriter(output(gate), INFO, max_lines=1) as audit:
        fed = Fed(audit=audit)
        for _ in range(5):
            with shut(gate, fed):
                decide(fed, "kept", "lost")
            wait_for_text('"event": "audit_lines_lost"', gate)
        assert gate.getvalue().count("audit_lines_lost") == 1
    warnings = [event["lines"] for event in gate.events() if event["event"] == "audit_lines_lost"]
    assert (len(warnings), sum(map(int, map(str, warnings)))) == (2, audit.lost)
    assert audit.lost >= 5


def test_without_a_queue_a_line_is_written_before_the_answer() -> None:
    """This is slower, and for installations that must have every line."""
    gate = Gate()
    before = threading.active_count()
    with AuditWriter(output(gate), INFO, max_lines=0) as audit:
        assert threading.active_count() == before
        fed = Fed(audit=audit)
        for number in range(3):
            decide(fed, f"t{number}")
            assert gate.names() == [f"t{each}" for each in range(number + 1)]


def test_a_decision_after_close_is_written_immediately() -> None:
    gate = Gate()
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        fed = Fed(audit=audit)
    decide(fed, "late")
    assert gate.names() == ["late"]
    audit.close()


def test_a_line_has_the_reason_of_the_state_that_decided() -> None:
    """The ACL is removed, and everything is allowed, before the line is formatted."""
    gate = Gate()
    denial = deny("User:a", READ, topic("orders"))
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        fed = Fed(denial, allow("User:a", READ, topic("orders")), audit=audit)
        decided_at = fed.authorizer.state.end_offset
        with shut(gate, fed):
            decide(fed, "orders", "default")
            fed.publish(RemoveAccessControlEntryRecord(denial.id))
            fed.publish(deny("User:a", READ, topic("default")))
            fed.authorizer.reconfigure({"allow.everyone.if.no.acl.found": "true"})
            decide(fed, "orders", "default")
    first, orders, default, by_new_acl = gate.events()
    assert (first["rule"], default["rule"]) == ("DefaultDeny", "DefaultDeny")
    assert (orders["acl_id"], orders["offset"]) == (uuid_to_string(denial.id), decided_at)
    assert "permissionType=DENY" in str(orders["rule"])
    assert default["offset"] == decided_at
    assert by_new_acl["resource_name"] == "default"
    assert "permissionType=DENY" in str(by_new_acl["rule"])
    assert int(str(by_new_acl["offset"])) > decided_at


@pytest.mark.parametrize("kind", ["json", "console"])
def test_a_line_has_the_time_of_its_decision(kind: str) -> None:
    gate = Gate()
    with AuditWriter(output(gate, kind), INFO, max_lines=PLENTY) as audit:
        fed = Fed(audit=audit)
        with shut(gate, fed):
            before = datetime.now(UTC)
            decide(fed, "orders")
            after = datetime.now(UTC)
            time.sleep(0.1)  # the line is written later than its decision
    line = gate.getvalue().splitlines()[1]
    text = json.loads(line)["timestamp"] if kind == "json" else line.split()[0]
    assert before <= datetime.fromisoformat(text) <= after


def test_refused_lines_are_counted_and_later_lines_are_written() -> None:
    gate = Gate()
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        fed = Fed(audit=audit)
        with shut(gate, fed):
            decide(fed, "t0", "t1")
            gate.is_broken = True
        wait_until(lambda: audit.failures >= 3)
        gate.is_broken = False
        decide(fed, "t2")
    assert gate.names() == ["t2"]
    assert (audit.failures, audit.lost) == (3, 0)


def test_a_line_that_cannot_be_made_takes_no_other_with_it() -> None:
    class Unprintable(KafkaPrincipal, frozen=True):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    gate = Gate()
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        fed = Fed(audit=audit)
        decide(fed, "before")
        decide(fed, "broken", context=RequestContext(Unprintable("User", "b"), "10.0.0.1"))
        decide(fed, "after")
    assert gate.names() == ["before", "after"]
    assert audit.failures == 1


def test_names_of_any_kind_share_a_write() -> None:
    """A name that UTF-8 cannot encode does not change other lines."""
    gate = Gate()
    names = ["plain", "é", "\ud800", "\n", "last"]
    with AuditWriter(output(gate), INFO, max_lines=PLENTY) as audit:
        decide(Fed(audit=audit), *names)
    assert gate.getvalue().isascii()
    assert gate.names() == names


def test_the_audit_log_follows_the_configuration() -> None:
    flags = {"aclog.audit.level": "OFF", "aclog.audit.queue.max.lines": "7"}
    config = load_config(environ={}, flags=flags)
    with AuditWriter.configured(config, output(io.StringIO())) as audit:
        assert (audit.threshold, audit.max_lines) == (OFF, 7)
