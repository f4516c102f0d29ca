"""AdminClients in Go and Python against a node, beside the same calls on a real broker.

franz-go's kadm, Sarama, Sarama with the calls of the Terraform provider Mongey/kafka, and kafka-python. The
node follows the broker's controllers, so that both have the same topics. Listings are compared without their
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.admin_server.server import AdminServer
from support.admin_requests import EVERY, ask, decoded, request_frame
from support.client_programs import comparable, run_client
from support.kafka_broker import jar_broker
from support.nodes import SOON_S, config_of, running_node
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

Request = Mapping[str, Any]

ACL: Final = {
    "resource_type": 2,
    "resource_name": "orders",
    "pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ANY: Final = {
    "resource_type": 1,
    "resource_name": None,
    "pattern_type": 1,
    "principal": None,
    "host": None,
    "operation": 1,
    "permission_type": 1,
}
CREATED: Final = (
    ACL,
    ACL,
    {**ACL, "pattern_type": 4, "operation": 2},
    {**ACL, "resource_name": "*", "principal": "User:*", "host": "10.0.0.1", "permission_type": 2},
    {**ACL, "resource_name": "ord", "pattern_type": 4, "principal": "User:bob", "operation": 4},
    {**ACL, "resource_type": 3, "operation": 8},
    {**ACL, "resource_type": 4, "resource_name": "kafka-cluster", "operation": 7, "permission_type": 2},
    {**ACL, "resource_type": 5, "operation": 4, "host": "10.0.0.1"},
    {**ACL, "resource_type": 6, "operation": 8},
)
REFUSED: Final = (
    {**ACL, "resource_name": ""},
    {**ACL, "principal": "alice"},
)
#: Each value of each field of a filter with each of the others'.
FILTERS: Final = tuple(
    dict(zip(ANY, values, strict=True))
    for values in product(
        range(1, 7), (None, "orders", "*"), (1, 2, 3, 4), (None, "User:alice"), (None, "*"), (1, 3), (1, 2, 3)
    )
)
REMOVED: Final = (
    {**ANY, "resource_type": 5},
    {**ANY, "resource_type": 2, "resource_name": "orders-1", "pattern_type": 2},
    {**ANY, "resource_type": 2, "resource_name": "orders-1", "pattern_type": 2, "principal": "User:bob"},
    {**ACL, "resource_type": 3, "operation": 8},
    {**ANY, "permission_type": 2},
    {**ANY, "resource_type": 2, "resource_name": "nothing"},
)
EVERY_ACL: Final = request_frame(
    "describe_acls",
    3,
    EVERY,
)
TOPICS, GROUPS = ["orders", "payments", "unknown"], ["g", "h"]


class Pair(NamedTuple):
    """Addresses of a broker, and of a node beside it."""

    broker: str
    node: str


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with jar_broker(version="4.4.0") as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in client.create_topics([NewTopic("orders", 1, 1), NewTopic("payments", 1, 1)]).values():
            created.result(SOON_S)
        with running_node(f"kraft://{broker.controllers}", kafka_version="4.4") as node:
            node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
            with AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server:
                server.start(node)
                yield Pair(broker.bootstrap_servers, server.addresses[0])


def wait_for_acls(pair: Pair, count: int) -> None:
    """Wait until both list that many: a broker answers a change before it has replayed it."""

    def counts() -> list[int]:
        answers = [decoded("describe_acls", 3, ask(address, EVERY_ACL)) for address in pair]
        return [sum(len(each.acls) for each in answer.resources) for answer in answers]

    wait_until(lambda: counts() == [count, count], f"{count} ACLs")


def ordered(do: str, acls: Sequence[Mapping[str, Any]]) -> list[Request]:
    return [{"do": do, "acl": each} for each in acls]


#: What each client describes besides ACLs.
DESCRIBED: Final[Mapping[str, Sequence[str]]] = {
    "kadm": ("metadata", "cluster", "groups", "consumer groups"),
    "sarama": ("metadata", "cluster", "operations", "groups"),
    "kafka-python": ("metadata", "cluster", "groups"),
}


@pytest.mark.parametrize("client", DESCRIBED)
def test_an_admin_client_gets_the_same_answers(pair: Pair, client: str) -> None:
    names = {"groups": GROUPS, "consumer groups": GROUPS}
    described = [{"do": each, "names": names.get(each, TOPICS)} for each in DESCRIBED[client]]
    # kafka-python takes 10 ms for each. Seven has no factor in common with the number of any field's values.
    filters = FILTERS[::7] if client == "kafka-python" else FILTERS
    # The broker creates the topic of the groups' offsets when the first client asks for it.
    run_client(client, pair.broker, described)
    found = []
    for address in pair:
        answers = run_client(client, address, ordered("create", [*CREATED, *REFUSED]))
        wait_for_acls(pair, len(CREATED) - 1)
        answers += run_client(client, address, [*ordered("describe", filters), *described])
        answers += run_client(client, address, ordered("delete", REMOVED))
        wait_for_acls(pair, 2)
        answers += run_client(client, address, ordered("describe", [ANY]))
        answers += run_client(client, address, ordered("delete", [ANY]))
        wait_for_acls(pair, 0)
        found.append(comparable(answers))
    of_broker, of_node = found
    assert len(of_broker) == len(of_node)
    for expected, answer in zip(of_broker, of_node, strict=True):
        assert answer == expected
    assert len(of_node[len(CREATED) + len(REFUSED)]["acls"]) == len(CREATED) - 1


def test_the_calls_of_a_terraform_provider_get_the_same_answers(pair: Pair) -> None:
    """Create, read, replace and destroy, as for the resource kafka_acl of Mongey/kafka."""
    wanted, replaced = {**ACL, "host": "10.0.0.1"}, {**ACL, "operation": 4, "pattern_type": 4}
    found = []
    for address in pair:
        answers = []
        for requests, count in (
            (ordered("create", [wanted, REFUSED[0]]), 1),
            (ordered("describe", [wanted]), 1),
            (ordered("delete", [wanted]), 0),
            (ordered("create", [replaced]), 1),
            (ordered("describe", [replaced]), 1),
            (ordered("delete", [replaced]), 0),
            (ordered("describe", [replaced]), 0),
        ):
            answers += run_client("provider", address, requests)
            wait_for_acls(pair, count)
        found.append(comparable(answers))
    assert found[1] == found[0]
    assert [each["acls"] for each in found[1]] == [
        [], [], [wanted], [wanted], [], [replaced], [replaced], [],
    ]  # fmt: skip


def test_an_import_by_a_terraform_provider_gets_the_same_answers(pair: Pair) -> None:
    """The provider takes the ACL from its id, lists all to find it, again for each plan, and destroys it."""
    imported = CREATED[2]
    found = []
    for address in pair:
        run_client("kadm", address, ordered("create", CREATED[2:6]))
        wait_for_acls(pair, 4)
        answers = []
        for _ in ("import", "plan"):
            answers += run_client("provider", address, ordered("describe", [imported]))
        answers += run_client("provider", address, ordered("delete", [imported]))
        wait_for_acls(pair, 3)
        answers += run_client("provider", address, ordered("describe", [imported]))
        run_client("kadm", address, ordered("delete", [ANY]))
        wait_for_acls(pair, 0)
        found.append(comparable(answers))
    of_broker, of_node = found
    assert of_node == of_broker
    assert [imported in each["acls"] for each in of_node] == [True, True, True, False]
    assert [len(each["acls"]) for each in of_node] == [4, 4, 1, 3]
