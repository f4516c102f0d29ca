"""Kafka's protocol before a node has loaded its log, beside a real broker and controller in that state.

The real one has a quorum without a majority, so that its authorizer never becomes ready. Java's Admin and
kafka-acls of 4.4.0 ask both, and so do raw requests.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kio.schema.default_principal_data.v0 import DefaultPrincipalData
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from authorizer.admin_server.server import AdminServer
from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from support.admin_requests import ACL, EVERY, ask, decoded, request_frame
from support.kafka_broker import HOST, START_TIMEOUT_S, free_ports, running_jvm, write_properties
from support.kafka_jars import kafka_libs
from support.kafka_tools import ACLS, run_program, run_tools
from support.nodes import SOON_S
from support.sasl_clients import PASSWORD, PLAIN_MODULE
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

RELEASE: Final = "4.4.0"
ASK_ADMIN: Final = Path(__file__).parents[1] / "support" / "AskAdmin.java"
SUPER_USER: Final = "admin"
OTHER_USER: Final = "mallory"
USERS: Final = (SUPER_USER, OTHER_USER)
#: CONTROLLER and LATE are controllers', EARLY and BROKER are a broker's; CONTROLLER and EARLY start early.
LISTENERS: Final = ("CONTROLLER", "LATE", "EARLY", "BROKER")
OPEN: Final = "CONTROLLER"
SHARED: Final = {
    "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in LISTENERS),
    "controller.listener.names": "CONTROLLER,LATE",
    "early.start.listeners": "CONTROLLER,EARLY",
    "sasl.enabled.mechanisms": "PLAIN",
    "super.users": f"User:{SUPER_USER}",
}
NO_RELEASE: Final = (
    "There is no finalized MetadataVersion, so direct-to-controller communication is not supported."
)
NO_LEADER: Final = "No controller appears to be active."
CREATION: Final = request_frame("create_acls", 3, {"creations": [ACL, ACL]})
REMOVAL: Final = request_frame("delete_acls", 3, {"filters": [EVERY, EVERY]})


def principal(name: str) -> bytes:
    """As DefaultKafkaPrincipalBuilder serializes it."""
    out = io.BytesIO()
    data = DefaultPrincipalData(type_="User", name=name, token_authenticated=False)
    entity_writer(DefaultPrincipalData)(out, data)
    return bytes(2) + out.getvalue()


def envelope(user: str) -> bytes:
    values = {
        "request_data": CREATION,
        "request_principal": principal(user),
        "client_host_address": bytes((127, 0, 0, 1)),
    }
    return request_frame("envelope", 0, values)


def description(endpoint_type: int) -> bytes:
    values = {
        "endpoint_type": endpoint_type,
        "include_cluster_authorized_operations": True,
        "include_fenced_brokers": False,
    }
    return request_frame("describe_cluster", 2, values)


#: Names, versions and frames of requests that controllers answer.
REQUESTS: Final = {
    **{f"describe_cluster {each}": ("describe_cluster", 2, description(each)) for each in (1, 2, 9)},
    **{f"describe_acls {v}": ("describe_acls", v, request_frame("describe_acls", v, EVERY)) for v in (1, 3)},
    "create_acls": ("create_acls", 3, CREATION),
    "delete_acls": ("delete_acls", 3, REMOVAL),
    "an envelope of the super user": ("envelope", 0, envelope(SUPER_USER)),
    "an envelope of another": ("envelope", 0, envelope("x")),
}


class Held(NamedTuple):
    """The ports of something that is not ready, by listener name."""

    ports: dict[str, int]

    def address(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"

    def is_open(self, listener: str) -> bool:
        try:
            socket.create_connection((HOST, self.ports[listener]), SOON_S).close()
        except ConnectionRefusedError:
            return False
        return True


@contextmanager
def held_node(folder: Path, url: str) -> Iterator[Held]:
    """A started node whose cluster is out of reach, or has no leader."""
    for user in USERS:
        CREDENTIALS_FILE.put(folder / "users", ScramCredential.create(user, "SCRAM-SHA-512", PASSWORD))
    flags = {
        **SHARED,
        "aclog.log.url": url,
        "aclog.kafka.version": "4.4",
        "aclog.admin.listeners": ",".join(f"{name}://{HOST}:0" for name in LISTENERS),
        "aclog.admin.credentials.file": str(folder / "users"),
    }
    config = load_config(environ={}, flags=flags)
    with AdminServer(config) as server, Node.open(config, lazily=True) as node:
        ports = [int(address.rpartition(":")[2]) for address in server.addresses]
        server.start(node, node.start())
        yield Held(dict(zip(LISTENERS, ports, strict=True)))


@contextmanager
def held_broker(folder: Path) -> Iterator[Held]:
    """A broker and controller of 4.4.0 in one process; the second voter of its quorum does not exist."""
    *numbers, absent = free_ports(len(LISTENERS) + 1)
    held = Held(dict(zip(LISTENERS, numbers, strict=True)))
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    login = f'{PLAIN_MODULE} required username="{SUPER_USER}" password="{PASSWORD}" {users};'
    settings = {
        **SHARED,
        "controller.quorum.voters": f"1@{held.address('CONTROLLER')},2@{HOST}:{absent}",
        "listeners": ",".join(f"{name}://{held.address(name)}" for name in LISTENERS),
        "advertised.listeners": ",".join(f"{name}://{held.address(name)}" for name in ("BROKER", "EARLY")),
        "inter.broker.listener.name": "BROKER",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": login for name in LISTENERS},
    }
    with running_jvm(folder / "broker", settings, libs=kafka_libs(RELEASE)) as (_, why_ended):

        def is_open() -> bool:
            assert why_ended() is None, why_ended()
            return held.is_open(OPEN)

        wait_until(is_open, "the controller's listener", timeout_s=START_TIMEOUT_S)
        yield held


# --- a node alone -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """A node whose cluster is out of reach."""
    (nobody,) = free_ports(1)
    with held_node(tmp_path_factory.mktemp("node"), f"kraft://{HOST}:{nobody}") as held:
        yield held


def test_only_early_start_listeners_of_controllers_accept(node: Held) -> None:
    """A real broker waits for the load even with its early-start listeners."""
    assert [name for name in LISTENERS if node.is_open(name)] == [OPEN]


def answer(held: Held, user: str, request: str) -> Any:
    name, version, frame = REQUESTS[request]
    return decoded(name, version, ask(held.address(OPEN), frame, user=user))


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("endpoint_type", [1, 2, 9])
def test_nobody_gets_a_description_of_the_cluster(node: Held, user: str, endpoint_type: int) -> None:
    """Clients end with this error: without it a super user would see a cluster without ACLs."""
    described = answer(node, user, f"describe_cluster {endpoint_type}")
    assert (described.error_code, described.error_message) == (ErrorCode.unsupported_version, NO_RELEASE)
    assert described.brokers == ()


@pytest.mark.parametrize("user", USERS)
def test_nobody_gets_empty_answers_of_a_broker(node: Held, user: str) -> None:
    """A controller does not have these requests."""
    values = {
        "topics": None,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    sent = request_frame("metadata", 13, values)
    answered = decoded("metadata", 13, ask(node.address(OPEN), sent, user=user))
    assert (answered.brokers, answered.error_code) == ((), ErrorCode.unknown_server_error)
    filters = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    sent = request_frame("list_transactions", 1, filters)
    answered = decoded("list_transactions", 1, ask(node.address(OPEN), sent, user=user))
    assert answered.error_code is ErrorCode.unknown_server_error


def test_a_change_by_a_super_user_is_to_be_tried_again(node: Held) -> None:
    created, deleted = (answer(node, SUPER_USER, name) for name in ("create_acls", "delete_acls"))
    expected = [(ErrorCode.not_controller, NO_LEADER)] * 2
    for items in (created.results, deleted.filter_results):
        assert [(each.error_code, each.error_message) for each in items] == expected
    forwarded = answer(node, SUPER_USER, "an envelope of the super user")
    assert (forwarded.error_code, forwarded.response_data) == (ErrorCode.not_controller, None)


def test_others_get_an_unknown_error(node: Held) -> None:
    """AUTHORIZER_NOT_READY is in no client's table of errors."""
    created, deleted = (answer(node, OTHER_USER, name) for name in ("create_acls", "delete_acls"))
    for items in (created.results, deleted.filter_results):
        assert [(each.error_code, each.error_message) for each in items] == [
            (ErrorCode.unknown_server_error, None)
        ] * 2
    for request in ("describe_acls 3", "an envelope of the super user"):
        assert answer(node, OTHER_USER, request).error_code is ErrorCode.unknown_server_error


