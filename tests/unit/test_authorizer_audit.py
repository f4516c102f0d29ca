"""The audit log: Kafka's line, level and logger; no failure of it changes a decision."""

from __future__ import annotations

import gzip
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizer.api.api_keys import API_KEY_NAMES, api_key_name
from authorizer.api.audit_levels import AUDIT_LEVELS, AUDIT_LOGGER_NAME, DEBUG, INFO, OFF, TRACE, audit_level
from authorizer.api.authorizer_api import (
    Action,
    AuthorizableRequestContext,
    AuthorizationResult,
    HttpRequestContext,
    RequestContext,
)
from authorizer.configuration.log_setup import setup_logging
from authorizer.engine.decisions.audit import AuditLog, audit_line
from authorizer.engine.decisions.decision import DecidedAction, Decision
from authorizer.engine.decisions.rules import Rule
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.covers import NO_COVER
from authorizer.node.audit_writer import AuditWriter
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.columns.acl_table import AppliedAcl
from records.ids import uuid_to_string
from records.principal import KafkaPrincipal, parse_kafka_principal
from records.request_line import Logged, Request, RequestLines
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.data import CASES
from support.decisions import deny, topic

CONTEXT = RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1", request_type=0)
READ_FOO = Action(AclOperation.READ, ResourcePattern(ResourceType.TOPIC, "foo", PatternType.LITERAL))
LINE = (
    "Principal = User:a is Denied operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:foo "
    "for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
)


DENIED = Decision(AuthorizationResult.DENIED, Rule.DEFAULT_DENY)
ALLOWED = Decision(AuthorizationResult.ALLOWED, Rule.SUPER_USER)


def write(
    audit: AuditLog,
    level: int,
    decision: Decision = DENIED,
    action: Action = READ_FOO,
    context: AuthorizableRequestContext = CONTEXT,
    end_offset: int = 0,
) -> None:
    """Write a line like authorize()."""
    if level >= audit.threshold:
        state = state_at(end_offset)
        audit.write(
            DecidedAction(state, context, action, level, 0, decision.result, NO_COVER, NO_COVER, decision)
        )


def state_at(end_offset: int) -> AuthorizerState:
    index = AclIndex.of(AclsDelta(AclsImage.EMPTY).apply(Provenance(end_offset, 0, 0)))
    return AuthorizerState(index, AuthorizerSettings(), is_ready=True, not_ready_reason="")


class RuledByKafka(Decision, frozen=True):
    """A decision with the text that Kafka printed as its reason."""

    text: str = ""

    def __str__(self) -> str:
        return self.text


@pytest.fixture
def audit_records() -> Iterator[list[logging.LogRecord]]:
    """The records that reach the logger's handlers; level and handlers are restored afterwards."""
    records: list[logging.LogRecord] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Collecting()
    logger = logging.getLogger(AUDIT_LOGGER_NAME)
    before = logger.level
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(before)


def with_flags(*, log_if_allowed: bool = True, log_if_denied: bool = True) -> Action:
    return Action(
        READ_FOO.operation,
        READ_FOO.resource_pattern,
        log_if_allowed=log_if_allowed,
        log_if_denied=log_if_denied,
    )


def oracle_lines(case: Path) -> Iterator[tuple[dict, dict]]:
    def read(name: str) -> list[str]:
        plain = case / name
        text = plain.read_bytes() if plain.exists() else gzip.decompress((case / f"{name}.gz").read_bytes())
        return text.decode("utf-8").splitlines()

    for query, expected in zip(read("queries.jsonl"), read("expected.jsonl"), strict=True):
        if '"audit":{' in expected:
            yield json.loads(query), json.loads(expected)


def test_lines_and_levels_equal_those_of_kafka() -> None:
    """Every audited decision of the oracle gives its line and its level, given its result and rule.

    The reader reads each of Kafka's lines back.
    """
    compared, state, reader = 0, state_at(0), RequestLines()
    for case in sorted(CASES.iterdir()):
        for query, expected in oracle_lines(case):
            if query.get("kind", "authorize") != "authorize":
                continue
            action = Action(
                AclOperation[query["operation"]],
                ResourcePattern(
                    ResourceType[query["resourceType"]], query["resourceName"], PatternType.LITERAL
                ),
                query.get("refCount", 1),
                query.get("logIfAllowed", True),
                query.get("logIfDenied", True),
            )
            context = RequestContext(
                parse_kafka_principal(query["principal"]),
                expected.get("hostAddress", query["host"]),
                request_type=query.get("apiKey", 1),
            )
            result = AuthorizationResult(expected["result"])
            level = audit_level(action, allowed=result is AuthorizationResult.ALLOWED)
            decision = RuledByKafka(result, Rule.DEFAULT_DENY, text=expected["rule"])
            line = audit_line(level, state, context, action, decision)
            written = {"level": logging.getLevelName(level), "message": line.event}
            assert written == expected["audit"], (case.name, query)
            read = reader.read(expected["audit"]["message"].encode("utf-8", "surrogatepass"))
            pattern = action.resource_pattern
            request = Request(
                str(context.principal),
                context.client_address,
                action.operation,
                pattern.resource_type,
                pattern.name,
            )
            assert read is not None
            assert read.logged == Logged(
                request,
                result is AuthorizationResult.ALLOWED,
                expected["rule"].partition("(")[0],
                action.resource_reference_count == 0,
            )
            compared += 1
    assert compared > 1000


