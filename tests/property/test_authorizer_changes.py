"""Rights that a request created follow later changes; earlier states keep the earlier rights."""

from __future__ import annotations

from itertools import count, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from authorizer.api.audit_levels import OFF
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.authorize import authorize_actions
from authorizer.engine.decisions.decision import DecisionCounts
from authorizer.engine.decisions.state import AuthorizerState
from authorizer.node.standard_authorizer import StandardAuthorizer
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support import naive
from support.acl_strategies import IDS, request_of
from support.limits import make_small

NAMES = ("*", "a", "ab", "abc", "b")
REQUESTS = [
    naive.Request("User", "a", host, AclOperation.READ, ResourceType.TOPIC, name)
    for name, host in product((*NAMES, "abcd", "c"), ("10.0.0.1", "10.0.0.2"))
]


def acls(ids: SearchStrategy[Uuid]) -> SearchStrategy[AccessControlEntryRecord]:
    """ACLs of one caller and of User:*, mostly for literal names."""
    literal, prefixed = int(PatternType.LITERAL), int(PatternType.PREFIXED)
    return st.builds(
        AccessControlEntryRecord,
        ids,
        st.just(int(ResourceType.TOPIC)),
        st.sampled_from(NAMES),
        st.sampled_from([literal, literal, literal, prefixed]),
        st.sampled_from(["User:a", "User:a", "User:*"]),
        st.sampled_from(["*", "*", "10.0.0.1"]),
        st.just(int(AclOperation.READ)),
        st.sampled_from(
            [int(AclPermissionType.ALLOW), int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)]
        ),
    )


@pytest.fixture(params=["small", "usual"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the structures for many ACLs also for few."""
    if request.param == "small":
        make_small(monkeypatch)


@pytest.mark.usefixtures("sizes")
def test_existing_rights_follow_changes() -> None:
    """After a start, after requests of every principal, in every state: one action in a call, and many."""

    @given(
        start=st.lists(st.sampled_from(IDS), min_size=3, max_size=12, unique=True).flatmap(
            lambda ids: st.tuples(*(acls(st.just(acl_id)) for acl_id in ids))
        ),
        steps=st.lists(
            st.lists(
                acls(st.sampled_from(IDS)) | st.sampled_from(IDS).map(RemoveAccessControlEntryRecord),
                min_size=1,
                max_size=2,
            ),
            min_size=1,
            max_size=5,
        ),
    )
    def check(start: tuple[AccessControlEntryRecord, ...], steps: list[list[AclRecord]]) -> None:
        offsets = count()
        subject = StandardAuthorizer(audit=AuditLog(OFF))
        image = folded(AclsImage.EMPTY, start, offsets).apply(Provenance(0, 0, 0)).merged()
        subject.load(image)
        truth = {acl.id: acl for acl in start}
        states = [(subject.state, list(truth.values()))]
        expect(*states[0])
        for records in steps:
            delta = folded(image, records, offsets)
            image = delta.apply(Provenance(next(offsets), 0, 0))
            subject.on_update(delta, image, None)  # type: ignore[arg-type] # the manifest is not read
            for record in records:
                if isinstance(record, AccessControlEntryRecord):
                    truth[record.id] = record
                else:
                    truth.pop(record.id, None)
            states.append((subject.state, list(truth.values())))
            expect(*states[-1])
        for state, acls_then in states:
            expect(state, acls_then)

    check()


def folded(
    image: AclsImage, records: tuple[AclRecord, ...] | list[AclRecord], offsets: count[int]
) -> AclsDelta:
    delta = AclsDelta(image)
    for record in records:
        delta.replay(LogRecord(next(offsets), 0, record))
    return delta


def expect(state: AuthorizerState, truth: list[AccessControlEntryRecord]) -> None:
    """Compare the state with the definition."""
    audit, counts = AuditLog(OFF), DecisionCounts()
    by_host: dict[str, list[naive.Request]] = {}
    for request in REQUESTS:
        by_host.setdefault(request.host, []).append(request)
    for requests in by_host.values():
        allowed = [naive.decide(truth, request, naive.Settings())[0] for request in requests]
        context, _ = request_of(requests[0])
        actions = [request_of(request)[1] for request in requests]
        singly = [authorize_actions(state, context, [action], audit, counts)[0] for action in actions]
        assert [result is AuthorizationResult.ALLOWED for result in singly] == allowed
        assert authorize_actions(state, context, actions, audit, counts) == singly