# --- beside a real broker ---------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A broker without a leader, and a node that follows it."""

    broker: Held
    node: Held
    folder: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with (
        held_broker(folder) as broker,
        held_node(folder, f"kraft://{broker.address(OPEN)}") as node,
    ):
        yield Pair(broker, node, folder)


def settings(user: str, timeout_ms: int) -> dict[str, str]:
    """A Java client's."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_MODULE} required username="{user}" password="{PASSWORD}";',
        "request.timeout.ms": str(timeout_ms),
        "default.api.timeout.ms": str(timeout_ms),
    }


#: Of a client whose connections are refused, and of another.
SHORT_MS: Final = 1_000
LONG_MS: Final = 60_000


@pytest.mark.long
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_request_is_answered_as_by_a_controller(pair: Pair, user: str, request_name: str) -> None:
    _, _, frame = REQUESTS[request_name]
    broker, node = (ask(each.address(OPEN), frame, user=user) for each in pair[:2])
    assert broker == node
    assert broker is not None


@pytest.mark.long
def test_javas_admin_sees_the_same(pair: Pair) -> None:
    any_acl = ["ANY", None, "ANY", None, None, "ANY", "ANY"]
    calls: tuple[dict[str, Any], ...] = (
        {"request": "describeCluster"},
        {"request": "describeAcls", "filter": any_acl},
        {"request": "createAcls", "acls": [["TOPIC", "orders", "LITERAL", "User:x", "*", "READ", "ALLOW"]]},
        {"request": "deleteAcls", "filters": [any_acl]},
    )

    def calls_to(held: Held) -> Iterator[dict[str, Any]]:
        for user in USERS:
            client = {**settings(user, LONG_MS), "bootstrap.controllers": held.address(OPEN)}
            yield from ({**call, "client": client} for call in calls)
            for listener in LISTENERS:
                if listener != OPEN:
                    servers = "bootstrap.controllers" if listener == "LATE" else "bootstrap.servers"
                    client = {**settings(user, SHORT_MS), servers: held.address(listener)}
                    yield {**calls[1], "client": client}

    both = [*calls_to(pair.broker), *calls_to(pair.node)]
    results = run_program(ASK_ADMIN, both, version=RELEASE, timeout_s=LONG_MS / 1000)
    of_broker, of_node = results[: len(results) // 2], results[len(results) // 2 :]
    assert of_broker == of_node
    for call, found in zip(both, of_broker, strict=False):
        is_refused = call["client"]["request.timeout.ms"] == str(SHORT_MS)
        reason = "Timed out waiting for a node assignment" if is_refused else NO_RELEASE
        assert found, call
        assert all(reason in each for each in found), (call, found)


@pytest.mark.long
def test_kafka_acls_prints_the_same(pair: Pair) -> None:
    for user in USERS:
        for name, timeout_ms in (("refused", SHORT_MS), ("open", LONG_MS)):
            write_properties(pair.folder / f"{user}-{name}.properties", settings(user, timeout_ms))

    def command_lines(held: Held) -> Iterator[list[str]]:
        for user in USERS:
            for option, listener, name in (
                ("--bootstrap-controller", OPEN, "open"),
                ("--bootstrap-server", "EARLY", "refused"),
            ):
                config = str(pair.folder / f"{user}-{name}.properties")
                for command in (
                    "--list",
                    "--add --allow-principal User:x --operation Read --topic orders",
                    "--remove --force --topic orders",
                ):
                    yield [option, held.address(listener), "--command-config", config, *command.split()]

    runs = run_tools(ACLS, [*command_lines(pair.broker), *command_lines(pair.node)], version=RELEASE)
    shown = [(each.exit, errors(each.out.splitlines()), errors(each.err.splitlines())) for each in runs]
    of_broker, of_node = shown[: len(shown) // 2], shown[len(shown) // 2 :]
    assert of_broker == of_node
    for line, (code, out, _) in zip(command_lines(pair.broker), of_broker, strict=True):
        assert code == 1
        is_open = line[0] == "--bootstrap-controller"
        assert (NO_RELEASE if is_open else "Timed out waiting for a node assignment") in str(out), line


def errors(lines: Sequence[str]) -> list[str]:
    """Without the lines of stack traces."""
    return [line for line in lines if not line.startswith("\t")]


@pytest.mark.long
def test_the_same_listeners_accept(pair: Pair) -> None:
    """After all others: the broker has had time to open what it opens."""
    for held in pair[:2]:
        assert [name for name in LISTENERS if held.is_open(name)] == [OPEN]
