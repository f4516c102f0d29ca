"""Nodes, topics and Spark jobs on a cluster with SASL_SSL, by Kafka's own client.properties."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from authorizer.cli.main import cli
from support.issuer import token_endpoint
from support.secure_cluster import SecureCluster, secure_cluster
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


def aclog(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, [*map(str, args)])
    assert result.exit_code == code, result.output
    return result


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
def test_a_token_of_an_issuer_is_a_login(cluster: SecureCluster, kind: str) -> None:
    with token_endpoint("admin") as endpoint:
        properties = cluster.token_properties("token", endpoint.url)
        url = log_of(kind, cluster, properties)

        assert check("--log", url, "--command-config", properties).output.startswith("ALLOWED")
        assert endpoint.requests
