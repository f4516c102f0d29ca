"""One call with many actions equals many calls with one action: results, errors, counts, audit lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from authorizer.api.audit_levels import AUDIT_LEVELS, AUDIT_LOGGER_NAME
from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.decision import DecisionCounts
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.principal import KafkaPrincipal
from support.acl_strategies import FEW_OPERATIONS, HOSTS, IDS, PRINCIPALS, acls, names, split
from support.decisions import READ, Fed, allow, deny, group, topic, topics
from support.limits import make_small

Batches = list[list[AclRecord]]
#: Results or an error's text, counts, audit lines.
Outcome = tuple[list[AuthorizationResult], str, dict[str, int], list[str]]


@pytest.fixture(params=["small", "usual"], autouse=True)
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the structures for many ACLs also for few."""
    if request.param == "small":
        make_small(monkeypatch)


def patterns() -> SearchStrategy[ResourcePattern]:
    """Mostly topics; sometimes a pattern that no request may have."""
    usual = st.builds(
        ResourcePattern,
        st.just(ResourceType.TOPIC) | st.just(ResourceType.GROUP) | st.sampled_from(ResourceType),
        names(),
        st.just(PatternType.LITERAL),
    )
    return st.sampled_from([usual] * 60 + [st.builds(topics, names())]).flatmap(lambda chosen: chosen)


def requests() -> SearchStrategy[list[Action]]:
    """Few patterns, so that one follows itself, under several operations and with all audit flags."""
    return st.lists(patterns(), min_size=1, max_size=6).flatmap(
        lambda few: st.lists(
            st.builds(
                Action,
                st.sampled_from(FEW_OPERATIONS) | st.sampled_from(AclOperation),
                st.sampled_from(few),
                st.just(1),
                st.booleans(),
                st.booleans(),
            ),
            min_size=2,
            max_size=24,
        )
    )


def contexts() -> SearchStrategy[RequestContext]:
    sessions = st.just(("User", "a")) | st.sampled_from([*map(split, PRINCIPALS), ("Group", "nobody")])
    return st.builds(
        lambda session, host: RequestContext(KafkaPrincipal(*session), host),
        sessions,
        st.sampled_from(HOSTS[1:]),
    )


@given(
    batches=st.lists(
        st.lists(acls() | acls() | st.sampled_from(IDS).map(RemoveAccessControlEntryRecord), min_size=6),
        min_size=1,
        max_size=3,
    ),
    allow_everyone=st.booleans(),
    ready=st.sampled_from([True] * 9 + [False]),
    level=st.sampled_from(sorted(AUDIT_LEVELS)),
    context=contexts(),
    actions=requests(),
)
def test_one_call_with_many_actions_equals_many_calls_with_one(
    *,
    batches: Batches,
    allow_everyone: bool,
    ready: bool,
    level: str,
    context: RequestContext,
    actions: list[Action],
) -> None:
    """Whatever the ACLs, settings, readiness, audit level, host, and where the first bad resource is."""

    def outcomes(calls: Sequence[Sequence[Action]]) -> Iterator[Outcome]:
        """The outcome after each batch and a repetition, from a new authorizer."""
        fed = Fed(
            audit=AuditLog(AUDIT_LEVELS[level]),
            ready=ready,
            super_users="User:b",
            allow_everyone_if_no_acl_found=str(allow_everyone),
        )
        for batch in batches:
            fed.publish(*batch)
            yield outcome(fed, context, calls)
        yield outcome(fed, context, calls)

    one_by_one = outcomes([[action] for action in actions])
    for (results, error, *rest), (singly, *other_outcomes) in zip(
        outcomes([actions]), one_by_one, strict=True
    ):
        assert (results, [error, *rest]) == (singly if not error else [], other_outcomes)


def outcome(fed: Fed, context: RequestContext, calls: Sequence[Sequence[Action]]) -> Outcome:
    """The outcome of the calls, up to the first that raises."""
    results: list[AuthorizationResult] = []
    error = ""
    with audit_lines() as lines:
        try:
            for call in calls:
                results += fed.authorizer.authorize(context, call)
        except (ValueError, AuthorizerNotReadyError) as raised:
            error = repr(raised)
    metrics = fed.authorizer.metrics
    return results, error, {name: getattr(metrics, name) for name in DecisionCounts.__slots__}, lines


