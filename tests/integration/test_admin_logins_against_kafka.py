"""AdminClients with a login, over TLS, and with few rights, against a node beside a real broker.

The node follows the broker's controllers, so that both have the same ACLs, topics and users. It verifies
passwords by the cluster's own SCRAM credentials, as the broker does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from authorizer.admin_server.server import AdminServer
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from support import java_admin
from support.admin_requests import (
    EVERY,
    ask,
    decoded,
    replace_acls,
    request_frame,
    wait_for_group_coordinator,
)
from support.certificates import Authority
from support.client_programs import comparable, run_client
from support.issuer import AUDIENCE, ISSUER, key_set, token
from support.java_admin import changed, creation
from support.kafka_broker import jar_broker
from support.login import Login
from support.nodes import SOON_S
from support.sasl_clients import PASSWORD
from support.secure_cluster import PLAIN, SCRAM
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka"), pytest.mark.long]

LISTENERS: Final = {"OPEN": "SASL_PLAINTEXT", "SECURE": "SASL_SSL", "MUTUAL": "SSL"}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
#: What each client can describe besides ACLs.
CLIENTS: Final[Mapping[str, Sequence[str]]] = {
    "kadm": ("metadata", "cluster", "groups", "consumer groups"),
    "sarama": ("metadata", "cluster", "operations", "groups"),
    "kafka-python": ("metadata", "cluster", "groups"),
    "confluent-kafka": ("metadata", "cluster", "groups"),
}
ACL: Final = {
    "resource_type": 2,
    "resource_name": "orders",
    "pattern_type": 3,
    "principal": "User:x",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ANY: Final = {
    **dict.fromkeys(("resource_type", "pattern_type", "operation", "permission_type"), 1),
    **dict.fromkeys(("resource_name", "principal", "host")),
}
TOPICS, GROUPS = ["orders", "payments", "unknown"], ["g", "h"]
LOGINS: Final = [
    *((listener, each) for listener in ("OPEN", "SECURE") for each in MECHANISMS),
    ("MUTUAL", ""),
]
#: Releases of Java's Admin.
JAVA: Final = ("4.4.0", "3.9.2")
OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"


TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"


class Pair(NamedTuple):
    """Addresses of both by listener, the broker's for super users without a login, and a folder of files."""

    broker: Mapping[str, str]
    node: Mapping[str, str]
    plaintext: str
    followed: Node
    home: Path

    def login(self, listener: str, mechanism: str, user: str) -> Login:
        """Of this user; on the listener with mutual TLS by its certificate."""
        login = Login(authority="" if listener == "OPEN" else str(self.home / "ca.pem"))
        if listener == "MUTUAL":
            return replace(login, certificate=str(self.home / f"{user}.pem"))
        if mechanism == "OAUTHBEARER":
            return replace(login, mechanism=mechanism, token=token(sub=user, exp=int(time.time()) + 600))
        return replace(login, mechanism=mechanism, user=user, password=PASSWORD)

    def answers(
        self, client: str, requests: Sequence[Mapping[str, Any]], listener: str, login: Login
    ) -> list[list[dict[str, Any]]]:
        """The broker's and the node's."""
        found = []
        for servers in (self.broker, self.node):
            answers = comparable(run_client(client, servers[listener], requests, login))
            found.append([{**each, "error": comparable_error(each.get("error") or "")} for each in answers])
        return found

    def java_answers(
        self, version: str, logins: Sequence[tuple[str, Login]], requests: Sequence[Mapping[str, Any]]
    ) -> list[list[list[list[str]]]]:
        """The broker's and the node's, of each login, from Java's Admin."""
        found = []
        for servers in (self.broker, self.node):
            # The node may have what the broker was sent only when it has replayed it.
            wait_until(lambda: len(set(self._counts())) == 1, "the same ACLs")
            sent = [(self._java_client(servers[listener], login), requests) for listener, login in logins]
            urls = [client[TOKEN_URL] for client, _ in sent if TOKEN_URL in client]
            option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(urls)}"
            answers = java_admin.answers(version, *sent, options=[option])
            found.append([java_admin.comparable(each) for each in answers])
        return found

    def _java_client(self, servers: str, login: Login) -> dict[str, str]:
        """Properties of Java's clients, with PEM files as stores."""
        client = {
            **java_admin.TIMEOUTS,
            "bootstrap.servers": servers,
            "security.protocol": login.protocol,
            "sasl.mechanism": login.mechanism,
        }
        for store, file in (("truststore", login.authority), ("keystore", login.certificate)):
            if file:
                client |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": file}
        if login.mechanism == "OAUTHBEARER":
            with NamedTemporaryFile("w", dir=self.home, suffix=".jwt", delete=False) as saved:
                saved.write(login.token)
            client |= {
                "sasl.jaas.config": f"{OAUTH}LoginModule required;",
                "sasl.login.callback.handler.class": f"{OAUTH}LoginCallbackHandler",
                TOKEN_URL: Path(saved.name).as_uri(),
            }
        elif login.mechanism:
            module = PLAIN if login.mechanism == "PLAIN" else SCRAM
            client["sasl.jaas.config"] = (
                f'{module} required username="{login.user}" password="{login.password}";'
            )
        return client

    def set_acls(self, acls: Sequence[Mapping[str, Any]]) -> None:
        """Replace all, and wait until both have them."""
        ask(self.plaintext, request_frame("delete_acls", 3, {"filters": [EVERY]}))
        wait_until(lambda: self._counts() == (0, 0), "no ACLs")
        if acls:
            creations = [{**each, "resource_pattern_type": each["pattern_type"]} for each in acls]
            ask(self.plaintext, request_frame("create_acls", 3, {"creations": creations}))
            wait_until(lambda: self._counts() == (len(acls), len(acls)), "the ACLs")

    def _counts(self) -> tuple[int, int]:
        answer = decoded("describe_acls", 3, ask(self.plaintext, request_frame("describe_acls", 3, EVERY)))
        return sum(len(each.acls) for each in answer.resources), self.followed.authorizer.acl_count()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("logins")
    authority = Authority()
    (home / "ca.pem").write_text(authority.pem)
    for name in ("server", "admin", "few"):
        authority.issue(f"CN={name}").write(home / f"{name}.pem")
    keys = home / "keys.json"
    keys.write_bytes(key_set("one"))
    shared = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "super.users": "User:ANONYMOUS;User:admin;User:CN=admin",
    }
    option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
    settings = shared | _logins_of_a_broker(keys)
    with jar_broker(settings, version="4.4.0", listeners=LISTENERS, options=[option]) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        _create_users(client)
        wait_for_group_coordinator(broker.bootstrap_servers)
        for created in client.create_topics([NewTopic("orders", 1, 1), NewTopic("payments", 1, 1)]).values():
            created.result(SOON_S)
        protocols = {**LISTENERS, "PLAINTEXT": "PLAINTEXT"}
        flags = {
            "aclog.log.url": f"kraft://{broker.controllers}",
            "aclog.kafka.version": "4.4",
            "aclog.admin.listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(map(":".join, protocols.items())),
            "aclog.admin.scram.credentials": "log",
            "aclog.auth.oidc.jwks": str(keys),
            "aclog.auth.oidc.issuer": ISSUER,
            "aclog.auth.oidc.audience": AUDIENCE,
            **shared,
        }
        config = load_config(environ={}, flags=flags)
        with Node.open(config) as node, AdminServer(config) as server:
            node.start()
            assert node.wait_until_ready(SOON_S)
            server.start(node)
            addresses = dict(zip(LISTENERS, server.addresses, strict=True))
            request = request_frame("describe_acls", 3, EVERY)
            wait_until(lambda: ask(addresses["OPEN"], request, user="admin"), "the users", timeout_s=SOON_S)
            yield Pair(broker.more_servers, addresses, broker.bootstrap_servers, node, home)


