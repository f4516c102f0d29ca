"""Hosts that would get the other result, exactly, for the hosts and networks of ACLs and for all others."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizer.api.authorizer_api import Action
from authorizer.api.http.answers.decisions import OtherHosts
from authorizer.engine.explanation.explain import Explanation
from records.entries import AccessControlEntryRecord
from support.decisions import READ, Fed, allow, context, deny, topic, topics

LOCAL = "127.0.0.1"


def explained(*acls: AccessControlEntryRecord) -> Explanation:
    return explained_by(Fed(*acls, aclog_kafka_version="4.4"))


def explained_by(fed: Fed) -> Explanation:
    return fed.authorizer.explain(context("User:a", LOCAL), Action(READ, topic("t")))


def test_a_deny_for_another_host_is_named() -> None:
    found = explained(allow("User:a", READ, topic("t")), deny("User:a", READ, topic("t"), "10.0.0.9"))
    assert found.reason == (
        "an ACL allows it from 127.0.0.1 and none denies it from there; from 10.0.0.9 it is DENIED"
    )
    assert found.answer().other_hosts == OtherHosts("DENIED", ["10.0.0.9"], 1, [], 0)


@pytest.mark.parametrize(
    ("acls", "says"),
    [
        ([], None),
        ([allow("User:a", READ, topic("t"))], None),
        # Only matching ACLs count.
        ([allow("User:a", READ, topic("t")), deny("User:b", READ, topic("t"), "10.0.0.9")], None),
        ([allow("User:a", READ, topic("t")), deny("User:a", READ, topic("other"), "10.0.0.9")], None),
        ([allow("User:*", READ, topics(""), "10.0.0.9")], "from 10.0.0.9 it is ALLOWED"),
        (
            [allow("User:a", READ, topic("t")), deny("User:a", READ, topic("t"), LOCAL)],
            "from every other host it is ALLOWED",
        ),
        (
            [
                allow("User:a", READ, topic("t")),
                deny("User:a", READ, topic("t"), LOCAL),
                deny("User:*", READ, topics("t"), "10.0.0.9"),
            ],
            "from every other host but 10.0.0.9 it is ALLOWED",
        ),
        # A DENY for the same host overrides the ALLOW.
        (
            [allow("User:a", READ, topic("t"), "10.0.0.9"), deny("User:a", READ, topic("t"), "10.0.0.9")],
            None,
        ),
        # No client has a host name.
        ([allow("User:a", READ, topic("t"), "broker.example.com")], None),
        (
            [
                allow("User:a", READ, topic("t"), "10.0.0.0/8"),
                deny("User:a", READ, topic("t"), "10.1.0.0/16"),
            ],
            "from 10.0.0.0/8 it is ALLOWED",
        ),
        # Both halves of a network are named, which covers all its addresses.
        (
            [
                allow("User:a", READ, topic("t"), "10.0.0.0/30"),
                deny("User:a", READ, topic("t"), "10.0.0.0/31"),
                deny("User:a", READ, topic("t"), "10.0.0.2/31"),
            ],
            None,
        ),
        (
            [allow("User:a", READ, topic("t"), "2001:db8:0:0:0:0:0:1")],
            "from 2001:db8:0:0:0:0:0:1 it is ALLOWED",
        ),
    ],
)
def test_hosts_with_the_other_result_are_named(
    acls: list[AccessControlEntryRecord], says: str | None
) -> None:
    found = explained(*acls)
    assert (None if found.other_hosts is None else str(found.other_hosts)) == says
    assert (says or "; from") in f"{found.reason}; from"


def test_networks_count_if_the_release_supports_them() -> None:
    acls = allow("User:a", READ, topic("t")), deny("User:a", READ, topic("t"), "10.0.0.0/8")
    assert str(explained(*acls).other_hosts) == "from 10.0.0.0/8 it is DENIED"
    assert explained_by(Fed(*acls, aclog_kafka_version="4.3")).other_hosts is None


def test_a_super_user_has_no_other_hosts() -> None:
    found = explained_by(Fed(deny("User:a", READ, topic("t"), "10.0.0.9"), super_users="User:a"))
    assert found.other_hosts is None


def test_many_hosts_are_counted_and_the_first_are_listed() -> None:
    denied = [deny("User:a", READ, topic("t"), f"10.0.1.{number}") for number in range(30)]
    found = explained(allow("User:a", READ, topic("t")), *denied)
    shown = found.answer()
    assert shown.other_hosts is not None
    assert (len(shown.other_hosts.hosts), shown.other_hosts.total) == (20, 30)
    assert "and 10 more it is DENIED" in found.reason
    parsed = Explanation.from_answer(shown, found.context, found.action)
    assert parsed.other_hosts is not None
    assert list(parsed.other_hosts.hosts) == shown.other_hosts.hosts


HOSTS = [
    "*",
    LOCAL,
    "10.0.0.0/29",
    "10.0.0.0/30",
    "10.0.0.4/30",
    "10.0.0.4/31",
    "10.0.0.5",
    "10.0.0.6",
    "10.0.0.9",
]
SPACE = [LOCAL, "10.9.9.9", *(str(IPv4Address("10.0.0.0") + number) for number in range(12))]


@given(
    st.sets(st.tuples(st.sampled_from([allow, deny]), st.sampled_from(HOSTS)), max_size=7),
    st.sampled_from(SPACE),
    st.sampled_from(["", "4.3", "4.4"]),
)
def test_each_address_gets_the_reported_result(
    given_acls: set[tuple[object, str]], request_host: str, version: str
) -> None:
    """The narrowest reported host of an address has its result, compared with a decision."""
    acls = [make("User:a", READ, topic("t"), host) for make, host in given_acls]  # type: ignore[operator]
    fed = Fed(*acls, aclog_kafka_version=version)
    action = Action(READ, topic("t"))
    found = fed.authorizer.explain(context("User:a", request_host), action)
    named = {host for _, host in given_acls if host != "*"}
    other_hosts = found.other_hosts

    def narrowest(address: str) -> str | None:
        containing = [host for host in named if IPv4Address(address) in ip_network(host)]
        return max(containing, key=lambda host: ip_network(host).prefixlen, default=None)

    for address in SPACE:
        result = fed.authorizer.explain(context("User:a", address), action).decision.result
        host = narrowest(address)
        if other_hosts is None:
            is_other = False
        elif other_hosts.hosts == ("*",):
            is_other = (
                host not in other_hosts.but and host != narrowest(request_host) and address != request_host
            )
        else:
            is_other = host in other_hosts.hosts
        assert (result is not found.decision.result) is is_other, (address, acls)
