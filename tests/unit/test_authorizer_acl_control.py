"""Records and answers of creations and removals, as Kafka 4.3.1's AclApis and AclControlManager."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from authorizer.api.authorizer_api import AclCreateResult, AclDeleteResult
from authorizer.api.errors import InvalidRequestError, PolicyViolationError
from authorizer.engine.acl_validation import validate_binding
from authorizer.node.writing.acl_control import RECORDS_PER_OPERATION_MAX, plan_creation, plan_deletion
from records.acl import (
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
from records.entries import AccessControlEntryRecord, AclContent, RemoveAccessControlEntryRecord
from records.ids import Uuid, binding_uuid
from support.data import LOGS

READ_T = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
    AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW),
)


class Acls:
    """An AclView over a dict by id; iterates over the records, as plan_deletion reads them."""

    def __init__(self, records: Iterable[AccessControlEntryRecord] = ()) -> None:
        self._by_id = {record.id: record for record in records}

    def get(self, acl_id: Uuid) -> AccessControlEntryRecord | None:
        return self._by_id.get(acl_id)

    def find(self, content: AclContent) -> AccessControlEntryRecord | None:
        return next((record for record in self if record.content == content), None)

    def __iter__(self) -> Iterator[AccessControlEntryRecord]:
        return iter(self._by_id.values())


NO_COLON = (
    "Could not parse principal from `x` (no colon is present separating the principal type from the "
    "principal name)"
)


def no_random_id() -> Uuid:
    raise AssertionError("no random id was needed")


def record(binding: AclBinding, acl_id: bytes | None = None) -> AccessControlEntryRecord:
    return AccessControlEntryRecord.from_binding(
        binding_uuid(binding) if acl_id is None else Uuid(acl_id), binding
    )


def with_pattern(
    name: str = "t", type_: ResourceType = ResourceType.TOPIC, pattern: PatternType = PatternType.LITERAL
) -> AclBinding:
    return replace(READ_T, pattern=ResourcePattern(type_, name, pattern))


def with_entry(**changes: Any) -> AclBinding:
    return replace(READ_T, entry=replace(READ_T.entry, **changes))


def exact(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        ResourcePatternFilter(
            binding.pattern.resource_type, binding.pattern.name, binding.pattern.pattern_type
        ),
        AccessControlEntryFilter(
            binding.entry.principal,
            binding.entry.host,
            binding.entry.operation,
            binding.entry.permission_type,
        ),
    )


def messages(results: Sequence[AclCreateResult | AclDeleteResult]) -> list[str | None]:
    return [None if result.exception is None else str(result.exception) for result in results]


# --- validation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", (LOGS / "kraft-small" / "rejected-bindings.jsonl").read_text(encoding="utf-8").splitlines()
)
def test_bindings_that_a_broker_refused_are_refused(line: str) -> None:
    """Bindings that Kafka 4.3.1 refused are refused with its exception and message."""
    case = json.loads(line)
    given = case["binding"]
    binding = AclBinding(
        ResourcePattern(
            ResourceType[given["resourceType"]], given["resourceName"], PatternType[given["patternType"]]
        ),
        AccessControlEntry(
            given["principal"],
            given["host"],
            AclOperation[given["operation"]],
            AclPermissionType[given["permissionType"]],
        ),
    )
    with pytest.raises(InvalidRequestError) as raised:
        validate_binding(binding)
    assert f"{raised.value.kafka_name}: {raised.value}" == case["error"]


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (with_pattern(type_=ResourceType.UNKNOWN), "Invalid resourceType UNKNOWN"),
        (with_pattern(type_=ResourceType.ANY), "Invalid resourceType ANY"),
        (with_pattern(pattern=PatternType.UNKNOWN), "Invalid patternType UNKNOWN"),
        (with_pattern(pattern=PatternType.ANY), "Invalid patternType ANY"),
        (with_pattern(pattern=PatternType.MATCH), "Invalid patternType MATCH"),
        (with_entry(operation=AclOperation.UNKNOWN), "Invalid operation UNKNOWN"),
        (with_entry(operation=AclOperation.ANY), "Invalid operation ANY"),
        (with_entry(permission_type=AclPermissionType.UNKNOWN), "Invalid permissionType UNKNOWN"),
        (with_entry(permission_type=AclPermissionType.ANY), "Invalid permissionType ANY"),
    ],
)
def test_bindings_that_the_controller_refuses_are_refused(binding: AclBinding, message: str) -> None:
    """Codes that no ACL can have are refused with the controller's message."""
    with pytest.raises(InvalidRequestError) as raised:
        validate_binding(binding)
    assert str(raised.value) == message


