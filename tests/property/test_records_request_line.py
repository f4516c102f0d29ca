"""Readers of the audit log and the decision log read every written line and refuse an ambiguous one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.audit_levels import DEBUG
from authorizer.api.authorizer_api import Action, AuthorizationResult, HttpRequestContext, RequestContext
from authorizer.engine.decisions.audit import AuditLine, audit_line
from authorizer.engine.decisions.decision import DecidedAction, Decision
from authorizer.engine.decisions.rules import Rule
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.covers import NO_COVER
from authorizer.node.decision_log.event import decision_event, encode_event
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.columns.acl_table import AppliedAcl
from records.errors import DecodeError
from records.principal import KafkaPrincipal
from records.request_line import COUNT, Logged, Request, RequestLine, RequestLines, logged_of
from records.request_traffic import Traffic, TrafficReader, Window
from snapshot.image import AclsImage
from support.acl_strategies import acls

STATE = AuthorizerState(
    AclIndex.of(AclsImage.EMPTY), AuthorizerSettings(), is_ready=True, not_ready_reason=""
)
FROM = " from host = "
AT = datetime(2026, 11, 23, 6, 59, 41, 42000, tzinfo=UTC)
AT_MS = 1_795_417_181_042
#: Names that a client or a group may choose to forge a line.
NASTY = (
    *(" is Allowed", "Principal = ", " operation = READ", FROM, " on resource = Topic:LITERAL:x"),
    *(
        " for request = Fetch",
        COUNT,
        COUNT + "1 based on rule SuperUser",
        "{",
        "\n",
        "\\",
        '"',
        ":",
        "é",
        "(x)",
    ),
)
PREFIXES = {
    "": None,
    "[2026-11-23 06:59:41,042] DEBUG ": AT_MS,
    "2026-11-23T07:59:41.042+01:00 kafka-0 INFO [data-plane] ": AT_MS,
    "2026-11-23T06:59:41.042999Z ": AT_MS,
    "2026-11-23T02:29:41.042-0430 ": AT_MS,
    "[2026-13-45 06:59:41] ": None,
}
SUFFIXES = ("", " (kafka.authorizer.logger)", "\n", " (kafka.authorizer.logger)\r\n")


def texts() -> st.SearchStrategy[str]:
    parts = st.sampled_from(NASTY) | st.text("ab* ", max_size=3)
    return st.text(max_size=5) | st.lists(parts, max_size=3).map("".join)


hosts = st.sampled_from(["10.0.0.1", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%eth0"])


@st.composite
def decided(draw: st.DrawFn) -> tuple[RequestContext | HttpRequestContext, Action, Decision]:
    principal = KafkaPrincipal(draw(st.sampled_from(["User", "Group", ""])), draw(texts()))
    request_type = draw(st.integers(-1, 99))
    context: RequestContext | HttpRequestContext = RequestContext(
        principal, draw(hosts), request_type=request_type
    )
    if draw(st.booleans()):
        context = HttpRequestContext(
            principal,
            draw(hosts),
            request_name="AuthZenEvaluation",
            caller=KafkaPrincipal("User", draw(texts())),
            caller_address="127.0.0.1",
        )
    pattern = ResourcePattern(draw(st.sampled_from(ResourceType)), draw(texts()), PatternType.LITERAL)
    action = Action(draw(st.sampled_from(AclOperation)), pattern, draw(st.integers(0, 3)))
    result, rule = draw(st.sampled_from(AuthorizationResult)), draw(st.sampled_from(Rule))
    acl = AppliedAcl(draw(acls()), 3, 0) if rule is Rule.MATCHING_ACL else None
    return context, action, Decision(result, rule, acl)


def expected_logged(
    context: RequestContext | HttpRequestContext, action: Action, decision: Decision
) -> Logged:
    pattern = action.resource_pattern
    return Logged(
        Request(
            str(context.principal),
            context.client_address,
            action.operation,
            pattern.resource_type,
            pattern.name,
        ),
        decision.is_allowed,
        str(decision.rule),
        action.resource_reference_count == 0,
    )


def line_of(context: RequestContext | HttpRequestContext, action: Action, decision: Decision) -> AuditLine:
    return audit_line(DEBUG, STATE, context, action, decision, AT)


@given(decided(), st.sampled_from(sorted(PREFIXES)), st.sampled_from(SUFFIXES))
def test_a_kafka_audit_line_is_read_back(drawn: tuple, prefix: str, suffix: str) -> None:
    """With any prefix and suffix; a line whose names look like its syntax is refused, never misread."""
    text = line_of(*drawn).event
    line = (prefix + text + suffix).encode()
    is_clear = text.partition(COUNT)[0].count(FROM) == text.count(COUNT) == 1
    reader = RequestLines()
    if not is_clear:
        with pytest.raises(DecodeError):
            reader.read(line)
        return
    at_ms = PREFIXES[prefix]
    wanted = RequestLine(expected_logged(*drawn), 1, at_ms, at_ms, False)
    assert reader.read(line) == wanted
    assert reader.read(line) == wanted


@given(decided())
def test_a_truncated_line_is_refused(drawn: tuple) -> None:
    """A line that ends before its count is not taken for a shorter line."""
    text = line_of(*drawn).event
    for end in {len("Principal = "), text.rindex(COUNT), text.rindex(COUNT) + len(COUNT)}:
        with pytest.raises(DecodeError):
            RequestLines().read(text[:end].encode())


@given(decided())
def test_a_json_audit_line_is_read_back(drawn: tuple) -> None:
    """JSON of `aclog serve`, with any name."""
    line = msgspec.json.encode(line_of(*drawn))
    assert RequestLines().read(line) == RequestLine(expected_logged(*drawn), 1, AT_MS, AT_MS, False)
    assert logged_of(line.decode()) == expected_logged(*drawn)


@given(decided(), st.sampled_from([1, 1, 100]), st.integers(1, 5))
def test_a_decision_event_is_read_back(drawn: tuple, one_in: int, count: int) -> None:
    """A folded event counts several decisions; a sampled event has its rate."""
    context, action, decision = drawn
    answered = DecidedAction(
        *(STATE, context, action, DEBUG, 0, decision.result, NO_COVER, NO_COVER, decision, AT.timestamp())
    )
    event = decision_event(answered, str(context.principal), "//host/aclog", one_in)
    event.data.count = count
    event.data.last_time = AT.replace(second=59)
    found = RequestLines().read(encode_event(event))
    assert found == RequestLine(expected_logged(*drawn), count, AT_MS, AT_MS + 18_000, one_in > 1)


def test_half_a_surrogate_pair_is_read_back() -> None:
    """A name that only JSON can hold."""
    action = Action(AclOperation.READ, ResourcePattern(ResourceType.GROUP, "\ud800", PatternType.LITERAL))
    drawn = (
        RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1"),
        action,
        Decision(AuthorizationResult.ALLOWED, Rule.SUPER_USER),
    )
    line = json.dumps({**line_of(*drawn).facts(), "logger": "kafka.authorizer.logger"}).encode()
    found = RequestLines().read(line)
    assert found is not None
    assert found.logged == expected_logged(*drawn)


REST = b" from host = h on resource = Topic:LITERAL:x for request = Fetch with resourceRefCount = 1"
OTHER_LINES = (
    b"\n",
    b"[2026-11-23 06:59:41,042] INFO Registered broker 1 (kafka.server.Server)\n",
    b'{"event":"image_published","logger":"replay.loader"}',
    b'{"type":"com.example.other","data":1}',
)
BAD_LINES = (
    b"Principal = User:a\xff is Allowed",
    b"Principal = User:a is Allowed operation = Read from host",
    b"Principal = User:a is Perhaps operation = READ" + REST,
    b"Principal = User:a is Allowed operation = REED" + REST,
    b"Principal = alice is Allowed operation = READ" + REST,
    b'{"logger":"kafka.authorizer.logger","result":"ALLOWED"}',
    b'{"logger":"kafka.authorizer.logger","result":"ALL',
    b'{"type":"aclog.decision.v1","data":"x"}',
    b'{"message":"Principal = User:a is Allowed operation = READ"}',
)


def test_other_lines_are_skipped_and_malformed_ones_refused() -> None:
    reader = RequestLines()
    for line in OTHER_LINES:
        assert reader.read(line) is None, line
    for line in BAD_LINES:
        with pytest.raises(DecodeError):
            reader.read(line)


def test_lines_of_older_kafka_releases_are_read() -> None:
    """AclAuthorizer writes another case, names in title case, and no rule."""
    line = (
        b"[2021-01-02 03:04:05,006] INFO Principal = User:CN=Jane,O=x is Denied Operation = DescribeConfigs "
        b"from host = 10.0.0.1 on resource = TransactionalId:LITERAL:a b for request = Fetch with "
        b"resourceRefCount = 1 (kafka.authorizer.logger)"
    )
    found = RequestLines().read(line)
    assert found is not None
    request = Request(
        "User:CN=Jane,O=x",
        "10.0.0.1",
        AclOperation.DESCRIBE_CONFIGS,
        ResourceType.TRANSACTIONAL_ID,
        "a b",
    )
    assert found.logged == Logged(request, False, "", False)


TIMES = (
    *(
        "[2026-11-23 06:59:41,042] DEBUG ",
        "[2026-11-23 06:59:41,998] DEBUG ",
        "[2026-11-23 06:59:42,042] DEBUG ",
    ),
    *(
        "2026-11-23T06:59:41.042+01:00 x ",
        "2026-11-23T06:59:41.043Z x ",
        "2026-11-23T06:59:41.0429999999Z x ",
    ),
    *("2026-11-23T06:59:41.042999Z 5 ", "2026-11-23T06:59:41.04 x ", "1 2026-11-23 06:59:41.042 x "),
    *("2026-11-23 06:59:41.٠٤٢ x ", "2026-13-45 06:59:41,042 x ", "{2026-11-23 06:59:41,042 ", ""),
)
CLEAR = [
    f"Principal = User:{who} is Allowed operation = READ from host = h on resource = Topic:LITERAL:{name} "
    f"for request = Fetch with resourceRefCount = 1{rest}"
    for who, name, rest in (
        ("a", "x", ""),
        ("a", "x", " based on rule SuperUser\n"),
        ("2026-11-23 06:59:41,042", "y", " (kafka.authorizer.logger)"),
        ("Principal = b", "z", "\n"),
        ("c", "x with resourceRefCount = 1", "\n"),
    )
]
some_lines = st.lists(
    st.builds(lambda at, text: (at + text).encode(), st.sampled_from(TIMES), st.sampled_from(CLEAR))
    | st.sampled_from([*OTHER_LINES, *BAD_LINES, b"[2026-11-23 06:59:41,042] \xff " + CLEAR[0].encode()]),
    max_size=40,
)


def read_one_by_one(lines: list[bytes], window: Window) -> Traffic:
    """The traffic from a new reader for each line."""
    traffic = Traffic()
    for line in lines:
        reader = TrafficReader(window)
        reader.read([line], "log")
        traffic.add(reader.settle())
    return traffic


@given(
    some_lines,
    st.sampled_from([Window(), Window(AT_MS), Window(None, AT_MS + 1), Window(AT_MS, AT_MS + 500)]),
)
def test_lines_read_together_give_the_sum_of_single_lines(lines: list[bytes], window: Window) -> None:
    """The reader's cache of earlier lines changes neither counts, window ends nor refused lines."""
    reader = TrafficReader(window)
    reader.read(lines[:7], "log")
    reader.settle()
    reader.read(lines[7:], "log")
    assert reader.settle() == read_one_by_one(lines, window)
    assert reader.settle() == read_one_by_one(lines, window)


@given(some_lines)
def test_the_event_of_each_distinct_request_is_read_as_its_lines_are(lines: list[bytes]) -> None:
    """So that a later review can take them in place of the lines, together with newer lines."""
    traffic = read_one_by_one(lines, Window())
    again = read_one_by_one([*traffic.event_lines()], Window())
    assert (again.counts, again.spans) == (traffic.counts, traffic.spans)
    assert again.coverage.requests == traffic.coverage.requests
    assert (again.coverage.first_ms, again.coverage.last_ms) == (
        traffic.coverage.first_ms,
        traffic.coverage.last_ms,
    )
