"""Effective permissions give every answer, and equal ones give equal answers; compared with brute force."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from string import ascii_lowercase, digits

from hypothesis import given, settings
from hypothesis import strategies as st

from authorizer.analysis.permissions.access_queries import permissions_of, permitted_principals
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_between
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.permissions.request_class import NameSet, RequestClass
from authorizer.analysis.request_space.host_answers import masks_by_host, operations_of
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key, NameSpace
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from support import naive
from support.acl_strategies import IDS, codes
from support.example_counts import examples

FRESH_HOST = "192.0.2.1"
HOSTS = ("10.0.0.1", "10.0.0.2", FRESH_HOST)
PRINCIPALS = (("User", "a"), ("User", "b"), ("Group", "a"), ("User", "nobody"))
OPERATIONS = [operation for operation in AclOperation if operation >= AclOperation.ALL]
#: One of each class that the ACLs below can make: what three characters can be, one of them in no ACL, one
#: character longer than an ACL's names are; the cluster's name, what is before it, and behind that.
NAMES = ["".join(each) for length in range(4) for each in product("ab*z", repeat=length)]
NAMES += ["kafka", "kafkaz", "kafka-cluster", "kafka-clusterz"]


def acls() -> st.SearchStrategy[AccessControlEntryRecord]:
    return st.builds(
        AccessControlEntryRecord,
        st.sampled_from(IDS),
        codes(ResourceType.GROUP, ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER),
        st.text("ab*", max_size=2) | st.sampled_from(["a", "ab", "*", "kafka-cluster", "kafka"]),
        codes(PatternType.LITERAL, PatternType.PREFIXED),
        st.sampled_from(["User:a", "User:a", "User:*", "User:b", "Group:a", "nobody"]),
        st.sampled_from(["*", "*", "10.0.0.1", "10.0.0.2", "localhost"]),
        st.sampled_from([AclOperation.READ, AclOperation.WRITE, AclOperation.ALL]) | codes(8, 9, 10, 11),
        codes(AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY),
    )


def some_settings() -> st.SearchStrategy[AuthorizerSettings]:
    supers = st.sampled_from([frozenset[str](), frozenset[str](), frozenset(("User:b",))])
    return st.builds(AuthorizerSettings, supers, st.booleans())


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def is_allowed_by(permissions: EffectivePermissions, request: naive.Request) -> bool:
    principal = f"{request.principal_type}:{request.principal_name}"
    answer = permissions.overrides(principal, request.resource_type).value_of((request.name, True))
    if answer is None:
        answer = permissions.wildcard[request.resource_type].value_of((request.name, True))
    masks = dict(masks_by_host(answer))
    (mask,) = masks.get(request.host, masks[None])
    return request.operation in operations_of(mask)


def every_request(resource_type: ResourceType) -> list[naive.Request]:
    return [
        naive.Request(*principal, host, operation, resource_type, name)
        for principal in PRINCIPALS
        for host in HOSTS
        for operation in OPERATIONS
        for name in NAMES
        if NAME_SPACES[resource_type].has(name)
    ]


#: Of the types that ``acls`` favours, and those that an ACL may have by chance.
REQUESTS = {resource_type: every_request(resource_type) for resource_type in NAME_SPACES}
FAVOURED = [
    request
    for resource_type in (ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER)
    for request in REQUESTS[resource_type]
]


def all_about(*records: list[AccessControlEntryRecord]) -> list[naive.Request]:
    """Every request on the resource types that have an ACL; the settings alone decide the other types."""
    kinds = {record.resource_type for each in records for record in each}
    return [request for kind, requests in REQUESTS.items() if kind in kinds for request in requests]


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=3), some_settings())
@settings(max_examples=200, deadline=None)
def test_a_change_for_some_principals_is_computed_for_them_alone(
    records: list[AccessControlEntryRecord],
    other_records: list[AccessControlEntryRecord],
    configured: AuthorizerSettings,
) -> None:
    before, after = table_of(records), table_of([*records[len(other_records) :], *other_records])
    whose = ChangedAcls.between(before, after).principals
    known = EffectivePermissions.digest_of(before, configured)
    changed = EffectivePermissions.digest_after(known, after, configured, whose)
    assert changed == EffectivePermissions.digest_of(after, configured)
    assert changed.combined == EffectivePermissions.of(after, configured).digest


@given(st.lists(acls(), max_size=8), some_settings(), st.data())
@settings(max_examples=examples(gate=100, deep=200))
def test_effective_permissions_give_every_answer(
    records: list[AccessControlEntryRecord], configured: AuthorizerSettings, data: st.DataObject
) -> None:
    permissions = EffectivePermissions.of(table_of(records), configured)
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    for request in data.draw(st.lists(st.sampled_from(FAVOURED), min_size=60, max_size=60)):
        assert is_allowed_by(permissions, request) == naive.decide(records, request, plain)[0], request


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=2), st.integers(0, 63), some_settings())
@settings(max_examples=25, deadline=None)
def test_permissions_are_equal_if_and_only_if_all_answers_are(
    records: list[AccessControlEntryRecord],
    more: list[AccessControlEntryRecord],
    left_out: int,
    configured: AuthorizerSettings,
) -> None:
    other_records = [each for at, each in enumerate(records) if not left_out >> at & 1] + more
    one, other = (EffectivePermissions.of(table_of(each), configured) for each in (records, other_records))
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    same = all(
        naive.decide(records, request, plain)[0] == naive.decide(other_records, request, plain)[0]
        for request in all_about(records, other_records)
    )
    assert (one == other) == same
    assert (one.digest == other.digest) == same


SMALL = NameSpace("abc", 3, frozenset(("", "b")))
SMALL_NAMES = [
    name for length in range(4) for each in product("abc", repeat=length) if SMALL.has(name := "".join(each))
]


def values(made: NameMap[int]) -> list[int]:
    return [made.value_of((name, True)) for name in SMALL_NAMES]


def small_maps() -> st.SearchStrategy[dict[tuple[str, bool], int]]:
    patterns = st.tuples(st.text("abc", max_size=3), st.booleans()).map(
        lambda drawn: (drawn[0], drawn[1] or len(drawn[0]) == 3)
    )
    usable = patterns.filter(lambda key: not key[1] or SMALL.has(key[0]))
    return st.dictionaries(usable, st.integers(0, 2), max_size=16)


@given(small_maps(), small_maps(), st.integers(0, 1), st.integers(0, 1))
@settings(max_examples=examples(gate=500, deep=2000))
def test_maps_of_few_characters_are_canonical(
    one: dict[tuple[str, bool], int], other: dict[tuple[str, bool], int], usual: int, usually: int
) -> None:
    first, second = (
        NameMap.of(default, [(*key, places[key]) for key in sorted(places)], SMALL)
        for default, places in ((usual, one), (usually, other))
    )
    for made, default, places in ((first, usual, one), (second, usually, other)):
        plain = NameMap(default, tuple((*key, places[key]) for key in sorted(places)))
        assert values(made) == values(plain)
        # The same function, built place by place.
        each_name = sorted(zip(SMALL_NAMES, values(plain), strict=True))
        spelt = NameMap.of(default ^ 1, [(name, True, value) for name, value in each_name], SMALL)
        assert made == spelt
    same = values(first) == values(second)
    assert (first == second) == same


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=2), st.integers(0, 63), some_settings())
@settings(max_examples=20, deadline=None)
def test_decision_changes_are_all_differences(
    records: list[AccessControlEntryRecord],
    more: list[AccessControlEntryRecord],
    left_out: int,
    configured: AuthorizerSettings,
) -> None:
    other_records = [each for at, each in enumerate(records) if not left_out >> at & 1] + more
    changes = list(
        decision_changes_between(
            *(EffectivePermissions.of(table_of(each), configured) for each in (records, other_records))
        )
    )
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    for request in all_about(records, other_records):
        before, after = (naive.decide(each, request, plain)[0] for each in (records, other_records))
        contained = {each.direction for each in changes if holds(each.request_class, request)}
        assert contained == (
            {"granted"} if after and not before else {"revoked"} if before and not after else set()
        )
    for change in changes:
        assert NAME_SPACES[change.request_class.resource_type].has(change.request_class.witness.name)
        for request in witnesses(change.request_class):
            assert holds(change.request_class, request)
            answers = [naive.decide(each, request, plain)[0] for each in (records, other_records)]
            assert answers == [change.direction == "revoked", change.direction == "granted"]


@given(st.lists(acls(), max_size=8), some_settings(), st.sampled_from(OPERATIONS))
@settings(max_examples=15, deadline=None)
def test_request_classes_contain_all_allowed_requests(
    records: list[AccessControlEntryRecord], configured: AuthorizerSettings, operation: AclOperation
) -> None:
    """The permissions of each principal, and the permitted principals of a name and of a prefix."""
    table = table_of(records)
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    allowed = {request for request in FAVOURED if naive.decide(records, request, plain)[0]}
    for principal in PRINCIPALS:
        classes = list(permissions_of(table, configured, ":".join(principal)))
        candidates = [each for each in FAVOURED if (each.principal_type, each.principal_name) == principal]
        assert contained(classes, candidates) == allowed.intersection(candidates)
    for resource_type, text, is_name in (
        (ResourceType.GROUP, "ab", True),
        (ResourceType.GROUP, "a", False),
        (ResourceType.TOPIC, "", False),
        (ResourceType.CLUSTER, "kafka-cluster", True),
    ):
        classes = list(permitted_principals(table, configured, resource_type, (text, is_name), operation))
        candidates = [
            request
            for request in FAVOURED
            if request.resource_type is resource_type
            and request.operation is operation
            and (request.name == text if is_name else request.name.startswith(text))
        ]
        assert contained(classes, candidates) == allowed.intersection(candidates)
        for each in classes:
            assert all(naive.decide(records, request, plain)[0] for request in witnesses(each))


def contained(classes: list[RequestClass], candidates: list[naive.Request]) -> set[naive.Request]:
    return {request for request in candidates if any(holds(each, request) for each in classes)}


def witnesses(request_class: RequestClass) -> Iterator[naive.Request]:
    """The witness with each operation."""
    witness = request_class.witness
    principal_type, _, name = witness.principal.partition(":")
    for operation in request_class.operations:
        yield naive.Request(
            principal_type, name, witness.host, operation, witness.resource_type, witness.name
        )


def holds(request_class: RequestClass, request: naive.Request) -> bool:
    principal, (own_principal, but, _) = (
        f"{request.principal_type}:{request.principal_name}",
        request_class.principals,
    )
    host, hosts = request_class.hosts
    return (
        request_class.resource_type is request.resource_type
        and request.operation in request_class.operations
        and (principal not in but if own_principal is None else principal == own_principal)
        and (request.host not in hosts if host is None else request.host == host)
        and any(has(names, request.name) for names in request_class.names)
    )


def has(names: NameSet, name: str) -> bool:
    if names.is_name:
        return name == names.text
    return name.startswith(names.text) and not any(
        name == text if is_name else name.startswith(text) for text, is_name in names.excluded
    )


@settings(max_examples=30)
@given(
    st.sampled_from(["", "a", "ab", "z."]),
    st.lists(
        st.tuples(st.sampled_from(["", "a", "b", "c", "ab", "aba", "abb", "."]), st.booleans()), max_size=8
    ),
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
)
def test_no_name_is_shorter_than_a_witness(prefix: str, but: list[Key], resource_type: ResourceType) -> None:
    """Compared with every remaining name that extends the prefix by at most two characters."""
    space = NAME_SPACES[resource_type]
    but = [(prefix + text, is_name) for text, is_name in but]
    contained = space.shortest_name(prefix, but)

    def is_left(name: str) -> bool:
        return space.has(name) and not any(
            name == text if is_name else name.startswith(text) for text, is_name in but
        )

    left = [
        name
        for length in range(3)
        for more in product(ascii_lowercase + digits + "._-", repeat=length)
        if is_left(name := prefix + "".join(more))
    ]
    assert (contained is None) == ((prefix, False) in but)
    if contained is not None:
        assert is_left(contained)
        assert len(contained) == min(map(len, left))
