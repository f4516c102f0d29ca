"""RecentStates: retained states do not change and are not confused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import snapshot.image
from authorizer.api.audit_levels import OFF
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.node import recent_states
from authorizer.node.recent_states import RecentStates
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.entries import AccessControlEntryRecord, OtherRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from support.acl_strategies import IDS, acls
from support.decisions import READ, allow, topic
from support.update_publisher import UpdatePublisher


def fed() -> tuple[RecentStates, UpdatePublisher]:
    authorizer = StandardAuthorizer(audit=AuditLog(OFF))
    authorizer.on_ready()
    recent = RecentStates(authorizer)
    return recent, UpdatePublisher(authorizer, recent)


def content(state: AuthorizerState | None) -> set[AccessControlEntryRecord] | None:
    return None if state is None else {acl.record for acl in state.index.image}


record = acls() | st.sampled_from(IDS).map(RemoveAccessControlEntryRecord) | st.just(OtherRecord(12, 0))


@given(st.lists(st.lists(record, max_size=4), min_size=1, max_size=12), st.booleans())
def test_a_retained_state_does_not_change(
    batches: list[list[AccessControlEntryRecord | RemoveAccessControlEntryRecord | OtherRecord]],
    merging: bool,
) -> None:
    """At each published offset, also without a change; at other offsets there is none, or the same state."""
    with pytest.MonkeyPatch.context() as patch:
        if merging:
            patch.setattr(snapshot.image, "_MERGE_MINIMUM", 2)
        recent, published = fed()
        published.batch()
        known: dict[int, set[AccessControlEntryRecord]] = {0: set()}
        in_log: dict[Uuid, AccessControlEntryRecord] = {}
        truth = [set[AccessControlEntryRecord]()]
        for batch in batches:
            for each in batch:
                if isinstance(each, AccessControlEntryRecord):
                    in_log[each.id] = each
                elif isinstance(each, RemoveAccessControlEntryRecord):
                    in_log.pop(each.id, None)
                truth.append(set(in_log.values()))
            published.batch(*batch)
            known[published.end_offset] = set(in_log.values())
        for offset, acls_then in known.items():
            assert content(recent.at(offset)) == acls_then
        for offset, acls_then in enumerate(truth):
            assert content(recent.at(offset)) in (None, acls_then)
        assert recent.at(len(truth)) is None


def test_retained_states_have_the_current_settings_and_readiness() -> None:
    recent, published = fed()
    published.batch(allow("User:a", READ, topic("t")))
    published.batch(allow("User:a", READ, topic("u")))
    authorizer = published.publishers[0]
    assert isinstance(authorizer, StandardAuthorizer)
    authorizer.configure({"super.users": "User:z"})
    authorizer.on_not_ready("lost")
    past = recent.at(1)
    assert past is not None
    assert (past.settings.super_users, past.is_ready, past.not_ready_reason) == (
        frozenset({"User:z"}),
        False,
        "lost",
    )


def test_a_reload_discards_retained_states() -> None:
    """The earlier log may have had other records at the same offsets (I5, I11)."""
    recent, published = fed()
    for number in range(3):
        published.batch(allow("User:a", READ, topic(f"t{number}")))
    published.reload(allow("User:b", READ, topic("t")), end_offset=2)
    assert (content(recent.at(1)), content(recent.at(3))) == (None, None)
    assert {acl.principal for acl in content(recent.at(2)) or ()} == {"User:b"}
    assert recent.first == 2


def test_retained_states_and_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits apply to the number of states, and to rows of columns that only earlier states use."""
    monkeypatch.setattr(recent_states, "STATES_MAX", 5)
    recent, published = fed()
    published.batch()
    for number in range(10):
        published.batch(allow("User:a", READ, topic(f"t{number}")))
    assert [recent.at(offset) is not None for offset in range(12)] == [False] * 6 + [True] * 5 + [False]
    monkeypatch.setattr(recent_states, "STATES_MAX", 100)
    monkeypatch.setattr(snapshot.image, "_MERGE_MINIMUM", 4)
    monkeypatch.setattr(recent_states, "EARLIER_ROWS_MAX", 20)
    for number in range(200):
        published.batch(allow("User:a", READ, topic(f"u{number}")))
    first = recent.first
    assert first is not None
    columns = {}
    for offset in range(first, published.end_offset + 1):
        state = recent.at(offset)
        assert state is not None
        columns[id(state.index.rows)] = len(state.index.rows.columns)
    assert len(columns) >= 1
    assert sum(list(columns.values())[:-1]) <= 20