def test_bindings_are_checked_in_kafkas_order() -> None:
    """Of several faults the error names the one that Kafka checks first: the broker's checks come first."""
    pattern = ResourcePattern(ResourceType.ANY, "", PatternType.ANY)
    entry = AccessControlEntry("x", "*", AclOperation.ANY, AclPermissionType.ANY)
    messages_ = []
    mends: list[Callable[[AclBinding], AclBinding]] = [
        lambda b: replace(b, pattern=replace(b.pattern, name="t")),
        lambda b: replace(b, pattern=replace(b.pattern, resource_type=ResourceType.TOPIC)),
        lambda b: replace(b, pattern=replace(b.pattern, pattern_type=PatternType.LITERAL)),
        lambda b: replace(b, entry=replace(b.entry, operation=AclOperation.READ)),
        lambda b: replace(b, entry=replace(b.entry, permission_type=AclPermissionType.ALLOW)),
        lambda b: replace(b, entry=replace(b.entry, principal="User:x")),
    ]
    for mend in mends:
        binding = AclBinding(pattern, entry)
        with pytest.raises(InvalidRequestError) as raised:
            validate_binding(binding)
        messages_.append(str(raised.value))
        mended = mend(binding)
        pattern, entry = mended.pattern, mended.entry
    validate_binding(AclBinding(pattern, entry))
    assert messages_ == [
        "Invalid empty resource name",
        "Invalid resourceType ANY",
        "Invalid patternType ANY",
        "Invalid operation ANY",
        "Invalid permissionType ANY",
        NO_COLON,
    ]
    with pytest.raises(InvalidRequestError, match="only valid name for the CLUSTER resource"):
        validate_binding(with_pattern("", ResourceType.CLUSTER))


@pytest.mark.parametrize(
    "binding",
    [
        with_entry(operation=AclOperation.CLUSTER_ACTION),
        with_entry(host=""),
        with_entry(host="not a host"),
        with_entry(principal=":"),
        with_entry(principal="User:"),
        with_pattern("kafka-cluster", ResourceType.CLUSTER, PatternType.PREFIXED),
    ],
)
def test_bindings_that_kafka_accepts_are_accepted(binding: AclBinding) -> None:
    """H14: any operation on any type, any host, empty principal parts, a PREFIXED cluster are accepted."""
    validate_binding(binding)


# --- creation -----------------------------------------------------------------------------------------------


def test_one_refused_binding_does_not_stop_the_others() -> None:
    """Each binding has its own result, in order."""
    other = with_pattern("u")
    plan = plan_creation(Acls(), [READ_T, with_pattern(""), other], no_random_id)
    assert messages(plan.results) == [None, "Invalid empty resource name", None]
    assert plan.records == (record(READ_T), record(other))


def test_an_existing_acl_is_a_success_without_a_record() -> None:
    """H27: an equal ACL under any id, here a foreign one, is not written again."""
    plan = plan_creation(Acls([record(READ_T, b"x" * 16)]), [READ_T], no_random_id)
    assert messages(plan.results) == [None]
    assert plan.records == ()


