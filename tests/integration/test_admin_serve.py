"""`aclog serve` with listeners of Kafka's protocol: flags, workers, TLS, readiness, wrong values."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.errors import ErrorCode

from authorizer.admin_server.server import AdminServer
from authorizer.api.errors import ConfigError
from authorizer.cli.main import cli
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from records.log.directory import DirectoryLog
from support.admin_requests import ask, decoded, request_frame
from support.admin_sockets import answers_api_versions
from support.certificates import Authority
from support.cluster_acls import ANY
from support.connections import connected_ports
from support.nodes import SOON_S, config_of
from support.serving_process import admin_address, serving_process
from support.serving_workers import holders, serving_workers
from support.waiting import wait_until

CREATION = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


def acl(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )


def client_of(address: str, **more: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0, **more})


def topics(client: AdminClient) -> set[str]:
    """The topics that have ACLs."""
    return {each.name for each in client.describe_acls(ANY, request_timeout=SOON_S).result()}


def create(client: AdminClient, topic: str, timeout_s: float = SOON_S) -> None:
    for future in client.create_acls([acl(topic)], request_timeout=timeout_s).values():
        future.result()


@pytest.fixture
def new_log(tmp_path: Path) -> Path:
    """An empty log that aclog made."""
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    return tmp_path / "log"


def test_flag_of_serve(tmp_path: Path) -> None:
    flags = ("--admin-listener", "ONE://127.0.0.1:0", "--admin-listener", "PLAINTEXT://127.0.0.1:0")
    with serving_process(
        tmp_path,
        *flags,
        ACLOG_SUPER_USERS="User:ANONYMOUS",
        ACLOG_LISTENER_SECURITY_PROTOCOL_MAP="ONE:PLAINTEXT",
    ):
        create(client_of(admin_address(tmp_path / "stderr")), "orders")
        addresses = re.search(r'"addresses": \[([^]]*)\]', (tmp_path / "stderr").read_text("utf-8"))
        assert addresses is not None
        _, second = addresses[1].replace('"', "").split(", ")
        assert topics(client_of(second)) == {"orders"}


def test_few_open_files_are_logged_once(tmp_path: Path) -> None:
    """Not by each of the two servers."""
    flag = ("--admin-listener", "PLAINTEXT://127.0.0.1:0")
    with serving_process(tmp_path, *flag, open_files=900):
        admin_address(tmp_path / "stderr")
        text = (tmp_path / "stderr").read_text("utf-8")
    assert text.count('"few_open_files"') == 1


def test_workers_share_the_listener_and_one_writes(tmp_path: Path, new_log: Path) -> None:
    """Each worker sees its own write when it answers; a killed worker serves again."""
    settings = {"aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0", "super.users": "User:ANONYMOUS"}
    with serving_workers(tmp_path, new_log, settings) as serving:
        serving.wait_until_ready()
        pids = serving.pids()
        host, port = admin_address(serving.stderr_file).split(":")
        for number, client in clients_of_workers(host, int(port), pids).items():
            create(client, f"from-{number}")
            assert f"from-{number}" in topics(client)
        os.kill(pids[1], signal.SIGKILL)
        wait_until(lambda: serving.pids()[1] != pids[1])
        for client in clients_of_workers(host, int(port), serving.pids()).values():
            assert topics(client) == {"from-0", "from-1"}


def clients_of_workers(host: str, port: int, pids: dict[int, int]) -> dict[int, AdminClient]:
    """A client with a connection to each worker, by number."""
    of_pid = {pid: number for number, pid in pids.items()}
    found: dict[int, AdminClient] = {}

    def find() -> bool:
        before = connected_ports("self", port)
        client = client_of(f"{host}:{port}")
        client.list_topics(timeout=SOON_S)

        def workers() -> set[int]:
            """Of the open connections, when all are accepted; the client closes its first one meanwhile."""
            holding = [list(holders(each, of_pid)) for each in connected_ports("self", port) - before]
            return {of_pid[pid] for pids in holding for pid in pids} if all(holding) else set()

        numbers = wait_until(workers, "the workers of the client's connections")
        if len(numbers) == 1:
            found.setdefault(numbers.pop(), client)
        return len(found) == len(pids)

    wait_until(find)
    return found


def test_listener_accepts_when_the_node_is_ready(new_log: Path) -> None:
    """As on a broker: connections are refused before, on early-start listeners as well."""
    texts = {
        "aclog.log.url": str(new_log),
        "aclog.admin.listeners": "LATE://127.0.0.1:0,EARLY://127.0.0.1:0",
        "listener.security.protocol.map": "LATE:PLAINTEXT,EARLY:PLAINTEXT",
        "early.start.listeners": "EARLY",
    }
    config = load_config(environ={}, flags=texts)
    with Node.open(config) as node, AdminServer(config) as server:
        server.start(node)
        listeners = [(host, int(port)) for host, port in (each.split(":") for each in server.addresses)]
        assert [is_open(*each) for each in listeners] == [False, False]
        node.start()
        wait_until(lambda: all(is_open(*each) for each in listeners))
        assert answers_api_versions(server)


@pytest.mark.parametrize("is_super_user", [True, False])
def test_an_envelope_before_the_node_is_ready(new_log: Path, is_super_user: bool) -> None:
    """A super user may forward; without it nothing is known of the embedded request's principal."""
    texts = {
        "aclog.log.url": str(new_log),
        "aclog.admin.listeners": "CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "super.users": "User:ANONYMOUS" if is_super_user else "User:admin",
    }
    config = load_config(environ={}, flags=texts)
    values = {
        "request_data": request_frame("create_acls", 3, {"creations": [CREATION]}),
        "request_principal": bytes.fromhex("0000 0555736572 0261 00 00"),  # User:a
        "client_host_address": bytes((10, 0, 0, 1)),
    }
    with Node.open(config) as node, AdminServer(config) as server:  # not started: nothing is loaded
        server.start(node)
        answer = ask(server.addresses[0], request_frame("envelope", 0, values))
    envelope = decoded("envelope", 0, answer)
    if not is_super_user:
        assert (envelope.error_code, envelope.response_data) == (ErrorCode.unknown_server_error, None)
        return
    assert envelope.error_code is ErrorCode.none
    (result,) = decoded("create_acls", 3, envelope.response_data).results
    assert result.error_code is ErrorCode.unknown_server_error


