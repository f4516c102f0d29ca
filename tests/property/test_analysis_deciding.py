"""The deciding ACLs of a request class, compared with brute force."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from authorizer.analysis.permissions.access_queries import permissions_of, permitted_principals
from authorizer.analysis.permissions.deciding_acls import DecidingAcls
from authorizer.analysis.permissions.request_class import RequestClass
from authorizer.analysis.permissions.witness import decide_witness, state_for_witnesses
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord, AclContent
from records.ids import content_uuid
from records.principal import WILDCARD_PRINCIPAL
from support.brute_force import HOSTS, OPERATIONS, covered_by, matches, names_of, random_set
from support.example_counts import examples

SETS = examples(gate=1_000, deep=6_000)
GROUP = ResourceType.GROUP


class Class(NamedTuple):
    """The contents of a request class, as the definition sees them."""

    principals: tuple[str, ...]
    names: int
    hosts: tuple[str, ...]


def class_of(request_class: RequestClass) -> Class:
    names = 0
    for each in request_class.names:
        names |= names_of(each)
    host, but = request_class.hosts
    hosts = tuple(each for each in HOSTS if (each not in but if host is None else each == host))
    principal = request_class.principals.principal
    return Class(
        (WILDCARD_PRINCIPAL,) if principal is None else (principal, WILDCARD_PRINCIPAL), names, hosts
    )


def deciding_acls(records: list[AccessControlEntryRecord], request_class: RequestClass) -> set[AclContent]:
    """Every ALLOW that matches a request of the class."""
    principals, names, hosts = class_of(request_class)
    return {
        acl.content
        for acl in records
        if acl.permission_type == AclPermissionType.ALLOW
        and acl.principal in principals
        and (acl.host == "*" or acl.host in hosts)
        and covered_by(acl.resource_name, is_prefix=acl.pattern_type == PatternType.PREFIXED) & names
        and any(
            matches(acl.operation, acl.permission_type, each)
            for each in request_class.operations
            if each in OPERATIONS
        )
    }


@pytest.mark.slow
def test_the_deciding_acls_of_a_class_equal_brute_force() -> None:
    rng = random.Random(6)
    settings, classes_with_several = AuthorizerSettings(), 0
    for _ in range(SETS):
        contents = dict.fromkeys(each.content for each in random_set(rng))
        records = [AccessControlEntryRecord(content_uuid(each), *each) for each in contents]
        table = AclTable.of([AppliedAcl(record, None, 0) for record in records])
        operation = rng.choice(OPERATIONS)
        classes = [
            *permissions_of(table, settings, "User:a"),
            *permitted_principals(
                table, settings, GROUP, rng.choice((("", False), ("a", False), ("ab", True))), operation
            ),
        ]
        acls, state = (
            DecidingAcls(table, classes),
            state_for_witnesses(table, [each.witness for each in classes], settings),
        )
        for request_class in classes:
            if not class_of(request_class).hosts or request_class.names == ():
                continue
            decision = decide_witness(state, request_class.witness, request_class.operations[0])
            assert decision.acl is not None
            found = acls.other_acls(request_class, decision, is_allowed=True)
            assert found.is_complete
            named = {decision.acl.record.content, *(each.content for each in found.acls)}
            assert named == deciding_acls(records, request_class), (records, request_class)
            classes_with_several += len(named) > 1
    assert classes_with_several > SETS // 10
