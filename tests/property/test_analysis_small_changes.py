"""Small changes of many ACLs: the decision changes by the related ACLs equal those by all ACLs."""

from __future__ import annotations

import random

from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import (
    DecisionChange,
    decision_changes_between,
    decision_changes_by,
    decision_changes_of_states,
)
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.kafka_version import NEWEST
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import binding_uuid
from support.example_counts import examples
from support.node_acls import acl

ROUNDS = examples(gate=40, deep=800)
PRINCIPALS = ["User:*", *(f"User:{each}" for each in "abcdef")]
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)


def random_acl(rng: random.Random, principals: list[str]) -> AppliedAcl:
    binding = acl(
        rng.choice(principals),
        rng.choice(OPERATIONS),
        rng.choice(("*", *["".join(rng.choices("ab.", k=rng.randrange(1, 6))) + "x"] * 6)),
        kind=rng.choice(TYPES),
        prefixed=rng.random() < 0.5,
        deny=rng.random() < 0.2,
        host=rng.choice(("*", "*", "10.0.0.1", "10.0.0.0/8")),
    )
    return AppliedAcl(AccessControlEntryRecord.from_binding(binding_uuid(binding), binding), None, 0)


def without_examples(changes: list[DecisionChange]) -> set[tuple[object, ...]]:
    """An example of all other principals depends on which are known."""
    return {
        (
            change.direction,
            change.request_class.principals[:2],
            change.request_class.resource_type,
            change.request_class.operations,
            change.request_class.names,
            change.request_class.hosts,
        )
        for change in changes
    }


def test_the_related_acls_of_each_principal_are_enough() -> None:
    rng = random.Random(2026)
    found_any = 0
    for number in range(ROUNDS):
        # In half of the rounds no ACL for User:* changes, which concerns every principal.
        changing = PRINCIPALS if number % 2 else PRINCIPALS[1:]
        acls = {each.record.id: each for each in (random_acl(rng, PRINCIPALS) for _ in range(80))}
        later = dict(acls)
        for acl_id in rng.sample(sorted(acls), 30):
            if acls[acl_id].record.principal in changing and rng.random() < 0.5:
                del later[acl_id]
        for each in (random_acl(rng, changing) for _ in range(rng.choice((1, 5, 25)))):
            later[each.record.id] = each
        before, after = (AclTable.of([*each.values()]) for each in (acls, later))
        settings = AuthorizerSettings(
            frozenset(("User:b",)) if number % 7 == 0 else frozenset(),
            allow_everyone=number % 5 == 0,
            kafka_version=NEWEST,
        )
        changed = ChangedAcls.between(before, after)
        permissions = (EffectivePermissions.of(each, settings) for each in (before, after))
        expected = without_examples(list(decision_changes_between(*permissions)))
        assert without_examples(decision_changes_of_states(changed, before, after, settings)) == expected
        assert without_examples(decision_changes_by(changed, before, settings)) == expected
        found_any += bool(expected)
    assert found_any > ROUNDS / 2
