"""Findings after changes, of which only affected ones are computed, equal those computed from scratch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from authorizer.analysis.lint.findings import Lint
from authorizer.analysis.lint.rules import AcceptedAcls, LintRules
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.principal import WILDCARD_PRINCIPAL
from support.example_counts import examples

HOSTS = ("*", "*", "10.0.0.1", "10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25", "10.0.0.0/8", "no host")
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.ALL, AclOperation.DESCRIBE)
#: More than half of the ACLs, so that a search is among the others only; every second one is removable.
UNCHANGED = [
    AccessControlEntryRecord(
        Uuid(bytes([255] * 14 + [number, operation])),
        ResourceType.TRANSACTIONAL_ID,
        f"t{number}",
        PatternType.LITERAL,
        "User:unchanged",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for number in range(40)
    for operation in (AclOperation.ALL, AclOperation.WRITE)
]

acls = st.builds(
    AccessControlEntryRecord,
    st.binary(min_size=16, max_size=16).map(Uuid),
    st.sampled_from((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)),
    st.sampled_from(("*", "a", "a", "ab", "ab", "abc", "b", "", "no/topic")),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(("User:a", "User:a", "User:b", "User:c", WILDCARD_PRINCIPAL, WILDCARD_PRINCIPAL, "a")),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((AclPermissionType.ALLOW, AclPermissionType.DENY)),
)
configured = st.builds(
    AuthorizerSettings,
    st.sampled_from((frozenset[str](), frozenset(("User:b",)))),
    st.just(value=False) | st.booleans(),
    st.sampled_from((KafkaVersion.V4_3, KafkaVersion.V4_4, KafkaVersion.V4_4, None)),
)
rules = st.sampled_from(
    (
        LintRules(is_strict=True),
        LintRules(is_strict=True),
        LintRules(),
        LintRules(accepted=(AcceptedAcls(principal="User:a"),), is_strict=True),
        LintRules(accepted=(AcceptedAcls(frozenset(("redundant",))),), off=frozenset(("shadowed",))),
    )
)
#: Removed and added ACLs, and whether the findings are read before the next change.
changes = st.tuples(st.lists(st.integers(0, 99), max_size=2), st.lists(acls, max_size=2), st.booleans())


@given(st.lists(acls, max_size=25), st.lists(changes, min_size=1, max_size=4), configured, rules)
@settings(max_examples=examples(gate=60, deep=3_000), deadline=None)
def test_findings_after_changes_are_those_from_scratch(
    first: list[AccessControlEntryRecord],
    steps: list[tuple[list[int], list[AccessControlEntryRecord], bool]],
    configured: AuthorizerSettings,
    rules: LintRules,
) -> None:
    records = [*first]
    lint = Lint(table_of(records), configured, rules)
    for removed, added, is_read in steps:
        records = [each for row, each in enumerate(records) if row not in removed] + added
        lint = Lint(table_of(records), configured, rules, previous=lint)
        scratch = Lint(table_of(records), configured, rules)
        found = [*lint.found_rows()]
        assert [(each.rule, each.row) for each in found] == [
            (each.rule, each.row) for each in scratch.found_rows()
        ]
        assert [*lint.removable_records()] == [*scratch.removable_records()]
        accepted, accepted_from_scratch = [*lint.accepted_rows()], [*scratch.accepted_rows()]
        assert lint.accepted == scratch.accepted == len(accepted)
        if is_read:
            assert lint.findings_of(found) == [*scratch.findings()]
            assert lint.findings_of([each for each, _ in accepted]) == scratch.findings_of(
                [each for each, _ in accepted_from_scratch]
            )


def test_a_change_searches_only_among_the_acls_that_it_may_affect() -> None:
    strict, configured = LintRules(is_strict=True), AuthorizerSettings(kafka_version=KafkaVersion.V4_4)
    new = AccessControlEntryRecord(
        Uuid(bytes(16)),
        ResourceType.TOPIC,
        "a",
        PatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    lint = Lint(table_of([]), configured, strict)
    assert all(each.has_proof for each in lint.removable)
    lint = Lint(table_of([new]), configured, strict, previous=lint)
    assert len(lint.removable) == 40
    assert not any(each.has_proof for each in lint.removable)
    shown = [*lint.found_rows()][:2]
    assert [len(each.by) for each in lint.findings_of(shown)] == [1, 1]
    assert sum(each.has_proof for each in lint.removable) == 2


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in (*records, *UNCHANGED)])


def test_a_removed_allow_makes_a_deny_of_everyone_idle() -> None:
    strict, configured = LintRules(is_strict=True), AuthorizerSettings(kafka_version=KafkaVersion.V4_4)
    deny, allow = (
        AccessControlEntryRecord(
            Uuid(bytes([number] * 16)),
            ResourceType.TOPIC,
            "a",
            PatternType.LITERAL,
            principal,
            "*",
            3,
            permission,
        )
        for number, principal, permission in (
            (1, WILDCARD_PRINCIPAL, AclPermissionType.DENY),
            (2, "User:b", AclPermissionType.ALLOW),
        )
    )
    lint = Lint(table_of([deny, replace(allow, operation=AclOperation.WRITE)]), configured, strict)
    assert [each.rule for each in lint.removable].count("idle-deny") == 1
    lint = Lint(table_of([deny, allow]), configured, strict, previous=lint)
    assert not any(each.rule == "idle-deny" for each in lint.removable)
    lint = Lint(table_of([deny]), configured, strict, previous=lint)
    assert [each.rule for each in lint.removable].count("idle-deny") == 1
