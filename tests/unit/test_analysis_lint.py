"""Each rule of lint: finding, reason and proof; and the removable ACLs of real and large sets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from authorizer.analysis.lint.findings import Finding, Lint
from authorizer.analysis.lint.rules import AcceptedAcls, LintRules
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from benchmarks.shapes.drawing import Workload
from benchmarks.shapes.mesh import mesh
from benchmarks.shapes.strangers import strangers
from benchmarks.shapes.tenant import tenant_of_size
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid, uuid_from_string
from records.log.open import open_log
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from support.data import REAL_LOGS, real_log

STRICT = AuthorizerSettings(kafka_version=KafkaVersion.V4_4)
ALL_DEFECTS = LintRules(is_strict=True)
OPEN = AuthorizerSettings(allow_everyone=True, kafka_version=KafkaVersion.V4_4)


def acl(
    name: str = "orders",
    *,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = AclOperation.READ,
    permission: int = AclPermissionType.ALLOW,
    pattern: int = PatternType.LITERAL,
    kind: int = ResourceType.TOPIC,
    number: int = 0,
) -> AccessControlEntryRecord:
    content = (int(kind), name, int(pattern), principal, host, int(operation), int(permission))
    return AccessControlEntryRecord(Uuid(number.to_bytes(16)), *content)


def prefix(name: str, **more: int | str) -> AccessControlEntryRecord:
    return acl(name, pattern=PatternType.PREFIXED, **more)  # type: ignore[arg-type] # as acl has them


def deny(name: str = "orders", **more: int | str) -> AccessControlEntryRecord:
    return acl(name, permission=AclPermissionType.DENY, **more)  # type: ignore[arg-type] # as acl has them


def table_of(*acls: AccessControlEntryRecord) -> AclTable:
    return AclTable.of([AppliedAcl(each, None, 0) for each in acls])


def found(
    *acls: AccessControlEntryRecord, settings: AuthorizerSettings = STRICT, rules: LintRules = ALL_DEFECTS
) -> list[Finding]:
    return list(Lint(table_of(*acls), settings, rules).findings())


@dataclass(frozen=True, kw_only=True)
class ExpectedFinding:
    """One finding about one ACL of a set."""

    rule: str
    about: AccessControlEntryRecord
    by: tuple[AccessControlEntryRecord, ...] = ()
    beside: tuple[AccessControlEntryRecord, ...] = ()
    reason: str
    is_removable: bool = True
    keeps_by_resource_type: bool = True
    settings: AuthorizerSettings = field(default=STRICT)


FINDINGS = [
    ExpectedFinding(
        rule="duplicate",
        about=acl(number=1),
        beside=(acl(number=2),),
        reason="under several ids",
        is_removable=False,
    ),
    ExpectedFinding(
        rule="unknown-code", about=acl(pattern=77), reason="type 77 is read as PREFIXED", is_removable=False
    ),
    ExpectedFinding(
        rule="unknown-code",
        about=acl(operation=AclOperation.READ, permission=9),
        beside=(acl(operation=AclOperation.ALL),),
        reason="type 9 is read as DENY",
        is_removable=False,
    ),
    ExpectedFinding(
        rule="principal-type",
        about=acl(principal="Group:admins"),
        reason="no principal has the type `Group`",
        is_removable=False,
    ),
    ExpectedFinding(
        rule="dead",
        about=acl("or ders"),
        reason="no TOPIC can have such a name",
        keeps_by_resource_type=False,
    ),
    ExpectedFinding(
        rule="dead",
        about=acl("o" * 250),
        reason="no TOPIC can have such a name",
        keeps_by_resource_type=False,
    ),
    ExpectedFinding(
        rule="dead",
        about=acl("orders-*"),
        reason="perhaps the prefix orders- was",
        keeps_by_resource_type=False,
    ),
    ExpectedFinding(
        rule="dead", about=prefix("*"), reason="perhaps the literal * was meant", keeps_by_resource_type=False
    ),
    ExpectedFinding(
        rule="dead",
        about=acl("mine", kind=ResourceType.CLUSTER),
        reason="the cluster's name is kafka-cluster",
        keeps_by_resource_type=False,
    ),
    ExpectedFinding(rule="dead", about=acl(host="broker1"), reason="names are not resolved"),
    ExpectedFinding(rule="dead", about=acl(host="::1"), reason="Java writes that address 0:0:0:0:0:0:0:1"),
    ExpectedFinding(rule="dead", about=acl(principal="alice"), reason="such as User:alice"),
    ExpectedFinding(rule="dead", about=acl(operation=99), reason="no request asks for the operation 99"),
    ExpectedFinding(rule="dead", about=acl(kind=88), reason="no resource has the type 88"),
    ExpectedFinding(
        rule="super-user",
        about=deny(principal="User:root"),
        reason="User:root is a super user",
        settings=AuthorizerSettings(frozenset(("User:root",))),
    ),
    ExpectedFinding(
        rule="shadowed",
        about=acl("pii-x"),
        by=(deny("pii-", pattern=PatternType.PREFIXED, principal="User:*", operation=AclOperation.ALL),),
        # Without this ALLOW the DENY would deny nothing.
        beside=(prefix("pii"),),
        reason="all that it allows is denied by one other ACL",
    ),
    ExpectedFinding(
        rule="broader-twin", about=acl(host="10.0.0.1"), by=(acl(),), reason="allowed from every host"
    ),
    ExpectedFinding(
        rule="broader-twin", about=acl(), by=(acl(principal="User:*"),), reason="allowed to every principal"
    ),
    ExpectedFinding(rule="broader-twin", about=acl(), by=(acl("*"),), reason="allowed on every name"),
    ExpectedFinding(
        rule="broader-twin",
        about=acl(),
        by=(acl(operation=AclOperation.ALL),),
        reason="allowed for every operation",
    ),
    ExpectedFinding(rule="redundant", about=acl(), by=(prefix("ord"),), reason="is allowed by one other ACL"),
    ExpectedFinding(
        rule="redundant",
        about=acl(host="10.0.0.1"),
        by=(acl("*", principal="User:*"),),
        reason="is allowed by one other ACL",
    ),
    ExpectedFinding(
        rule="redundant",
        about=acl(operation=AclOperation.DESCRIBE),
        by=(acl(operation=AclOperation.WRITE),),
        reason="is allowed by one other ACL",
        keeps_by_resource_type=False,
    ),
    ExpectedFinding(
        rule="redundant",
        about=acl(operation=AclOperation.READ),
        by=(prefix("ord", operation=AclOperation.DESCRIBE), deny("orders", principal="User:*")),
        beside=(prefix("o", principal="User:bob"),),
        reason="is allowed or denied by 2 other ACLs",
    ),
    ExpectedFinding(
        rule="redundant",
        about=deny(),
        by=(deny("ord", pattern=PatternType.PREFIXED),),
        beside=(prefix("o"),),
        reason="all that it denies is denied by one other ACL",
    ),
    ExpectedFinding(
        rule="idle-deny", about=deny(), beside=(acl("other"),), reason="it changes no answer, and is a guard"
    ),
    ExpectedFinding(
        rule="idle-deny",
        about=deny("orders", host="10.0.0.1"),
        beside=(acl(host="10.0.0.2"), acl(principal="User:bob")),
        reason="it changes no answer, and is a guard",
    ),
]


@pytest.mark.parametrize("expected", FINDINGS, ids=lambda expected: f"{expected.rule}: {expected.reason}")
def test_a_rule_reports_its_acl_with_reason_and_proof(expected: ExpectedFinding) -> None:
    """There is no finding about the other ACLs."""
    (finding,) = found(expected.about, *expected.by, *expected.beside, settings=expected.settings)
    assert finding.rule == expected.rule
    assert finding.acl.content == expected.about.content
    assert expected.reason in finding.reason
    assert [each.content for each in finding.by] == [each.content for each in expected.by]
    assert (finding.is_removable, finding.keeps_by_resource_type, finding.is_independent) == (
        expected.is_removable,
        expected.keeps_by_resource_type,
        True,
    )


def test_a_duplicate_has_all_its_ids() -> None:
    (finding,) = found(acl(number=2), acl(number=1), acl("other", number=3))
    assert finding.ids == (acl(number=1).id, acl(number=2).id)


def test_a_deny_is_removable_after_the_acls_that_it_shadows() -> None:
    """Together they have no effect; without only the DENY the ALLOW would have one."""
    allow = acl(operation=AclOperation.CREATE)
    shadowed, idle = found(allow, deny(operation=AclOperation.CREATE))
    assert (shadowed.rule, shadowed.is_independent) == ("shadowed", True)
    assert (idle.rule, idle.is_independent, idle.by) == ("idle-deny", False, (allow,))
    assert "keep it while they exist" in idle.reason


def test_a_deny_without_an_allow_to_beat_is_information() -> None:
    """It stays, and is not reported twice; only strict rules have it among the removable ACLs."""
    acls = (acl(), deny("*", principal="User:mallory"), deny("other", principal="Group:x"))
    lint = Lint(table_of(*acls), STRICT, LintRules())
    by_type, idle = lint.findings()
    assert (by_type.rule, by_type.acl, by_type.severity) == ("principal-type", acls[2], "warning")
    assert (idle.rule, idle.acl, idle.severity, idle.is_removable) == ("idle-deny", acls[1], "info", False)
    assert (lint.removable, len(lint.needed())) == ([], 3)

    strict = Lint(table_of(*acls), STRICT, ALL_DEFECTS)
    assert [(each.rule, each.severity) for each in strict.findings()] == [("idle-deny", "warning")] * 2
    assert [each.record for each in strict.needed()] == [acls[0]]


def test_a_deny_is_kept_when_the_allow_that_it_shadows_is_removable() -> None:
    allow = acl(operation=AclOperation.CREATE)
    lint = Lint(table_of(allow, deny(operation=AclOperation.CREATE)), STRICT, LintRules())
    assert [(each.rule, each.is_removable) for each in lint.findings()] == [
        ("shadowed", True),
        ("idle-deny", False),
    ]
    assert [each.record for each in lint.needed()] == [deny(operation=AclOperation.CREATE)]


def test_the_broadest_prefix_of_a_chain_is_kept() -> None:
    """In any order the shortest prefix is needed."""
    chain = [acl("abc"), prefix("abc"), prefix("ab"), prefix("a")]
    for acls in (chain, chain[::-1]):
        lint = Lint(table_of(*acls), STRICT, ALL_DEFECTS)
        assert [each.record for each in lint.needed()] == [prefix("a")]
        assert {finding.by for finding in lint.findings()} == {(prefix("a"),)}


def test_the_last_acl_on_a_name_is_kept_if_allow_everyone_would_apply() -> None:
    """An ineffective ACL still disables allow.everyone.if.no.acl.found, unless another ACL does."""
    ineffective = acl(host="broker1")
    assert [each.rule for each in found(ineffective)] == ["dead"]
    assert found(ineffective, settings=OPEN) == []
    assert [each.acl for each in found(ineffective, prefix("o"), settings=OPEN)] == [ineffective]


def test_accepted_acls_are_not_reported() -> None:
    """They are accepted by rule or by ACL; an accepted ALLOW keeps the DENY that limits it."""
    create = AclOperation.CREATE
    acls = (acl(operation=create), deny(operation=create), *(acl(name, host="broker1") for name in "xy"))
    rules = LintRules(
        off=frozenset(("shadowed",)),
        accepted=(AcceptedAcls(principal="User:al*", resource_type=ResourceType.TOPIC, resource_name="x"),),
    )
    lint = Lint(table_of(*acls), STRICT, rules)
    assert [each.acl for each in lint.findings()] == [acls[3]]
    assert lint.accepted == 2
    assert len(lint.needed()) == 3


def test_principal_types_are_those_of_the_rules() -> None:
    rules = LintRules(principal_types=frozenset(("User", "Group")))
    assert found(acl(principal="Group:admins"), rules=rules) == []


def test_the_cluster_has_one_name() -> None:
    """The name, a prefix of it and the wildcard cover the same resource."""
    acls = [
        acl(name, kind=ResourceType.CLUSTER, pattern=pattern, operation=AclOperation.ALTER)
        for name, pattern in (
            ("kafka-cluster", PatternType.LITERAL),
            ("kafka", PatternType.PREFIXED),
            ("*", PatternType.LITERAL),
        )
    ]
    assert len(Lint(table_of(*acls), STRICT, ALL_DEFECTS).needed()) == 1


def removable_count(table: AclTable, settings: AuthorizerSettings = STRICT) -> int:
    """The number of removable ACLs; the needed ones have the same effective permissions."""
    lint = Lint(table, settings, ALL_DEFECTS)
    assert (
        EffectivePermissions.of(lint.needed(), settings).digest
        == EffectivePermissions.of(table, settings).digest
    )
    again = Lint(lint.needed(), settings, ALL_DEFECTS)
    assert again.removable == []
    return len(lint.removable)


@pytest.mark.parametrize("name", REAL_LOGS)
def test_removals_keep_the_permissions_of_a_real_log(name: str) -> None:
    with closing(open_log(f"file:{real_log(name)}", mode="read")) as log:
        table = load_image(log, [CheckpointFiles(log)]).image.merged().columns
    assert removable_count(table) > 0
    if len(table) < 1_000:
        assert removable_count(table, OPEN) > 0
        assert removable_count(table, AuthorizerSettings(frozenset(("User:alice", "User:carol")))) > 0


def shaped(workload: Workload) -> AclTable:
    return table_of(
        *(AccessControlEntryRecord(uuid_from_string(each), *content) for each, content in workload.acls)
    )


@pytest.mark.parametrize("shape", [tenant_of_size, mesh, strangers])
def test_removals_keep_the_permissions_of_a_workload(shape: Callable[[int], Workload]) -> None:
    table = shaped(shape(2_000))
    assert removable_count(table) > 0
    assert removable_count(table, OPEN) > 0


@pytest.mark.slow
def test_removals_keep_the_permissions_of_many_acls() -> None:
    assert removable_count(shaped(tenant_of_size(30_000))) > 10_000


def test_acls_on_missing_topics_are_reported() -> None:
    """If the topics are known, lint reports literal ACLs on other topics that are not removable anyway."""
    acls = [
        acl("orders", number=1),
        acl("gone", number=2),
        acl("*", principal="User:bob", number=3),
        acl("gone", kind=ResourceType.GROUP, number=4),
        prefix("gone", principal="User:carol", number=5),
        acl("gone.too", principal="User:Admin", number=6),
    ]
    settings = AuthorizerSettings.from_configs({"super.users": "User:Admin"})
    lint = Lint(table_of(*acls), settings, ALL_DEFECTS, topics={"orders"})
    assert [(each.rule, each.acl.id[-1]) for each in lint.findings()] == [
        ("topic-gone", 2),
        ("super-user", 6),
    ]
    unknown = Lint(table_of(*acls), settings, ALL_DEFECTS)
    assert [each.rule for each in unknown.findings()] == ["super-user"]
    off = Lint(table_of(*acls), settings, LintRules(off=frozenset(("topic-gone",))), topics={"orders"})
    assert [each.rule for each in off.findings()] == ["super-user"]


def test_two_denies_of_half_networks_shadow_an_allow_of_the_network() -> None:
    """Then they deny nothing: without all three every request has the same answer."""
    halves = [
        deny(host=host, operation=AclOperation.ALL, number=at)
        for at, host in enumerate(("10.0.0.0/25", "10.0.0.128/25"), 1)
    ]
    whole = acl(host="10.0.0.0/24", number=3)
    shadowed, *idle = found(whole, *halves)
    assert (shadowed.rule, shadowed.acl, shadowed.by, shadowed.is_removable) == (
        *("shadowed", whole, (*halves,)),
        True,
    )
    assert [(each.rule, each.acl, each.is_independent, each.by) for each in idle] == [
        ("idle-deny", half, False, (whole,)) for half in halves
    ]
    assert removable_count(table_of(whole, *halves)) == 3


@pytest.mark.parametrize(
    ("hosts", "is_found"),
    [
        (("10.0.0.0/25", "10.0.0.128/26", "10.0.0.192/26"), True),
        (("10.0.0.0/25", "10.0.0.128/26", "10.0.0.192/27"), False),
        (("10.0.0.0/25", "10.0.0.64/26", "10.0.0.0/26"), False),
        (tuple(f"10.0.0.{number}" for number in range(256)), True),
        (tuple(f"10.0.0.{number}" for number in range(255)), False),
        (("*",), True),
    ],
)
def test_parts_of_a_network_together_cover_it(hosts: tuple[str, ...], is_found: bool) -> None:
    """Networks of any size and single addresses; all addresses but one are not the network."""
    around, every = acl(host="10.0.0.0/16", number=998), AclOperation.ALL
    for whole, parts in (
        (acl, [acl(host=host, operation=every, number=at) for at, host in enumerate(hosts, 1)]),
        (deny, [around, *(deny(host=host, operation=every, number=at) for at, host in enumerate(hosts, 1))]),
        (acl, [deny(host=host, operation=every, number=at) for at, host in enumerate(hosts, 1)]),
    ):
        narrow = whole(host="10.0.0.0/24", number=999)
        assert (narrow in [each.acl for each in found(narrow, *parts)]) == is_found
        assert removable_count(table_of(narrow, *parts)) >= is_found


def test_single_ipv6_addresses_do_not_cover_a_network() -> None:
    """An address with a scope is in the network, but does not match the address without the scope."""
    for hosts, whole, is_found in (
        (("fe80:0:0:0:0:0:0:0", "fe80:0:0:0:0:0:0:1"), "fe80::/127", False),
        (("fe80::/11", "fea0::/11"), "fe80::/10", True),
    ):
        parts = [deny(host=host, operation=AclOperation.ALL, number=at) for at, host in enumerate(hosts, 1)]
        shadowed = acl(host=whole, number=3)
        assert (shadowed in [each.acl for each in found(shadowed, *parts)]) == is_found
