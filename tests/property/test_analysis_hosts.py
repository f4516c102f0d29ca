"""Networks as hosts in effective permissions, compared with the definition for every address."""

from __future__ import annotations

from ipaddress import ip_network
from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from authorizer.analysis.lint.removable_acls import find_removable
from authorizer.analysis.permissions.decision_changes import decision_changes_between
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
from authorizer.analysis.request_space.host_answers import Answer, answer_of, subtract
from authorizer.analysis.request_space.host_tree import mask_at, minimal_host_masks
from authorizer.api.ip_address import host_matches
from authorizer.api.kafka_version import KafkaVersion
from authorizer.engine.decisions.state import AuthorizerSettings
from authorizer.engine.index.masks import add_to_leaf, allowed_operations, host_reader, leaf_mask, union_leaf
from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid

# All addresses of two small networks, some IPv6 addresses, and one outside all networks.
SMALL = [str(each) for net in ("0.0.0.0/30", "10.0.0.0/29") for each in ip_network(net)]
IPV6 = ["2001:db8:0:0:0:0:0:0", "2001:db8:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:2", "fe80:0:0:0:0:0:0:1%1"]
ADDRESSES = [*SMALL, "10.9.9.9", "203.0.113.7", *IPV6, "fd00:0:0:0:0:0:0:1"]
NETWORKS = [
    *(f"{each}/{length}" for each in SMALL for length in (29, 30, 31, 32)),
    *("0.0.0.0/0", "10.0.0.0/8", "128.0.0.0/1", "::/0", "2001:db8::/127", "2001:db8::/32", "fe80::/64"),
]
#: Networks around the IPv4-mapped IPv6 addresses, which no client has.
#: NEARBY has one address of each range between them.
NEAR_MAPPED = ["::fffe:0:0/95", "::fffe:0:0/96", "::fffe:0:0/97", "::fffe:8000:0/97", "::fffc:0:0/94"]
NEAR_MAPPED += [
    "::fffc:0:0/95",
    "::fffc:0:0/96",
    "::/80",
    "::/0",
    "0:0:0:0:0:fffe:ffff:ffff",
    "0:0:0:0:0:fffe:0:1",
]
NEARBY = ["0:0:0:0:0:fffe:ffff:ffff", "0:0:0:0:0:fffe:8000:0", "0:0:0:0:0:fffe:0:0", "0:0:0:0:0:fffe:0:1"]
NEARBY += ["0:0:0:0:0:fffd:0:0", "0:0:0:0:0:fffc:0:0", "0:0:0:0:0:1:0:0", "fd00:0:0:0:0:0:0:1", "192.0.2.1"]
HOSTS = st.sampled_from(ADDRESSES) | st.sampled_from(NETWORKS) | st.sampled_from(NETWORKS)


@st.composite
def hosts_and_masks(draw: st.DrawFn) -> list[tuple[str, int]]:
    return draw(
        st.lists(st.tuples(HOSTS | st.just("*"), st.sampled_from((1, 2, 3, 1 << 16, 2 << 16))), max_size=6)
    )


def mask_for(acls: list[tuple[str, int]], host: str) -> int:
    mask = 0
    for acl_host, acl_mask in acls:
        if host_matches(acl_host, host, networks=True):
            mask |= acl_mask
    return mask


