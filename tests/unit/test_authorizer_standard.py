"""StandardAuthorizer: settings, readiness, endpoints, swaps, audit, counts, writes."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import pytest

from authorizer.api.audit_levels import DEBUG, INFO, OFF, TRACE
from authorizer.api.authorizer_api import (
    AclCreateResult,
    AclDeleteResult,
    Action,
    AuthorizationResult,
    AuthorizerServerInfo,
    Endpoint,
    SecurityProtocol,
)
from authorizer.api.errors import (
    AuthorizerNotReadyError,
    ConfigError,
    NotControllerError,
    OperationTimedOutError,
)
from authorizer.engine.decisions.audit import AuditLog
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import AclBindingFilter, AclOperation, PatternType, ResourcePattern
from records.entries import RemoveAccessControlEntryRecord
from replay.errors import InvariantError
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.decisions import ALL, READ, TOPIC, WRITE, Fed, allow, context, deny, may, topic, topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.api.authorizer_api import Authorizer
    from records.acl import AclBinding
    from replay.publishers import Publisher

Result = TypeVar("Result")

ALLOWED, DENIED = AuthorizationResult.ALLOWED, AuthorizationResult.DENIED

EARLY = Endpoint("EARLY", SecurityProtocol.PLAINTEXT, "localhost", 1)
LATE = Endpoint("LATE", SecurityProtocol.SSL, "localhost", 2)
NAMELESS = Endpoint(None, SecurityProtocol.SSL, "localhost", 3)
SERVER = AuthorizerServerInfo(
    "cluster", 1, (EARLY, LATE, NAMELESS), early_start_listeners=frozenset({"EARLY"})
)


def test_it_is_an_authorizer_and_a_publisher() -> None:
    """Both protocols, as types."""
    authorizer: Authorizer = StandardAuthorizer()
    publisher: Publisher = StandardAuthorizer()
    assert (authorizer.acl_count(), publisher.name) == (0, "authorizer")
    assert "User:*" in authorizer.description()


# -- settings ----------------------------------------------------------------------------------------------


def test_super_users_are_parsed_as_kafka_does() -> None:
    """H12: semicolons only, trimmed, empty parts skipped, no wildcard, text as it is."""
    fed = Fed(deny("User:*", READ, topic("*")), super_users=" User:a ;; User:CN=x,O=y;Group:*\t;User:*")
    for principal in ("User:a", "User:CN=x,O=y", "Group:*", "User:*"):
        assert fed.allows(principal, READ, topic("t"))
    for principal in ("user:a", "User:CN=x", "Group:g", "User:b"):
        assert not fed.allows(principal, READ, topic("t"))


@pytest.mark.parametrize(
    ("value", "is_on"), [(" TRUE ", True), ("true", True), ("yes", False), ("1", False), ("", False)]
)
def test_allow_everyone_is_true_in_any_case_and_nothing_else(value: str, is_on: bool) -> None:
    fed = Fed(allow_everyone_if_no_acl_found=value)
    assert fed.allows("User:a", READ, topic("t")) is is_on


def test_reconfiguration_applies_completely_or_not_at_all() -> None:
    """An invalid value is reported before any change."""
    fed = Fed(super_users="User:a", allow_everyone_if_no_acl_found="false")
    bad = {"super.users": "User:b;nocolon", "allow.everyone.if.no.acl.found": "true"}
    for take in (
        fed.authorizer.validate_reconfiguration,
        fed.authorizer.reconfigure,
        fed.authorizer.configure,
    ):
        with pytest.raises(ConfigError, match="got nocolon") as caught:
            take(bad)
        assert caught.value.key == "super.users"
        assert [fed.allows(who, READ, topic("t")) for who in ("User:a", "User:b")] == [True, False]
    good = {"super.users": "User:b"}
    fed.authorizer.validate_reconfiguration(good)
    assert not fed.allows("User:b", READ, topic("t"))
    fed.authorizer.reconfigure(good)
    assert [fed.allows(who, READ, topic("t")) for who in ("User:a", "User:b")] == [False, True]
    assert set(good) < fed.authorizer.reconfigurable_configs()


# -- readiness and endpoints -------------------------------------------------------------------------------


def test_before_it_is_ready_only_super_users_get_an_answer() -> None:
    """I4: other principals get AUTHORIZER_NOT_READY, which is no DENIED and is not counted."""
    fed = Fed(allow("User:*", READ, topic("*")), ready=False, super_users="User:root")
    assert fed.allows("User:root", READ, topic("t"))
    for ask in (
        lambda: fed.allows("User:a", READ, topic("t")),
        lambda: fed.authorizer.decide(context(), Action(READ, topic("t"))),
        lambda: fed.authorizer.explain(context(), Action(READ, topic("t"))),
    ):
        with pytest.raises(AuthorizerNotReadyError) as caught:
            ask()
        assert (str(caught.value), caught.value.code_name) == ("", "AUTHORIZER_NOT_READY")
    assert fed.authorizer.authorize(context(), []) == []
    counts = fed.authorizer.metrics
    assert (counts.allowed, counts.denied, counts.not_ready) == (1, 0, 2)
    fed.authorizer.on_ready()
    assert fed.allows("User:a", READ, topic("t"))


def test_a_replay_error_makes_it_not_ready_again() -> None:
    """I7: replay stopped before a record; the reason is readable."""
    fed = Fed(allow("User:a", READ, topic("t")), super_users="User:root")
    fed.authorizer.on_not_ready("record 7 cannot be decoded")
    with pytest.raises(AuthorizerNotReadyError) as caught:
        fed.allows("User:a", READ, topic("t"))
    assert caught.value.__notes__ == ["record 7 cannot be decoded"]
    assert fed.authorizer.state.not_ready_reason == "record 7 cannot be decoded"
    assert fed.allows("User:root", READ, topic("t"))
    fed.authorizer.on_ready()
    assert fed.allows("User:a", READ, topic("t"))


def test_early_listeners_start_immediately_the_others_after_the_load() -> None:
    """KIP-801; a later error does not close open listeners."""
    authorizer = StandardAuthorizer()
    futures = authorizer.start(SERVER)
    assert {endpoint: future.done() for endpoint, future in futures.items()} == {
        EARLY: True,
        LATE: False,
        NAMELESS: False,
    }
    assert not futures[LATE].cancel()
    authorizer.on_update(AclsDelta(AclsImage.EMPTY), AclsImage.EMPTY, None)  # type: ignore[arg-type]
    assert not futures[LATE].done()
    authorizer.on_ready()
    authorizer.on_not_ready("trouble")
    authorizer.on_ready()
    authorizer.close()
    assert [future.result(0) for future in futures.values()] == [None, None, None]
    assert authorizer.start(SERVER)[LATE].done()


def test_close_before_the_load_fails_waiting_listeners() -> None:
    """With Kafka's message; a second close does nothing."""
    authorizer = StandardAuthorizer()
    futures = authorizer.start(SERVER)
    authorizer.close()
    authorizer.close()
    with pytest.raises(OperationTimedOutError, match="closed before the initial load could complete"):
        futures[LATE].result(0)
    assert futures[EARLY].result(0) is None
    authorizer.on_ready()


