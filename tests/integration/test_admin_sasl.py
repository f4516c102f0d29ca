"""SASL on the server of Kafka's protocol, with librdkafka's AdminClient."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from structlog.testing import capture_logs

from authorizer.admin_server.sasl.session import SaslSession
from authorizer.admin_server.server import AdminServer
from authorizer.api.errors import ConfigError
from authorizer.authentication.scram import CREDENTIALS_FILE, ScramCredential
from authorizer.configuration.load import load_config
from authorizer.listeners import log_throttle
from authorizer.node.node import Node
from support.certificates import Authority
from support.client_programs import run_client
from support.cluster_acls import ANY
from support.issuer import AUDIENCE, ISSUER, key_set
from support.issuer import token as issued
from support.kafka_tools import run_java
from support.login import Login
from support.nodes import SOON_S

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sasl")
    for user in ("alice", "bob"):
        for mechanism in MECHANISMS[1:]:
            credential = ScramCredential.create(user, mechanism, "secret")
            CREDENTIALS_FILE.put(folder / "credentials", credential)
    (folder / "keys.json").write_bytes(key_set("one"))
    return {
        "aclog.admin.credentials.file": str(folder / "credentials"),
        "aclog.auth.oidc.jwks": str(folder / "keys.json"),
        "aclog.auth.oidc.issuer": ISSUER,
        "aclog.auth.oidc.audience": AUDIENCE,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    }


@contextmanager
def serving(directory: Path, settings: dict[str, str], **more: str) -> Iterator[str]:
    """The address of a server, on which alice is a super user."""
    with serving_node(directory, settings, **more) as (address, _):
        yield address


@contextmanager
def serving_node(directory: Path, settings: dict[str, str], **more: str) -> Iterator[tuple[str, Node]]:
    """The same, and the node."""
    config = load_config(
        environ={},
        flags={
            "aclog.admin.listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "aclog.log.url": str(directory),
            "aclog.log.mode": "create",
            "super.users": "User:alice",
            **settings,
            **{name.replace("_", "."): text for name, text in more.items()},
        },
    )
    with AdminServer(config) as server, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        server.start(node)
        yield server.addresses[0], node


@pytest.fixture(scope="module")
def address(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("log") / "log", files) as served:
        yield served


def client_of(address: str, errors: list[KafkaError] | None = None, **settings: Any) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "error_cb": ([] if errors is None else errors).append,  # type: ignore[dict-item]
            "log_level": 0,
            **{
                name.replace("_", ".") if name != "oauth_cb" else name: text
                for name, text in settings.items()
            },
        }
    )


def password_client(
    address: str, mechanism: str, password: str = "secret", user: str = "alice", **settings: Any
) -> AdminClient:
    login = {"sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password}
    return client_of(address, **{**login, **settings})


def acls_of(client: AdminClient, timeout_s: float = 30) -> list[object]:
    found: list[object] = client.describe_acls(ANY, request_timeout=timeout_s).result(SOON_S)
    return found


def add_acl(client: AdminClient) -> None:
    """What only a super user may do."""
    binding = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:carol",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (future,) = client.create_acls([binding]).values()
    future.result(SOON_S)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_password_makes_the_user_the_principal(address: str, mechanism: str) -> None:
    add_acl(password_client(address, mechanism))
    with pytest.raises(KafkaException) as error:
        add_acl(password_client(address, mechanism, user="bob"))
    assert error.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(address: str, mechanism: str) -> None:
    for user, password in (("alice", "wrong"), ("mallory", "secret")):
        errors: list[KafkaError] = []
        client = password_client(address, mechanism, password, user, errors=errors)
        with pytest.raises(KafkaException):
            acls_of(client, timeout_s=3)
        client.poll(0)
        expected = (
            "Authentication failed: Invalid username or password"
            if mechanism == "PLAIN"
            else "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            + mechanism
        )
        assert any(expected in error.str() for error in errors), errors


def test_an_issuers_token_makes_its_subject_the_principal(address: str) -> None:
    def token_for(subject: str, **claims: Any) -> Any:
        expires_s = int(time.time()) + 600
        return lambda _config: (issued(sub=subject, exp=expires_s, **claims), expires_s)

    client = client_of(address, sasl_mechanisms="OAUTHBEARER", oauth_cb=token_for("alice"))
    add_acl(client)
    other = client_of(address, sasl_mechanisms="OAUTHBEARER", oauth_cb=token_for("bob"))
    with pytest.raises(KafkaException) as error:
        add_acl(other)
    assert error.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    errors: list[KafkaError] = []
    wrong = client_of(
        address, errors, sasl_mechanisms="OAUTHBEARER", oauth_cb=token_for("alice", aud="another")
    )
    with pytest.raises(KafkaException):
        acls_of(wrong, timeout_s=3)
    wrong.poll(0)
    assert any("invalid_token" in each.str() for each in errors), errors


def test_a_client_authenticates_again_before_its_session_ends(files: dict[str, str], tmp_path: Path) -> None:
    reauthenticated: list[int] = []
    before = SaslSession.handshake

    def counted(session: SaslSession, version: int, mechanism: str) -> Any:
        if session.principal is not None:
            reauthenticated.append(version)
        return before(session, version, mechanism)

    with pytest.MonkeyPatch.context() as patched, capture_logs() as logs:
        patched.setattr(SaslSession, "handshake", counted)
        with serving(tmp_path / "log", files, connections_max_reauth_ms="3000") as address:
            client = password_client(address, "SCRAM-SHA-256")
            until_s = time.monotonic() + 7
            while time.monotonic() < until_s:
                assert acls_of(client) == []
                time.sleep(0.2)
    assert reauthenticated
    assert not [each for each in logs if "expired" in str(each.get("reason"))]


def test_a_user_who_is_removed_from_the_file_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    credential = ScramCredential.create("alice", "SCRAM-SHA-256", "secret")
    CREDENTIALS_FILE.put(file, credential)
    with serving(tmp_path / "log", {**files, "aclog.admin.credentials.file": str(file)}) as address:
        assert sasl_login(address, b"\0alice\0secret") == 0
        CREDENTIALS_FILE.remove(file, credential.id)
        until_s = time.monotonic() + SOON_S
        while sasl_login(address, b"\0alice\0secret") == 0 and time.monotonic() < until_s:
            time.sleep(0.1)
        assert sasl_login(address, b"\0alice\0secret") == KafkaError.SASL_AUTHENTICATION_FAILED


def sasl_login(address: str, token: bytes) -> int:
    """The error code of a login by PLAIN."""
    with connected(address) as connection:
        assert ask(connection, 17, 1, string("PLAIN"))[:2] == b"\0\0"
        answer = ask(connection, 36, 0, struct.pack(">i", len(token)) + token)
        return int.from_bytes(answer[:2], "big")


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SOON_S) as connection:
        yield connection


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def send(connection: socket.socket, data: bytes) -> bytes | None:
    """The answer to a frame; None if the connection was closed instead."""
    connection.sendall(struct.pack(">i", len(data)) + data)
    size = connection.recv(4, socket.MSG_WAITALL)
    if len(size) < 4:
        return None
    return connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)


def ask(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    answer = send(connection, struct.pack(">hhi", key, version, 7) + string("test") + body)
    assert answer is not None, "the connection was closed"
    assert answer[:4] == struct.pack(">i", 7)
    return answer[4:]


def test_nothing_but_the_handshake_is_answered_before_a_login(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_throttle, "LOG_INTERVAL_S", 0.0)
    for key in (3, 29, 36):
        with connected(address) as connection, capture_logs() as logs:
            request = struct.pack(">hhi", key, 1, 7) + string("test") + bytes(40)
            assert send(connection, request) is None
        assert "during SASL handshake" in logs[-1]["reason"]
    with connected(address) as connection, capture_logs() as logs:
        assert ask(connection, 17, 1, string("GSSAPI"))[:2] == struct.pack(">h", 33)
        assert connection.recv(1) == b""
    assert logs[-1]["reason"] == "the client failed to authenticate"


def test_an_old_handshake_is_followed_by_raw_tokens(address: str) -> None:
    with connected(address) as connection:
        assert ask(connection, 17, 0, string("PLAIN"))[:2] == b"\0\0"
        assert send(connection, b"\0alice\0secret") == b""
        assert ask(connection, 18, 0, b"")[:2] == b"\0\0"
    with connected(address) as connection:
        ask(connection, 17, 0, string("PLAIN"))
        assert send(connection, b"\0alice\0wrong") is None


def test_a_session_that_has_ended_closes_at_the_next_request(files: dict[str, str], tmp_path: Path) -> None:
    with (
        serving(tmp_path / "log", files, connections_max_reauth_ms="300") as address,
        connected(address) as connection,
    ):
        ask(connection, 17, 1, string("PLAIN"))
        token = b"\0alice\0secret"
        answer = ask(connection, 36, 1, struct.pack(">i", len(token)) + token)
        assert answer[-8:] == struct.pack(">q", 300)
        time.sleep(0.5)
        assert send(connection, struct.pack(">hhi", 18, 0, 7) + string("test")) is None


def test_a_listener_whose_logins_nothing_verifies_is_refused() -> None:
    flags = {"aclog.admin.listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with pytest.raises(ConfigError, match=r"aclog\.admin\.credentials\.file"):
        AdminServer(load_config(environ={}, flags=flags))


@pytest.mark.integration
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_acls_logs_in_with_a_password(address: str, mechanism: str, tmp_path: Path) -> None:
    """The real command of Kafka's newest release."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"

    def list_acls(password: str) -> subprocess.CompletedProcess[str]:
        properties = tmp_path / "client.properties"
        properties.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
            f'username="alice" password="{password}";\n'
        )
        server = ("--bootstrap-server", address, "--command-config", properties)
        return run_java("org.apache.kafka.tools.AclCommand", *server, "--list", check=False)

    listed = list_acls("secret")
    assert (listed.returncode, listed.stderr) == (0, "")
    refused = list_acls("wrong")
    assert refused.returncode == 1
    expected = (
        "Invalid username or password" if mechanism == "PLAIN" else "due to invalid credentials with SASL"
    )
    assert expected in refused.stdout + refused.stderr