@given(hosts_and_masks(), hosts_and_masks())
@settings(max_examples=300, deadline=None)
def test_leaves_and_answers_of_networks(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    """In any order, and as a union, a leaf answers each address as all ACLs do."""
    read = host_reader(networks=True)
    leaves = []
    for acls in (one, other):
        leaf = None
        for host, mask in acls:
            leaf = add_to_leaf(leaf, read(host), mask)
        leaves.append(leaf or 0)
        for host in ADDRESSES:
            assert leaf_mask(leaves[-1], host) == mask_for(acls, host), host
    union = union_leaf(*leaves)
    answers = [answer_of(each) for each in (*leaves, union)]
    difference = subtract(answers[0], answers[1])
    for host in ADDRESSES:
        assert leaf_mask(union, host) == mask_for(one, host) | mask_for(other, host)
        masks = [
            allowed_operations(mask_for(one, host)),
            allowed_operations(mask_for(other, host)),
            allowed_operations(leaf_mask(union, host)),
        ]
        assert [mask_of(each, host) for each in answers] == masks, host
        assert mask_of(difference, host) == masks[0] & ~masks[1]
    reordered = None
    for host, mask in reversed(one):
        reordered = add_to_leaf(reordered, read(host), mask)
    assert answer_of(reordered or 0) == answers[0]


def mask_of(answer: Answer, host: str) -> int:
    if isinstance(answer, int):
        return answer
    other, named = answer
    return mask_at(host, dict(named), other)


@given(st.lists(st.integers(0, 2), min_size=8, max_size=8), st.integers(0, 2))
@settings(max_examples=300, deadline=None)
@example([1, 1, 1, 0, 1, 1, 1, 1], 0)
def test_the_named_hosts_depend_on_the_answers_alone(masks: list[int], other: int) -> None:
    """Masks by address and masks by network give the same minimal hosts with the same answers."""
    addresses = SMALL[4:]
    plain = minimal_host_masks(dict(zip(addresses, masks, strict=True)), other)
    over = {"10.0.0.0/29": 2, "10.0.0.4/30": 1, "10.0.0.2/31": 0, **dict(zip(addresses, masks, strict=True))}
    assert minimal_host_masks(over, other) == plain
    default, named = plain
    assert [mask_at(each, named, default) for each in addresses] == masks
    assert mask_at("10.9.9.9", named, default) == mask_at("fd00:0:0:0:0:0:0:1", named, default) == other
    assert len(named) <= sum(mask != other for mask in masks)


@given(*(st.lists(st.tuples(st.sampled_from(NEAR_MAPPED), st.integers(1, 3)), max_size=6) for _ in "ab"))
@settings(max_examples=300, deadline=None)
@example([("::fffe:0:0/95", 1)], [("::fffe:0:0/96", 1)])
@example([("::fffe:0:0/95", 1)], [("::fffe:0:0/97", 1), ("::fffe:8000:0/97", 1)])
@example([("::fffc:0:0/94", 1)], [("::fffc:0:0/95", 1), ("::fffe:0:0/96", 1)])
def test_ipv4_mapped_networks_make_no_difference(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    """No client has an IPv4-mapped address: answers that differ only there are equal."""
    read, answers = host_reader(networks=True), []
    for hosts in (one, other):
        leaf = None
        for host, mask in hosts:
            leaf = add_to_leaf(leaf, read(host), mask)
        answers.append(answer_of(leaf or 0))
        assert [mask_of(answers[-1], host) for host in NEARBY] == [mask_for(hosts, host) for host in NEARBY]
    alike = all(mask_for(one, host) == mask_for(other, host) for host in NEARBY)
    assert (answers[0] == answers[1]) is alike


def acls() -> st.SearchStrategy[AccessControlEntryRecord]:
    return st.builds(
        AccessControlEntryRecord,
        st.integers(1, 9).map(lambda number: Uuid(number.to_bytes(16))),
        st.just(3),
        st.sampled_from(("a", "*", "ab")),
        st.sampled_from((3, 4)),
        st.sampled_from(("User:a", "User:*")),
        HOSTS | st.just("*"),
        st.sampled_from((3, 4)),
        st.sampled_from((2, 3, 3)),
    )


def table_of(records: list[AccessControlEntryRecord]) -> AclTable:
    return AclTable.of([AppliedAcl(record, None, 0) for record in records])


def is_allowed(
    records: list[AccessControlEntryRecord], principal: str, host: str, name: str, *, networks: bool
) -> bool:
    """Whether this principal may read that group."""
    found = {
        record.permission_type
        for record in records
        if record.principal in (principal, "User:*")
        and record.operation == 3
        and host_matches(record.host, host, networks=networks)
        and (
            record.resource_name in (name, "*")
            if record.pattern_type == 3
            else name.startswith(record.resource_name)
        )
    }
    return found == {3}


QUESTIONS = [*product(("User:a", "User:b"), ADDRESSES, ("a", "ab", "abc", "b"))]


@given(st.lists(acls(), max_size=6), st.lists(acls(), max_size=3))
@settings(max_examples=100, deadline=None)
def test_decision_changes_between_sets_and_releases(
    records: list[AccessControlEntryRecord], more: list[AccessControlEntryRecord]
) -> None:
    """The decision for every witness changes, and every address whose decision changes is in a class."""
    old, new = (AuthorizerSettings(kafka_version=each) for each in (KafkaVersion.V4_3, KafkaVersion.V4_4))
    pairs = (((records, new), (more, new)), ((records, old), (records, new)))
    for (one, of_one), (other, of_other) in pairs:
        before, after = (
            EffectivePermissions.of(table_of(one), of_one),
            EffectivePermissions.of(table_of(other), of_other),
        )
        flips = list(decision_changes_between(before, after))
        for change in flips:
            witness = change.request_class.witness
            if "READ" in {each.name for each in change.request_class.operations}:
                request = witness.principal, witness.host, witness.name
                was = is_allowed(one, *request, networks=of_one.networks.allow)
                assert was == (change.direction == "revoked"), change
                assert was != is_allowed(other, *request, networks=of_other.networks.allow), change
        same = all(
            is_allowed(one, *each, networks=of_one.networks.allow)
            == is_allowed(other, *each, networks=of_other.networks.allow)
            for each in QUESTIONS
        )
        if before == after:
            assert same
            assert before.digest == after.digest
        elif not any("READ" in {each.name for each in change.request_class.operations} for change in flips):
            assert same


@given(st.lists(acls(), max_size=8, unique_by=lambda record: record.content))
@settings(max_examples=200, deadline=None)
def test_removable_acls_change_nothing(records: list[AccessControlEntryRecord]) -> None:
    table = table_of(records)
    configured = AuthorizerSettings(kafka_version=KafkaVersion.V4_4)
    removed = {each.row for each in find_removable(table, configured)}
    remaining = table_of([acl.record for row, acl in enumerate(table) if row not in removed])
    assert EffectivePermissions.of(remaining, configured) == EffectivePermissions.of(table, configured)
