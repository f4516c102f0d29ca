"""Removable ACLs of lint: no other ACL can be removed; compared with digests and brute force."""

from __future__ import annotations

from itertools import product
from random import Random

from msgspec.structs import replace

from authorizer.analysis.lint.findings import Lint
from authorizer.analysis.lint.removable_acls import find_removable
from authorizer.analysis.lint.rules import LintRules
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.ip_address import address_of, network_of
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from records.principal import WILDCARD_PRINCIPAL
from support import naive
from support.example_counts import examples

#: Fewer sets do not contain every reason for a removal.
SETS = max(500, examples(gate=500, deep=2_000))
FEWER_SETS = examples(gate=200, deep=1_000)
BRUTE_FORCE_SETS = examples(gate=15, deep=60)

HOSTS = ("*", "*", "*", "10.0.0.1", "10.0.0.2")
#: Nested networks around the hosts; each contains a host that no other text names.
NETWORKS = ("10.0.0.0/24", "10.0.0.0/28", "10.9.9.9/8", "10.0.0.0/8")
#: Halves and quarters of networks, down to single addresses.
PARTS = (
    *("10.0.0.0/30", "10.0.0.0/31", "10.0.0.2/31", "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"),
    *("10.0.0.4/30", "10.0.0.0/29", "*"),
)
#: Each name of an ACL below, and for each prefix one name that no ACL has.
NAMES = ["", "*", "a", "ab", "abc", "b", "z", "az", "abz", "abcz", "bz", "*z"]
OPERATIONS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.ALL,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
)
PRINCIPALS = (("User", "a"), ("User", "b"), ("Group", "a"), ("User", "nobody"))
REQUESTS = [
    naive.Request(*principal, host, operation, ResourceType.GROUP, name)
    for principal, host, operation, name in product(
        PRINCIPALS, ("10.0.0.1", "10.0.0.2", "192.0.2.1"), OPERATIONS, NAMES
    )
]


def drawn_acl(random: Random, *, odd: float, hosts: tuple[str, ...]) -> AccessControlEntryRecord:
    def one(usual: list[int]) -> int:
        return random.randint(-128, 127) if random.random() < odd else random.choice(usual)

    kinds = [ResourceType.GROUP] * 5 + ([ResourceType.TOPIC, ResourceType.CLUSTER] if odd else [])
    return AccessControlEntryRecord(
        Uuid(random.randbytes(16)),
        one([*kinds]),
        random.choice(["*", "a", "a", "ab", "ab", "abc", "b", ""]),
        one([PatternType.LITERAL, PatternType.PREFIXED]),
        random.choice(
            ["User:a", "User:a", "User:a", WILDCARD_PRINCIPAL, "User:b", *(["Group:a", "a"] if odd else [])]
        ),
        random.choice([*hosts, "localhost"] if odd else hosts),
        one([*OPERATIONS[:4]]),
        one([AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY]),
    )


def drawn_set(
    seed: int, *, odd: float, hosts: tuple[str, ...] = HOSTS
) -> tuple[list[AccessControlEntryRecord], AuthorizerSettings]:
    """Overlapping, distinct ACLs, and settings."""
    random = Random(seed)
    drawn = [drawn_acl(random, odd=odd, hosts=hosts) for _ in range(random.randint(2, 16))]
    supers = frozenset(("User:b",)) if random.random() < 0.2 else frozenset[str]()
    allow_everyone, version = random.random() < 0.3, random.choice((KafkaVersion.V4_3, KafkaVersion.V4_4))
    settings = AuthorizerSettings(supers, allow_everyone, version)
    return list({each.content: each for each in drawn}.values()), settings


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def without(records: list[AccessControlEntryRecord], rows: set[int]) -> list[AccessControlEntryRecord]:
    return [record for row, record in enumerate(records) if row not in rows]


def is_required_by_rule(record: AccessControlEntryRecord, configured: AuthorizerSettings) -> bool:
    """Whether the ACL allows everything to User:*, and without ACLs everything would be allowed, too."""
    return (
        configured.allow_everyone
        and record.principal == WILDCARD_PRINCIPAL
        and record.operation == AclOperation.ALL
        and record.permission_type == AclPermissionType.ALLOW
    )


def test_removals_change_no_permission_and_are_complete() -> None:
    """Many sets, half of them with networks; every fourth set is then checked ACL by ACL."""
    reasons, early = set(), 0
    for seed in range(SETS):
        records, configured = drawn_set(seed, odd=0.03, hosts=(*HOSTS, *NETWORKS) if seed % 2 else HOSTS)
        found = find_removable(table_of(records), configured)
        reasons |= {each.rule for each in found}
        digest = EffectivePermissions.of(table_of(records), configured).digest
        left = without(records, {each.row for each in found})
        assert EffectivePermissions.of(table_of(left), configured).digest == digest, seed
        # Every subset of the individually removable ACLs is removable, too.
        random = Random(seed)
        some = {each.row for each in found if each.is_independent and random.random() < 0.5}
        assert EffectivePermissions.of(table_of(without(records, some)), configured).digest == digest, seed
        if seed % 8 > 1:
            continue
        for row, record in enumerate(left):
            less = EffectivePermissions.of(table_of(without(left, {row})), configured).digest
            assert less != digest or is_required_by_rule(record, configured), (seed, record)
        early += any(
            EffectivePermissions.of(table_of(without(records, {each.row})), configured).digest != digest
            for each in found
            if not each.is_independent
        )
    assert early, "no DENY had to wait for the ALLOWs that it denies"
    assert reasons == {"dead", "super-user", "shadowed", "broader-twin", "redundant", "idle-deny"}