def test_a_binding_given_twice_is_written_once() -> None:
    """Duplicates within one request are successes, with one record."""
    plan = plan_creation(Acls(), [READ_T, READ_T], no_random_id)
    assert messages(plan.results) == [None, None]
    assert plan.records == (record(READ_T),)


def test_an_id_in_force_with_other_content_gets_a_random_one() -> None:
    """A creation never replaces an ACL: equal ids of different content are a coincidence or an attack."""
    taken = record(with_pattern("other"), bytes(binding_uuid(READ_T)))
    also_taken = record(with_pattern("third"), b"1" * 16)
    ids = iter([Uuid(b"1" * 16), Uuid(b"2" * 16)])
    plan = plan_creation(Acls([taken, also_taken]), [READ_T], lambda: next(ids))
    assert plan.records == (record(READ_T, b"2" * 16),)


def test_ten_thousand_records_fit_and_one_more_does_not() -> None:
    """H26: the complete operation is refused, with the controller's message."""
    bindings = [with_pattern(f"t{number}") for number in range(RECORDS_PER_OPERATION_MAX)]
    view = Acls()
    # Existing ACLs do not count.
    assert len(plan_creation(view, [*bindings, bindings[0]], no_random_id).records) == 10_000
    with pytest.raises(PolicyViolationError) as raised:
        plan_creation(view, [*bindings, READ_T], no_random_id)
    assert str(raised.value) == "Unable to perform excessively large batch operation."


# --- removal ------------------------------------------------------------------------------------------------


def test_unknown_filters_are_refused_alone() -> None:
    """A filter with a code that has no name is refused with the controller's message; the others work."""
    filters = [
        AclBindingFilter(ResourcePatternFilter(resource_type=ResourceType.UNKNOWN)),
        AclBindingFilter(entry_filter=AccessControlEntryFilter(operation=AclOperation.UNKNOWN)),
        AclBindingFilter(
            ResourcePatternFilter(pattern_type=PatternType.UNKNOWN),
            AccessControlEntryFilter(permission_type=AclPermissionType.UNKNOWN),
        ),
        AclBindingFilter(),
    ]
    plan = plan_deletion(Acls([record(READ_T)]), filters)
    assert messages(plan.results) == [
        "Unknown patternFilter.",
        "Unknown entryFilter.",
        "Unknown patternFilter.",
        None,
    ]
    assert [result.acl_binding for result in plan.results[3].acl_binding_delete_results] == [READ_T]


def test_filters_that_match_the_same_acl_write_one_removal() -> None:
    """KAFKA-13892: one record, and each filter's result lists the ACL."""
    filters = [AclBindingFilter(), exact(READ_T), AclBindingFilter(ResourcePatternFilter(name="t"))]
    plan = plan_deletion(Acls([record(READ_T)]), filters)
    assert plan.records == (RemoveAccessControlEntryRecord(binding_uuid(READ_T)),)
    listed = [[each.acl_binding for each in result.acl_binding_delete_results] for result in plan.results]
    assert listed == [[READ_T]] * 3


def test_a_removal_removes_all_ids_of_equal_content() -> None:
    """I8: a removal of only one of two ids would not remove the ACL."""
    acls = Acls([record(READ_T, b"1" * 16), record(READ_T, b"2" * 16)])
    plan = plan_deletion(acls, [exact(READ_T)])
    assert {removal.id for removal in plan.records} == {b"1" * 16, b"2" * 16}


def test_a_filter_that_matches_nothing_is_a_success() -> None:
    """No ACL, no record, no error."""
    plan = plan_deletion(Acls(), [exact(READ_T)])
    assert (plan.records, messages(plan.results)) == ((), [None])
    assert plan.results[0].acl_binding_delete_results == ()