class Lines(logging.Handler):
    """Collects the lines of the audit log."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.__dict__['offset']} {record.getMessage()}")


@contextmanager
def audit_lines() -> Iterator[list[str]]:
    """The lines that are written during the context."""
    handler = Lines()
    logger = logging.getLogger(AUDIT_LOGGER_NAME)
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)


STATE: list[AccessControlEntryRecord] = [
    allow("User:a", READ, topics("own.")),
    allow("User:a", READ, topics("own.x."), host="10.0.0.9"),
    allow("User:a", READ, topic("lit")),
    deny("User:*", READ, topics("own.secret")),
    allow("User:*", READ, topic("all"), host="10.0.0.1"),
    allow("User:*", AclOperation.DESCRIBE, topic("*")),
]
TOPICS = ["own.1", "own.x.1", "own.secret.1", "lit", "all", "none"]


@pytest.mark.parametrize(
    ("host", "allowed"), [("10.0.0.1", "own.1 own.x.1 lit all"), ("10.0.0.9", "own.1 own.x.1 lit")]
)
def test_a_request_with_all_kinds_of_names(host: str, allowed: str) -> None:
    """ACLs of the principal and of User:*, literal, prefixed and by host: one example of the property."""
    fed = Fed(*STATE)
    context = RequestContext(KafkaPrincipal("User", "a"), host)
    actions = [Action(READ, topic(name)) for name in TOPICS * 2]
    results = fed.authorizer.authorize(context, actions)
    allowed_topics = [
        name for name, result in zip(TOPICS, results, strict=False) if result is AuthorizationResult.ALLOWED
    ]
    assert allowed_topics == allowed.split()
    assert results[: len(TOPICS)] == results[len(TOPICS) :]
    described = [replace(action, operation=AclOperation.DESCRIBE) for action in actions]
    assert set(fed.authorizer.authorize(context, described)) == {AuthorizationResult.ALLOWED}


def test_actions_before_a_bad_resource_are_counted() -> None:
    """As with single calls: the actions before it were decided, those after it were not."""
    fed = Fed(*STATE)
    context = RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1")
    actions = [Action(READ, topic(name)) for name in TOPICS] + [Action(READ, topics("own."))]
    actions += [Action(READ, topic(name)) for name in TOPICS]
    with pytest.raises(ValueError, match=r"^Only literal resources are supported. Got: PREFIXED$"):
        fed.authorizer.authorize(context, actions)
    metrics = fed.authorizer.metrics
    assert (metrics.acl_allowed, metrics.acl_denied, metrics.default_denied) == (4, 1, 1)


def test_types_operations_and_names_may_alternate() -> None:
    """Values prepared for one type, operation or name are not used for another."""
    fed = Fed(
        allow("User:a", READ, topics("x")),
        allow("User:a", AclOperation.DELETE, group("x")),
        deny("User:*", READ, topic("xy")),
    )
    turns = [
        Action(operation, pattern)
        for operation in (READ, AclOperation.DELETE)
        for pattern in (topic("x"), group("x"), topic("xy"), group("xy"))
    ]
    results = fed.authorizer.authorize(RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1"), turns * 2)
    allowed = [True, False, False, False, False, True, False, False]
    assert [result is AuthorizationResult.ALLOWED for result in results] == allowed * 2


def test_an_operation_outside_the_masks_names_its_acl() -> None:
    """ANY is matched by ALL only ACL by ACL; it is counted and audited like the others."""
    fed = Fed(allow("User:a", AclOperation.ALL, topic("t")), audit=AuditLog(AUDIT_LEVELS["TRACE"]))
    actions = [Action(AclOperation.ANY, topic("t")), Action(AclOperation.ANY, topic("u"))] * 4
    with audit_lines() as lines:
        fed.authorizer.authorize(RequestContext(KafkaPrincipal("User", "a"), "10.0.0.1"), actions)
    metrics = fed.authorizer.metrics
    assert (metrics.acl_allowed, metrics.acl_denied, metrics.default_denied) == (4, 0, 4)
    assert ["MatchingAcl" in line for line in lines] == [True, False] * 4
