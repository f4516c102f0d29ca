"""Listings: what each kind of filter means, and Kafka's order."""

from __future__ import annotations

from records.acl import (
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from support.decisions import READ, TOPIC, WRITE, Fed, allow, deny, group, topic, topics

ACLS = {
    "literal": allow("User:a", READ, topic("orders")),
    "prefix": allow("User:b", READ, topics("ord")),
    "whole prefix": allow("User:a", WRITE, topics("orders")),
    "longer": allow("User:a", READ, topic("orders-eu")),
    "star": deny("User:a", READ, topic("*"), "10.0.0.1"),
    "group": allow("User:a", READ, group("orders")),
    "nobody": allow("nocolon", READ, topic("x")),
}


def listed(
    fed: Fed, patterns: ResourcePatternFilter, entries: AccessControlEntryFilter | None = None
) -> list[str]:
    """Their names above, in the order in which they come."""
    acl_filter = AclBindingFilter(patterns, entries or AccessControlEntryFilter())
    names = {acl: name for name, acl in ACLS.items()}
    return [names[acl.record] for acl in fed.authorizer.applied_acls(acl_filter)]


def test_match_means_all_that_cover_a_name() -> None:
    """Literals, prefixes and the wildcard, of one type or of all."""
    fed = Fed(*ACLS.values())
    covering = ["literal", "whole prefix", "prefix", "star"]
    assert listed(fed, ResourcePatternFilter(TOPIC, "orders", PatternType.MATCH)) == covering
    every_type = ResourcePatternFilter(ResourceType.ANY, "orders", PatternType.MATCH)
    assert listed(fed, every_type) == [*covering, "group"]
    assert listed(fed, ResourcePatternFilter(TOPIC, "zzz", PatternType.MATCH)) == ["star"]


def test_other_pattern_types_compare_the_name_as_it_is() -> None:
    fed = Fed(*ACLS.values())
    for pattern_type, expected in (
        (PatternType.LITERAL, ["literal"]),
        (PatternType.PREFIXED, ["whole prefix"]),
        (PatternType.ANY, ["literal", "whole prefix"]),
        (PatternType.UNKNOWN, []),
    ):
        assert listed(fed, ResourcePatternFilter(TOPIC, "orders", pattern_type)) == expected


def test_entries_are_compared_field_by_field() -> None:
    """A principal without a colon can be asked for, though it matches nobody."""
    fed = Fed(*ACLS.values())
    everything = ResourcePatternFilter()
    assert listed(fed, everything, AccessControlEntryFilter(principal="User:b")) == ["prefix"]
    assert listed(fed, everything, AccessControlEntryFilter(principal="nocolon")) == ["nobody"]
    assert listed(fed, everything, AccessControlEntryFilter(principal="User:x")) == []
    assert listed(fed, everything, AccessControlEntryFilter(host="10.0.0.1")) == ["star"]
    assert listed(fed, everything, AccessControlEntryFilter(operation=WRITE)) == ["whole prefix"]
    own = AccessControlEntryFilter(principal="User:a")
    assert listed(fed, ResourcePatternFilter(TOPIC), own) == ["longer", "literal", "whole prefix", "star"]


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
    assert [acl.record for acl in fed.authorizer.applied_acls(AclBindingFilter())] == expected


def test_codes_without_a_name_are_listed() -> None:
    """architecture.md 8.4: the record has the number, a binding UNKNOWN; MATCH takes it for a prefix."""
    acl = allow("User:a", READ, topic("t"))
    odd = AccessControlEntryRecord(acl.id, 99, "t", 77, "User:a", "*", 42, 9)
    fed = Fed(odd)
    (applied,) = fed.authorizer.applied_acls(AclBindingFilter())
    assert applied.record == odd
    (binding,) = fed.authorizer.acls(
        AclBindingFilter(ResourcePatternFilter(ResourceType.ANY, "tx", PatternType.MATCH))
    )
    assert binding == odd.binding()
    assert binding.pattern.pattern_type is PatternType.UNKNOWN