def test_removal_agrees_with_kafkas_filters() -> None:
    """For each kind of filter the removed ACLs are those that ``AclBindingFilter.matches``."""
    bindings = [
        AclBinding(
            ResourcePattern(type_, name, pattern), AccessControlEntry(principal, host, operation, permission)
        )
        for type_ in (ResourceType.TOPIC, ResourceType.GROUP)
        for name in ("a", "ab", "*")
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
        for principal, host in (("User:a", "*"), ("User:b", "1.1.1.1"))
        for operation in (AclOperation.READ, AclOperation.ALL)
        for permission in (AclPermissionType.ALLOW, AclPermissionType.DENY)
    ]
    acls = Acls(map(record, bindings))
    filters = [
        AclBindingFilter(
            ResourcePatternFilter(type_, name, pattern),
            AccessControlEntryFilter(principal, host, operation, permission),
        )
        for type_ in (ResourceType.ANY, ResourceType.TOPIC)
        for name in (None, "ab", "*")
        for pattern in (PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)
        for principal in (None, "User:b")
        for host in (None, "1.1.1.1")
        for operation in (AclOperation.ANY, AclOperation.READ)
        for permission in (AclPermissionType.ANY, AclPermissionType.DENY)
    ]
    for acl_filter, result in zip(filters, plan_deletion(acls, filters).results, strict=True):
        removed = {each.acl_binding for each in result.acl_binding_delete_results}
        assert removed == {binding for binding in bindings if acl_filter.matches(binding)}, acl_filter


def test_many_filters_read_the_acls_once() -> None:
    """A pass for each filter takes minutes with thousands of both (KAFKA-19513 in Kafka)."""
    passes = 0

    class Counted(Acls):
        def __iter__(self) -> Iterator[AccessControlEntryRecord]:
            nonlocal passes
            passes += 1
            return super().__iter__()

    filters = [
        exact(READ_T),
        *(AclBindingFilter(ResourcePatternFilter(name=name)) for name in ("t", "u", "v")),
        *(
            AclBindingFilter(entry_filter=AccessControlEntryFilter(principal, host))
            for principal, host in (("User:a", None), (None, "*"), ("User:a", "*"), ("User:b", "*"))
        ),
        AclBindingFilter(
            ResourcePatternFilter(name="t", pattern_type=PatternType.MATCH),
            AccessControlEntryFilter(principal="User:a"),
        ),
    ]
    plan = plan_deletion(Counted([record(READ_T), record(with_pattern("u"))]), filters)
    matched = [len(result.acl_binding_delete_results) for result in plan.results]
    assert (matched, passes) == ([1, 1, 1, 0, 2, 2, 2, 0, 1], 1)


def test_codes_without_a_name_are_matched_like_prefixes() -> None:
    """8.4: MATCH treats an unknown pattern type as PREFIXED, as decisions do; Kafka throws."""
    weird = AccessControlEntryRecord(Uuid(b"1" * 16), 2, "ab", 99, "User:a", "*", 3, 3)
    by_match = AclBindingFilter(ResourcePatternFilter(name="abc", pattern_type=PatternType.MATCH))
    assert len(plan_deletion(Acls([weird]), [by_match]).records) == 1
    by_other_name = AclBindingFilter(ResourcePatternFilter(name="b", pattern_type=PatternType.MATCH))
    assert plan_deletion(Acls([weird]), [by_other_name]).records == ()


def test_ten_thousand_removals_fit_and_one_more_does_not() -> None:
    """H26, observed with 4.3.1: at the limit, an ACL that another filter has matched counts, too."""
    acls = Acls(record(with_pattern(f"t{number}")) for number in range(RECORDS_PER_OPERATION_MAX))
    assert len(plan_deletion(acls, [AclBindingFilter()]).records) == 10_000
    for too_much in (
        (Acls([*acls, record(READ_T)]), [AclBindingFilter()]),
        (acls, [AclBindingFilter(), exact(with_pattern("t0"))]),
    ):
        with pytest.raises(InvalidRequestError) as raised:
            plan_deletion(*too_much)
        assert str(raised.value) == "Cannot remove more than 10000 acls in a single delete operation."