def is_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), SOON_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_server_closes_before_the_node_is_ready(new_log: Path) -> None:
    """The authorizer's future is not cancelled with it."""
    config = config_of(admin_listeners="PLAINTEXT://127.0.0.1:0", log_url=str(new_log))
    with Node.open(config) as node:
        with AdminServer(config) as server:
            server.start(node)
        assert not node.authorizer.initial_load.cancelled()
        node.start()
        assert node.wait_until_ready(SOON_S)


def tls_settings_in(directory: Path, authority: Authority, **settings: str) -> dict[str, str]:
    """Variables of a listener with TLS that asks for certificates."""
    ca = directory / "ca.pem"
    ca.write_text(authority.pem)
    keystore = authority.issue("CN=node").write(directory / "node.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
        **settings,
    }


def tls_client(
    address: str, directory: Path, authority: Authority, name: str | None, *uris: str
) -> AdminClient:
    more = {"security.protocol": "SSL", "ssl.ca.location": str(directory / "ca.pem")}
    if name is not None:
        of_client = str(authority.issue(name, uris=uris).write(directory / "client.pem"))
        more |= {"ssl.certificate.location": of_client, "ssl.key.location": of_client}
    return client_of(address, **more)


def test_certificates_identify_clients(tmp_path: Path, new_log: Path) -> None:
    """Rules map the subject; a client without a certificate is refused where a login is required."""
    authority = Authority()
    texts = tls_settings_in(
        tmp_path,
        authority,
        **{
            "aclog.log.url": str(new_log),
            "aclog.admin.listeners": "INSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "INSIDE:SSL",
            "listener.name.inside.aclog.ssl.spiffe.mapping.rules": r"RULE:^spiffe:\\/\\/test\\/(.*)$/$1/",
            "listener.name.inside.ssl.client.auth": "requested",
            "listener.name.inside.ssl.principal.mapping.rules": "RULE:^CN=(.*),O=Test$/$1/L",
            "aclog.auth.required.listeners": "INSIDE",
            "super.users": "User:admin",
        },
    )
    config_file = tmp_path / "node.properties"
    config_file.write_text("".join(f"{key}={value}\n" for key, value in texts.items()))
    config = load_config(config_file, environ={})
    with Node.open(config) as node, AdminServer(config) as server:
        server.start(node, node.start())
        assert node.wait_until_ready(SOON_S)
        (address,) = server.addresses
        create(tls_client(address, tmp_path, authority, "CN=ADMIN,O=Test"), "orders")
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            create(tls_client(address, tmp_path, authority, "CN=guest,O=Test"), "orders")
        create(tls_client(address, tmp_path, authority, "CN=any", "spiffe://test/admin"), "payments")
        anonymous = tls_client(address, tmp_path, authority, None)
        with pytest.raises(KafkaException, match="_TIMED_OUT"):
            create(anonymous, "payments", timeout_s=1)


