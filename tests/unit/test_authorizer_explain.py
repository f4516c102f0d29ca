"""Explanations: the deciding ACL and its offset, other matching ACLs, near misses, and the fix."""

from __future__ import annotations

import msgspec
import pytest

from authorizer.api.authorizer_api import Action
from authorizer.engine.decisions.rules import Rule
from authorizer.engine.explanation.explain import Explanation
from authorizer.engine.explanation.near_misses import NEAR_MISSES_MAXIMUM, NEAR_MISSES_PER_FIELD
from records.acl import SUPPORTED_OPERATIONS, AclOperation, PatternType, ResourcePattern, ResourceType
from records.entries import AccessControlEntryRecord
from records.ids import uuid_to_string
from support.decisions import DESCRIBE, READ, WRITE, Fed, allow, context, deny, group, topic, topics


def explained(
    fed: Fed, pattern: ResourcePattern, operation: AclOperation = READ, host: str = "10.0.0.1"
) -> Explanation:
    return fed.authorizer.explain(context("User:a", host), Action(operation, pattern))


def test_the_deciding_acl_has_its_id_and_offset() -> None:
    """The other matching ACLs are in Kafka's order."""
    matching = [allow("User:a", READ, topic("t")), allow("User:*", READ, topics("t"))]
    deciding = allow("User:a", READ, topic("*"))
    explanation = explained(Fed(*matching, deciding), topic("t"))
    acl = explanation.decision.acl
    assert acl is not None
    assert (acl.record, acl.offset, acl.timestamp_ms) == (deciding, 2, 1_002)
    assert [each.record for each in explanation.also_matched] == matching
    assert explanation.end_offset == 3
    assert explanation.fix == ()


def test_the_deciding_acl_is_not_among_the_other_matching_rows() -> None:
    """Each read of an ACL of a snapshot's columns returns another object."""
    acls = [allow("User:a", READ, topic("t")), allow("User:*", READ, topic("*"))]
    fed = Fed(*acls)
    fed.image = fed.image.merged()
    fed.authorizer.load(fed.image)
    explanation = explained(fed, topic("t"))
    acl = explanation.decision.acl
    assert acl is not None
    assert acl.record == acls[1]
    assert [each.record for each in explanation.also_matched] == acls[:1]


def test_the_fix_of_a_denial_adds_an_acl() -> None:
    explanation = explained(Fed(), topic("my topic"))
    assert explanation.decision.rule is Rule.DEFAULT_DENY
    assert explanation.reason == "no ACL covers the resource"
    assert explanation.fix == (
        ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "my topic"),
    )


def test_the_fix_removes_a_deny_first() -> None:
    """The fix removes every DENY that matches, and adds an ALLOW only if none is there."""
    denial = deny("User:*", READ, topics("t"), "10.0.0.1")
    removal = (
        *("--remove", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--operation", "Read"),
        *("--topic", "t", "--resource-pattern-type", "prefixed", "--force"),
    )
    fed = Fed(denial)
    assert explained(fed, topic("t")).fix == (
        removal,
        ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"),
    )
    fed.publish(allow("User:a", READ, topic("t")))
    explanation = explained(fed, topic("t"))
    assert explanation.fix == (removal,)
    assert explanation.reason == (
        "an ACL denies it, and a DENY wins over every ALLOW; from every other host it is ALLOWED"
    )


def test_a_request_that_kafka_acls_cannot_express_has_no_fix() -> None:
    pattern = ResourcePattern(ResourceType.UNKNOWN, "t", PatternType.LITERAL)
    assert explained(Fed(), pattern).fix == ()


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        (group("g"), ["--group", "g"]),
        (ResourcePattern(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL), ["--cluster"]),
        (
            ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x", PatternType.LITERAL),
            ["--transactional-id", "x"],
        ),
        (
            ResourcePattern(ResourceType.DELEGATION_TOKEN, "x", PatternType.LITERAL),
            ["--delegation-token", "x"],
        ),
        (ResourcePattern(ResourceType.USER, "User:b", PatternType.LITERAL), ["--user-principal", "User:b"]),
    ],
)
def test_the_fix_names_the_resource_as_kafka_acls_does(pattern: ResourcePattern, flags: list[str]) -> None:
    operation = SUPPORTED_OPERATIONS[pattern.resource_type][-1]
    (words,) = explained(Fed(), pattern, operation).fix
    assert list(words[3:]) == ["--operation", operation.title, *flags]


def test_an_unsupported_operation_has_a_remark_and_no_fix() -> None:
    """It is decided as in Kafka; there is no fix, because kafka-acls would refuse it."""
    explanation = explained(Fed(), group("g"), AclOperation.ALTER)
    assert not explanation.decision.is_allowed
    assert explanation.remark == (
        "no broker asks for Alter on GROUP, only for Read, Delete, Describe, DescribeConfigs, AlterConfigs"
    )
    assert explanation.fix == ()
    assert explained(Fed(), group("g")).remark is None


@pytest.mark.parametrize(
    ("acl", "field", "value", "requested"),
    [
        (allow("User:a", READ, topic("orders")), "patternType", "LITERAL", "PREFIXED"),
        (allow("User:a", READ, topic("Orders-eu")), "resourceName", "Orders-eu", "orders-eu"),
        (allow("User:a", READ, topics("order.")), "resourceName", "order.", "orders-eu"),
        (allow("User:a", READ, topic("orders-eu"), "10.0.0.2"), "host", "10.0.0.2", "10.0.0.1"),
        (allow("User:a", WRITE, topics("orders")), "operation", "WRITE", "READ"),
        (allow("user:a", READ, topic("orders-eu")), "principal", "user:a", "User:a"),
        (allow("User:a", READ, group("orders-eu")), "resourceType", "GROUP", "TOPIC"),
    ],
)
def test_near_misses_say_which_one_field_failed(
    acl: AccessControlEntryRecord, field: str, value: str, requested: str
) -> None:
    explanation = explained(Fed(acl), topic("orders-eu"))
    (miss,) = explanation.near_misses
    assert (miss.acl.record, miss.field, miss.value, miss.requested) == (acl, field, value, requested)


