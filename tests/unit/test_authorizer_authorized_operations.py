"""KIP-430: the operations of a resource type that are allowed on one resource, as a bit field."""

from __future__ import annotations

import pytest

from authorizer.decisions.audit import AuditLog
from authorizer.decisions.audit_levels import TRACE
from authorizer.decisions.authorized_operations import authorized_operations, to_bit_field
from records.acl import SUPPORTED_OPERATIONS, AclOperation, ResourceType
from support.decisions import ALL, READ, TOPIC, Fed, allow, context, deny, topic


def test_allowed_and_implied_operations_are_there() -> None:
    """READ brings DESCRIBE; a DENY takes it away; bit c is the operation with code c."""
    fed = Fed(allow("User:a", READ, topic("t")))
    operations = authorized_operations(fed.authorizer.authorize, context(), TOPIC, "t")
    assert operations == (AclOperation.READ, AclOperation.DESCRIBE)
    assert to_bit_field(operations) == (1 << 3) | (1 << 8)
    fed.publish(deny("User:a", AclOperation.DESCRIBE, topic("t")))
    assert authorized_operations(fed.authorizer.authorize, context(), TOPIC, "t") == (AclOperation.READ,)
    assert to_bit_field(()) == 0


@pytest.mark.parametrize("resource_type", ResourceType)
def test_each_type_has_its_operations(resource_type: ResourceType) -> None:
    """A super user has all of them; ALL itself is none of them."""
    fed = Fed(super_users="User:a")
    operations = authorized_operations(fed.authorizer.authorize, context(), resource_type, "x")
    assert operations == SUPPORTED_OPERATIONS.get(resource_type, ())
    assert ALL not in operations


def test_the_audit_log_has_it_at_trace(caplog: pytest.LogCaptureFixture) -> None:
    """No access is granted or asked for by it."""
    audit = AuditLog(TRACE)
    try:
        fed = Fed(allow("User:a", READ, topic("t")), audit=audit)
        authorized_operations(fed.authorizer.authorize, context(), TOPIC, "t")
    finally:
        audit.set_level(20)
    assert [record.levelname for record in caplog.records] == ["TRACE"] * 8
