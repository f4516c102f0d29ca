"""The example with Karapace: the ACLs of a real Kafka decide a schema registry's requests.

Karapace is not on the package index. Where it is installed, ``ACLOG_KARAPACE`` names the interpreter that has
it and what aclog's client needs, and ``pytest -m karapace`` runs the registry.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorizer.client import CacheSettings, Client
from examples.karapace.rights import Rights
from support.kafka_broker import HOST, Broker, free_ports, jar_broker, stop
from support.nodes import SOON_S, running_node, sidecar_of
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DESCRIBE, READ, WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE
SCHEMA = {"schema": json.dumps({"type": "string"})}
PASSWORD = "secret"


def acl(
    user: str,
    operation: AclOperation,
    name: str,
    *,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    kind: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def create(broker: Broker, *acls: AclBinding) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in client.create_acls(list(acls)).values():
        future.result(SOON_S)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """A real broker of its own: its metadata log is read from its directory."""
    with jar_broker() as broker:
        create(
            broker,
            # The sidecar's callers may ask about others and follow the changes.
            acl("ANONYMOUS", DESCRIBE, "kafka-cluster", kind=ResourceType.BROKER),
            acl("ANONYMOUS", AclOperation.ALTER, "kafka-cluster", kind=ResourceType.BROKER),
            acl("reader", READ, "orders", pattern=ResourcePatternType.PREFIXED),
            acl("writer", WRITE, "orders"),
            acl("reader", READ, "orders.secret", permission=AclPermissionType.DENY),
            acl("admin", AclOperation.ALTER_CONFIGS, "kafka-cluster", kind=ResourceType.BROKER),
        )
        yield broker


@pytest.fixture(scope="module")
def sidecar(kafka: Broker) -> Iterator[str]:
    assert kafka.metadata_dir is not None
    with (
        running_node(kafka.metadata_dir, log_mode="read", sidecar_default_host="10.0.0.1") as node,
        sidecar_of(node) as url,
    ):
        yield url


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.integration
def test_kafkas_acls_decide_a_registrys_requests(kafka: Broker, sidecar: str) -> None:
    """Subjects by their topics, the configuration by the cluster; changes take effect immediately."""
    with Client(sidecar, cache=CacheSettings(max_age_s=600)) as client:
        rights = Rights(client)
        requests = [
            ("reader", "Read", "Subject:orders-value", True),
            ("reader", "Write", "Subject:orders-value", False),
            ("reader", "Read", "Subject:orders.eu-key", True),
            ("reader", "Read", "Subject:orders.secret-value", False),
            ("writer", "Read", "Subject:orders-value", True),
            ("writer", "Write", "Subject:orders-value", True),
            ("writer", "Read", "Subject:orders.eu-value", False),
            ("admin", "Write", "Config:", True),
            ("admin", "Read", "Config:", True),
            ("writer", "Read", "Config:", False),
            # Asked about each subject instead.
            ("reader", "Read", "Subject:*", False),
            (None, "Read", "Subject:orders-value", False),
        ]
        wait_until(lambda: rights.may("admin", "Write", ["Config:"]))
        for user, operation, resource, expected in requests:
            assert rights.may(user, operation, [resource]) is expected, (user, operation, resource)
        assert rights.may("reader", "Read", ["Subject:other", "Subject:orders-key"])
        assert not rights.may("reader", "Read", [])
        wait_until(lambda: client.serves_from_cache)
        assert not rights.may("late", "Read", ["Subject:orders-value"])
        create(kafka, acl("late", READ, "orders"))
        wait_until(lambda: rights.may("late", "Read", ["Subject:orders-value"]))


@contextmanager
def karapace(kafka: Broker, sidecar: str, home: Path) -> Iterator[str]:
    """The registry, by the example's program; its address."""
    (port,) = free_ports(1)
    users = ["reader", "writer", "admin", "nobody"]
    salt = "salt"
    hashed = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), salt.encode(), 5000)
    entry = {"algorithm": "sha512", "salt": salt, "password_hash": base64.b64encode(hashed).decode()}
    auth_file = home / "users.json"
    # No rules: whatever is allowed is Kafka's.
    auth_file.write_text(
        json.dumps({"users": [{"username": user, **entry} for user in users], "permissions": []})
    )
    environment = {
        **os.environ,
        "ACLOG_SIDECAR": sidecar,
        "KARAPACE_BOOTSTRAP_URI": kafka.bootstrap_servers,
        "KARAPACE_HOST": HOST,
        "KARAPACE_PORT": str(port),
        "KARAPACE_ADVERTISED_HOSTNAME": HOST,
        "KARAPACE_KARAPACE_REGISTRY": "true",
        "KARAPACE_REGISTRY_AUTHFILE": str(auth_file),
        "KARAPACE_WAITING_TIME_BEFORE_ACTING_AS_MASTER_MS": "100",
        "KARAPACE_LOG_LEVEL": "WARNING",
    }
    with (home / "karapace.log").open("wb") as output:
        process = subprocess.Popen(
            [os.environ["ACLOG_KARAPACE"], "-m", "examples.karapace"],
            env=environment,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://{HOST}:{port}"
        wait_until(lambda: is_master(url) or process.poll() is not None, "the registry")
        assert process.poll() is None, (home / "karapace.log").read_text()[-3000:]
        yield url
    finally:
        stop(process)


def is_master(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/master_available").json()["master_available"])
    except (httpx.HTTPError, ValueError, KeyError):
        return False


@pytest.mark.karapace
def test_karapace_enforces_kafkas_acls(kafka: Broker, sidecar: str, tmp_path: Path) -> None:
    """Who may write registers a schema, who may read gets it, who may nothing does not see the subject."""
    with karapace(kafka, sidecar, tmp_path) as url:

        def ask(user: str, method: str, path: str, body: object = None) -> int:
            answer = httpx.request(method, url + path, json=body, auth=(user, PASSWORD), timeout=SOON_S)
            return answer.status_code

        versions = "/subjects/orders-value/versions"
        assert httpx.get(url + versions).status_code == 401
        assert ask("reader", "POST", versions, SCHEMA) == 404
        assert ask("writer", "POST", versions, SCHEMA) == 200
        assert ask("reader", "GET", f"{versions}/1") == 200
        assert ask("writer", "GET", f"{versions}/1") == 200
        assert ask("nobody", "GET", f"{versions}/1") == 404
        assert ask("writer", "GET", "/config") == 403
        assert ask("admin", "GET", "/config") == 200
        create(kafka, acl("nobody", READ, "orders"))
        wait_until(lambda: ask("nobody", "GET", f"{versions}/1") == 200)