# -- updates -----------------------------------------------------------------------------------------------


def test_a_reload_replaces_everything_but_settings_and_readiness() -> None:
    """I5."""
    fed = Fed(allow("User:a", READ, topic("t")), super_users="User:root")
    fed.reload(allow("User:b", READ, topic("t")))
    assert [fed.allows(who, READ, topic("t")) for who in ("User:a", "User:b", "User:root")] == [
        False,
        True,
        True,
    ]
    assert fed.authorizer.acl_count() == 1


def test_a_request_is_decided_on_one_state() -> None:
    """I1: a state does not change after a request has read it."""
    denial = deny("User:a", READ, topic("t"))
    fed = Fed(denial, allow("User:a", READ, topic("t")))
    state = fed.authorizer.state
    fed.publish(RemoveAccessControlEntryRecord(denial.id))
    action = Action(READ, topic("t"))
    assert fed.authorizer.decide(context(), action, state).result is DENIED
    assert fed.authorizer.decide(context(), action).result is ALLOWED
    assert state.index.image.provenance.end_offset == 2


def test_an_index_that_lost_an_acl_is_not_published() -> None:
    """Its count is compared with the image's; the earlier state remains."""
    fed = Fed(allow("User:a", READ, topic("t")))
    delta = AclsDelta(fed.image)
    other = Fed(allow("User:a", READ, topic("t")), allow("User:a", READ, topic("u"))).image
    with pytest.raises(InvariantError, match="the index holds 1 ACLs, its image 2"):
        fed.authorizer.on_update(delta, other, None)  # type: ignore[arg-type]
    assert fed.authorizer.acl_count() == 1


