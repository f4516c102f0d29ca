"""Classes of requests with another answer within a period than at its ends, compared with brute force."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

import msgspec

from authorizer.analysis.history.temporary_access import TemporaryChange, temporary_changes
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from support import naive
from support.brute_force import EVERY_KIND, RequestKind, answers, covered_by_name, names_by_kind, random_pair

GROUP = ResourceType.GROUP


def applied(records: Sequence[AccessControlEntryRecord]) -> list[AppliedAcl]:
    return [AppliedAcl(each, None, 0) for each in records]


def random_steps(
    rng: random.Random,
) -> tuple[list[AccessControlEntryRecord], list[list[tuple[AppliedAcl | None, AppliedAcl | None]]]]:
    """ACLs in force at first, and steps that add and remove some of a few, so that many come again."""
    first, second = random_pair(rng)
    numbered = [
        msgspec.structs.replace(each, id=Uuid(number.to_bytes(16, "big")))
        for number, each in enumerate([*first, *second], 1)
    ]
    in_force = {each.id: each for each in numbered if rng.random() < 0.5}
    initial = list(in_force.values())
    steps = []
    for _ in range(rng.randrange(2, 7)):
        step: list[tuple[AppliedAcl | None, AppliedAcl | None]] = []
        for record in rng.sample(numbered, min(len(numbered), rng.randrange(1, 3))):
            acl = AppliedAcl(record, None, 0)
            if in_force.pop(record.id, None) is None:
                in_force[record.id] = record
                step.append((None, acl))
            else:
                step.append((acl, None))
        steps.append(step)
    return initial, steps


def states_of(
    initial: Sequence[AccessControlEntryRecord],
    steps: Sequence[Sequence[tuple[AppliedAcl | None, AppliedAcl | None]]],
) -> list[list[AccessControlEntryRecord]]:
    in_force = {each.id: each for each in initial}
    found = [list(in_force.values())]
    for step in steps:
        for before, after in step:
            if before is not None:
                del in_force[before.record.id]
            if after is not None:
                in_force[after.record.id] = after.record
        found.append(list(in_force.values()))
    return found


def test_classes_and_their_times_equal_brute_force() -> None:
    rng = random.Random(302)
    count = 0
    for number in range(120):
        initial, steps = random_steps(rng)
        settings = AuthorizerSettings(
            frozenset(("User:b",)) if number % 7 == 0 else frozenset(), allow_everyone=number % 5 == 0
        )
        found = temporary_changes(AclTable.of(applied(initial)), steps, settings)
        plain = naive.Settings(settings.super_users, settings.allow_everyone)
        truths = [answers(each, plain, GROUP) for each in states_of(initial, steps)]
        listed = {
            direction: names_by_kind([each.request_class for each in found if each.direction == direction])
            for direction in ("granted", "revoked")
        }
        for kind in EVERY_KIND:
            masks = [each[kind] for each in truths]
            every, some = reduce(and_, masks), reduce(or_, masks)
            temporary = some & ~masks[0] & ~masks[-1], masks[0] & masks[-1] & ~every
            assert (listed["granted"][kind], listed["revoked"][kind]) == temporary, (number, kind)
            count += any(temporary)
        for change in found:
            check_times(change, truths)
    assert count > 200


def check_times(change: TemporaryChange, truths: Sequence[dict[RequestKind, int]]) -> None:
    """The witness has the other answer from the first step on, and its first one from the last on."""
    witness, operation = change.request_class.witness, change.request_class.operations[0]
    kinds = [RequestKind(witness.principal, witness.host, operation)]
    if kinds[0] not in truths[0]:
        return
    name = covered_by_name(witness.name)
    held = [bool(each[kinds[0]] & name) for each in truths]
    turns = [at for at in range(1, len(held)) if held[at] is not held[at - 1]]
    assert (turns[0], turns[-1], len(turns) // 2) == (change.begin, change.end, change.times)


def test_a_deny_may_end_what_an_allow_began() -> None:
    def record(number: int, permission: AclPermissionType, operation: AclOperation) -> AppliedAcl:
        return AppliedAcl(
            AccessControlEntryRecord(
                Uuid(number.to_bytes(16, "big")),
                int(GROUP),
                "team",
                int(PatternType.LITERAL),
                "User:a",
                "*",
                int(operation),
                int(permission),
            ),
            None,
            0,
        )

    allow = record(1, AclPermissionType.ALLOW, AclOperation.READ)
    deny = record(2, AclPermissionType.DENY, AclOperation.READ)
    steps = [[(None, allow)], [], [(None, deny)]]
    (found,) = temporary_changes(AclTable.of([]), steps, AuthorizerSettings())
    assert (found.direction, found.begin, found.end, found.times) == ("granted", 1, 3, 1)
    assert [each.name for each in found.request_class.operations] == ["READ"]
