"""Notes about mistyped requests: the nearest known name, and which names are known."""

from __future__ import annotations

import pytest

from authorizer.cli.request_notes import principal_note, resource_note
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import ResourceType
from records.entries import MetadataRecord, ScramCredentialRecord, TopicRecord
from records.principal import parse_kafka_principal
from support.snapshots import acl, acl_id, replayed

#: More names than difflib compares.
MANY = 5000


def state_of(*records: MetadataRecord, super_users: str = "") -> AuthorizerState:
    settings = AuthorizerSettings.from_configs({"super.users": super_users})
    image = replayed(records)
    return AuthorizerState(settings.index(image), settings, is_ready=True, not_ready_reason="")


def of_principal(state: AuthorizerState | None, principal: str, *, is_allowed: bool = False) -> str | None:
    return principal_note(state, parse_kafka_principal(principal), is_allowed=is_allowed)


def of_topic(state: AuthorizerState | None, name: str, *, is_allowed: bool = False) -> str | None:
    return resource_note(state, ResourceType.TOPIC, name, is_allowed=is_allowed)


@pytest.mark.parametrize(
    ("principal", "similar"),
    [
        ("User:alcie", "User:alice"),
        ("user:ALICE", "User:alice"),
        ("Group:alice", "User:alice"),
        ("User:CN=gateway, O=example", "User:CN=gateway,O=example"),
        ("User:admins", "User:admin"),
        ("User:scarm", "User:scram"),
    ],
)
def test_the_nearest_principal_is_proposed(principal: str, similar: str) -> None:
    """Of an ACL, of super.users, or of a credential; also if the request is allowed."""
    state = state_of(
        acl(1, principal="User:alice"),
        acl(2, principal="User:CN=gateway,O=example"),
        ScramCredentialRecord(11, 0, "scram", 1),
        super_users="User:admin",
    )
    for is_allowed in (False, True):
        note = of_principal(state, principal, is_allowed=is_allowed)
        assert note is not None
        assert note.startswith(f"no ACL names {principal}")
        assert note.endswith(f"did you mean {similar}?")
    assert of_principal(state, similar) is None


def test_without_a_similar_principal_only_a_denial_has_a_note() -> None:
    state = state_of(acl(1, principal="User:alice"))
    assert of_principal(state, "User:gateway") == "no ACL names User:gateway"
    assert of_principal(state, "User:gateway", is_allowed=True) is None


def test_a_removed_acl_names_nothing() -> None:
    """Also while the image has its row: what is in force counts."""
    image = replayed([acl(1, principal="User:alice"), acl(2, principal="User:bob")])
    replaced = replayed([acl(1, principal="User:carol", resource_name="payments")], image)
    assert replaced.changes
    settings = AuthorizerSettings()
    state = AuthorizerState(settings.index(replaced), settings, is_ready=True, not_ready_reason="")
    assert of_principal(state, "User:alice") == "no ACL names User:alice"
    assert of_principal(state, "User:carol") is None
    assert of_topic(state, "payment") == "no ACL names topic payment; did you mean payments?"


def test_a_name_among_very_many_is_found() -> None:
    """One typing error leaves one half of a name as it is."""
    state = state_of(*(acl(number, principal=f"User:svc-{number:05}-reader") for number in range(MANY)))
    for mistyped in ("User:svc-01234-raeder", "User:scv-01234-reader"):
        assert of_principal(state, mistyped) == (
            f"no ACL names {mistyped}; did you mean User:svc-01234-reader?"
        )


def test_topics_of_the_log_are_known() -> None:
    """The log of a cluster has all topics, so that an ACL for a prefix does not make a name known."""
    prefixed = acl(1, resource_name="pay", pattern_type=4)
    orders = TopicRecord(2, 0, acl_id(9), "payments")
    assert of_topic(state_of(prefixed), "paymnets") is None
    state = state_of(prefixed, orders)
    assert of_topic(state, "payments") is None
    for is_allowed in (False, True):
        found = of_topic(state, "paymnets", is_allowed=is_allowed)
        assert found == "the log has no topic paymnets; did you mean payments?"
        assert of_topic(state, "zebra", is_allowed=is_allowed) == "the log has no topic zebra"


def test_a_literal_acl_may_have_a_name_with_an_asterisk() -> None:
    group = acl(1, resource_type=3, resource_name="app*")
    assert resource_note(state_of(group), ResourceType.GROUP, "app*", is_allowed=False) is None
    note = resource_note(state_of(), ResourceType.GROUP, "app*", is_allowed=False)
    assert note is not None
    assert note.startswith("app* is taken as the name of one group")


def test_without_the_acls_only_the_form_is_checked() -> None:
    """A sidecar's caller may not be permitted to list ACLs."""
    assert of_principal(None, "User:alcie") is None
    assert of_principal(None, "user:alice") == "principals are case-sensitive; did you mean User:alice?"
    assert of_topic(None, "order") is None
    assert of_topic(None, "orders*") is not None
