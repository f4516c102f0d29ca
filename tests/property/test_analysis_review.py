"""Reviews: unneeded ACLs are unneeded, needed ones are needed and fewest; compared with brute force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from authorizer.analysis.permissions.decision_changes import decision_changes_between
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.reviews.minimal_cover import EXACT_ACLS, minimal_cover, narrowest_cover
from authorizer.analysis.reviews.review import Review, review
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from authorizer.engine.index.acl_index import AclIndex
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.request_line import Logged, Request
from records.request_traffic import Traffic
from snapshot.image import Provenance, restore_image
from support import naive
from support.acl_strategies import IDS, codes

OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS)
PROBE = "hardcode"


def acls() -> st.SearchStrategy[AccessControlEntryRecord]:
    return st.builds(
        AccessControlEntryRecord,
        st.sampled_from(IDS),
        codes(ResourceType.GROUP, ResourceType.TOPIC),
        st.text("ab*", max_size=2) | st.sampled_from(["a", "ab", "*", "hard"]),
        codes(PatternType.LITERAL, PatternType.PREFIXED),
        st.sampled_from(["User:a", "User:a", "User:*", "User:b", "nobody"]),
        st.sampled_from(["*", "*", "10.0.0.1"]),
        st.sampled_from([*OPERATIONS, AclOperation.ALL]).map(int) | codes(AclOperation.READ, 99),
        codes(AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY),
    )


def some_acls() -> st.SearchStrategy[list[AccessControlEntryRecord]]:
    return st.lists(acls(), max_size=7, unique_by=lambda acl: acl.id)


requests = st.builds(
    Request,
    st.sampled_from(["User:a", "User:a", "User:b", "Group:a"]),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from([ResourceType.GROUP, ResourceType.TOPIC]),
    st.text("ab", max_size=3),
)


def naive_request(request: Request) -> naive.Request:
    kind, _, name = request.principal.partition(":")
    return naive.Request(
        kind, name, request.host, request.operation, request.resource_type, request.resource_name
    )


def logged_by(
    acls: Sequence[AccessControlEntryRecord], sent: Iterable[Request], settings: naive.Settings
) -> Traffic:
    """The traffic that Kafka would have logged; of a probe it logs only that it was allowed."""
    traffic = Traffic()
    for request in sent:
        traffic.count(Logged(request, *naive.decide(acls, naive_request(request), settings), False), 1)
        probe = request._replace(resource_name=PROBE)
        is_allowed, rule = naive.decide(acls, naive_request(probe), settings)
        if is_allowed:
            traffic.count(Logged(probe, is_allowed, rule, True), 1)
    return traffic


def has_odd_code(acl: AccessControlEntryRecord) -> bool:
    binding = acl.binding()
    pattern, entry = binding.pattern, binding.entry
    return (
        pattern.resource_type <= ResourceType.ANY
        or pattern.pattern_type <= PatternType.MATCH
        or entry.operation <= AclOperation.ANY
        or entry.permission_type <= AclPermissionType.ANY
    )


def table_of(acls: Iterable[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(acl, None, 0) for acl in acls])


def reviewed(
    acls: Iterable[AccessControlEntryRecord],
    settings: AuthorizerSettings,
    traffic: Traffic,
    *,
    minimizes_count: bool,
) -> Review:
    table = table_of(acls)
    image = restore_image([table], provenance=Provenance(0, -1, 0))
    state = AuthorizerState(AclIndex.of(image), settings, is_ready=True, not_ready_reason="")
    return review(table, state, traffic, minimizes_count=minimizes_count)


@given(some_acls(), some_acls(), st.lists(requests, max_size=8), st.booleans(), st.booleans(), st.booleans())
def test_a_review_loses_no_request_and_grants_none(
    before: list[AccessControlEntryRecord],
    now: list[AccessControlEntryRecord],
    sent: list[Request],
    has_changed: bool,
    allow_everyone: bool,
    minimizes_count: bool,
) -> None:
    """Without the unneeded ACLs each request has the same answer; each needed ACL has its reason."""
    supers = frozenset(("User:b",)) if len(sent) % 2 else frozenset[str]()
    settings = naive.Settings(supers, allow_everyone)
    authorizer_settings = AuthorizerSettings(supers, allow_everyone)
    traffic = logged_by(before if has_changed else now, sent, settings)
    found = reviewed(now, authorizer_settings, traffic, minimizes_count=minimizes_count)
    needed_acls = [each.acl for each in found.retained]
    unneeded_acls = [each.acl for each in found.unused]
    assert {acl.content for acl in now} == {acl.content for acl in (*needed_acls, *unneeded_acls)}
    assert len({acl.content for acl in now}) == len(needed_acls) + len(unneeded_acls)

    def lost_requests(acls: Sequence[AccessControlEntryRecord]) -> set[Request]:
        """The requests that were allowed then and are allowed now, but not by these ACLs."""
        return {
            logged.request
            for logged in traffic.counts
            if logged.is_allowed and is_allowed(now, logged) and not is_allowed(acls, logged)
        }

    def is_allowed(acls: Sequence[AccessControlEntryRecord], logged: Logged) -> bool:
        if logged.is_probe and acls is not now:
            return naive.by_resource_type(acls, naive_request(logged.request), settings)
        return naive.decide(acls, naive_request(logged.request), settings)[0]

    assert lost_requests(needed_acls) == set()
    meanings = (EffectivePermissions.of(table_of(acls), authorizer_settings) for acls in (now, needed_acls))
    assert [flip for flip in decision_changes_between(*meanings) if flip.direction == "granted"] == []
    for each in found.retained:
        remaining = [acl for acl in needed_acls if acl is not each.acl]
        if each.reason == "needed":
            assert lost_requests(remaining) or allow_everyone, each
            assert each.example is None or naive.decide([each.acl], naive_request(each.example))[0]
        elif each.reason == "denies":
            assert any(naive.is_allow(acl) for acl in remaining), each
        elif each.reason == "closes":
            kind, name = each.acl.resource_type, each.acl.resource_name
            some_name = (
                "~"
                if naive.is_star(each.acl)
                else name
                if each.acl.pattern_type == PatternType.LITERAL
                else f"{name}~"
            )
            assert not any(naive.covers(acl, ResourceType(kind), some_name) for acl in remaining), each
        else:
            assert has_odd_code(each.acl)
    changed_decisions = {
        (logged.request, not logged.is_allowed)
        for logged in traffic.counts
        if not logged.is_probe
        and logged.rule != "SuperUser"
        and naive.decide(now, naive_request(logged.request), settings)[0] is not logged.is_allowed
    }
    assert {
        (each.request, each.is_allowed_now)
        for each in found.changed_decisions
        if each.request.resource_name != PROBE
    } == changed_decisions


needs = st.lists(st.frozensets(st.integers(0, 7), min_size=1), max_size=8)


@given(needs)
def test_the_minimal_cover_is_the_smallest(drawn: list[frozenset[int]]) -> None:
    """No set that meets every need is smaller, and none of that size has narrower ACLs."""
    distinct = list(dict.fromkeys(drawn))
    covers = [
        set(chosen)
        for size in range(9)
        for chosen in combinations(range(8), size)
        if all(need & set(chosen) for need in distinct)
    ]
    found = minimal_cover(distinct)
    assert found.inexact_groups == 0
    assert found.acls in covers
    assert len(found.acls) == min(map(len, covers))
    assert narrowest_cover(distinct) == min(covers, key=lambda each: sorted(each, reverse=True))


def test_the_cover_of_a_large_group_is_approximate_and_irreducible() -> None:
    """With too many ACLs for a search the cover is sufficient, irreducible and reported as a guess."""
    drawn = [frozenset((number, number + 1, (7 * number) % 40)) for number in range(3 * EXACT_ACLS)]
    found = minimal_cover(drawn)
    assert (found.groups, found.inexact_groups) == (1, 1)
    assert all(need & found.acls for need in drawn)
    for acl in found.acls:
        assert not all(need & (found.acls - {acl}) for need in drawn)
