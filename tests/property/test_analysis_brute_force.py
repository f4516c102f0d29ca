"""Request classes and decision changes of random pairs of sets, compared with brute force."""

from __future__ import annotations

import random

import pytest

from authorizer.analysis.permissions.access_queries import answers_for, permitted_principals
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import decision_changes_between, decision_changes_by
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.permissions.request_class import PrincipalSet, request_classes
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from support import naive
from support.brute_force import (
    EVERY_KIND,
    NAMES,
    OPERATIONS,
    PRINCIPALS,
    RequestKind,
    answers,
    names_by_kind,
    random_pair,
)
from support.example_counts import examples

PAIRS = examples(gate=2_000, deep=6_000)
GROUP = ResourceType.GROUP  # whose names may be any, `*` too


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


@pytest.mark.slow
def test_request_classes_and_decision_changes_equal_brute_force() -> None:
    rng = random.Random(16)
    for number in range(PAIRS):
        pair = random_pair(rng)
        settings = AuthorizerSettings(
            frozenset(("User:b",)) if number % 7 == 0 else frozenset(), allow_everyone=bool(number % 2)
        )
        plain = naive.Settings(settings.super_users, settings.allow_everyone)
        tables = [table_of(records) for records in pair]
        permissions = [EffectivePermissions.of(table, settings) for table in tables]
        truths = [answers(records, plain, GROUP) for records in pair]
        for meaning, truth in zip(permissions, truths, strict=True):
            classes = [
                classes_of_principal
                for principal in PRINCIPALS
                for classes_of_principal in request_classes(
                    answers_for(meaning, principal, GROUP), PrincipalSet.of(principal), GROUP
                )
            ]
            assert names_by_kind(classes) == truth, pair
        before, after = truths
        # Both ways: from two sets of permissions, or from the ACLs that the change concerns.
        changed = ChangedAcls.between(*tables)
        found_changes = (
            decision_changes_by(changed, tables[0], settings)
            if number % 3
            else decision_changes_between(*permissions)
        )
        changes = [change for change in found_changes if change.request_class.resource_type is GROUP]
        for direction, one, other in (("granted", after, before), ("revoked", before, after)):
            found = names_by_kind(
                [change.request_class for change in changes if change.direction == direction]
            )
            assert found == {kind: one[kind] & ~other[kind] for kind in EVERY_KIND}, pair
        assert (permissions[0] == permissions[1]) == (before == after), pair
        if number % 5 == 0:
            digest = EffectivePermissions.digest_of(tables[0], settings)
            moved = EffectivePermissions.digest_after(digest, tables[1], settings, changed.principals)
            assert moved.combined == permissions[1].digest, pair
        if number % 50 == 0:
            check_permitted_principals(rng, tables[0], settings, before)
            check_brute_force(rng, pair[0], plain, before)


def check_permitted_principals(
    rng: random.Random, table: AclTable, settings: AuthorizerSettings, truth: dict[RequestKind, int]
) -> None:
    """The principals that are permitted on any name."""
    operation = rng.choice(OPERATIONS)
    found = names_by_kind(list(permitted_principals(table, settings, GROUP, ("", False), operation)))
    for kind, names in truth.items():
        assert found[kind] == (names if kind.operation is operation else 0)


def check_brute_force(
    rng: random.Random,
    records: list[AccessControlEntryRecord],
    plain: naive.Settings,
    truth: dict[RequestKind, int],
) -> None:
    """Compare samples of the brute force with the definition."""
    for _ in range(20):
        kind, bit = rng.choice(EVERY_KIND), rng.randrange(len(NAMES))
        request = naive.Request(
            "User", kind.principal.removeprefix("User:"), kind.host, kind.operation, GROUP, NAMES[bit]
        )
        assert bool(truth[kind] >> bit & 1) == naive.decide(records, request, plain)[0]
