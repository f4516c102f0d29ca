"""Every rule of KIP-679's separate algorithm (StandardAuthorizer.authorizeByResourceType)."""

from __future__ import annotations

import pytest

from authorizer.api.audit_levels import INFO, TRACE
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.engine.decisions.audit import AuditLog
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord
from support.decisions import (
    ALL,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    Fed,
    allow,
    context,
    deny,
    group,
    topic,
    topics,
)


def allows_some(
    *acls: AccessControlEntryRecord,
    operation: AclOperation = READ,
    principal: str = "User:a",
    host: str = "10.0.0.1",
    super_users: str = "",
    allow_everyone: str = "false",
) -> bool:
    fed = Fed(*acls, super_users=super_users, allow_everyone_if_no_acl_found=allow_everyone)
    result = fed.authorizer.authorize_by_resource_type(context(principal, host), operation, TOPIC)
    return result is AuthorizationResult.ALLOWED


def test_an_allow_on_any_name_suffices() -> None:
    assert allows_some(allow("User:a", READ, topic("t")))
    assert allows_some(allow("User:*", READ, topics("t")))
    assert allows_some(allow("User:a", ALL, topic("t")))
    assert not allows_some()
    assert not allows_some(allow("User:b", READ, topic("t")))
    assert not allows_some(allow("User:a", READ, group("t")))
    assert not allows_some(allow("User:a", READ, topic("t"), "10.0.0.2"))


def test_implication_counts_for_the_probed_name_only() -> None:
    """READ on one topic does not give DESCRIBE by type; READ on every topic does."""
    assert not allows_some(allow("User:a", READ, topic("t")), operation=DESCRIBE)
    assert allows_some(allow("User:a", READ, topic("hardcode")), operation=DESCRIBE)
    assert allows_some(allow("User:a", READ, topics("hard")), operation=DESCRIBE)
    assert allows_some(allow("User:a", READ, topic("*")), operation=DESCRIBE)
    assert allows_some(allow("User:a", DESCRIBE, topic("t")), operation=DESCRIBE)
    assert not allows_some(
        allow("User:a", AclOperation.ALTER_CONFIGS, topic("t")), operation=AclOperation.DESCRIBE_CONFIGS
    )


def test_a_denied_star_denies_and_an_allowed_star_beats_prefixes() -> None:
    assert not allows_some(deny("User:a", READ, topic("*")), allow("User:a", READ, topic("t")))
    assert not allows_some(deny("User:*", READ, topic("*")), allow("User:a", READ, topic("*")))
    assert allows_some(deny("User:a", READ, topics("h")), allow("User:a", READ, topic("*")))


def test_a_deny_on_the_name_or_a_prefix_dominates_an_allow() -> None:
    """For a literal: a DENY on the name or on any prefix of it; for a prefix: an equal or shorter prefix."""
    assert not allows_some(allow("User:a", READ, topic("t")), deny("User:*", READ, topic("t")))
    assert not allows_some(allow("User:a", READ, topic("tu")), deny("User:a", READ, topics("t")))
    assert not allows_some(allow("User:a", READ, topics("tu")), deny("User:a", READ, topics("tu")))
    assert not allows_some(allow("User:a", READ, topics("tu")), deny("User:*", READ, topics("t")))
    assert allows_some(allow("User:a", READ, topics("t")), deny("User:a", READ, topic("t")))
    assert allows_some(allow("User:a", READ, topics("t")), deny("User:a", READ, topics("tu")))
    assert allows_some(allow("User:a", READ, topic("t")), deny("User:a", READ, topic("tu")))


def test_the_empty_prefix_denies_nothing_here() -> None:
    """It denies the probed name, and is not read again."""
    assert allows_some(allow("User:a", READ, topic("t")), deny("User:a", READ, topics("")))
    assert allows_some(allow("User:a", READ, topics("")), deny("User:a", READ, topics("")))


def test_the_default_counts_for_the_probed_name() -> None:
    """One ACL on `*` for another principal disables it."""
    assert allows_some(allow_everyone="true")
    assert allows_some(deny("User:a", READ, topic("t")), allow_everyone="true")
    assert not allows_some(allow("User:b", READ, topic("*")), allow_everyone="true")


def test_super_users_are_allowed_despite_a_deny() -> None:
    assert allows_some(deny("User:*", ALL, topic("*")), super_users="User:a")


@pytest.mark.parametrize("odd", [(PatternType.MATCH, AclPermissionType.DENY), (PatternType.PREFIXED, 0)])
def test_acls_with_unknown_codes_are_ignored(odd: tuple[int, int]) -> None:
    """docs/compatibility.md, difference 4: other decisions treat them as prefixes that deny."""
    acl = deny("User:a", READ, topic("t"))
    pattern_type, permission_type = odd
    strange = AccessControlEntryRecord(
        acl.id, TOPIC, "t", int(pattern_type), "User:a", "*", READ, int(permission_type)
    )
    fed = Fed(strange, allow("User:a", READ, topic("tu")))
    assert not fed.allows("User:a", READ, topic("tu"))
    assert allows_some(strange, allow("User:a", READ, topic("tu")))


@pytest.mark.parametrize(
    ("operation", "resource_type", "message"),
    [
        (READ, ResourceType.ANY, "Must specify a non-filter resource type for authorizeByResourceType"),
        (READ, ResourceType.UNKNOWN, "Unknown resource type"),
        (AclOperation.ANY, TOPIC, "Must specify a non-filter operation type for authorizeByResourceType"),
        (AclOperation.UNKNOWN, TOPIC, "Unknown operation type"),
    ],
)
def test_codes_of_filters_are_refused(
    operation: AclOperation, resource_type: ResourceType, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Fed().authorizer.authorize_by_resource_type(context(), operation, resource_type)


def test_only_the_probe_is_audited(caplog: pytest.LogCaptureFixture) -> None:
    """DEBUG if it is allowed, else TRACE, with reference count 0: no caller requested "hardcode"."""
    audit = AuditLog(TRACE)
    try:
        fed = Fed(allow("User:a", READ, topic("*")), allow("User:b", READ, topic("t")), audit=audit)
        for principal in ("User:a", "User:b"):
            fed.authorizer.authorize_by_resource_type(context(principal), READ, TOPIC)
    finally:
        audit.set_level(INFO)
    written = [(line.levelname, line.__dict__["resource_reference_count"]) for line in caplog.records]
    assert written == [("DEBUG", 0), ("TRACE", 0)]


def test_a_node_that_is_not_ready_raises_an_error() -> None:
    """I4."""
    fed = Fed(ready=False, super_users="User:root")
    with pytest.raises(AuthorizerNotReadyError):
        fed.authorizer.authorize_by_resource_type(context(), READ, GROUP)
    result = fed.authorizer.authorize_by_resource_type(context("User:root"), READ, GROUP)
    assert result is AuthorizationResult.ALLOWED