# -- decisions ---------------------------------------------------------------------------------------------


def test_actions_are_answered_in_order() -> None:
    fed = Fed(allow("User:a", READ, topics("t")), deny("User:a", READ, topic("t2")))
    actions = [Action(READ, topic(name)) for name in ("t1", "t2", "u", "t3")]
    assert fed.authorizer.authorize(context(), actions) == [ALLOWED, DENIED, DENIED, ALLOWED]
    counts = fed.authorizer.metrics
    assert (counts.acl_allowed, counts.acl_denied, counts.default_denied) == (2, 1, 1)


def test_one_invalid_action_fails_the_call() -> None:
    """As in Kafka, also before the node is ready: actions are checked first."""
    prefixed = Action(READ, ResourcePattern(TOPIC, "t", PatternType.PREFIXED))
    for ready in (True, False):
        fed = Fed(ready=ready, super_users="User:root")
        for who in ("User:a", "User:root"):
            with pytest.raises(ValueError, match="Only literal resources"):
                fed.authorizer.authorize(context(who), [prefixed, Action(READ, topic("t"))])


def test_decisions_are_counted_by_rule() -> None:
    fed = Fed(
        allow("User:a", READ, topic("t")),
        deny("User:a", READ, topic("d")),
        super_users="User:root",
        allow_everyone_if_no_acl_found="true",
    )
    for _ in range(2):
        for who, name in (
            ("User:a", "t"),
            ("User:a", "d"),
            ("User:b", "t"),
            ("User:b", "u"),
            ("User:root", "d"),
        ):
            fed.allows(who, READ, topic(name))
            fed.authorizer.decide(context(who), Action(READ, topic(name)))
    counts = fed.authorizer.metrics
    assert (counts.acl_allowed, counts.acl_denied, counts.default_denied) == (4, 4, 4)
    assert (counts.default_allowed, counts.super_user_allowed) == (4, 4)
    assert (counts.allowed, counts.denied, counts.not_ready) == (12, 8, 0)


# -- audit -------------------------------------------------------------------------------------------------


@pytest.fixture
def audit() -> Iterator[AuditLog]:
    audit = AuditLog(OFF)
    yield audit
    audit.set_level(INFO)


@pytest.mark.parametrize(
    ("threshold", "written"),
    [
        (OFF, []),
        (INFO, ["t is INFO by MatchingAcl"]),
        (DEBUG, ["t is INFO by MatchingAcl", "u is DEBUG by MatchingAcl", "u is DEBUG by SuperUser"]),
        (
            TRACE,
            [
                "t is INFO by MatchingAcl",
                "t is TRACE by MatchingAcl",
                "u is DEBUG by MatchingAcl",
                "u is TRACE by MatchingAcl",
                "u is DEBUG by SuperUser",
                "u is TRACE by SuperUser",
            ],
        ),
    ],
)
def test_decisions_are_audited_at_kafkas_levels(
    audit: AuditLog, caplog: pytest.LogCaptureFixture, threshold: int, written: list[str]
) -> None:
    """INFO for a requested access that is denied, DEBUG for a granted one, otherwise TRACE."""
    fed = Fed(
        deny("User:a", READ, topic("t")),
        allow("User:a", READ, topic("u")),
        audit=audit,
        super_users="User:root",
    )
    audit.set_level(threshold)
    for who, name in (("User:a", "t"), ("User:a", "u"), ("User:root", "u")):
        for flag in (True, False):
            action = Action(READ, topic(name), 1, flag, flag)
            fed.authorizer.authorize(context(who), [action])
            fed.authorizer.decide(context(who), action)
    written_once = [
        f"{record.__dict__['resource_name']} is {record.levelname} by "
        f"{record.__dict__['rule'].partition('(')[0]}"
        for record in caplog.records
    ]
    assert written_once == [line for line in written for _ in ("authorize", "decide")]


