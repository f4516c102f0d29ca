"""What else a real cluster's log knows: what the cluster says itself, and never a secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from structlog.testing import capture_logs

from authorizer.admin_server.server import AdminServer
from authorizer.api.kafka_version import NEWEST_LEVEL
from authorizer.cli.main import cli
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from authorizer.sidecar.app import NODE_OPERATIONS
from records.ids import uuid_to_string
from support.kafka_broker import Broker, jar_broker
from support.kafka_tools import run_java
from support.nodes import SOON_S, running_node, sidecar_of
from support.reachable_texts import reachable_texts
from support.sasl_clients import PASSWORD
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

OWNER: Final = "token-owner"
SECRET_KEY: Final = "what-makes-tokens"
TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"
MECHANISMS: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
SALT: Final = b"salt-of-the-sea-0"
ITERATIONS: Final = 4096
#: In the order in which they are made; the last is removed again.
USERS: Final = ("alice", "bob", "carol")
TOPICS: Final = ("orders.a", "orders.b", "returns", "gone")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running one that has all kinds of records.

    Attributes:
        url: of its log.
        client: of its token's owner, a file of settings.
        token: id and HMAC of the delegation token.
    """

    broker: Broker
    admin: AdminClient
    url: str
    client: Path
    token: tuple[str, str]

    def secrets(self) -> list[bytes]:
        """Of the credentials: salt, and stored and server keys; of the token, its HMAC."""
        keys = [
            key for user in USERS for hash_name in MECHANISMS.values() for key in keys_of(user, hash_name)
        ]
        return [SALT, *keys, base64.b64decode(self.token[1])]

    def secrets_in(self, *texts: bytes) -> list[str]:
        """The secrets that are in any of the texts: as they are, or as text in a usual form."""
        where, found = b"\0".join(texts), []
        for secret in [*self.secrets(), SECRET_KEY.encode(), password_of("alice")]:
            forms = (
                secret,
                secret.hex().encode(),
                base64.b64encode(secret).rstrip(b"="),
                base64.urlsafe_b64encode(secret).rstrip(b"="),
                repr(secret)[2:-1].encode(),
            )
            found += [repr(form) for form in forms if form in where]
        return found


def password_of(user: str) -> bytes:
    return f"password-of-{user}".encode()


def keys_of(user: str, hash_name: str) -> tuple[bytes, bytes]:
    """Stored key and server key (RFC 5802)."""
    salted = hashlib.pbkdf2_hmac(hash_name, password_of(user), SALT, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", hash_name)
    return hashlib.new(hash_name, client).digest(), hmac.digest(salted, b"Server Key", hash_name)


def topic_acl(name: str, principal: str = "User:alice", kind: str = "LITERAL") -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType[kind], principal, "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"delegation.token.secret.key": SECRET_KEY}
    with jar_broker(settings, version="4.4.0", users=(OWNER,)) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        acls = [
            topic_acl("orders.a"),
            topic_acl("gone"),
            topic_acl("orders.", kind="PREFIXED"),
            topic_acl("returns", "User:*"),
            AclBinding(
                ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
                AclOperation.DESCRIBE, AclPermissionType.ALLOW,
            ),
        ]  # fmt: skip
        upsertions = [
            UserScramCredentialUpsertion(
                user, ScramCredentialInfo(mechanism, ITERATIONS), password_of(user), SALT
            )
            for user in USERS
            for mechanism in MECHANISMS
            if (user, mechanism) != ("bob", ScramMechanism.SCRAM_SHA_512)
        ]
        deletions = [UserScramCredentialDeletion(USERS[-1], mechanism) for mechanism in MECHANISMS]
        done: list[Any] = [
            *admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).values(),
            *admin.create_acls(acls).values(),
        ]
        for future in done:
            future.result(SOON_S)
        for mechanism_change in (*upsertions, *deletions):
            for future in admin.alter_user_scram_credentials([mechanism_change]).values():
                future.result(SOON_S)
        for future in admin.delete_topics(["gone"]).values():
            future.result(SOON_S)
        directory = tmp_path_factory.mktemp("client")
        client = directory / "client.properties"
        client.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{OWNER}" password="{PASSWORD}";\n'
        )
        token = created_token(broker, client)
        yield Cluster(broker, admin, f"kraft://{broker.controllers}", client, token)


def created_token(broker: Broker, client: Path) -> tuple[str, str]:
    """Its id and HMAC, as the command prints them."""
    assert broker.sasl_servers is not None
    dump = run_java(
        TOKENS, "--bootstrap-server", broker.sasl_servers, "--command-config", client, "--create",
        "--max-life-time-period", "-1", "--renewer-principal", "User:a-renewer",
    ).stdout  # fmt: skip
    header, row = (line.split() for line in dump.splitlines() if "HMAC" in line or f"User:{OWNER}" in line)
    return row[header.index("TOKENID")], row[header.index("HMAC")]


