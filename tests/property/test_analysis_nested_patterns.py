"""Masks around ACLs by array, and the rule of each removable ALLOW, compared with simple definitions."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from authorizer.analysis.lint.acl_masks import AclMasks
from authorizer.analysis.lint.acl_tree import EVERY_HOST, DecidingRows
from authorizer.analysis.lint.removable_acls import find_removable
from authorizer.analysis.request_space.nested_patterns import NO_PATTERN, NestedPatterns, last_keys
from authorizer.analysis.request_space.patterns import PatternRows
from authorizer.api.ip_address import NETWORK_HOSTS
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.masks import EVERYTHING, acl_mask, denied_operations
from records.acl import WILDCARD, AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.principal import WILDCARD_PRINCIPAL
from support.example_counts import examples

SETS = examples(gate=200, deep=1_000)
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)


def drawn_set(seed: int, *, hosts: tuple[str, ...]) -> list[AccessControlEntryRecord]:
    """Distinct ACLs of nested names, with equal ones that differ in one field only."""
    random = Random(seed)
    records = [
        AccessControlEntryRecord(
            Uuid(random.randbytes(16)),
            random.choice((ResourceType.GROUP, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)),
            "".join(random.choice("ab") for _ in range(random.randrange(6))) or random.choice(("", WILDCARD)),
            random.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            random.choice(("User:a", "User:b", WILDCARD_PRINCIPAL)),
            random.choice(hosts),
            random.choice(OPERATIONS),
            random.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
        )
        for _ in range(random.randrange(60))
    ]
    return list({each.content: each for each in records}.values())


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def covers(one: tuple[str, bool], other: tuple[str, bool]) -> bool:
    """Whether the names of one pattern, with True a single name, include those of the other."""
    return one == other or (not one[1] and other[0].startswith(one[0]))


def test_the_pattern_around_each_key_is_that_of_a_scan_of_all() -> None:
    for seed in range(SETS):
        random = Random(seed)
        texts = sorted({"".join(random.choice("ab") for _ in range(random.randrange(9))) for _ in range(40)})
        keys = np.array([random.randrange(2 * len(texts)) for _ in range(random.randrange(60))], np.int64)
        groups = np.array([random.choice((3, 5, 9)) for _ in keys], np.int64)
        patterns = NestedPatterns(groups, keys, last_keys(keys, texts))
        distinct = sorted({*zip(groups.tolist(), keys.tolist(), strict=True)})
        firsts = patterns.order[patterns.starts]
        assert [*zip(groups[firsts].tolist(), keys[firsts].tolist(), strict=True)] == distinct, seed

        def narrowest(group: int, key: int, *, is_around: bool, texts: list[str] = texts) -> int:
            around = [
                position
                for position, (other_group, other) in enumerate(distinct)  # noqa: B023 - called here only
                if other_group == group
                and covers((texts[other >> 1], bool(other & 1)), (texts[key >> 1], bool(key & 1)))
                and not (is_around and other == key)
            ]
            return around[-1] if around else NO_PATTERN

        outer = [narrowest(*each, is_around=True) for each in distinct]
        assert patterns.outer.tolist() == [*outer, NO_PATTERN], seed
        queried = [(group, key) for group in (1, 3, 5, 9, 11) for key in range(2 * len(texts))]
        columns = [np.array(each, np.int64) for each in zip(*queried, strict=True)]
        for is_around in (False, True):
            expected = [narrowest(*each, is_around=is_around) for each in queried]
            assert patterns.innermost(*columns, is_around=is_around).tolist() == expected, seed
        exact = [distinct.index(each) if each in distinct else NO_PATTERN for each in queried]
        assert patterns.exact(*columns).tolist() == exact, seed


@pytest.mark.parametrize("includes_same", [False, True])
def test_the_masks_around_each_acl_are_the_union_of_all_that_are_no_narrower(*, includes_same: bool) -> None:
    hosts = (WILDCARD, "10.0.0.1", "10.0.0.2", "10.0.0.0/24", "10.0.0.0/8", "10.9.9.9/8")
    for seed in range(SETS):
        rows = PatternRows.of(table_of(drawn_set(seed, hosts=hosts)), networks=NETWORK_HOSTS)
        acls = DecidingRows(rows, networks=True)
        numbers = np.arange(len(rows.positions))
        wildcard = (*rows.principal_texts, WILDCARD_PRINCIPAL).index(WILDCARD_PRINCIPAL)
        some = numbers[np.array([Random(seed + each).random() < 0.7 for each in numbers.tolist()], np.bool_)]

        def is_no_narrower(one: int, other: int, acls: DecidingRows = acls, wildcard: int = wildcard) -> bool:
            places = [
                (acls.types[each], acls.principals[each], acls.hosts[each], acls.keys[each])
                for each in (one, other)
            ]
            (kind, principal, host, key), (other_kind, other_principal, other_host, other_key) = places
            return (
                kind == other_kind
                and principal in (other_principal, wildcard)
                and host in (other_host, EVERY_HOST, *acls.wider.get(other_host, ()))
                and covers(
                    (acls.texts[key >> 1], bool(key & 1)), (acls.texts[other_key >> 1], bool(other_key & 1))
                )
                and (includes_same or places[0] != places[1])
            )

        expected = []
        for number in numbers.tolist():
            mask = 0
            for each in some.tolist():
                if is_no_narrower(each, number):
                    mask |= acls.masks[each]
            expected.append(mask)
        found = AclMasks(rows, acls, some, wildcard).around(numbers, includes_same=includes_same)
        assert found.tolist() == expected, seed


def test_the_rule_of_each_removable_allow_is_that_of_its_definition() -> None:
    """Shadowed: DENYs deny all of it. A broader twin: another one differs in a field with a wildcard."""
    rules = set()
    settings = AuthorizerSettings(frozenset(), False, KafkaVersion.V4_3)
    for seed in range(SETS):
        records = drawn_set(seed, hosts=(WILDCARD, "10.0.0.1"))
        found = find_removable(table_of(records), settings)
        removed = {each.row for each in found}
        retained = [record for row, record in enumerate(records) if row not in removed]

        def is_no_narrower(one: AccessControlEntryRecord, other: AccessControlEntryRecord) -> bool:
            return (
                one.resource_type == other.resource_type
                and one.principal in (other.principal, WILDCARD_PRINCIPAL)
                and one.host in (other.host, WILDCARD)
                and covers(key_of(one), key_of(other))
            )

        for each in found:
            record = records[each.row]
            if record.permission_type != AclPermissionType.ALLOW:
                continue
            denied = 0
            for other in records:
                if other.permission_type != AclPermissionType.ALLOW and is_no_narrower(other, record):
                    denied |= denied_operations(acl_mask(other.operation, other.permission_type))
            allowed = acl_mask(record.operation, record.permission_type) & EVERYTHING
            twins = [
                other
                for other in retained
                if other.permission_type == AclPermissionType.ALLOW
                and is_no_narrower(other, record)
                and differing_wildcards(other, record) == [True]
            ]
            rule = "redundant"
            if not allowed & ~denied:
                rule = "shadowed"
            elif twins:
                rule = "broader-twin"
            assert each.rule == rule, (seed, record)
            rules.add(rule)
    assert rules == {"shadowed", "broader-twin", "redundant"}


def key_of(record: AccessControlEntryRecord) -> tuple[str, bool]:
    is_name = record.pattern_type == PatternType.LITERAL
    return ("", False) if is_name and record.resource_name == WILDCARD else (record.resource_name, is_name)


def differing_wildcards(one: AccessControlEntryRecord, other: AccessControlEntryRecord) -> list[bool]:
    """Whether ``one`` has a wildcard, for each field in which the two differ."""
    fields = (
        (one.principal, other.principal, WILDCARD_PRINCIPAL),
        (one.host, other.host, WILDCARD),
        (key_of(one), key_of(other), ("", False)),
        (one.operation, other.operation, AclOperation.ALL),
    )
    return [first == wildcard for first, second, wildcard in fields if first != second]
