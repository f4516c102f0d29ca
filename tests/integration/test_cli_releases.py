"""A real cluster of each kind of release: every way to its ACLs answers as its brokers do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from click.testing import Result

from support.aclog_command import aclog
from support.kafka_broker import jar_broker
from support.kafka_tools import run_java
from support.nodes import running_node, sidecar_of

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("versions")]

ALLOWED, DENIED = 0, 1
REQUEST = ("--principal", "User:alice", "--operation", "Read", "--topic", "t", "--host", "10.1.2.3")
EVALUATION = {
    "subject": {"type": "User", "id": "alice"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "t"},
    "context": {"host": "10.1.2.3"},
}
DIFFERS = "ALLOWED from Kafka 4.4 on, DENIED before"
SAYS_HOW = "say which by aclog.kafka.version or --as"


class Cluster(NamedTuple):
    """What is left of a cluster of one release that had an ACL for 10.0.0.0/8.

    Attributes:
        answers: to the same request, by the URL's scheme, while the cluster ran.
        kept: of ``describe://``, whose brokers are away now.
    """

    release: str
    answers: dict[str, Result]
    explained: dict[str, Any]
    difference: Result
    listing: Path
    dump: Path
    stored_url: str


def kafka_acls(servers: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return run_java("org.apache.kafka.tools.AclCommand", "--bootstrap-server", servers, *flags)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("3.9.2", marks=pytest.mark.long),
        pytest.param("4.3.1", marks=pytest.mark.long),
        "4.4.0",
    ],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    home = tmp_path_factory.mktemp("release")
    with jar_broker(version=request.param) as broker:
        servers = broker.bootstrap_servers
        alice = ("--allow-principal", "User:alice", "--allow-host", "10.0.0.0/8")
        kafka_acls(servers, "--add", *alice, "--operation", "Read", "--topic", "t")
        stored_url = f"describe://{servers}{home}/kept"
        urls = {
            "describe": f"describe://{servers}",
            "kept": stored_url,
            "kraft": f"kraft://{broker.controllers}",
            "file": f"file:{broker.metadata_dir}",
        }
        answers = {name: aclog("check", "--log", url, *REQUEST, "--explain") for name, url in urls.items()}
        explained = json.loads(
            aclog("check", "--log", urls["describe"], *REQUEST, "--explain", "--json").stdout
        )
        difference = aclog("diff", urls["describe"], urls["kraft"])
        listing, dump = home / "acls.txt", home / "dump.jsonl"
        listing.write_text(kafka_acls(servers, "--list").stdout)
        dump.write_text(aclog("log", "dump", "--log", stored_url).stdout)
    return Cluster(request.param, answers, explained, difference, listing, dump, stored_url)


def test_every_url_of_a_cluster_answers_as_its_brokers(cluster: Cluster) -> None:
    """Only a broker of 4.4 reads the host as a network."""
    expected = ALLOWED if cluster.release == "4.4.0" else DENIED
    version = cluster.release.rpartition(".")[0]
    for name, done in cluster.answers.items():
        assert done.exit_code == expected, (name, done.output)
        assert f"Kafka {version}, as brokers" in done.output, (name, done.output)
        assert DIFFERS not in done.output, name
    assert (cluster.difference.exit_code, "the same" in cluster.difference.output) == (0, True)


def test_the_stored_copy_answers_without_the_brokers(cluster: Cluster) -> None:
    done = aclog("check", "--log", cluster.stored_url, *REQUEST, "--explain")
    assert done.exit_code == (ALLOWED if cluster.release == "4.4.0" else DENIED), done.output
    assert f"Kafka {cluster.release.rpartition('.')[0]}, as brokers" in done.output


def test_a_polled_acl_has_no_time(cluster: Cluster) -> None:
    (acl,) = (
        [cluster.explained["acl"]]
        if cluster.explained["acl"]
        else [each["acl"] for each in cluster.explained["nearMisses"]]
    )
    assert (acl["offset"], acl["timestamp"]) == (None, -1)
    assert "brokers do not say when it was written" in cluster.answers["describe"].output
    assert "offset 0" not in cluster.answers["describe"].output


def test_a_listing_is_decided_for_every_release(cluster: Cluster, tmp_path: Path) -> None:
    """Text, JSON lines and a dump of them; with the release said it is that one's answer."""
    config = tmp_path / "aclog.properties"
    for version, code in (("", 1), ("aclog.kafka.version=4.3", 1), ("aclog.kafka.version=4.4", 0)):
        config.write_text(f"super.users=\n{version}\n")
        done = aclog("what-can", "--acls", cluster.listing, "--principal", "User:alice", "--config", config)
        assert done.exit_code == code, done.output
        assert (SAYS_HOW in done.output) is (not version)
    done = aclog("what-can", "--acls", cluster.listing, "--principal", "User:alice", "--as", "4.4")
    assert (done.exit_code, SAYS_HOW in done.output) == (0, False)
    query = {"principal": "User:alice", "host": "10.1.2.3", "operation": "READ", "resourceType": "TOPIC"}
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({**query, "resourceName": "t"}) + "\n")
    acl_alone = tmp_path / "acl.jsonl"
    acl_alone.write_text(cluster.dump.read_text().splitlines()[-1] + "\n")
    followed = "ALLOWED" if cluster.release == "4.4.0" else "DENIED"
    for records, flags, result in (
        (acl_alone, (), "DENIED"),
        (acl_alone, ("--as", "4.4"), "ALLOWED"),
        (cluster.dump, (), followed),
    ):
        done = aclog("check", "--batch", queries, "--records", records, *flags)
        assert json.loads(done.stdout)["result"] == result, (records, done.output)


def test_a_log_without_a_release_names_the_release_that_allows(tmp_path: Path) -> None:
    """In text, JSON and HTTP."""
    url = f"file:{tmp_path}/own"
    aclog("log", "create", "--log", url)
    addition = ("--add", "--allow-principal", "User:alice", "--allow-host", "10.0.0.0/8")
    assert aclog("acls", "--log", url, *addition, "--operation", "Read", "--topic", "t").exit_code == 0
    plain = aclog("check", "--log", url, *REQUEST)
    explained = aclog("check", "--log", url, *REQUEST, "--explain")
    in_json = json.loads(aclog("check", "--log", url, *REQUEST, "--json").stdout)
    assert plain.exit_code == explained.exit_code == DENIED
    for text in (plain.output, explained.output, *in_json["notes"]):
        assert DIFFERS in text
        assert SAYS_HOW in text
    assert len(in_json["notes"]) == 1
    assert "super.users" not in plain.output  # only aclog decides by an aclog-managed log
    with running_node(url, describe_principals="User:ANONYMOUS") as node, sidecar_of(node) as address:
        shown = aclog("check", "--sidecar", address, *REQUEST, "--explain")
        assert shown.exit_code == DENIED
        assert DIFFERS in shown.output
        evaluated = httpx.post(f"{address}/access/v1/evaluation", json=EVALUATION).json()
        assert not evaluated["decision"]
        (note,) = evaluated["context"]["notes"]
        assert note == in_json["notes"][0]
