"""Hosts in SQL: a host is within a network if its bits begin with those of the network."""

from __future__ import annotations

from itertools import product

from authorizer.api.ip_address import STRICTEST, host_matches
from authorizer.api.kafka_version import KafkaVersion
from authorizer.cli.spark.access_analysis import ReleaseHosts
from snapshot.jobs.changes.coverage import BrokerLevels
from snapshot.jobs.changes.tables.access_rows import NO_END

CLIENTS = (
    *("10.0.0.1", "10.1.0.2", "0.0.0.0", "255.255.255.255", "fe80:0:0:0:0:0:0:1"),
    *("fe80:0:0:0:0:0:0:1%eth0", "0:0:0:0:0:0:0:1"),
)
NETWORKS = (
    *("10.0.0.0/24", "10.0.0.9/8", "10.0.0.1/32", "0.0.0.0/0", "fe80::/16", "::/0", "::1/128", "1.2.3.4/33"),
    *("x/8", "fe80::1%eth0/64"),
)


def test_a_client_is_in_a_network_as_for_the_authorizer() -> None:
    for client, network in product(CLIENTS, NETWORKS):
        inner, outer = ReleaseHosts().prefix(client), ReleaseHosts().prefix(network)
        assert inner is not None
        is_within = outer is not None and inner.startswith(outer)
        assert is_within == host_matches(network, client, networks=True), (client, network)


def test_a_text_that_no_client_has_is_left_out() -> None:
    for host in ("::1", "::ffff:10.0.0.1", "10.0.0", "10.0.0.0/33", "host"):
        assert ReleaseHosts().prefix(host) is None


def test_the_rules_follow_the_brokers_of_the_log() -> None:
    """An upgrade from 4.3 to 4.4 in the batch of offsets 20 to 29: there the strictest rules hold."""
    levels = (BrokerLevels(0, 10, 30, (30,)), BrokerLevels(20, 30, 33, (33,)))
    rules = list(ReleaseHosts().rules(levels))
    assert [each for each in rules if each[0] >= 10] == [
        (10, 20, False, False),
        (20, 30, *STRICTEST),
        (30, NO_END, True, True),
    ]
    assert list(ReleaseHosts().rules(())) == [(0, NO_END, *STRICTEST)]
    assert all(each[2:] == (True, True) for each in ReleaseHosts(KafkaVersion.V4_4).rules(levels))