def test_an_audit_line_names_the_deciding_acl_and_the_offset(
    audit: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    denial = deny("User:*", READ, topic("*"))
    fed = Fed(denial, audit=audit)
    audit.set_level(INFO)
    assert not fed.allows("User:a", READ, topic("t"))
    (record,) = caplog.records
    assert record.getMessage() == (
        "Principal = User:a is Denied operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:t "
        "for request = Fetch with resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl["
        "resourceType=TOPIC, resourceName=*, patternType=LITERAL, principal=User:*, host=*, operation=READ, "
        "permissionType=DENY])"
    )
    assert record.__dict__["offset"] == 1
    assert record.__dict__["acl_id"] is not None


@pytest.mark.parametrize(
    ("principal", "operation", "rule"),
    [
        ("User:a", AclOperation.ANY, "MatchingAcl"),
        ("User:b", AclOperation.ANY, "DefaultDeny"),
        ("User:b", READ, "DefaultDeny"),
        ("User:root", READ, "SuperUser"),
    ],
)
def test_audit_lines_of_authorize_have_the_rule_that_decided(
    audit: AuditLog, caplog: pytest.LogCaptureFixture, principal: str, operation: AclOperation, rule: str
) -> None:
    """Also if no ACL is searched, and if masks do not decide."""
    fed = Fed(allow("User:a", ALL, topic("t")), audit=audit, super_users="User:root")
    audit.set_level(DEBUG)
    fed.allows(principal, operation, topic("t"))
    assert [record.__dict__["rule"].partition("(")[0] for record in caplog.records] == [rule]


# -- the ACLs ----------------------------------------------------------------------------------------------


def test_an_acl_with_two_ids_is_listed_once_and_counted_twice() -> None:
    """Kafka's acl_count is by id; a listing is of bindings."""
    one, other = allow("User:a", READ, topic("t")), allow("User:a", READ, topic("t"))
    fed = Fed(one, other)
    assert list(fed.authorizer.acls(AclBindingFilter())) == [one.binding()]
    assert {acl.record for acl in fed.applied(AclBindingFilter())} == {one, other}
    assert fed.authorizer.acl_count() == 2


def test_a_listing_is_of_one_state() -> None:
    """Also if the caller reads it slowly."""
    fed = Fed(*(allow("User:a", READ, topic(f"t{number}")) for number in range(10)))
    listing = fed.authorizer.acls(AclBindingFilter())
    first = next(listing)
    fed.reload()
    assert len([first, *listing]) == 10
    assert list(fed.authorizer.acls(AclBindingFilter())) == []


class Mutator:
    """A mutator with immediate results."""

    def create_acls(self, bindings: Sequence[AclBinding]) -> list[Future[AclCreateResult]]:
        return [_done(AclCreateResult()) for _ in bindings]

    def delete_acls(self, filters: Sequence[AclBindingFilter]) -> list[Future[AclDeleteResult]]:
        return [_done(AclDeleteResult()) for _ in filters]


def _done(result: Result) -> Future[Result]:
    future: Future[Result] = Future()
    future.set_result(result)
    return future


def test_writes_go_to_the_mutator() -> None:
    """Without a mutator they get Kafka's error."""
    authorizer = StandardAuthorizer(mutator=Mutator())
    binding = allow("User:a", READ, topic("t")).binding()
    assert [future.result(0) for future in authorizer.create_acls(context(), [binding])] == [
        AclCreateResult()
    ]
    assert [future.result(0) for future in authorizer.delete_acls(context(), [])] == []
    alone = StandardAuthorizer()
    for write in (alone.create_acls, alone.delete_acls):
        with pytest.raises(NotControllerError, match="The current node is not the active controller"):
            write(context(), [])
    assert may(Fed(super_users="User:a").authorizer, "User:a", WRITE, topic("t"))


def test_the_description_says_which_principals_it_knows() -> None:
    """KIP-50."""
    description = StandardAuthorizer().description()
    assert "Type:name" in description
    assert "User:*" in description