def test_networks_whose_union_is_another_network_are_found() -> None:
    """The same for sets in which halves of networks, for the same names, form other networks."""
    united = 0
    for seed in range(FEWER_SETS):
        random = Random(seed)
        drawn = [
            replace(
                drawn_acl(random, odd=0, hosts=PARTS),
                resource_name=random.choice(("a", "a", "ab")),
                principal=random.choice(("User:a", "User:a", WILDCARD_PRINCIPAL)),
            )
            for _ in range(random.randint(3, 12))
        ]
        records = list({each.content: each for each in drawn}.values())
        configured = AuthorizerSettings(frozenset(), seed % 5 == 0, KafkaVersion.V4_4)
        found = find_removable(table_of(records), configured)
        digest = EffectivePermissions.of(table_of(records), configured).digest
        left = without(records, {each.row for each in found})
        assert EffectivePermissions.of(table_of(left), configured).digest == digest, seed
        some = {each.row for each in found if each.is_independent and random.random() < 0.5}
        assert EffectivePermissions.of(table_of(without(records, some)), configured).digest == digest, seed
        for row, record in enumerate(left):
            less = EffectivePermissions.of(table_of(without(left, {row})), configured).digest
            assert less != digest or is_required_by_rule(record, configured), (seed, record)
        for each in found:
            network = network_of(records[each.row].host)
            parts = [network_of(host) or address_of(host) for host in (records[row].host for row in each.by)]
            united += network is not None and any(
                part is not None and part != network and part.is_within(network) for part in parts
            )
    assert united > FEWER_SETS // 20


def test_removals_change_no_permission_under_any_unknown_release() -> None:
    """An ACL for a network is not removable, unless its principal is a super user."""
    removed = 0
    for seed in range(FEWER_SETS):
        records, configured = drawn_set(seed, odd=0.03, hosts=(*HOSTS, *NETWORKS))
        found = find_removable(table_of(records), configured.with_version(None))
        removed += len(found)
        random = Random(seed)
        for rows in (
            {each.row for each in found},
            {each.row for each in found if each.is_independent and random.random() < 0.5},
        ):
            for version in (KafkaVersion.V4_3, KafkaVersion.V4_4):
                settings = configured.with_version(version)
                before, after = (
                    EffectivePermissions.of(table_of(each), settings).digest
                    for each in (records, without(records, rows))
                )
                assert before == after, (seed, version)
    assert removed > FEWER_SETS


def test_removals_agree_with_brute_force() -> None:
    """Every request has the same answer, and each further removal changes an answer."""
    for seed in range(BRUTE_FORCE_SETS):
        records, configured = drawn_set(seed, odd=0)
        plain = naive.Settings(configured.super_users, configured.allow_everyone)

        def answers(acls: list[AccessControlEntryRecord], plain: naive.Settings = plain) -> list[bool]:
            return [naive.decide(acls, request, plain)[0] for request in REQUESTS]

        found = find_removable(table_of(records), configured)
        before, left = answers(records), without(records, {each.row for each in found})
        assert answers(left) == before, seed
        for row, record in enumerate(left):
            assert answers(without(left, {row})) != before or is_required_by_rule(record, configured), (
                seed,
                record,
            )


def test_the_reported_effect_on_authorize_by_resource_type_is_right() -> None:
    for seed in range(0, SETS, 10):
        records, configured = drawn_set(seed, odd=0.05)
        plain = naive.Settings(configured.super_users, configured.allow_everyone)
        lint = Lint(table_of(records), configured, LintRules(), keeps_by_type=True)
        left = [acl.record for acl in lint.needed()]
        digests = {
            EffectivePermissions.of(each, configured).digest for each in (table_of(records), table_of(left))
        }
        assert len(digests) == 1
        for principal, host, operation, kind in product(
            PRINCIPALS,
            ("10.0.0.1", "192.0.2.1"),
            OPERATIONS,
            (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER),
        ):
            request = naive.Request(*principal, host, operation, kind, "")
            assert naive.by_resource_type(records, request, plain) == naive.by_resource_type(
                left, request, plain
            ), (seed, request)


def test_the_order_of_the_acls_does_not_matter() -> None:
    for seed in range(0, SETS, 10):
        records, configured = drawn_set(seed, odd=0.03)
        shuffled = Random(seed).sample(records, len(records))
        one, other = (Lint(table_of(each), configured, LintRules()) for each in (records, shuffled))
        assert [*one.removable_records()] == [*other.removable_records()], seed
        assert [*one.findings()] == [*other.findings()], seed
