"""Nodes, topics and Spark jobs on a cluster with SASL_SSL, by Kafka's own client.properties."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from support.aclog_command import checked_aclog as aclog
from support.issuer import TokenEndpoint, token_endpoint
from support.sasl_clients import PASSWORD
from support.secure_cluster import PLAIN, SCRAM, SecureCluster, secure_cluster
from support.serving_process import serving_process
from support.topic_nodes import unique_topic
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

KINDS = ("describe", "kraft", "kafka")
QUESTION = {
    "subject": {"type": "User", "id": "alice"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with secure_cluster(tmp_path_factory.mktemp("clients"), has_secure_controllers=True) as running:
        yield running


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenEndpoint]:
    """Its tokens are admin's."""
    with token_endpoint("admin") as endpoint:
        yield endpoint


def check(*where: object, code: int = 0) -> Result:
    request = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders")
    return aclog("check", *where, *request, code=code)


def log_of(kind: str, cluster: SecureCluster, properties: Path, store: str = "") -> str:
    """The cluster's log of that kind, in which alice may read orders; a topic is new."""
    if kind == "describe":
        return f"describe://{cluster.secure}{store}"
    if kind == "kraft":
        return f"kraft://{cluster.controllers}"
    url = f"kafka://{cluster.secure}/{unique_topic('clients')}"
    where = ("--log", url, "--command-config", properties)
    aclog("log", "create", *where, "--replication-factor", 1, "--min-insync-replicas", 1)
    grant = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
    aclog("acls", *where, "--add", *grant)
    return url


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_follows_the_cluster(cluster: SecureCluster, tmp_path: Path, kind: str) -> None:
    """Also if a configuration file names the client.properties; keys without effect are in its log."""
    properties = cluster.admin_properties(kind, client_id="admin")
    url = log_of(kind, cluster, properties, store=f"{tmp_path}/polls")
    arguments = ["--command-config", str(properties)]
    if kind != "describe":
        config = tmp_path / "aclog.properties"
        config.write_text(f"aclog.command.config={properties}\n")
        arguments = ["--config", str(config)]
    arguments += ["--describe-principals", "User:ANONYMOUS"]

    with serving_process(tmp_path, *arguments, log=url, ACLOG_LOG_MODE="auto") as (_, [address]):
        wait_until(lambda: httpx.get(f"{address}/readyz").is_success, "the node")
        answer = httpx.post(f"{address}/access/v1/evaluation", json=QUESTION).json()

    assert answer["decision"] is True
    lines = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines()]
    assert [line["keys"] for line in lines if line["event"] == "client_keys_without_effect"] == [
        ["client.id"]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_of_an_issuer_is_a_login(cluster: SecureCluster, issuer: TokenEndpoint, kind: str) -> None:
    properties = cluster.client_properties("token", **cluster.token_login(issuer.url))
    url = log_of(kind, cluster, properties)
    issuer.requests.clear()

    assert check("--log", url, "--command-config", properties).output.startswith("ALLOWED")
    assert issuer.requests


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_a_spark_job_reads_a_topic(
    spark: SparkSession, cluster: SecureCluster, issuer: TokenEndpoint, tmp_path: Path, mechanism: str
) -> None:
    """Its connector gets the translated settings; keys without effect are reported."""
    login = {} if mechanism == "PLAIN" else cluster.token_login(issuer.url)
    properties = cluster.admin_properties("spark", client_id="admin", **login)
    where = ("--log", log_of("kafka", cluster, properties), "--command-config", properties)

    done = aclog("spark", "snapshots", *where, "--snapshots", tmp_path / "store", "--once", "--shards", 2)

    assert f"{properties}: client.id: no effect in aclog" in done.stderr
    assert ", 1 ACLs, digest " in done.stdout
    verified = aclog("log", "verify", *where, "--with", tmp_path / "store", "--json")
    assert json.loads(verified.stdout)["comparison"]["equal"] is True


MISTAKES: dict[str, tuple[dict[str, str | None], str]] = {
    "no TLS": (
        {"security_protocol": "PLAINTEXT"},
        "is a TLS port: set security.protocol{of} to SSL or SASL_SSL",
    ),
    "no login": (
        {"security_protocol": "SSL"},
        "requires? a login[:,] set security.protocol{of} to SASL_SSL",
    ),
    "password": (
        {"sasl_jaas_config": f'{SCRAM} required username="alice" password="wrong-secret";'},
        "invalid credentials.*; check the user and password in sasl.jaas.config{of}$",
    ),
    "mechanism": (
        {"sasl_mechanism": "SCRAM-SHA-256"},
        "SCRAM-SHA-512, ?OAUTHBEARER.*; set sasl.mechanism{of} to",
    ),
    "authority": (
        {"ssl_truststore_location": None},
        "authority that is trusted here.*ssl.truststore.location{of}",
    ),
    "address": ({}, "for other names.*ssl.endpoint.identification.algorithm{of}"),
    "right": ({}, "is not allowed|must allow it to User:bob"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_the_key_as_written(cluster: SecureCluster, kind: str, mistake: str) -> None:
    """Each is an error of its own, with its way out; a retry would not help.

    librdkafka does not tell a missing login from brokers that are down.
    """
    changes, message = MISTAKES[mistake]
    if mistake == "right" and kind != "kraft":
        bob = f'{PLAIN} required username="bob" password="{PASSWORD}";'
        changes = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": bob}
    properties = cluster.client_properties("mistake", **changes)
    address = cluster.controllers if kind == "kraft" else cluster.secure
    if mistake == "address":
        address = address.replace("127.0.0.1", "[::ffff:127.0.0.1]")
    url = f"{kind}://{address}" + ("/acls" if kind == "kafka" else "")

    code = 3 if (mistake, kind) == ("no login", "kafka") else 2

    done = check("--log", url, "--command-config", properties, code=code)

    error = done.stderr.partition("Error: ")[2].splitlines()[0]
    assert re.search(message.replace("{of}", f" of {properties}"), error), error
    assert "aclog.kafka" not in error
    assert "ssl.ca" not in error
    assert "wrong-secret" not in done.output
