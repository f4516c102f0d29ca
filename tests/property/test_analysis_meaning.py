"""A meaning gives every answer, and two are equal exactly when all their answers are: against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from string import ascii_lowercase, digits

from hypothesis import given, settings
from hypothesis import strategies as st

from authorizer.analysis.access_queries import permissions_of, permitted_principals
from authorizer.analysis.acl_comparison import ChangedAcls
from authorizer.analysis.decision_changes import decision_changes_between
from authorizer.analysis.effective_permissions import EffectivePermissions
from authorizer.analysis.host_answers import masks_by_host, operations_of
from authorizer.analysis.name_map import NameMap
from authorizer.analysis.name_space import NAME_SPACES, Key, NameSpace
from authorizer.analysis.request_class import NameSet, RequestClass
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


def asked(meaning: EffectivePermissions, question: naive.Question) -> bool:
    principal = f"{question.principal_type}:{question.principal_name}"
    answer = meaning.overrides(principal, question.resource_type).value_of((question.name, True))
    if answer is None:
        answer = meaning.wildcard[question.resource_type].value_of((question.name, True))
    masks = dict(masks_by_host(answer))
    (mask,) = masks.get(question.host, masks[None])
    return question.operation in operations_of(mask)


def every_question(resource_type: ResourceType) -> list[naive.Question]:
    return [
        naive.Question(*principal, host, operation, resource_type, name)
        for principal in PRINCIPALS
        for host in HOSTS
        for operation in OPERATIONS
        for name in NAMES
        if NAME_SPACES[resource_type].has(name)
    ]


#: Of the types that ``acls`` favours, and those that an ACL may have by chance.
QUESTIONS = {resource_type: every_question(resource_type) for resource_type in NAME_SPACES}
FAVOURED = [
    question
    for resource_type in (ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER)
    for question in QUESTIONS[resource_type]
]


def all_about(*records: list[AccessControlEntryRecord]) -> list[naive.Question]:
    """Of the resource types that have an ACL; the others are answered by the settings alone."""
    kinds = {record.resource_type for each in records for record in each}
    return [question for kind, questions in QUESTIONS.items() if kind in kinds for question in questions]


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=3), some_settings())
@settings(max_examples=200, deadline=None)
def test_what_changes_for_some_principals_is_worked_out_for_them_alone(
    records: list[AccessControlEntryRecord],
    others: list[AccessControlEntryRecord],
    configured: AuthorizerSettings,
) -> None:
    before, after = table_of(records), table_of([*records[len(others) :], *others])
    whose = ChangedAcls.between(before, after).principals
    known = EffectivePermissions.digest_of(before, configured)
    changed = EffectivePermissions.digest_after(known, after, configured, whose)
    assert changed == EffectivePermissions.digest_of(after, configured)
    assert changed.combined == EffectivePermissions.of(after, configured).digest


@given(st.lists(acls(), max_size=8), some_settings(), st.data())
@settings(max_examples=examples(gate=100, deep=400))
def test_every_answer(
    records: list[AccessControlEntryRecord], configured: AuthorizerSettings, data: st.DataObject
) -> None:
    meaning = EffectivePermissions.of(table_of(records), configured)
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    for question in data.draw(st.lists(st.sampled_from(FAVOURED), min_size=60, max_size=60)):
        assert asked(meaning, question) == naive.decide(records, question, plain)[0], question


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=2), st.integers(0, 63), some_settings())
@settings(max_examples=25, deadline=None)
def test_equal_meanings_are_equal_answers(
    records: list[AccessControlEntryRecord],
    more: list[AccessControlEntryRecord],
    left_out: int,
    configured: AuthorizerSettings,
) -> None:
    others = [each for at, each in enumerate(records) if not left_out >> at & 1] + more
    one, other = (EffectivePermissions.of(table_of(each), configured) for each in (records, others))
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    same = all(
        naive.decide(records, question, plain)[0] == naive.decide(others, question, plain)[0]
        for question in all_about(records, others)
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
@settings(max_examples=examples(gate=500, deep=4000))
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
        # The same function, said place by place.
        each_name = sorted(zip(SMALL_NAMES, values(plain), strict=True))
        spelt = NameMap.of(default ^ 1, [(name, True, value) for name, value in each_name], SMALL)
        assert made == spelt
    same = values(first) == values(second)
    assert (first == second) == same


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=2), st.integers(0, 63), some_settings())
@settings(max_examples=20, deadline=None)
def test_flips_are_all_differences(
    records: list[AccessControlEntryRecord],
    more: list[AccessControlEntryRecord],
    left_out: int,
    configured: AuthorizerSettings,
) -> None:
    others = [each for at, each in enumerate(records) if not left_out >> at & 1] + more
    flips = list(
        decision_changes_between(
            *(EffectivePermissions.of(table_of(each), configured) for each in (records, others))
        )
    )
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    for question in all_about(records, others):
        before, after = (naive.decide(each, question, plain)[0] for each in (records, others))
        found = {each.direction for each in flips if holds(each.request_class, question)}
        assert found == (
            {"granted"} if after and not before else {"revoked"} if before and not after else set()
        )
    for flip in flips:
        assert NAME_SPACES[flip.request_class.resource_type].has(flip.request_class.witness.name)
        for question in witnesses(flip.request_class):
            assert holds(flip.request_class, question)
            answers = [naive.decide(each, question, plain)[0] for each in (records, others)]
            assert answers == [flip.direction == "revoked", flip.direction == "granted"]


@given(st.lists(acls(), max_size=8), some_settings(), st.sampled_from(OPERATIONS))
@settings(max_examples=15, deadline=None)
def test_rights_are_all_that_is_allowed(
    records: list[AccessControlEntryRecord], configured: AuthorizerSettings, operation: AclOperation
) -> None:
    """What each principal can, and who can, on a name and below a prefix."""
    table = table_of(records)
    plain = naive.Settings(configured.super_users, configured.allow_everyone)
    allowed = {question for question in FAVOURED if naive.decide(records, question, plain)[0]}
    for principal in PRINCIPALS:
        classes = list(permissions_of(table, configured, ":".join(principal)))
        asked = [each for each in FAVOURED if (each.principal_type, each.principal_name) == principal]
        assert found(classes, asked) == allowed.intersection(asked)
    for resource_type, text, is_name in (
        (ResourceType.GROUP, "ab", True),
        (ResourceType.GROUP, "a", False),
        (ResourceType.TOPIC, "", False),
        (ResourceType.CLUSTER, "kafka-cluster", True),
    ):
        classes = list(permitted_principals(table, configured, resource_type, (text, is_name), operation))
        asked = [
            question
            for question in FAVOURED
            if question.resource_type is resource_type
            and question.operation is operation
            and (question.name == text if is_name else question.name.startswith(text))
        ]
        assert found(classes, asked) == allowed.intersection(asked)
        for each in classes:
            assert all(naive.decide(records, question, plain)[0] for question in witnesses(each))


def found(classes: list[RequestClass], asked: list[naive.Question]) -> set[naive.Question]:
    return {question for question in asked if any(holds(each, question) for each in classes)}


def witnesses(questions: RequestClass) -> Iterator[naive.Question]:
    """The witness with each operation."""
    witness = questions.witness
    principal_type, _, name = witness.principal.partition(":")
    for operation in questions.operations:
        yield naive.Question(
            principal_type, name, witness.host, operation, witness.resource_type, witness.name
        )


def holds(questions: RequestClass, question: naive.Question) -> bool:
    principal, (mine, but, _) = f"{question.principal_type}:{question.principal_name}", questions.principals
    host, hosts = questions.hosts
    return (
        questions.resource_type is question.resource_type
        and question.operation in questions.operations
        and (principal not in but if mine is None else principal == mine)
        and (question.host not in hosts if host is None else question.host == host)
        and any(has(names, question.name) for names in questions.names)
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
    """Of all names with the prefix that are left, by every continuation of two characters."""
    space = NAME_SPACES[resource_type]
    but = [(prefix + text, is_name) for text, is_name in but]
    found = space.shortest(prefix, but)

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
    assert (found is None) == ((prefix, False) in but)
    if found is not None:
        assert is_left(found)
        assert len(found) == min(map(len, left))