def test_over_tls_the_principal_is_that_of_the_login_and_not_the_certificates(
    files: dict[str, str], tmp_path: Path
) -> None:
    authority = Authority()
    settings = {
        **files,
        "aclog.admin.listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.issue("CN=localhost").write(tmp_path / "server.pem")),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "authorities.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=nobody$/nobody/",
    }
    (tmp_path / "authorities.pem").write_text(authority.pem)
    certificate = authority.issue("CN=proxy").write(tmp_path / "client.pem")
    with serving(tmp_path / "log", settings) as address:
        client = password_client(
            address,
            "SCRAM-SHA-512",
            **{
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(tmp_path / "authorities.pem"),
                "ssl.certificate.location": str(certificate),
                "ssl.key.location": str(certificate),
                "ssl.endpoint.identification.algorithm": "none",
            },
        )
        add_acl(client)
        stopping_s = time.monotonic()
    # The client is still connected, and idle.
    assert time.monotonic() - stopping_s < 3


@pytest.mark.integration
@pytest.mark.parametrize("client", ["kadm", "sarama"])
def test_admin_clients_log_in_over_tls(files: dict[str, str], tmp_path: Path, client: str) -> None:
    """Beside a real broker, and by every mechanism: test_admin_logins_against_kafka."""
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    settings = {
        **files,
        "aclog.admin.listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": str(authority.issue("CN=localhost").write(tmp_path / "server.pem")),
        "ssl.keystore.type": "PEM",
    }
    login = Login(
        authority=str(tmp_path / "ca.pem"), mechanism="SCRAM-SHA-512", user="alice", password="secret"
    )
    acl = {"resource_type": 2, "resource_name": "orders", "pattern_type": 3, "operation": 3}
    acl |= {"principal": "User:bob", "host": "*", "permission_type": 3}
    requests = [{"do": "create", "acl": acl}, {"do": "describe", "acl": acl}]
    with serving(tmp_path / "log", settings) as address:
        created, described = run_client(client, address, requests, login)
        assert (created["error"], described["acls"]) == ("", [acl])
        (refused,) = run_client(client, address, requests[1:], replace(login, password="wrong"))
        assert "invalid credentials" in refused["error"]


