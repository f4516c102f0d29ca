"""Classes and flips of random pairs of sets against brute force over every short name."""

from __future__ import annotations

import random

import pytest

from authorizer.analysis.access_queries import answers_for, permitted_principals
from authorizer.analysis.acl_comparison import ChangedAcls
from authorizer.analysis.decision_changes import decision_changes_between, decision_changes_by
from authorizer.analysis.effective_permissions import EffectivePermissions
from authorizer.analysis.request_class import PrincipalSet, request_classes
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from support import naive
from support.brute_force import EVERY_KIND, NAMES, OPERATIONS, PRINCIPALS, Asked, answers, random_pair, said
from support.example_counts import examples

PAIRS = examples(gate=2_000, deep=15_000)
GROUP = ResourceType.GROUP  # whose names may be any, `*` too


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


@pytest.mark.slow
def test_classes_and_flips_of_random_pairs() -> None:
    rng = random.Random(16)
    for number in range(PAIRS):
        pair = random_pair(rng)
        configured = AuthorizerSettings(
            frozenset(("User:b",)) if number % 7 == 0 else frozenset(), allow_everyone=bool(number % 2)
        )
        plain = naive.Settings(configured.super_users, configured.allow_everyone)
        tables = [table_of(records) for records in pair]
        meanings = [EffectivePermissions.of(table, configured) for table in tables]
        truths = [answers(records, plain, GROUP) for records in pair]
        for meaning, truth in zip(meanings, truths, strict=True):
            classes = [
                questions
                for principal in PRINCIPALS
                for questions in request_classes(
                    answers_for(meaning, principal, GROUP), PrincipalSet.of(principal), GROUP
                )
            ]
            assert said(classes) == truth, pair
        before, after = truths
        # Of two meanings, or of the ACLs that have to do with what changed.
        changed = ChangedAcls.between(*tables)
        found_flips = (
            decision_changes_by(changed, tables[0], configured)
            if number % 3
            else decision_changes_between(*meanings)
        )
        flips = [flip for flip in found_flips if flip.request_class.resource_type is GROUP]
        for direction, one, other in (("granted", after, before), ("revoked", before, after)):
            found = said([flip.request_class for flip in flips if flip.direction == direction])
            assert found == {asked: one[asked] & ~other[asked] for asked in EVERY_KIND}, pair
        assert (meanings[0] == meanings[1]) == (before == after), pair
        if number % 5 == 0:
            digest = EffectivePermissions.digest_of(tables[0], configured)
            moved = EffectivePermissions.digest_after(digest, tables[1], configured, changed.principals)
            assert moved.combined == meanings[1].digest, pair
        if number % 50 == 0:
            ask_who_can(rng, tables[0], configured, before)
            confirm(rng, pair[0], plain, before)


def ask_who_can(
    rng: random.Random, table: AclTable, configured: AuthorizerSettings, truth: dict[Asked, int]
) -> None:
    """On all names: everybody is one of the askers."""
    operation = rng.choice(OPERATIONS)
    found = said(list(permitted_principals(table, configured, GROUP, ("", False), operation)))
    for asked, names in truth.items():
        assert found[asked] == (names if asked.operation is operation else 0)


def confirm(
    rng: random.Random,
    records: list[AccessControlEntryRecord],
    plain: naive.Settings,
    truth: dict[Asked, int],
) -> None:
    """The brute force itself, by the definition."""
    for _ in range(20):
        asked, bit = rng.choice(EVERY_KIND), rng.randrange(len(NAMES))
        question = naive.Question(
            "User", asked.principal.removeprefix("User:"), asked.host, asked.operation, GROUP, NAMES[bit]
        )
        assert bool(truth[asked] >> bit & 1) == naive.decide(records, question, plain)[0]