def _create_users(client: AdminClient) -> None:
    for user in ("admin", "few"):
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(user, info, PASSWORD.encode(), b"salt")
            for altered in client.alter_user_scram_credentials([change]).values():
                altered.result(SOON_S)


def _logins_of_a_broker(keys: Path) -> dict[str, str]:
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in ("admin", "few"))
    settings: dict[str, str] = {}
    for name in ("open", "secure"):
        prefix = f"listener.name.{name}"
        settings |= {
            f"{prefix}.plain.sasl.jaas.config": f"{PLAIN} required {users};",
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{OAUTH}LoginModule required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}ValidatorCallbackHandler",
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            f"{prefix}.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}.sasl.oauthbearer.expected.issuer": ISSUER,
        }
    return settings


def comparable_error(text: str) -> str:
    """A broker's refusal contains Java's text of the request and its connection, a node's the user."""
    # librdkafka cuts a broker's after 512 bytes.
    text = re.sub(r"^(CLUSTER_AUTHORIZATION_FAILED): Request .*", r"\1", text)
    return re.sub(r"Request (Request\(.*\)|\w+ of User:\S+) needs (\w+) permission", r"needs \2", text)


def described(client: str) -> list[dict[str, Any]]:
    """A request for each kind of thing that the client describes."""
    names = {"groups": GROUPS, "consumer groups": GROUPS}
    return [{"do": each, "names": names.get(each, TOPICS)} for each in CLIENTS[client]]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("listener", "mechanism"), LOGINS)