def test_an_acl_with_two_failed_fields_is_no_near_miss() -> None:
    fed = Fed(allow("User:b", WRITE, topic("t")), deny("User:b", READ, topic("t")))
    assert explained(fed, topic("t")).near_misses == ()


def test_a_matching_acl_is_no_near_miss() -> None:
    """Nor is an ACL that would only be another denial."""
    fed = Fed(
        allow("User:a", READ, topic("t")),
        allow("User:a", READ, topic("*")),
        allow("User:a", READ, topics("t")),
        deny("User:a", READ, topic("t")),
        deny("User:a", READ, topic("tt")),
        deny("User:a", READ, group("t")),
    )
    assert explained(fed, topic("t")).near_misses == ()


def test_an_allowed_answers_near_misses_are_denials() -> None:
    """They help a user who expected a denial."""
    nearly = deny("User:a", READ, topic("t"), "10.0.0.2")
    explanation = explained(Fed(allow("User:a", READ, topic("t")), nearly), topic("t"))
    assert [miss.acl.record for miss in explanation.near_misses] == [nearly]


def test_near_misses_are_the_same_from_a_log_and_a_snapshot() -> None:
    """Of many equally close ACLs the same ones are shown."""
    acls = [allow(f"User:{name}", READ, topic("t")) for name in "bcdefgh"]
    shown = [explained(Fed(*order), topic("t")).near_misses for order in (acls, acls[::-1])]
    first, second = ([miss.acl.record for miss in misses] for misses in shown)
    assert first == second == acls[:NEAR_MISSES_PER_FIELD]


def test_near_misses_are_limited_and_the_closest_come_first() -> None:
    fed = Fed(
        *(allow("User:a", READ, topic(name)) for name in ("zzz", "orders-us", "orders-e", "ORDERS-EU", "o")),
        *(allow("User:a", READ, topic("orders-eu"), f"10.0.1.{number}") for number in range(100)),
        *(allow(f"User:b{number}", READ, topic("orders-eu")) for number in range(100)),
    )
    misses = explained(fed, topic("orders-eu")).near_misses
    fields = [miss.field for miss in misses]
    assert fields == ["patternType"] * 2 + ["host"] * 3 + ["resourceName"] * 3 + ["principal"] * 2
    assert [miss.value for miss in misses if miss.field == "resourceName"] == [
        "ORDERS-EU",
        "orders-us",
        "zzz",
    ]
    assert len(misses) <= NEAR_MISSES_MAXIMUM
    assert max(map(fields.count, fields)) <= NEAR_MISSES_PER_FIELD


def test_the_explanation_for_a_super_user_reads_no_acl() -> None:
    fed = Fed(deny("User:a", READ, topic("t")), super_users="User:a")
    explanation = explained(fed, topic("t"))
    assert explanation.reason == "the principal is a super user"
    assert (explanation.also_matched, explanation.near_misses, explanation.fix) == ((), (), ())


def test_reasons_distinguish_the_defaults() -> None:
    fed = Fed(allow("User:b", READ, topic("t")), allow_everyone_if_no_acl_found="true")
    assert explained(fed, topic("t")).reason == "ACLs cover the resource, but none of them matches"
    assert explained(fed, topic("u")).reason == (
        "no ACL covers the resource, and allow.everyone.if.no.acl.found is true"
    )
    fed.publish(allow("User:a", READ, topic("t")))
    assert explained(fed, topic("t"), DESCRIBE).reason == "an ACL allows it and none denies it"


def test_json_has_every_field() -> None:
    """Ids, offsets and timestamps of every ACL that it names."""
    denial = deny("User:a", READ, topic("t"))
    explanation = explained(Fed(denial, allow("User:a", WRITE, topic("t"))), topic("t"))
    answer = explanation.answer()
    assert Explanation.from_answer(answer, explanation.context, explanation.action) == explanation
    found = msgspec.to_builtins(answer)
    acl = {
        "id": uuid_to_string(denial.id),
        "resourceType": "TOPIC",
        "resourceName": "t",
        "patternType": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "READ",
        "permissionType": "DENY",
        "offset": 0,
        "timestamp": 1_000,
    }
    assert found.pop("acl") == acl
    (miss,) = found.pop("nearMisses")
    assert {**miss, "acl": miss["acl"]["offset"]} == {
        "field": "operation",
        "has": "WRITE",
        "asked": "READ",
        "acl": 1,
    }
    assert found == {
        "result": "DENIED",
        "rule": f"MatchingAcl(acl={denial.standard_acl()})",
        "reason": "an ACL denies it, and a DENY wins over every ALLOW",
        "offset": 2,
        "endOffset": 2,
        "principal": "User:a",
        "host": "10.0.0.1",
        "operation": "READ",
        "resourceType": "TOPIC",
        "resourceName": "t",
        "alsoMatched": [],
        "remark": None,
        "notes": [],
        "otherHosts": None,
        "kafkaVersion": {
            "version": None,
            "source": "unknown",
            "releases": ["3.9", "4.0", "4.1", "4.2", "4.3", "4.4"],
            "brokers": [],
            "brokersDisagree": False,
        },
        "fix": [
            "kafka-acls --remove --deny-principal User:a --deny-host '*' --operation Read --topic t --force",
            "kafka-acls --add --allow-principal User:a --operation Read --topic t",
        ],
    }