def test_request_names_are_those_of_kafka() -> None:
    """All ids of Kafka 4.3, first and last; an id without a name has its number."""
    assert (api_key_name(0), api_key_name(92)) == ("Produce", "DeleteShareGroupOffsets")
    assert (len(API_KEY_NAMES), len(set(API_KEY_NAMES))) == (93, 93)
    assert [api_key_name(unknown) for unknown in (93, -1)] == ["Unknown(93)", "Unknown(-1)"]


@pytest.mark.parametrize(
    ("allowed", "action", "level"),
    [
        (True, with_flags(), DEBUG),
        (True, with_flags(log_if_allowed=False), TRACE),
        (False, with_flags(), INFO),
        (False, with_flags(log_if_denied=False), TRACE),
    ],
)
def test_levels_follow_the_flags(allowed: bool, action: Action, level: int) -> None:
    """StandardAuthorizerData.logAuditMessage: a granted or requested access has a higher level."""
    assert audit_level(action, allowed=allowed) == level


@pytest.mark.parametrize(("name", "written"), [("OFF", 0), ("INFO", 1), ("DEBUG", 2), ("TRACE", 3)])
def test_only_enabled_levels_are_written(
    name: str, written: int, audit_records: list[logging.LogRecord]
) -> None:
    """The level is a threshold, and may change while running."""
    audit = AuditLog(OFF)
    audit.set_level(AUDIT_LEVELS[name])
    for level in (TRACE, DEBUG, INFO):
        write(audit, level)
    assert len(audit_records) == written
    assert audit.threshold == AUDIT_LEVELS[name]


def test_two_audit_logs_have_separate_levels(audit_records: list[logging.LogRecord]) -> None:
    """The process has one logger: another authorizer, or a change of its level, silences no other."""
    first, second = AuditLog(DEBUG), AuditLog(INFO)
    for audit in (first, second):
        write(audit, DEBUG, ALLOWED)
    assert len(audit_records) == 1
    second.set_level(OFF)
    write(first, INFO)
    write(second, INFO)
    assert len(audit_records) == 2
    assert (first.threshold, second.threshold) == (DEBUG, OFF)


def test_the_threshold_respects_logging_disable() -> None:
    """logging.disable takes effect when the level is set: the hot path compares with one int only."""
    logging.disable(logging.DEBUG)
    try:
        assert AuditLog(TRACE).threshold == INFO
    finally:
        logging.disable(logging.NOTSET)
    assert AuditLog(TRACE).threshold == TRACE


def test_the_line_is_the_message_and_the_facts_are_attributes(
    audit_records: list[logging.LogRecord],
) -> None:
    """Any handler of ``kafka.authorizer.logger`` gets Kafka's line, also with percent signs in names."""
    pattern = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "100%s", PatternType.LITERAL)
    action = Action(AclOperation.TWO_PHASE_COMMIT, pattern)
    denial = deny("User:a", AclOperation.TWO_PHASE_COMMIT, pattern)
    by_acl = Decision(AuthorizationResult.DENIED, Rule.MATCHING_ACL, AppliedAcl(denial, 3, 0))
    write(AuditLog(INFO), INFO, by_acl, action, end_offset=7)
    (record,) = audit_records
    assert "on resource = TransactionalId:LITERAL:100%s for" in record.getMessage()
    assert (record.name, record.levelname) == ("kafka.authorizer.logger", "INFO")
    assert {name: getattr(record, name) for name in ("acl_id", "offset", "operation", "resource_type")} == {
        "acl_id": uuid_to_string(denial.id),
        "offset": 7,
        "operation": "TWO_PHASE_COMMIT",
        "resource_type": "TRANSACTIONAL_ID",
    }


def test_a_failing_logger_changes_no_decision(audit_records: list[logging.LogRecord]) -> None:
    """Any exception of a handler or of a principal's text is counted and suppressed."""

    class Unprintable(KafkaPrincipal, frozen=True):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    audit = AuditLog(INFO)
    write(audit, INFO, context=RequestContext(Unprintable("User", "a"), "10.0.0.1"))
    handler = Failing()
    logger = logging.getLogger(AUDIT_LOGGER_NAME)
    logger.addHandler(handler)
    try:
        write(audit, INFO)
    finally:
        logger.removeHandler(handler)
    assert audit.failures == 2