def test_a_super_user_gets_the_same_answers_by_any_login(
    pair: Pair, client: str, listener: str, mechanism: str
) -> None:
    pair.set_acls(())
    login = pair.login(listener, mechanism, "admin")
    requests = [{"do": "create", "acl": ACL}, *described(client), {"do": "delete", "acl": ACL}]
    broker, node = pair.answers(client, requests, listener, login)
    assert node == broker
    assert len(node) == len(requests)
    assert node[-1]["acls"] == [ACL]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("granted", "listener", "mechanism"),
    [
        ("nothing", "SECURE", "SCRAM-SHA-512"),
        ("describe one topic", "MUTUAL", ""),
        ("describe one group", "SECURE", "PLAIN"),
        ("describe the cluster", "OPEN", "OAUTHBEARER"),
    ],
)
def test_a_user_with_few_rights_learns_as_little_as_from_a_broker(
    pair: Pair, client: str, granted: str, listener: str, mechanism: str
) -> None:
    """Nothing about what exists (KIP-430): an unknown topic has the answer of one that is not the user's."""
    user = {"principal": "User:CN=few" if listener == "MUTUAL" else "User:few", "operation": 8}
    acls = {
        "nothing": (),
        "describe one topic": ({**ACL, **user},),
        "describe one group": ({**ACL, **user, "resource_type": 3, "resource_name": "g"},),
        "describe the cluster": ({**ACL, **user, "resource_type": 4, "resource_name": "kafka-cluster"},),
    }
    pair.set_acls(acls[granted])
    changes = [{"do": "create", "acl": ACL}, {"do": "delete", "acl": ACL}]
    requests = [*described(client), {"do": "describe", "acl": ANY}, *changes]
    login = pair.login(listener, mechanism, "few")
    broker, node = pair.answers(client, requests, listener, login)
    assert node == broker
    assert len(node) == len(requests)
    assert all(re.search("(?i)authoriz", each["error"]) for each in node[-2:])


@pytest.mark.parametrize("client", ["kadm", "sarama"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_login_has_a_brokers_error(pair: Pair, client: str, mechanism: str) -> None:
    """The clients in Python try again until they time out, and do not show the server's error."""
    login = replace(pair.login("SECURE", mechanism, "admin"), password="wrong")
    if mechanism == "OAUTHBEARER":
        login = replace(login, token=token("another", sub="admin"))
    requests = [{"do": "cluster", "names": []}]
    errors = [each["error"] for (each,) in pair.answers(client, requests, "SECURE", login)]
    broker, node = (re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", each) for each in errors)
    assert node == broker != ""


@pytest.mark.parametrize("version", JAVA)
def test_javas_admin_gets_the_same_results_by_any_login(pair: Pair, version: str) -> None:
    replace_acls(pair.plaintext, pair.followed, [])
    acls = [java_admin.ACL, changed(java_admin.ACL, type="GROUP", name="team", permission="DENY")]
    requests = [
        {"request": "createAcls", "acls": acls},
        *java_admin.READS,
        {"request": "deleteAcls", "filters": [java_admin.EVERY]},
    ]
    logins = [(listener, pair.login(listener, mechanism, "admin")) for listener, mechanism in LOGINS]
    broker, node = pair.java_answers(version, logins, requests)
    for login, of_broker, of_node in zip(LOGINS, broker, node, strict=True):
        assert of_node == of_broker, login
        assert of_node == node[0], login
    assert str(node[0][0]).count(": created") == len(acls), node[0][0]
    assert "CLUSTER_ACTION" in str(node[0][2]), node[0][2]


@pytest.mark.parametrize("version", JAVA)
@pytest.mark.parametrize("on", ["the cluster", "a topic and a group"])
def test_javas_admin_with_few_rights_gets_the_same_results(pair: Pair, on: str, version: str) -> None:
    acls = [changed(java_admin.ACL, operation="ALTER"), changed(java_admin.ACL, type="GROUP", name="team")]
    if on == "the cluster":
        acls = [changed(java_admin.ACL, type="CLUSTER", name="kafka-cluster", operation="DESCRIBE")]
    granted = [changed(acl, principal=user) for acl in acls for user in ("User:few", "User:CN=few")]
    replace_acls(pair.plaintext, pair.followed, list(map(creation, granted)))
    logins = [(listener, pair.login(listener, mechanism, "few")) for listener, mechanism in LOGINS]
    broker, node = pair.java_answers(version, logins, [*java_admin.READS, *java_admin.WRITES])
    for login, of_broker, of_node in zip(LOGINS, broker, node, strict=True):
        assert of_node == of_broker, login
        assert str(of_node).count("ClusterAuthorizationException") > 1, of_node
        assert "TopicAuthorizationException" in str(of_node), of_node


@pytest.mark.parametrize("version", JAVA)
def test_javas_admin_has_a_brokers_error_after_a_wrong_login(pair: Pair, version: str) -> None:
    """Not after a refused certificate: asyncio does not send the alert of TLS (CPython's issue 98078)."""
    wrong = {each: replace(pair.login("SECURE", each, "admin"), password="wrong") for each in MECHANISMS}
    wrong["OAUTHBEARER"] = replace(wrong["OAUTHBEARER"], token=token("another", sub="admin"))
    logins = [("SECURE", login) for login in wrong.values()]
    broker, node = pair.java_answers(version, logins, [{"request": "describeCluster"}])
    for (_, login), of_broker, of_node in zip(logins, broker, node, strict=True):
        assert of_node == of_broker, login
        assert "SaslAuthenticationException" in str(of_node), (login, of_node)