@pytest.fixture(scope="module")
def node(cluster: Cluster) -> Iterator[Node]:
    with running_node(cluster.url) as node:
        wait_until(lambda: len(node.metadata.delegation_tokens) == 1, "all of the log", timeout_s=SOON_S)
        yield node


@pytest.fixture(scope="module")
def http(node: Node) -> Iterator[httpx.Client]:
    with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as client:
        yield client


def aclog(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [*map(str, args)])


def answered(*args: str | Path) -> list[dict[str, Any]]:
    """The JSON lines that a command prints; between them there may be log lines of the node."""
    return [json.loads(line) for line in aclog(*args).stdout.splitlines() if line.startswith("{")]


def test_the_metadata_equals_the_clusters(cluster: Cluster, node: Node, http: httpx.Client) -> None:
    """Topics and users by name; and every type and version of Kafka 4.4's records is known."""
    metadata = node.metadata
    assert set(cluster.admin.list_topics(timeout=SOON_S).topics) == set(metadata.topics.by_name)
    assert set(metadata.topics.by_name) == set(TOPICS) - {"gone"}
    # Its types do not say what it gives for all users.
    described = cast("Future[Any]", cluster.admin.describe_user_scram_credentials()).result(SOON_S)
    assert dict(metadata.scram) == {
        user: tuple(sorted(int(info.mechanism.value) for info in each.scram_credential_infos))
        for user, each in described.items()
    }
    assert dict(metadata.scram) == {"alice": (1, 2), "bob": (1,)}
    assert dict(metadata.delegation_tokens) == {cluster.token[0]: f"User:{OWNER}"}
    assert metadata.metadata_version == NEWEST_LEVEL
    assert [levels.highest for levels in metadata.brokers.values()] == [NEWEST_LEVEL]
    shown = http.get("/v1/state").json()["metadata"]
    assert shown == {
        "topics": 3,
        "brokers": {"4.4": 1},
        "features": dict(metadata.features),
        "scram_users": 2,
        "delegation_tokens": 1,
        "is_whole": True,
        "unread": [],
        "warning": None,
    }
    (verified,) = answered("log", "verify", "--log", cluster.url, "--json")
    assert verified["metadata"] == shown


def test_a_change_without_an_acl_is_followed(cluster: Cluster, node: Node, http: httpx.Client) -> None:
    """By name and id."""
    (made,) = cluster.admin.create_topics([NewTopic("orders.c", 1, 1)]).values()
    made.result(SOON_S)
    wait_until(lambda: "orders.c" in node.metadata.topics, "the topic", timeout_s=SOON_S)
    assert http.get("/v1/state").json()["metadata"]["topics"] == 4
    (removed,) = cluster.admin.delete_topics(["orders.c"]).values()
    removed.result(SOON_S)
    wait_until(lambda: "orders.c" not in node.metadata.topics, "its end", timeout_s=SOON_S)


def test_searches_list_existing_resources(http: httpx.Client) -> None:
    """Topics that no ACL names, and users that none does; no topic that is gone."""
    context = {"action": {"name": "READ"}, "context": {"host": "10.0.0.1"}}
    found = http.post(
        "/access/v1/search/resource",
        json={"subject": {"type": "User", "id": "alice"}, "resource": {"type": "TOPIC"}, **context},
    ).json()
    assert found["context"]["names"] == "existing"
    assert [each["id"] for each in found["results"]] == ["orders.a", "orders.b", "returns"]
    found = http.post(
        "/access/v1/search/subject",
        json={"subject": {"type": "User"}, "resource": {"type": "TOPIC", "id": "returns"}, **context},
    ).json()
    assert found["context"]["everyone"]
    assert [each["id"] for each in found["results"]] == ["ANONYMOUS", "alice", "bob", OWNER]


def test_lint_finds_acls_on_deleted_topics(cluster: Cluster) -> None:
    """Of a log that knows its topics; of the same ACLs alone it cannot know."""
    *findings, summary = answered("lint", "--log", cluster.url, "--json")
    informative = [each for each in findings if each["severity"] == "info"]
    assert [(each["finding"], each["acl"]["resourceName"]) for each in informative] == [
        ("topic-gone", "gone")
    ]
    assert summary["findings"]["topic-gone"] == 1
    alone = answered("lint", "--acls", f"describe://{cluster.broker.bootstrap_servers}", "--json")
    assert alone[-1]["findings"]["topic-gone"] == 0


