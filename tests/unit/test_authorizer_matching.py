"""Matching ACLs, and the ACL that a decision names: the hard cases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from authorizer.api.authorizer_api import Action, RequestContext
from records.acl import AclOperation, PatternType, ResourcePattern
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.principal import KafkaPrincipal
from support.decisions import (
    ALL,
    DESCRIBE,
    READ,
    TOPIC,
    WRITE,
    Fed,
    allow,
    context,
    deny,
    group,
    topic,
    topics,
)


@pytest.mark.parametrize("winner", [topic("t"), topics("t"), topics(""), topic("*")])
@pytest.mark.parametrize("principal_pattern", ["User:a", "User:*"])
@pytest.mark.parametrize("host", ["*", "10.0.0.1"])
def test_a_deny_anywhere_wins(winner: ResourcePattern, principal_pattern: str, host: str) -> None:
    """H2: literal, prefixed, wildcard; any principal and host pattern; against every kind of ALLOW."""
    allowed = [allow("User:a", ALL, pattern) for pattern in (topic("t"), topics("t"), topic("*"))]
    fed = Fed(*allowed)
    assert fed.allows("User:a", READ, topic("t"))
    fed.publish(deny(principal_pattern, READ, winner, host))
    assert not fed.allows("User:a", READ, topic("t"))
    assert fed.allows("User:a", WRITE, topic("t"))


@pytest.mark.parametrize("name", ["foobar", "fooa", "fo", "f"])
def test_prefixes_do_not_shadow_one_another(name: str) -> None:
    """H4 (KAFKA-14265, KAFKA-7702): a one-letter prefix counts below longer ones that do not match."""
    fed = Fed(*(allow("User:a", READ, topics(prefix)) for prefix in ("foobarz", "fooa", "f")))
    assert fed.allows("User:a", READ, topic(name))
    assert not fed.allows("User:a", READ, topic("g"))


def test_resource_types_do_not_leak() -> None:
    """H5: a prefix of one type says nothing about another."""
    fed = Fed(allow("User:a", READ, topics("")), allow("User:a", READ, topic("*")))
    assert not fed.allows("User:a", READ, group("g"))


def test_only_a_literal_star_is_a_wildcard() -> None:
    """H8: a PREFIXED star covers names that start with a star."""
    fed = Fed(allow("User:a", READ, topics("*")))
    assert fed.allows("User:a", READ, topic("*x"))
    assert not fed.allows("User:a", READ, topic("x"))


@pytest.mark.parametrize("name", ["", "!", "*", "*x", "x", "\U0001f600"])
def test_a_literal_star_covers_every_name(name: str) -> None:
    """docs/compatibility.md, difference 2: it covers names with any characters."""
    fed = Fed(allow("User:a", READ, topic("*")))
    assert fed.allows("User:a", READ, topic(name))


def test_the_wildcard_principal_is_of_every_type() -> None:
    """H8: User:* matches every principal; Group:* is a group with that name."""
    fed = Fed(allow("User:*", READ, topic("t")), allow("Group:*", WRITE, topic("t")))
    assert fed.allows("Group:g", READ, topic("t"))
    assert not fed.allows("Group:g", WRITE, topic("t"))
    assert fed.allows("Group:*", WRITE, topic("t"))


def test_a_session_principal_user_star_is_an_ordinary_name() -> None:
    """docs/compatibility.md, difference 3: Kafka throws."""
    fed = Fed(allow("User:*", READ, topic("t")), allow("User:a", WRITE, topic("t")))
    assert fed.allows("User:*", READ, topic("t"))
    assert not fed.allows("User:*", WRITE, topic("t"))


@pytest.mark.parametrize("principal", ["nocolon", "", "*"])
def test_an_acl_principal_without_a_colon_matches_nobody(principal: str) -> None:
    """docs/compatibility.md, difference 3: Kafka throws. The resource still counts as one with ACLs."""
    fed = Fed(deny(principal, ALL, topic("t")), allow_everyone_if_no_acl_found="true")
    assert not fed.allows("User:a", READ, topic("t"))
    fed.publish(allow("User:a", READ, topic("t")))
    assert fed.allows("User:a", READ, topic("t"))


def test_principals_are_split_at_the_first_colon() -> None:
    """A session principal with a colon in its type does not match the ACL with the same text."""
    fed = Fed(allow("User:a:b", READ, topic("t")))
    assert fed.allows("User:a:b", READ, topic("t"))
    odd = RequestContext(KafkaPrincipal("User:a", "b"), "10.0.0.1")
    (result,) = fed.authorizer.authorize(odd, [Action(READ, topic("t"))])
    assert result.value == "DENIED"
    assert not fed.authorizer.decide(odd, Action(READ, topic("t"))).is_allowed
    assert Fed(super_users="User:a:b").authorizer.decide(odd, Action(READ, topic("t"))).is_allowed


def test_hosts_are_compared_as_text() -> None:
    """H10: no names, IPv6 in full, and up to Kafka 4.3 no networks."""
    hosts = "10.0.0.0/24", "localhost", "::1"
    fed = Fed(*(allow("User:a", READ, topic("t"), host) for host in hosts), aclog_kafka_version="4.4")
    assert fed.allows("User:a", READ, topic("t"), "10.0.0.1")
    fed.authorizer.configure({"aclog.kafka.version": "4.3"})
    for host in ("10.0.0.1", "127.0.0.1", "0:0:0:0:0:0:0:1"):
        assert not fed.allows("User:a", READ, topic("t"), host)
    fed.publish(allow("User:a", READ, topic("t"), "0:0:0:0:0:0:0:1"))
    assert fed.allows("User:a", READ, topic("t"), "0:0:0:0:0:0:0:1")


@pytest.mark.parametrize("pattern", [topic("t"), topics("t"), topics(""), topic("*")])
@pytest.mark.parametrize("batches", [1, 2])
def test_hosts_count_whatever_the_pattern_is(pattern: ResourcePattern, batches: int) -> None:
    """In a new index and in an updated one; twice, because answers may be cached."""
    acls = [
        allow("User:a", READ, pattern, "10.0.0.1"),
        allow("User:a", WRITE, pattern),
        deny("User:a", WRITE, pattern, "10.0.0.2"),
    ]
    fed = Fed(*acls[:2]) if batches == 2 else Fed()
    if batches == 2:
        fed.publish(acls[2])
    else:
        fed.reload(*acls)
        fed.authorizer.load(fed.image)
    for _ in range(2):
        found = [
            fed.allows("User:a", operation, topic("t"), host)
            for operation in (READ, WRITE)
            for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3")
        ]
        assert found == [True, False, False, True, False, True]


@pytest.mark.parametrize("cover", [topic("t"), topics("t"), topics(""), topic("*")])
def test_any_covering_acl_disables_the_default(cover: ResourcePattern) -> None:
    """H13: for any principal, operation and host; a removed ACL no longer does."""
    other = allow("Group:x", AclOperation.CREATE, cover, "1.2.3.4")
    fed = Fed(other, allow_everyone_if_no_acl_found="true")
    assert not fed.allows("User:a", READ, topic("t"))
    assert fed.allows("User:a", READ, group("t"))
    fed.publish(RemoveAccessControlEntryRecord(other.id))
    assert fed.allows("User:a", READ, topic("t"))


def test_an_equal_acl_is_in_force_until_both_ids_are_removed() -> None:
    """I8."""
    one, other = allow("User:a", READ, topic("t")), allow("User:a", READ, topic("t"))
    fed = Fed(one, other)
    fed.publish(RemoveAccessControlEntryRecord(one.id))
    assert fed.allows("User:a", READ, topic("t"))
    fed.publish(RemoveAccessControlEntryRecord(other.id))
    assert not fed.allows("User:a", READ, topic("t"))


def test_a_repeated_id_replaces_the_acl() -> None:
    """I8: the later content counts, also on another pattern."""
    first = allow("User:a", READ, topic("t"))
    fed = Fed(first)
    fed.publish(AccessControlEntryRecord(first.id, *allow("User:b", READ, topics("u")).content))
    assert not fed.allows("User:a", READ, topic("t"))
    assert fed.allows("User:b", READ, topic("uu"))


@pytest.mark.parametrize("pattern_type", [0, 1, 2, 77, -1])
def test_an_unknown_pattern_type_acts_as_prefixed(pattern_type: int) -> None:
    """docs/compatibility.md, difference 4."""
    acl = allow("User:a", READ, topic("t"))
    odd = AccessControlEntryRecord(acl.id, int(TOPIC), "t", pattern_type, *acl.content[3:])
    fed = Fed(odd)
    assert fed.allows("User:a", READ, topic("tx"))


@pytest.mark.parametrize("operation", [AclOperation.UNKNOWN, AclOperation.ANY])
def test_operations_of_filters_can_be_requested(operation: AclOperation) -> None:
    """They match ALL and themselves; codes without a name are UNKNOWN."""
    fed = Fed(
        allow("User:a", ALL, topic("t")),
        deny("User:b", operation, topic("t")),
        deny("User:a", 99, topic("u")),
    )
    assert fed.allows("User:a", operation, topic("t"))
    assert not fed.allows("User:b", operation, topic("t"))
    assert fed.allows("User:a", READ, topic("t"))


def named(fed: Fed, name: str, operation: AclOperation = READ) -> AccessControlEntryRecord | None:
    decision = fed.authorizer.decide(context(), Action(operation, topic(name)))
    return None if decision.acl is None else decision.acl.record


def test_the_first_deny_is_named() -> None:
    """H30: longest name first, LITERAL before PREFIXED; a `*` after all of them."""
    order = [deny("User:a", ALL, pattern) for pattern in (topic("tt"), topics("tt"), topics("t"), topic("*"))]
    fed = Fed(*reversed(order), allow("User:a", READ, topic("tt")))
    for acl in order:
        assert named(fed, "tt") == acl
        fed.publish(RemoveAccessControlEntryRecord(acl.id))


def test_the_last_allow_is_named() -> None:
    """H30: the same order from its end."""
    order = [
        allow("User:a", ALL, pattern) for pattern in (topic("*"), topics("t"), topics("tt"), topic("tt"))
    ]
    fed = Fed(*reversed(order))
    for acl in order:
        assert named(fed, "tt") == acl
        fed.publish(RemoveAccessControlEntryRecord(acl.id))


@pytest.mark.parametrize("is_row", [False, True])
def test_a_reason_lasts_until_the_next_update(*, is_row: bool) -> None:
    """An equal ACL with another id replaces the deciding one; the old state does not change."""
    first = allow("User:a", READ, topic("t"))
    second = replace(first, id=Uuid(bytes(16)))
    fed = Fed(first)
    if is_row:
        fed.image = fed.image.merged()
        fed.authorizer.load(fed.image)
    before = fed.authorizer.state
    for _ in range(2):
        assert named(fed, "t") == first
    fed.publish(RemoveAccessControlEntryRecord(first.id), second)
    for _ in range(2):
        assert named(fed, "t") == second
        decision = fed.authorizer.decide(context(), Action(READ, topic("t")), before)
        assert decision.acl is not None
        assert decision.acl.record == first


def test_texts_are_ordered_by_utf16_code_unit() -> None:
    """U+1F600 is D83D DE00 in Java, and comes before U+FF61."""
    high, low = "User:\uff61", "User:\U0001f600"
    for principal in (high, low):
        of_principal, everyone = deny(principal, READ, topic("t")), deny("User:*", READ, topic("t"))
        fed = Fed(of_principal, everyone)
        decision = fed.authorizer.decide(context(principal), Action(READ, topic("t")))
        assert decision.acl is not None
        assert decision.acl.record == everyone
    fed = Fed(*(deny("User:a", READ, topic("t"), host) for host in ("10.0.0.1", "*")))
    first = named(fed, "t")
    assert first is not None
    assert first.host == "*"


def test_for_the_empty_name_and_star_the_named_acl_follows_kafkas_search() -> None:
    """The last ALLOW is that of the empty prefix; the first DENY is that of `*` if the search finds it."""
    empty, star = allow("User:a", READ, topics("")), allow("User:a", READ, topic("*"))
    assert named(Fed(empty, star), "t") == empty
    # Kafka's search has skipped `*` here, which makes no difference for an ALLOW.
    assert named(Fed(empty, star, allow("User:x", READ, topic("a"))), "t") == empty
    empty, star = deny("User:a", READ, topics("")), deny("User:a", READ, topic("*"))
    assert named(Fed(empty, star), "t") == star
    assert named(Fed(empty, star, allow("User:x", READ, topic("a"))), "t") == empty


@pytest.mark.parametrize("name", ["", "!", "*", "t"])
def test_an_empty_name_of_unknown_type_with_a_star_prefix_changes_no_result(name: str) -> None:
    """Kafka may name another ALLOW here; aclog does not copy that, and the result is the same."""
    unknown = replace(allow("User:a", READ, topic("")), pattern_type=77)
    allowed = [unknown, allow("User:a", READ, topics("*")), allow("User:a", READ, topics(""))]
    fed = Fed(*allowed)
    assert named(fed, name) in allowed
    assert fed.allows("User:a", READ, topic(name))
    assert not fed.allows("User:a", WRITE, topic(name))
    fed.publish(replace(deny("User:a", READ, topic("")), pattern_type=77))
    assert not fed.allows("User:a", READ, topic(name))


def test_only_literal_resources_are_accepted() -> None:
    """H31."""
    fed = Fed()
    pattern = ResourcePattern(TOPIC, "t", PatternType.PREFIXED)
    for ask in (
        fed.authorizer.decide,
        lambda principal_pattern, action: fed.authorizer.authorize(principal_pattern, [action]),
    ):
        with pytest.raises(ValueError, match=r"^Only literal resources are supported\. Got: PREFIXED$"):
            ask(context(), Action(DESCRIBE, pattern))
