"""Listings: the ACLs that each kind of filter matches, in Kafka's order."""

from __future__ import annotations

from records.acl import (
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from support.decisions import READ, TOPIC, WRITE, Fed, allow, deny, group, topic, topics

ACLS = {
    "literal": allow("User:a", READ, topic("orders")),
    "prefix": allow("User:b", READ, topics("ord")),
    "equal prefix": allow("User:a", WRITE, topics("orders")),
    "longer": allow("User:a", READ, topic("orders-eu")),
    "star": deny("User:a", READ, topic("*"), "10.0.0.1"),
    "group": allow("User:a", READ, group("orders")),
    "nobody": allow("nocolon", READ, topic("x")),
}


def listed(
    fed: Fed, patterns: ResourcePatternFilter, entries: AccessControlEntryFilter | None = None
) -> list[str]:
    """The names of the listed ACLs, in order; the bindings have the same order."""
    acl_filter = AclBindingFilter(patterns, entries or AccessControlEntryFilter())
    names = {acl: name for name, acl in ACLS.items()}
    found = [acl.record for acl in fed.applied(acl_filter)]
    assert list(fed.authorizer.acls(acl_filter)) == [record.binding() for record in found]
    return [names[record] for record in found]


def test_match_lists_all_acls_that_cover_a_name() -> None:
    """Literals, prefixes and the wildcard, of one type or of all."""
    fed = Fed(*ACLS.values())
    covering = ["literal", "equal prefix", "prefix", "star"]
    assert listed(fed, ResourcePatternFilter(TOPIC, "orders", PatternType.MATCH)) == covering
    every_type = ResourcePatternFilter(ResourceType.ANY, "orders", PatternType.MATCH)
    assert listed(fed, every_type) == [*covering, "group"]
    assert listed(fed, ResourcePatternFilter(TOPIC, "zzz", PatternType.MATCH)) == ["star"]
    assert listed(fed, ResourcePatternFilter(TOPIC, "*", PatternType.MATCH)) == ["star"]


def test_other_pattern_types_compare_the_name_literally() -> None:
    fed = Fed(*ACLS.values())
    for pattern_type, expected in (
        (PatternType.LITERAL, ["literal"]),
        (PatternType.PREFIXED, ["equal prefix"]),
        (PatternType.ANY, ["literal", "equal prefix"]),
        (PatternType.UNKNOWN, []),
    ):
        assert listed(fed, ResourcePatternFilter(TOPIC, "orders", pattern_type)) == expected


def test_entries_are_compared_field_by_field() -> None:
    """A filter may name a principal without a colon, which matches no caller."""
    fed = Fed(*ACLS.values())
    everything = ResourcePatternFilter()
    assert listed(fed, everything, AccessControlEntryFilter(principal="User:b")) == ["prefix"]
    assert listed(fed, everything, AccessControlEntryFilter(principal="nocolon")) == ["nobody"]
    assert listed(fed, everything, AccessControlEntryFilter(principal="User:x")) == []
    assert listed(fed, everything, AccessControlEntryFilter(host="10.0.0.1")) == ["star"]
    assert listed(fed, everything, AccessControlEntryFilter(operation=WRITE)) == ["equal prefix"]
    of_user = AccessControlEntryFilter(principal="User:a")
    assert listed(fed, ResourcePatternFilter(TOPIC), of_user) == ["longer", "literal", "equal prefix", "star"]


def test_every_entry_of_a_pattern_is_listed() -> None:
    """Rows and later additions are listed, removed ACLs are not; many ACLs are listed in pieces."""
    before = [allow(f"User:{number}", READ, topic("t")) for number in range(3_000)]
    since = [allow(f"User:{number}", WRITE, topic("t")) for number in range(0, 3_000, 1_000)]
    fed = Fed(*before)
    for acls in (before, [*before[:1_500], *before[1_501:], *since]):
        if acls is not before:
            fed.publish(RemoveAccessControlEntryRecord(before[1_500].id), *since)
        for acl_filter in (AclBindingFilter(), AclBindingFilter(ResourcePatternFilter(TOPIC, "t"))):
            expected = sorted((acl.operation, acl.principal) for acl in acls)
            found = list(fed.applied(acl_filter))
            assert [(acl.record.operation, acl.record.principal) for acl in found] == expected
            assert list(fed.authorizer.acls(acl_filter)) == [acl.record.binding() for acl in found]


def test_an_acl_of_type_match_is_no_prefix_for_a_match_filter() -> None:
    """ResourcePatternFilter.matches compares its name literally; a decision treats it as a prefix."""
    acl = allow("User:a", READ, topic("ord"))
    odd = AccessControlEntryRecord(acl.id, TOPIC, "ord", PatternType.MATCH, "User:a", "*", READ, 3)
    usual = allow("User:a", READ, topics("ord"))
    for fed in (Fed(odd, usual), fed_after_start(odd, usual)):
        for name, expected in (("ord", {odd, usual}), ("orders", {usual})):
            acl_filter = AclBindingFilter(ResourcePatternFilter(TOPIC, name, PatternType.MATCH))
            assert {applied.record for applied in fed.applied(acl_filter)} == expected


def fed_after_start(*acls: AccessControlEntryRecord) -> Fed:
    """An authorizer that started empty and then got these ACLs."""
    fed = Fed()
    fed.publish(*acls)
    return fed


def test_the_order_is_kafkas() -> None:
    """By type; names descending by UTF-16 code unit; then pattern, operation, principal, host, permission."""
    low, high = topic("\U0001f600"), topic("\uff61")
    expected = [
        allow("User:a", READ, high),
        allow("User:a", READ, low),
        allow("User:a", AclOperation.ALL, topic("t")),
        allow("User:\U0001f600", READ, topic("t")),
        deny("User:\uff61", READ, topic("t")),
        allow("User:\uff61", READ, topic("t")),
        allow("User:\uff61", READ, topic("t"), "10.0.0.1"),
        allow("User:a", READ, topics("t")),
        allow("User:a", READ, group("z")),
    ]
    fed = Fed(*reversed(expected))
    assert [acl.record for acl in fed.applied(AclBindingFilter())] == expected


def test_codes_without_a_name_are_listed() -> None:
    """Difference 4: the record has the number, a binding UNKNOWN; MATCH treats it as a prefix."""
    acl = allow("User:a", READ, topic("t"))
    odd = AccessControlEntryRecord(acl.id, 99, "t", 77, "User:a", "*", 42, 9)
    fed = Fed(odd)
    (applied,) = fed.applied(AclBindingFilter())
    assert applied.record == odd
    (binding,) = fed.authorizer.acls(
        AclBindingFilter(ResourcePatternFilter(ResourceType.ANY, "tx", PatternType.MATCH))
    )
    assert binding == odd.binding()
    assert binding.pattern.pattern_type is PatternType.UNKNOWN


def test_codes_without_a_name_are_in_order() -> None:
    """They all count as UNKNOWN, which comes first: the next field decides."""
    known = allow("User:a", READ, topic("t"))

    def coded(
        type_: int, pattern: int, principal: str, operation: int, permission: int
    ) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(
            allow("User:a", READ, topic("t")).id, type_, "t", pattern, principal, "*", operation, permission
        )

    expected = [
        coded(99, 3, "User:a", 3, 3),
        coded(-127, 3, "User:b", 3, 3),
        coded(2, -1, "User:a", 3, 3),
        coded(2, 77, "User:b", 3, 3),
        coded(2, 3, "User:a", -2, 3),
        coded(2, 3, "User:b", 42, 3),
        coded(2, 3, "User:a", 3, 99),
        known,
    ]
    for fed in (Fed(*reversed(expected)), fed_after_start(*reversed(expected))):
        found = [acl.record for acl in fed.applied(AclBindingFilter())]
        assert found == expected
        assert list(fed.authorizer.acls(AclBindingFilter())) == [record.binding() for record in expected]
