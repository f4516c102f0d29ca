"""Kafka's ACL vocabulary: codes and names as in Kafka 4.3.1, and what filters match."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given

from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from support.strategies import acl_bindings, resource_names, resource_patterns

Vocabulary = type[ResourceType] | type[PatternType] | type[AclOperation] | type[AclPermissionType]

#: Printed by the enums of Kafka 4.3.1.
BY_KAFKA: dict[Vocabulary, str] = {
    ResourceType: "UNKNOWN ANY TOPIC GROUP CLUSTER TRANSACTIONAL_ID DELEGATION_TOKEN USER",
    PatternType: "UNKNOWN ANY MATCH LITERAL PREFIXED",
    AclOperation: (
        "UNKNOWN ANY ALL READ WRITE CREATE DELETE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS "
        "ALTER_CONFIGS IDEMPOTENT_WRITE CREATE_TOKENS DESCRIBE_TOKENS TWO_PHASE_COMMIT"
    ),
    AclPermissionType: "UNKNOWN ANY DENY ALLOW",
}
vocabularies = pytest.mark.parametrize("vocabulary", BY_KAFKA, ids=lambda vocabulary: vocabulary.__name__)


@vocabularies
def test_names_and_codes_are_kafkas(vocabulary: Vocabulary) -> None:
    assert {member.name: member.value for member in vocabulary} == {
        name: code for code, name in enumerate(BY_KAFKA[vocabulary].split())
    }


@vocabularies
def test_a_code_without_a_name_is_unknown(vocabulary: Vocabulary) -> None:
    """fromCode never throws, as a newer Kafka may write any int8."""
    for code in range(-128, 128):
        member = vocabulary.from_code(code)
        assert member.value == (code if 0 <= code < len(vocabulary) else 0)
        assert member.is_unknown == (member.value == 0)


@vocabularies
def test_names_are_found_in_every_way_they_are_written(vocabulary: Vocabulary) -> None:
    """As constants, as kafka-acls prints them, and in any case."""
    for member in vocabulary:
        for text in (member.name, member.title, member.name.lower(), member.title.upper()):
            assert vocabulary.from_name(text) is member
    for text in ("", "_", "TOPI", "TOPICS", "тopic", "3"):
        assert vocabulary.from_name(text).is_unknown


@pytest.mark.parametrize(
    ("member", "title"),
    [
        (ResourceType.TOPIC, "Topic"),
        (ResourceType.TRANSACTIONAL_ID, "TransactionalId"),
        (ResourceType.DELEGATION_TOKEN, "DelegationToken"),
        (AclOperation.DESCRIBE_CONFIGS, "DescribeConfigs"),
        (AclOperation.TWO_PHASE_COMMIT, "TwoPhaseCommit"),
        (AclPermissionType.DENY, "Deny"),
        (PatternType.PREFIXED, "Prefixed"),
    ],
)
def test_titles_are_those_of_security_utils(member: ResourceType, title: str) -> None:
    assert member.title == title


def test_supported_operations_are_those_of_acl_entry() -> None:
    """AclEntry.supportedOperations of Kafka 4.3.1, in code order (KIP-430)."""
    printed = {
        "TOPIC": "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
        "GROUP": "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
        "CLUSTER": "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
        "TRANSACTIONAL_ID": "WRITE DESCRIBE TWO_PHASE_COMMIT",
        "DELEGATION_TOKEN": "DESCRIBE",
        "USER": "CREATE_TOKENS DESCRIBE_TOKENS",
    }
    assert {
        kind.name: " ".join(operation.name for operation in operations)
        for kind, operations in SUPPORTED_OPERATIONS.items()
    } == printed


def test_what_an_allow_implies() -> None:
    """StandardAuthorizerData.IMPLIES_DESCRIBE: CREATE is not in it."""
    assert {operation.name for operation in IMPLIES_DESCRIBE} == {
        "DESCRIBE",
        "READ",
        "WRITE",
        "DELETE",
        "ALTER",
    }
    assert {operation.name for operation in IMPLIES_DESCRIBE_CONFIGS} == {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}


TOPIC_FOO = ResourcePattern(ResourceType.TOPIC, "foo", PatternType.LITERAL)
TOPIC_FOO_PREFIX = ResourcePattern(ResourceType.TOPIC, "foo", PatternType.PREFIXED)
TOPIC_ALL = ResourcePattern(ResourceType.TOPIC, "*", PatternType.LITERAL)
GROUP_FOO = ResourcePattern(ResourceType.GROUP, "foo", PatternType.LITERAL)
PATTERNS = {
    "foo": TOPIC_FOO,
    "foo-prefix": TOPIC_FOO_PREFIX,
    "*": TOPIC_ALL,
    "group": GROUP_FOO,
    "star-prefix": ResourcePattern(ResourceType.TOPIC, "*", PatternType.PREFIXED),
    "f-prefix": ResourcePattern(ResourceType.TOPIC, "f", PatternType.PREFIXED),
}


def topics(name: str | None, pattern_type: PatternType) -> ResourcePatternFilter:
    return ResourcePatternFilter(ResourceType.TOPIC, name, pattern_type)


@dataclass(frozen=True)
class Match:
    """A pattern filter and the names of PATTERNS that it matches."""

    filter: ResourcePatternFilter
    matched: str


@pytest.mark.parametrize(
    "case",
    [
        Match(ResourcePatternFilter(), "foo foo-prefix * group star-prefix f-prefix"),
        Match(ResourcePatternFilter(ResourceType.TOPIC), "foo foo-prefix * star-prefix f-prefix"),
        Match(ResourcePatternFilter(ResourceType.USER), ""),
        Match(ResourcePatternFilter(ResourceType.UNKNOWN), ""),
        Match(ResourcePatternFilter(name="foo"), "foo foo-prefix group"),
        Match(ResourcePatternFilter(name="*"), "* star-prefix"),
        Match(topics("foo", PatternType.LITERAL), "foo"),
        Match(topics("foo", PatternType.PREFIXED), "foo-prefix"),
        Match(topics("foob", PatternType.PREFIXED), ""),
        Match(topics(None, PatternType.PREFIXED), "foo-prefix star-prefix f-prefix"),
        Match(topics(None, PatternType.MATCH), "foo foo-prefix * star-prefix f-prefix"),
        # MATCH: what decides about the name.
        Match(topics("foo", PatternType.MATCH), "foo foo-prefix * f-prefix"),
        Match(topics("foobar", PatternType.MATCH), "foo-prefix * f-prefix"),
        Match(topics("fa", PatternType.MATCH), "* f-prefix"),
        Match(topics("*x", PatternType.MATCH), "* star-prefix"),
        Match(topics("", PatternType.MATCH), "*"),
        Match(topics("foo", PatternType.UNKNOWN), ""),
    ],
    ids=lambda case: str(case.filter),
)  # fmt: skip
def test_pattern_filters(case: Match) -> None:
    """ResourcePatternFilter.matches."""
    assert (
        " ".join(name for name, pattern in PATTERNS.items() if case.filter.matches(pattern)) == case.matched
    )


def test_match_does_not_know_patterns_of_unknown_type() -> None:
    """Kafka throws IllegalArgumentException with these words; without a name it does not look."""
    strange = ResourcePattern(ResourceType.TOPIC, "foo", PatternType.UNKNOWN)
    with pytest.raises(ValueError, match=r"^Unsupported PatternType: UNKNOWN$"):
        topics("foo", PatternType.MATCH).matches(strange)
    assert topics(None, PatternType.MATCH).matches(strange)
    assert topics("foo", PatternType.ANY).matches(strange)
    assert not ResourcePatternFilter(ResourceType.GROUP, "foo", PatternType.MATCH).matches(strange)


ENTRY = AccessControlEntry("User:a", "10.0.0.1", AclOperation.READ, AclPermissionType.DENY)


@pytest.mark.parametrize(
    ("entry_filter", "expected"),
    [
        (AccessControlEntryFilter(), True),
        (AccessControlEntryFilter(principal="User:a"), True),
        (AccessControlEntryFilter(principal="User:*"), False),
        (AccessControlEntryFilter(principal="user:a"), False),
        (AccessControlEntryFilter(host="10.0.0.1"), True),
        (AccessControlEntryFilter(host="*"), False),
        (AccessControlEntryFilter(operation=AclOperation.READ), True),
        (AccessControlEntryFilter(operation=AclOperation.ALL), False),
        (AccessControlEntryFilter(operation=AclOperation.UNKNOWN), False),
        (AccessControlEntryFilter(permission_type=AclPermissionType.DENY), True),
        (AccessControlEntryFilter(permission_type=AclPermissionType.ALLOW), False),
        (AccessControlEntryFilter("User:a", "10.0.0.1", AclOperation.READ, AclPermissionType.DENY), True),
        (AccessControlEntryFilter("User:a", "10.0.0.1", AclOperation.WRITE, AclPermissionType.DENY), False),
    ],
    ids=str,
)
def test_entry_filters(entry_filter: AccessControlEntryFilter, expected: bool) -> None:
    """AccessControlEntryFilter.matches: nothing in a filter is a wildcard but None and ANY."""
    assert entry_filter.matches(ENTRY) is expected


def test_unknown_in_any_part_makes_a_filter_unknown() -> None:
    """Kafka refuses to delete by such a filter."""
    assert not AclBindingFilter().is_unknown
    for pattern_filter in (
        ResourcePatternFilter(ResourceType.UNKNOWN),
        ResourcePatternFilter(pattern_type=PatternType.UNKNOWN),
    ):
        assert AclBindingFilter(pattern_filter).is_unknown
    for entry_filter in (
        AccessControlEntryFilter(operation=AclOperation.UNKNOWN),
        AccessControlEntryFilter(permission_type=AclPermissionType.UNKNOWN),
    ):
        assert AclBindingFilter(entry_filter=entry_filter).is_unknown


@given(acl_bindings(), acl_bindings())
def test_a_filter_of_a_bindings_own_parts_matches_only_that_binding(
    binding: AclBinding, other: AclBinding
) -> None:
    pattern, entry = binding.pattern, binding.entry
    exact = AclBindingFilter(
        ResourcePatternFilter(pattern.resource_type, pattern.name, pattern.pattern_type),
        AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type),
    )
    assert exact.matches(binding)
    assert exact.matches(other) == (binding == other)
    assert AclBindingFilter().matches(other)


@given(resource_patterns(), resource_names(max_size=4))
def test_match_finds_what_covers_a_name(pattern: ResourcePattern, name: str) -> None:
    """By meaning: a literal covers its equal, a literal star every name, a prefix what begins with it."""
    if pattern.pattern_type is PatternType.PREFIXED:
        covers = name.startswith(pattern.name)
    else:
        covers = pattern.name in {name, "*"}
    assert ResourcePatternFilter(pattern.resource_type, name, PatternType.MATCH).matches(pattern) is covers


def test_texts_are_those_of_java() -> None:
    """toString of AclBinding and AclBindingFilter; messages of Kafka hold them."""
    assert str(AclBinding(TOPIC_FOO, ENTRY)) == (
        "(pattern=ResourcePattern(resourceType=TOPIC, name=foo, patternType=LITERAL), "
        "entry=(principal=User:a, host=10.0.0.1, operation=READ, permissionType=DENY))"
    )
    assert str(AclBindingFilter()) == (
        "(patternFilter=ResourcePattern(resourceType=ANY, name=<any>, patternType=ANY), "
        "entryFilter=(principal=<any>, host=<any>, operation=ANY, permissionType=ANY))"
    )


@given(acl_bindings())
def test_records_hold_bindings(binding: AclBinding) -> None:
    acl_id = Uuid(bytes(16))
    record = AccessControlEntryRecord.from_binding(acl_id, binding)
    assert record.binding() == binding
    assert AccessControlEntryRecord(acl_id, *record.content) == record
    assert all(type(code) is int for code in (record.resource_type, record.operation))


def test_a_record_of_a_newer_kafka_is_listed_with_unknowns() -> None:
    """from_code for each; StandardAcl prints itself as Kafka 4.3's record class does."""
    record = AccessControlEntryRecord(Uuid(bytes(16)), 99, "n", 42, "User:a", "*", -1, 77)
    assert record.binding() == AclBinding(
        ResourcePattern(ResourceType.UNKNOWN, "n", PatternType.UNKNOWN),
        AccessControlEntry("User:a", "*", AclOperation.UNKNOWN, AclPermissionType.UNKNOWN),
    )
    assert record.standard_acl() == (
        "StandardAcl[resourceType=UNKNOWN, resourceName=n, patternType=UNKNOWN, principal=User:a, host=*, "
        "operation=UNKNOWN, permissionType=UNKNOWN]"
    )