@pytest.mark.usefixtures("audit_records")
def test_as_json_the_line_is_the_event_and_the_facts_are_keys() -> None:
    """A log pipeline reads one object a line, with the level name TRACE."""
    stream = io.StringIO()
    with AuditWriter(setup_logging("json", "INFO", stream=stream), TRACE, max_lines=10) as audit:
        write(audit, INFO, end_offset=3)
        write(audit, TRACE, ALLOWED)
    denied, allowed = map(json.loads, stream.getvalue().splitlines())
    assert denied.pop("timestamp").endswith("Z")
    assert denied == {
        "event": LINE,
        "logger": "kafka.authorizer.logger",
        "level": "info",
        "principal": "User:a",
        "result": "DENIED",
        "operation": "READ",
        "host": "10.0.0.1",
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "resource_name": "foo",
        "request": "Produce",
        "resource_reference_count": 1,
        "rule": "DefaultDeny",
        "acl_id": None,
        "offset": 3,
    }
    assert allowed["level"] == "trace"


@pytest.mark.usefixtures("audit_records")
@pytest.mark.parametrize("name", ["é", '"\\', "100%s", "\ud800", "\n"])
def test_any_name_is_an_ascii_line_of_json(name: str) -> None:
    """Also a name that UTF-8 cannot encode: the stream may have any encoding."""
    stream = io.StringIO()
    with AuditWriter(setup_logging("json", "INFO", stream=stream), INFO, max_lines=10) as audit:
        write(audit, INFO, action=Action(AclOperation.READ, topic(name)))
    assert stream.getvalue().isascii()
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["resource_name"] == name


def test_without_a_handler_no_line_is_made() -> None:
    """In a program that uses aclog as a library without logging set up, INFO has no destination."""
    made: list[str] = []

    class Printed(KafkaPrincipal, frozen=True):
        def __str__(self) -> str:
            made.append(self.name)
            return super().__str__()

    context = RequestContext(Printed("User", "a"), "10.0.0.1")
    root = logging.getLogger()
    handlers = root.handlers[:]
    root.handlers.clear()
    try:
        write(AuditLog(INFO), INFO, context=context)
        assert made == []
        root.addHandler(logging.NullHandler())
        write(AuditLog(INFO), INFO, context=context)
        assert made == ["a"]
    finally:
        root.handlers[:] = handlers


@pytest.mark.usefixtures("audit_records")
def test_a_request_over_http_has_kafkas_line_and_its_caller_as_keys() -> None:
    """A parser of Kafka's line reads this one; the values of the HTTP request are keys."""
    stream = io.StringIO()
    context = HttpRequestContext(
        KafkaPrincipal("User", "a"),
        "10.0.0.1",
        request_name="AuthZenEvaluation",
        caller=KafkaPrincipal("User", "gateway"),
        caller_address="127.0.0.1",
    )
    with AuditWriter(setup_logging("json", "INFO", stream=stream), INFO, max_lines=10) as audit:
        write(audit, INFO, context=context)
    line = json.loads(stream.getvalue())
    parsed = re.fullmatch(
        r"Principal = (.+) is (Allowed|Denied) operation = (\w+) from host = (\S+) on resource = "
        r"(\w+):(\w+):(.+) for request = (\w+) with resourceRefCount = (\d+) based on rule (.+)",
        line["event"],
    )
    assert parsed is not None
    assert parsed.groups() == (
        *("User:a", "Denied", "READ", "10.0.0.1", "Topic", "LITERAL", "foo"),
        *("AuthZenEvaluation", "1", "DefaultDeny"),
    )
    assert (line["request"], line["principal"]) == ("AuthZenEvaluation", "User:a")
    assert (line["caller"], line["caller_host"]) == ("User:gateway", "127.0.0.1")


def test_a_request_of_kafkas_protocol_has_its_client_and_number_as_keys() -> None:
    context = RequestContext(
        KafkaPrincipal("User", "a"), "10.0.0.1", request_type=30, client_id="terraform", correlation_id=7
    )
    stream = io.StringIO()
    with AuditWriter(setup_logging("json", "INFO", stream=stream), INFO, max_lines=10) as audit:
        write(audit, INFO, context=context)
        write(audit, INFO)
    named, unnamed = map(json.loads, stream.getvalue().splitlines())
    assert (named["request"], named["client_id"], named["correlation_id"]) == ("CreateAcls", "terraform", 7)
    assert not {"client_id", "correlation_id"} & unnamed.keys()


@pytest.mark.usefixtures("audit_records")
def test_no_name_forges_a_line_on_a_console() -> None:
    """A caller chooses the names in the line; control characters in them are escaped."""
    stream = io.StringIO()
    pattern = ResourcePattern(
        ResourceType.TOPIC, "t\nPrincipal = User:admin is Allowed\x1b[2J", PatternType.LITERAL
    )
    with AuditWriter(setup_logging("console", "INFO", stream=stream), INFO, max_lines=10) as audit:
        write(audit, INFO, action=Action(AclOperation.READ, pattern))
    assert stream.getvalue().count("\n") == 1
    assert "Topic:LITERAL:t\\nPrincipal = User:admin is Allowed\\x1b[2J for request" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.usefixtures("audit_records")
def test_on_a_console_the_line_is_readable() -> None:
    """The console shows Kafka's line."""
    stream = io.StringIO()
    with AuditWriter(setup_logging("console", "INFO", stream=stream), TRACE, max_lines=10) as audit:
        write(audit, INFO)
        write(audit, TRACE)
    assert stream.getvalue().count(LINE) == 2
