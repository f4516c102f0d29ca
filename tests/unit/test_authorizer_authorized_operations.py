"""KIP-430: the operations of a resource type that are allowed on one resource, as a bit field."""

from __future__ import annotations

import pytest

from authorizer.api.audit_levels import TRACE
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import to_bit_field
from records.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType
from support.decisions import ALL, READ, TOPIC, Fed, allow, context, deny, topic


def test_the_bits_contain_allowed_and_implied_operations() -> None:
    """READ implies DESCRIBE, unless a DENY matches; bit c is the operation with code c."""
    fed = Fed(allow("User:a", READ, topic("t")))
    operations = fed.authorizer.authorized_operations(context(), TOPIC, "t")
    assert operations == (AclOperation.READ, AclOperation.DESCRIBE)
    assert to_bit_field(operations) == (1 << 3) | (1 << 8)
    fed.publish(deny("User:a", AclOperation.DESCRIBE, topic("t")))
    assert fed.authorizer.authorized_operations(context(), TOPIC, "t") == (AclOperation.READ,)
    assert to_bit_field(()) == 0


@pytest.mark.parametrize("resource_type", ResourceType)
def test_each_resource_type_has_its_supported_operations(resource_type: ResourceType) -> None:
    """A super user has all supported operations; ALL is not one of them."""
    fed = Fed(super_users="User:a", aclog_kafka_version="4.4")
    operations = fed.authorizer.authorized_operations(context(), resource_type, "x")
    assert operations == SUPPORTED_OPERATIONS.get(resource_type, ())
    assert ALL not in operations


@pytest.mark.parametrize(
    ("version", "group", "transactional_id"),
    [
        ("3.9", "148", "110"),
        ("4.0", "d48", "110"),
        ("4.1", "d48", "8110"),
        ("4.4", "d48", "8110"),
        ("", "d48", "8110"),
    ],
)
def test_operations_follow_the_release(version: str, group: str, transactional_id: str) -> None:
    """The operations are those of the release, or of the newest release if it is unknown."""
    fed = Fed(super_users="User:a", aclog_kafka_version=version)
    found = [
        to_bit_field(fed.authorizer.authorized_operations(context(), each, "x"))
        for each in (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    ]
    assert [f"{bits:x}" for bits in found] == [group, transactional_id]


def test_the_audit_log_has_a_query_at_trace(caplog: pytest.LogCaptureFixture) -> None:
    """The query neither grants nor requests an access."""
    audit = AuditLog(TRACE)
    try:
        fed = Fed(allow("User:a", READ, topic("t")), audit=audit)
        fed.authorizer.authorized_operations(context(), TOPIC, "t")
    finally:
        audit.set_level(20)
    assert [record.levelname for record in caplog.records] == ["TRACE"] * 8