def test_a_replaced_certificate_takes_effect(tmp_path: Path, new_log: Path) -> None:
    authority = Authority()
    texts = tls_settings_in(
        tmp_path, authority, **{"aclog.log.url": str(new_log), "aclog.admin.listeners": "SSL://127.0.0.1:0"}
    )
    config_file = tmp_path / "node.properties"
    config_file.write_text("".join(f"{key}={value}\n" for key, value in texts.items()))
    config = load_config(config_file, environ={})
    with Node.open(config) as node, AdminServer(config) as server:
        server.start(node, node.start())
        assert node.wait_until_ready(SOON_S)
        host, port = server.addresses[0].split(":")
        wait_until(lambda: is_open(host, int(port)))
        before = ssl.get_server_certificate((host, int(port)), timeout=SOON_S)
        authority.issue("CN=renewed").write(tmp_path / "node.pem")
        wait_until(lambda: ssl.get_server_certificate((host, int(port)), timeout=SOON_S) != before)


def test_clients_connect_to_the_advertised_address(new_log: Path) -> None:
    """As behind a port mapping: the client connects to the address, and it is the one in Metadata."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    texts = {
        "aclog.admin.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "aclog.admin.advertised.listeners": f"PLAINTEXT://localhost:{port}",
    }
    texts |= {"aclog.log.url": str(new_log), "super.users": "User:ANONYMOUS"}
    config = load_config(environ={}, flags=texts)
    with Node.open(config) as node, AdminServer(config) as server:
        server.start(node, node.start())
        assert node.wait_until_ready(SOON_S)
        client = client_of(server.addresses[0])
        (broker,) = client.list_topics(timeout=SOON_S).brokers.values()
        assert f"{broker.host}:{broker.port}" == f"localhost:{port}"
        create(client, "orders")


def test_metrics_show_certificates_of_both_servers(tmp_path: Path, new_log: Path) -> None:
    """In one family, whose alerts hold for both."""
    texts = tls_settings_in(tmp_path, Authority())
    settings = {f"listener.name.kafka.{key}": text for key, text in texts.items()}
    settings |= {
        "aclog.admin.listeners": "KAFKA://127.0.0.1:0",
        "listener.security.protocol.map": "KAFKA:SSL,PLAINTEXT:PLAINTEXT",
    }
    with serving_workers(tmp_path, new_log, settings, workers=1) as serving:
        serving.wait_until_ready()
        text = httpx.get(f"{serving.urls[0]}/metrics", timeout=SOON_S).text
    assert text.count("# TYPE aclog_tls_reload_failed gauge") == 1
    assert 'aclog_tls_reload_failed{listener="KAFKA"} 0.0' in text


def test_listeners_with_tls_have_distinct_names() -> None:
    """Settings and metrics of TLS belong to a name."""
    texts = {"aclog.listeners": "SSL://127.0.0.1:0", "aclog.admin.listeners": "SSL://127.0.0.1:0"}
    with pytest.raises(ConfigError, match="an HTTP listener has the same name: give each its own"):
        load_config(environ={}, flags=texts).served_admin_listeners()


def test_advertised_addresses_may_share_a_port() -> None:
    """As in Kafka: behind two load balancers."""
    texts = {
        "aclog.admin.listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "aclog.admin.advertised.listeners": "ONE://one.example.org:9192,TWO://two.example.org:9192",
        "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
    }
    advertised = load_config(environ={}, flags=texts).advertised_admin_listeners()
    assert [(each.host, each.port) for each in advertised.values()] == [
        ("one.example.org", 9192),
        ("two.example.org", 9192),
    ]


def test_protocols_of_a_brokers_own_file(tmp_path: Path) -> None:
    """Its map names the broker's listeners; aclog's may have a protocol's name."""
    config = tmp_path / "server.properties"
    config.write_text("process.roles=broker\nlistener.security.protocol.map=PLAINTEXT:SASL_SSL,IN:SSL\n")
    flags = {"aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0,IN://127.0.0.1:0"}
    endpoints = load_config(config, environ={}, flags=flags).served_admin_listeners()
    assert [each.security_protocol.name for each in endpoints] == ["PLAINTEXT", "SSL"]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"aclog.admin.listeners": "PLAINTEXT:9192"}, "aclog.admin.listeners.*NAME://HOST:PORT"),
        ({"aclog.admin.listeners": "OTHER://:9192"}, "OTHER; name it in listener.security.protocol.map"),
        ({"aclog.admin.listeners": "PLAINTEXT://:9192"}, "loopback.*Use SSL or SASL_SSL"),
        ({"aclog.admin.listeners": "PLAINTEXT:///tmp/a"}, "cannot connect to Unix sockets"),
        (
            {
                "aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0",
                "aclog.admin.advertised.listeners": "SSL://a:9192",
            },
            "names out of aclog.admin.listeners",
        ),
        (
            {
                "aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0",
                "aclog.auth.required.listeners": "PLAINTEXT",
            },
            "aclog.auth.required.listeners.*without logins",
        ),
        (
            {
                "aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0",
                "aclog.clusters": "eu",
                "aclog.cluster.eu.log.url": "kafka://localhost:9092/acls",
            },
            "aclog.admin.listeners.*unset with aclog.clusters.*aclog.cluster.NAME.admin.listeners",
        ),
        (
            {
                "aclog.clusters": "eu,us",
                "aclog.cluster.eu.log.url": "kafka://localhost:9092/acls",
                "aclog.cluster.us.log.url": "kafka://localhost:9092/acls",
                "aclog.cluster.eu.admin.listeners": "PLAINTEXT://127.0.0.1:9192",
                "aclog.cluster.us.admin.listeners": "PLAINTEXT://127.0.0.1:9193",
            },
            "aclog.cluster.us.admin.listeners.*a different name",
        ),
        (
            {
                "aclog.clusters": "eu,us",
                "aclog.cluster.eu.log.url": "kafka://localhost:9092/acls",
                "aclog.cluster.us.log.url": "kafka://localhost:9092/acls",
                "aclog.cluster.eu.admin.listeners": "EU://127.0.0.1:9192",
                "aclog.cluster.us.admin.listeners": "US://127.0.0.1:9192",
                "listener.security.protocol.map": "EU:PLAINTEXT,US:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            "aclog.cluster.us.admin.listeners.*a different port",
        ),
        (
            {
                "aclog.clusters": "eu",
                "aclog.cluster.eu.log.url": "kafka://localhost:9092/acls",
                "aclog.cluster.eu.admin.listeners": "PLAINTEXT://0.0.0.0:9192",
            },
            "aclog.cluster.eu.admin.listeners.*loopback",
        ),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_wrong_configuration(
    settings: dict[str, str], error: str, workers: str, tmp_path: Path, new_log: Path
) -> None:
    """It names the key and the way out, with exit code 2."""
    config = tmp_path / "node.properties"
    lines = {"aclog.listeners": "PLAINTEXT://127.0.0.1:0", **settings}
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    log = () if "aclog.clusters" in settings else ("--log", str(new_log))
    result = CliRunner().invoke(cli, ["serve", "--config", str(config), "--workers", workers, *log])
    assert result.exit_code == 2, result.output
    assert re.search(error, result.output.replace("\n", " ")), result.output


@pytest.mark.parametrize("workers", ["1", "2"])
def test_port_in_use(workers: str, new_log: Path) -> None:
    """The error has the process that listens there."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        flags = ["--port", "0", "--admin-listener", f"PLAINTEXT://{taken}", "--workers", workers]
        result = CliRunner().invoke(cli, ["serve", "--log", str(new_log), *flags])
    assert result.exit_code == 2, result.output
    assert "aclog.admin.listeners" in result.output
    assert taken in result.output
    assert f"process {os.getpid()}" in result.output
