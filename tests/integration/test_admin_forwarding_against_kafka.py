"""Logins and forwarded requests (Envelope, KIP-590), beside a real broker and its controller.

The node has an aclog-managed log: both begin without ACLs, and get the same requests.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kio.schema.default_principal_data.v0 import DefaultPrincipalData
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from structlog.testing import capture_logs

from authorizer.admin_server.server import AdminServer
from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from support.admin_requests import ACL, EVERY, ask, ask_all, decoded, request_frame, without_request
from support.kafka_broker import jar_broker
from support.nodes import SOON_S
from support.sasl_clients import PASSWORD, PLAIN_MODULE
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

#: alice may forward, mallory may do nothing, admin is a super user.
USERS: Final = ("alice", "mallory", "admin")
LISTENERS: Final = ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT")
SUPER_USERS: Final = "User:ANONYMOUS;User:admin"
LOCAL: Final = bytes((127, 0, 0, 1))
CLUSTER: Final = {**ACL, "resource_type": 4, "resource_name": "kafka-cluster"}
GRANTS: Final = (
    {**CLUSTER, "principal": "User:alice", "operation": 9},  # CLUSTER_ACTION
    {**CLUSTER, "principal": "User:bob", "operation": 7, "host": "10.0.0.9"},  # ALTER
    {**CLUSTER, "principal": "Group:bob", "operation": 7},
)
METADATA: Final = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}
SOFTWARE: Final = {"client_software_name": "test", "client_software_version": "1"}


class Servers(NamedTuple):
    """Listeners with logins: of a controller and its broker, and two of a node."""

    controller: str
    broker: str
    node_of_controllers: str
    node: str

    @property
    def controllers(self) -> tuple[str, str]:
        """Those that answer envelopes: of Kafka and of the node."""
        return self.controller, self.node_of_controllers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("forwarding")
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    login = f'{PLAIN_MODULE} required username="admin" password="{PASSWORD}" {known};'
    settings = {
        "super.users": SUPER_USERS,
        "listener.security.protocol.map": (
            "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
        ),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
    }
    grants = request_frame("create_acls", 3, {"creations": GRANTS})
    with jar_broker(settings, version="4.4.0", users=USERS) as broker, serving(folder) as addresses:
        plaintext, *of_node = addresses
        for address in (broker.bootstrap_servers, plaintext):
            created = decoded("create_acls", 3, ask(address, grants))
            assert [each.error_code for each in created.results] == [0] * len(GRANTS)
        assert broker.controllers is not None
        assert broker.sasl_servers is not None
        yield Servers(broker.controllers, broker.sasl_servers, *of_node)


@contextmanager
def serving(folder: Path) -> Iterator[list[str]]:
    """A node with the users: the addresses of its listeners."""
    for user in USERS:
        credential = ScramCredential.create(user, "SCRAM-SHA-512", PASSWORD)
        CREDENTIALS_FILE.put(folder / "credentials", credential)
    config = load_config(
        environ={},
        flags={
            "aclog.log.url": str(folder / "log"),
            "aclog.log.mode": "create",
            "aclog.kafka.version": "4.4",
            "aclog.admin.listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "listener.security.protocol.map": (
                "CONTROLLER:SASL_PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"
            ),
            "controller.listener.names": "CONTROLLER",
            "aclog.admin.credentials.file": str(folder / "credentials"),
            "sasl.enabled.mechanisms": "PLAIN",
            "super.users": SUPER_USERS,
        },
    )
    with AdminServer(config) as server, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        server.start(node)
        yield server.addresses


# --- forwarded requests -----------------------------------------------------------------------------------


def principal(name: str, kind: str = "User") -> bytes:
    """As DefaultKafkaPrincipalBuilder serializes it."""
    out = io.BytesIO(b"\0\0")
    out.seek(2)
    data = DefaultPrincipalData(type_=kind, name=name, token_authenticated=False)
    entity_writer(DefaultPrincipalData)(out, data)
    return out.getvalue()


def envelope(data: bytes, of: bytes | None, address: bytes = LOCAL) -> bytes:
    values = {"request_data": data, "request_principal": of, "client_host_address": address}
    return request_frame("envelope", 0, values)


def creation(version: int = 3, **changes: Any) -> bytes:
    return request_frame("create_acls", version, {"creations": [{**ACL, **changes}, ACL]})


def removal(version: int = 3, **changes: Any) -> bytes:
    wanted = {**EVERY, "resource_name_filter": "nothing has this name", **changes}
    return request_frame("delete_acls", version, {"filters": [wanted, wanted]})


ADMIN: Final = principal("admin")
CREATION: Final = creation()
ENVELOPES: Final = {
    **{f"creation {version}": envelope(creation(version), ADMIN) for version in (1, 2, 3)},
    **{f"removal {version}": envelope(removal(version), ADMIN) for version in (1, 2, 3)},
    "IPv6": envelope(CREATION, ADMIN, bytes(15) + b"\x01"),
    "right of the address": envelope(CREATION, principal("bob"), bytes((10, 0, 0, 9))),
    "right of the address in IPv6": envelope(
        CREATION, principal("bob"), bytes(10) + b"\xff\xff" + bytes((10, 0, 0, 9))
    ),
    "right of another type": envelope(CREATION, principal("bob", "Group")),
    "no principal": envelope(CREATION, None),
    "empty principal": envelope(CREATION, b""),
    "principal of another version": envelope(CREATION, b"\0\1" + ADMIN[2:]),
    "principal of version -1": envelope(CREATION, b"\xff\xff" + ADMIN[2:]),
    **{f"principal cut at {at}": envelope(CREATION, ADMIN[:at]) for at in range(1, len(ADMIN))},
    "principal with more bytes": envelope(CREATION, ADMIN + b"more"),
    "no address": envelope(CREATION, ADMIN, b""),
    "address of 5 bytes": envelope(CREATION, ADMIN, LOCAL + b"\0"),
    "no principal, no address": envelope(b"", b"", b""),
    "no address, no request": envelope(b"", ADMIN, b""),
    "no request": envelope(b"", ADMIN),
    "request with more bytes": envelope(CREATION + b"more", ADMIN),
    **{f"request cut at {at}": envelope(CREATION[:at], ADMIN) for at in range(1, len(CREATION))},
    "nested": envelope(envelope(CREATION, ADMIN), ADMIN),
    "another request": envelope(request_frame("metadata", 9, METADATA), ADMIN),
    "another request, cut in its header": envelope(request_frame("metadata", 9, METADATA)[:9], ADMIN),
    "a listing": envelope(request_frame("describe_acls", 3, EVERY), ADMIN),
    "unknown request": envelope(b"\x7f\0" + CREATION[2:], ADMIN),
    "unknown version": envelope(CREATION[:2] + b"\0\x63" + CREATION[4:], ADMIN),
    "version 0": envelope(CREATION[:2] + b"\0\0" + CREATION[4:], ADMIN),
    **{f"any {field}": envelope(creation(**{field: 1}), ADMIN) for field in ("operation", "resource_type")},
    "code 0": envelope(creation(operation=0), ADMIN),
    "code 0 of a removal": envelope(removal(operation=0), ADMIN),
    "code 99": envelope(creation(operation=99), ADMIN),
    "invalid ACL": envelope(creation(principal="no colon"), ADMIN),
}  # fmt: skip


#: The embedded request, and an envelope whose principal or address has no right.
DENIED: Final = {
    "creation": ("create_acls", envelope(CREATION, principal("mallory"))),
    "removal": ("delete_acls", envelope(removal(), principal("mallory"))),
    "another address": ("create_acls", envelope(CREATION, principal("bob"), bytes((10, 0, 0, 8)))),
    "another type": ("create_acls", envelope(CREATION, principal("admin", "Group"))),
    "no type": ("create_acls", envelope(CREATION, principal("admin", ""))),
    "no name": ("create_acls", envelope(CREATION, principal(""))),
}


def sent_by(user: str, address: str, frame: bytes) -> Any:
    return decoded("envelope", 0, ask(address, frame, user=user))


@pytest.mark.parametrize("sent", ENVELOPES)
def test_an_envelope_is_answered_as_by_a_controller(servers: Servers, sent: str) -> None:
    frame = ENVELOPES[sent]
    answers = [ask(each, frame, user="alice") for each in servers.controllers]
    assert answers[0] == answers[1]
    assert answers[0] is not None


@pytest.mark.parametrize("sent", DENIED)
def test_the_forwarded_principal_and_address_decide(servers: Servers, sent: str) -> None:
    name, frame = DENIED[sent]
    for address in servers.controllers:
        response = decoded(name, 3, sent_by("alice", address, frame).response_data)
        items = response.results if name == "create_acls" else response.filter_results
        refused = (ErrorCode.cluster_authorization_failed, "Request needs ALTER permission.")
        assert {(each.error_code, without_request(each.error_message)) for each in items} == {refused}


@pytest.mark.parametrize("sent", ["creation 3", "no principal", "no request"])
def test_only_cluster_action_forwards(servers: Servers, sent: str) -> None:
    for address in servers.controllers:
        response = sent_by("mallory", address, ENVELOPES[sent])
        assert (response.error_code, response.response_data) == (31, None)


@pytest.mark.parametrize("key", range(-1, 100))
def test_each_request_is_forwarded_or_refused_alike(servers: Servers, key: int) -> None:
    """Without a body: what Kafka forwards cannot be read, and the others are an invalid request."""
    header = key.to_bytes(2, "big", signed=True) + bytes(6) + b"\0\1a\0"
    frame = envelope(header, ADMIN)
    responses = [sent_by("alice", each, frame) for each in servers.controllers]
    assert responses[0] == responses[1]
    assert responses[0].error_code in (35, 42)


def test_what_only_brokers_change_is_an_unsupported_version(servers: Servers) -> None:
    """A controller would create topics; aclog does not, and the broker reports that to its client."""
    values = {"topics": [], "timeout": dt.timedelta(0), "validate_only": True}
    frame = envelope(request_frame("create_topics", 7, values), ADMIN)
    kafka, node = (sent_by("alice", each, frame) for each in servers.controllers)
    assert (kafka.error_code, node.error_code) == (0, 35)


def test_only_the_listeners_of_controllers_have_envelopes(servers: Servers) -> None:
    for address in (servers.broker, servers.node):
        assert ask(address, ENVELOPES["creation 3"], user="admin") is None
    versions = request_frame("api_versions", 3, SOFTWARE)
    for address, is_served in zip(servers, (True, False, True, False), strict=True):
        served = [each.api_key for each in decoded("api_versions", 3, ask(address, versions)).api_keys]
        assert (58 in served) == is_served


def test_a_forwarded_change_is_logged_with_both(servers: Servers) -> None:
    frame = envelope(creation(principal="User:logged"), principal("bob"), bytes((10, 0, 0, 9)))
    with capture_logs() as logged:
        assert sent_by("alice", servers.node_of_controllers, frame).error_code == 0
    (changed,) = [each for each in logged if each["event"] == "acls_changed"]
    assert {
        name: changed[name] for name in ("caller", "caller_host", "forwarded_by", "forwarded_from", "request")
    } == {
        "caller": "User:bob",
        "caller_host": "10.0.0.9",
        "forwarded_by": "User:alice",
        "forwarded_from": "127.0.0.1",
        "request": "CreateAcls",
    }


def test_each_decision_has_an_audit_line(servers: Servers, caplog: pytest.LogCaptureFixture) -> None:
    """The forwarder's about the envelope, the client's about the embedded request, as of a controller."""
    sent_by("mallory", servers.node_of_controllers, ENVELOPES["creation 3"])
    sent_by("alice", servers.node_of_controllers, DENIED["another address"][1])
    line = (
        "Principal = {} is Denied operation = {} from host = {} on resource = Cluster:LITERAL:kafka-cluster "
        "for request = {} with resourceRefCount = 1 based on rule DefaultDeny"
    )
    expected = {
        line.format("User:mallory", "CLUSTER_ACTION", "127.0.0.1", "Envelope"),
        line.format("User:bob", "ALTER", "10.0.0.8", "CreateAcls"),
    }
    wait_until(lambda: expected <= {record.getMessage() for record in caplog.records}, "the audit lines")


# --- logins -----------------------------------------------------------------------------------------------


def with_version(frame: bytes, version: int) -> bytes:
    return frame[:2] + version.to_bytes(2, "big", signed=True) + frame[4:]


VERSIONS: Final = request_frame("api_versions", 4, SOFTWARE)
INVALID_SOFTWARE: Final = request_frame("api_versions", 4, {**SOFTWARE, "client_software_name": "-x-"})
OTHER_CLUSTER: Final = request_frame("api_versions", 5, {**SOFTWARE, "cluster_id": "x", "node_id": 99})
HALF: Final = request_frame("api_versions", 5, {**SOFTWARE, "cluster_id": "x", "node_id": -1})
HANDSHAKE: Final = request_frame("sasl_handshake", 1, {"mechanism": "PLAIN"})
RAW_HANDSHAKE: Final = request_frame("sasl_handshake", 0, {"mechanism": "PLAIN"})
LOGIN: Final = request_frame("sasl_authenticate", 2, {"auth_bytes": f"\0alice\0{PASSWORD}".encode()})
TOPICS: Final = request_frame("metadata", 9, METADATA)
AUTHORIZED: Final = {
    "include_cluster_authorized_operations": True,
    "include_topic_authorized_operations": True,
    "include_authorized_operations": True,
}
#: One of each request that a node answers.
REQUESTS: Final[dict[str, tuple[str, int, dict[str, Any]]]] = {
    **{f"metadata {v}": ("metadata", v, {**AUTHORIZED, "topics": [{"name": "t", "topic_id": None}],
                                         "allow_auto_topic_creation": False}) for v in range(14)},
    "metadata of all": ("metadata", 12, {**METADATA, "topics": None}),
    **{f"describe_cluster {v}": ("describe_cluster", v, {**AUTHORIZED, "endpoint_type": 1,
                                                         "include_fenced_brokers": False}) for v in range(3)},
    **{f"describe_acls {v}": ("describe_acls", v, EVERY) for v in (1, 2, 3)},
    **{f"create_acls {v}": ("create_acls", v, {"creations": [ACL, ACL]}) for v in (1, 2, 3)},
    **{f"delete_acls {v}": ("delete_acls", v, {"filters": [EVERY, EVERY]}) for v in (1, 2, 3)},
    **{f"describe_groups {v}": ("describe_groups", v, {**AUTHORIZED, "groups": ["g", "h"]})
       for v in range(7)},
    **{f"consumer_group_describe {v}": ("consumer_group_describe", v, {**AUTHORIZED, "group_ids": ["g", "h"]})
       for v in range(2)},
    **{f"find_coordinator {v}": ("find_coordinator", v, {"key": "g", "coordinator_keys": ["g", "h"],
                                                         "key_type": 0}) for v in range(7)},
    **{f"describe_configs {v}": ("describe_configs", v, {
        "resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}],
        "include_synonyms": False, "include_documentation": False}) for v in range(1, 5)},
    **{f"list_transactions {v}": ("list_transactions", v, {
        "state_filters": [], "producer_id_filters": [], "duration_filter": -1,
        "transactional_id_pattern": None,
       }) for v in range(3)},
    "describe_user_scram_credentials": ("describe_user_scram_credentials", 0, {"users": [{"name": "a"}]}),
    **{f"api_versions {v}": ("api_versions", v, {**SOFTWARE, "cluster_id": None, "node_id": -1})
       for v in range(6)},
    **{f"sasl_handshake {v}": ("sasl_handshake", v, {"mechanism": "PLAIN"}) for v in range(2)},
}  # fmt: skip
LOGINS: Final = {
    "a request first": [TOPICS],
    "a request after ApiVersions": [VERSIONS, TOPICS],
    "ApiVersions twice": [VERSIONS, VERSIONS],
    "a token first": [LOGIN],
    "a token after ApiVersions": [VERSIONS, LOGIN],
    "an unknown version of ApiVersions": [with_version(VERSIONS, 6), VERSIONS, HANDSHAKE, LOGIN],
    "a negative version of ApiVersions": [with_version(VERSIONS, -1), VERSIONS, HANDSHAKE, LOGIN],
    "an invalid name of the software": [INVALID_SOFTWARE, VERSIONS, HANDSHAKE, LOGIN],
    "another cluster is compared after the login": [OTHER_CLUSTER, HANDSHAKE, LOGIN, OTHER_CLUSTER, VERSIONS],
    "a cluster without a node": [HALF, VERSIONS, HANDSHAKE, LOGIN, HALF, VERSIONS],
    "an unknown version of SaslHandshake": [with_version(HANDSHAKE, 2)],
    "an unknown version of a request": [with_version(TOPICS, 99)],
    "an unknown version of SaslAuthenticate": [HANDSHAKE, with_version(LOGIN, 99)],
    "an unknown version of a request after the handshake": [HANDSHAKE, with_version(TOPICS, 99)],
    "an unknown request": [b"\x7f\0" + TOPICS[2:]],
    "an unknown request after the handshake": [HANDSHAKE, b"\x7f\0" + TOPICS[2:]],
    "a header that is cut": [VERSIONS[:2]],
    "ApiVersions that is cut": [VERSIONS[:-3]],
    "SaslHandshake that is cut": [HANDSHAKE[:-3]],
    "SaslAuthenticate that is cut": [HANDSHAKE, LOGIN[:-3]],
    "a request that is cut after the handshake": [HANDSHAKE, TOPICS[:-3]],
    "another mechanism": [request_frame("sasl_handshake", 1, {"mechanism": "NONE"})],
    "a request in place of a raw token": [RAW_HANDSHAKE, TOPICS],
    "a raw token": [RAW_HANDSHAKE, f"\0alice\0{PASSWORD}".encode(), VERSIONS],
    "a wrong raw token": [RAW_HANDSHAKE, b"\0alice\0wrong"],
    "after the login": [HANDSHAKE, LOGIN, LOGIN, HANDSHAKE, INVALID_SOFTWARE, with_version(VERSIONS, 6),
                        VERSIONS],
    **{f"{name} after the handshake": [HANDSHAKE, request_frame(*of)] for name, of in REQUESTS.items()},
}  # fmt: skip


def exchanged(address: str, frames: Sequence[bytes]) -> list[bytes | None]:
    """The answers on one connection, then whether it was closed: None. Lists of versions are left out."""
    sent = [*frames, LOGIN]
    return [
        b"versions" if answer is not None and frame[:2] == VERSIONS[:2] and answer[4:6] == b"\0\0" else answer
        for frame, answer in zip(sent, ask_all(address, sent), strict=False)
    ]


@pytest.mark.parametrize("sent", LOGINS)
def test_a_login_is_answered_as_by_a_broker(servers: Servers, sent: str) -> None:
    assert exchanged(servers.node, LOGINS[sent]) == exchanged(servers.broker, LOGINS[sent])


@pytest.mark.parametrize("frames", [[ENVELOPES["creation 3"]], [HANDSHAKE, ENVELOPES["creation 3"]]])
def test_an_envelope_before_the_login_is_answered_as_by_a_controller(
    servers: Servers, frames: list[bytes]
) -> None:
    kafka, node = (exchanged(each, frames) for each in servers.controllers)
    assert node == kafka