def test_no_secret_is_stored_or_shown(
    cluster: Cluster, http: httpx.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in a node's memory, in snapshots, in exports, in logs, in what commands print, nor over HTTP."""
    assert cluster.broker.metadata_dir is not None
    log = b"".join(path.read_bytes() for path in cluster.broker.metadata_dir.glob("*.log"))
    for secret in cluster.secrets()[:-1]:
        assert secret in log or secret in keys_of("bob", "sha512"), "the cluster has others"
    assert cluster.secrets_in(log)

    caplog.set_level("DEBUG")
    store = tmp_path / "store"
    with capture_logs() as lines:
        created = aclog("snapshot", "create", "--log", cluster.url, "--snapshots", store)
        assert created.exit_code == 0, created.output
        with running_node(cluster.url, snapshot_store=store) as node:
            texts = [repr(node.metadata), repr(node.status())]
            held = list(reachable_texts(node))
            assert b"orders.a" in held
            assert cluster.token[0].encode() in held
    texts += [str(lines), caplog.text]
    source = ("--log", cluster.url)
    texts += [
        aclog(*command).output
        for command in (
            ("log", "dump", *source),
            ("log", "verify", *source),
            ("log", "verify", *source, "--json"),
            ("acls", "--list", *source),
            ("lint", *source),
            ("snapshot", "verify", "--snapshots", store),
            *(
                ("snapshot", "export", *source, "--format", each)
                for each in ("avro", "jsonl", "csv", "kip11")
            ),
            ("snapshot", "export", *source, "--format", "checkpoint", "--output", tmp_path),
            ("snapshot", "export", *source, "--format", "kraft", "--bootstrap", "--output", tmp_path / "b"),
        )
    ]
    assert any("USER_SCRAM_CREDENTIAL_RECORD" in each for each in texts)
    for method, path in NODE_OPERATIONS:
        if method == "GET" and path != "/v1/changes":
            texts.append(
                http.get(path.replace("{id}", uuid_to_string(node.metadata.topics.by_name["returns"]))).text
            )
    with http.stream("GET", "/v1/changes") as stream:
        texts.append(next(stream.iter_text()))
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"orders.b" in each for each in files)
    shown = [each.encode(errors="surrogateescape") for each in texts]
    assert cluster.secrets_in(*held, *files, *shown) == []


def logs_in(address: str, user: str, mechanism: str, password: bytes) -> bool:
    """Whether a new client can log in."""
    errors: list[KafkaError] = []
    client = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": user,
            "sasl.password": password.decode(),
            "error_cb": errors.append,  # type: ignore[dict-item]
            "log_level": 0,
        }
    )

    def outcome() -> str | None:
        try:
            client.list_topics(timeout=0.2)
        except KafkaException:  # of the timeout only: the cause is given to error_cb
            client.poll(0)
            is_refused = KafkaError._AUTHENTICATION in [error.code() for error in errors]
            return "refused" if is_refused else None
        return "logged in"

    return wait_until(outcome, "an answer to the login") == "logged in"


def test_users_of_the_cluster_log_in_and_their_secrets_stay_in_memory(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also at a node that starts from a snapshot of aclog, which has no secrets."""
    caplog.set_level("DEBUG")
    store, sha_256, sha_512 = tmp_path / "store", "SCRAM-SHA-256", "SCRAM-SHA-512"
    created = aclog("snapshot", "create", "--log", cluster.url, "--snapshots", store)
    assert created.exit_code == 0, created.output
    config = load_config(
        environ={},
        flags={
            "aclog.admin.listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "aclog.admin.scram.credentials": "log",
            "aclog.log.url": cluster.url,
            "aclog.snapshot.store": str(store),
            "sasl.enabled.mechanisms": f"PLAIN,{sha_256},{sha_512}",
        },
    )
    with capture_logs() as lines, Node.open(config) as node:
        node.start()
        assert node.wait_until_ready(SOON_S)
        with AdminServer(config) as server:
            server.start(node)
            (address,) = server.addresses
            with sidecar_of(node) as url, httpx.Client(base_url=url, timeout=SOON_S) as http:
                wait_until(
                    lambda: any(line["event"] == "cluster_credentials_loaded" for line in lines),
                    "the credentials",
                    timeout_s=SOON_S,
                )
                for mechanism in ("PLAIN", sha_256, sha_512):
                    assert logs_in(address, "alice", mechanism, password_of("alice"))
                    assert not logs_in(address, "alice", mechanism, b"wrong")
                assert logs_in(address, "bob", sha_256, password_of("bob"))
                assert not logs_in(address, "bob", sha_512, password_of("bob"))
                assert not logs_in(address, "carol", sha_256, password_of("carol"))

                change: Any = UserScramCredentialUpsertion(
                    "carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS), b"new", SALT
                )
                for future in cluster.admin.alter_user_scram_credentials([change]).values():
                    future.result(SOON_S)
                wait_until(lambda: logs_in(address, "carol", sha_256, b"new"), "the user", timeout_s=SOON_S)
                change = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
                for future in cluster.admin.alter_user_scram_credentials([change]).values():
                    future.result(SOON_S)
                wait_until(
                    lambda: not logs_in(address, "carol", sha_256, b"new"), "its end", timeout_s=SOON_S
                )

                texts = [http.get(path).text for path in ("/v1/state", "/metrics", "/readyz", "/v1/acls")]
        # The node's state, without the server and its reader.
        held = list(reachable_texts(node))
        assert b"orders.a" in held
    assert any("snapshot" in str(line.get("origin")) for line in lines)
    texts += [str(lines), caplog.text, created.output]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    shown = [each.encode(errors="surrogateescape") for each in texts]
    assert cluster.secrets_in(*held, *files, *shown) == []
