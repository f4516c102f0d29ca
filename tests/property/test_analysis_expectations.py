"""Violations of expectations on random sets, compared with brute force."""

from __future__ import annotations

import random
from functools import reduce
from itertools import product
from operator import or_
from typing import Literal

import pytest

from authorizer.analysis.files.expectation_file import Expectation, violations
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from support import naive
from support.brute_force import (
    ALL_NAMES,
    HOSTS,
    OPERATIONS,
    PRINCIPALS,
    RequestKind,
    answers,
    covered_by,
    covered_by_name,
    random_set,
)
from support.example_counts import examples

SETS = examples(gate=1_000, deep=6_000)
GROUP = ResourceType.GROUP
#: Two principals of the ACLs, and two names that the search for a witness generates.
NAMED = ("User:a", "User:b", "User:somebody", "User:somebody1")
KINDS: tuple[Literal["allow", "deny", "only"], ...] = ("allow", "deny", "only")


def names_allowed(
    truth: dict[RequestKind, int], who: str, host: str, operation: AclOperation, supers: frozenset[str]
) -> int:
    """The names that a principal may access; User:nobody represents every principal without an ACL."""
    if who in supers:
        return ALL_NAMES
    return truth[RequestKind(who if who in PRINCIPALS else "User:nobody", host, operation)]


@pytest.mark.slow
def test_each_witness_violates_the_expectation() -> None:
    rng = random.Random(25)
    witnesses = 0
    for number in range(SETS):
        records = random_set(rng)
        supers = frozenset(rng.sample(NAMED, rng.choice((0, 0, 1))))
        settings = AuthorizerSettings(supers, allow_everyone=bool(number % 2))
        plain = naive.Settings(settings.super_users, settings.allow_everyone)
        kind, operation = rng.choice(KINDS), rng.choice(OPERATIONS)
        principals = tuple(rng.sample(NAMED, rng.randrange(0 if kind == "only" else 1, 3)))
        name_pattern = rng.choice((("", False), ("a", False), ("ab", True), ("b", True), ("*", True)))
        table = AclTable.of([AppliedAcl(record, None, 0) for record in records])
        found = list(
            violations(table, settings, Expectation(kind, principals, operation, GROUP, name_pattern))
        )
        expected_names = (
            covered_by_name(name_pattern[0])
            if name_pattern[1]
            else covered_by(name_pattern[0], is_prefix=True)
        )
        truth = answers(records, plain, GROUP)
        for each in found:
            witnesses += 1
            witness = each.witness
            request = naive.Request(
                "User",
                witness.principal.removeprefix("User:"),
                witness.host,
                operation,
                GROUP,
                witness.name,
            )
            is_allowed = naive.decide(records, request, plain)[0]
            who, but, _ = each.principals
            assert is_allowed == (kind != "allow"), (records, kind, principals, each)
            assert (
                witness.name == name_pattern[0]
                if name_pattern[1]
                else witness.name.startswith(name_pattern[0])
            )
            may = {*principals, *supers}
            if kind == "only":
                assert witness.principal not in may, (records, principals, each)
                assert who not in may
                assert who is not None or may <= {*but}, (records, principals, each)
            else:
                assert witness.principal in principals
        expected_principals = PRINCIPALS if kind == "only" else principals
        allowed = [
            names_allowed(truth, who, host, operation, supers)
            for who, host in product(expected_principals, HOSTS)
            if kind != "only" or who not in {*principals, *supers}
        ]
        if kind == "allow":
            is_violated = any(expected_names & ~names for names in allowed)
        else:
            is_violated = bool(expected_names & reduce(or_, allowed, 0))
        assert bool(found) == is_violated, (records, kind, principals, operation, name_pattern, settings)
    assert witnesses > SETS // 4