def test_logins_are_counted_by_listener_and_outcome(files: dict[str, str], tmp_path: Path) -> None:
    """Under Kafka's names; a client that logs in again on its connection is apart."""
    settings = {"connections.max.reauth.ms": "10000"}
    with serving_node(tmp_path / "log", {**files, **settings}) as (address, node):

        def count(name: str) -> float | None:
            labels = {"listener": "SASL_PLAINTEXT"}
            return node.metrics.get_sample_value(f"aclog_admin_{name}_total", labels)

        assert count("successful_authentication") == count("failed_authentication") == 0
        with connected(address) as connection:
            log_in(connection, "secret")
            assert count("successful_authentication") == 1
            log_in(connection, "secret")
            assert (count("successful_authentication"), count("successful_reauthentication")) == (1, 1)
            time.sleep(1.1)  # a re-authentication is accepted once a second
            log_in(connection, "wrong")
            assert (count("failed_authentication"), count("failed_reauthentication")) == (0, 1)
        with connected(address) as connection:
            log_in(connection, "wrong")
            assert count("failed_authentication") == 1
        with connected(address) as connection:
            assert ask(connection, 17, 1, string("GSSAPI"))[:2] == struct.pack(">h", 33)
            assert count("failed_authentication") == 2


def log_in(connection: socket.socket, password: str) -> None:
    assert ask(connection, 17, 1, string("PLAIN"))[:2] == struct.pack(">h", 0)
    token = f"\0alice\0{password}".encode()
    error = 0 if password == "secret" else 58
    assert ask(connection, 36, 1, struct.pack(">i", len(token)) + token)[:2] == struct.pack(">h", error)
