"""describe:// on a real cluster: after a poll, what is kept is what the brokers describe."""

from __future__ import annotations

import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorizer.node.node import Node
from records.entries import AccessControlEntryRecord, AclContent
from records.errors import LogError, LogNotFoundError, LogReadOnlyError, LogRefusedError, LogUnreachableError
from records.log.base import Freshness, MetadataLog
from records.log.open import open_log
from records.log.protocol.brokers import Brokers
from records.log.protocol.responses import DescribedCluster
from records.log.protocol.settings import protocol_settings
from records.log.url import Address, parse_bootstrap_servers
from replay.load_image import load_image
from support.aclog_command import aclog
from support.kafka_broker import Broker, free_ports, jar_broker
from support.kafka_quorum import BROKER_NUMBER, KafkaQuorum
from support.kafka_tools import run_java
from support.node_acls import ANY_ACL, CONTEXT
from support.nodes import SOON_S, config_of, running_node, sidecar_of
from support.sasl_clients import PASSWORD
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

QUICK: dict[str, Any] = {"kafka_acls_refresh_interval_ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    with jar_broker(users=("reader",)) as running:
        yield running


@pytest.fixture
def to_be_paused(quorum: KafkaQuorum) -> Iterator[KafkaQuorum]:
    yield quorum
    quorum.resume(BROKER_NUMBER)


def binding(number: int) -> AclBinding:
    kind = ResourcePatternType.PREFIXED if number % 3 == 0 else ResourcePatternType.LITERAL
    effect = AclPermissionType.DENY if number % 5 == 0 else AclPermissionType.ALLOW
    return AclBinding(
        ResourceType.TOPIC, f"polled-{number}", kind, f"User:u{number}", "*", AclOperation.READ, effect
    )


def filter_of(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation,
        acl.permission_type,
    )  # fmt: skip


def kafka_acls(cluster: Broker, *flags: str) -> None:
    run_java("org.apache.kafka.tools.AclCommand", "--bootstrap-server", cluster.bootstrap_servers, *flags)


def in_cluster(cluster: Broker) -> set[AclContent]:
    """The ACLs in the cluster's metadata log, with their codes."""
    return contents(str(cluster.metadata_dir), {})


def in_node(node: Node) -> set[AclContent]:
    image = node.authorizer.state.index.image
    return {acl.record.content for acl in image}


class Advertising(Brokers):
    """A cluster that says that it has more brokers, at these addresses."""

    nodes: Mapping[int, Address]

    def _send(self, request: Any, decoder: Any, doing: str, **limits: Any) -> Any:
        return (
            DescribedCluster(str(self.cluster_id), dict(self.nodes))
            if doing == "the brokers"
            else super()._send(request, decoder, doing, **limits)
        )


def test_each_broker_reports_its_release_on_its_listener(cluster: Broker) -> None:
    """One alone is not asked again; where nobody listens nothing is known of the release."""
    servers = parse_bootstrap_servers("", cluster.bootstrap_servers, "")
    with closing(open_log(str(cluster.metadata_dir))) as log:
        (registered,) = load_image(log).image.metadata.brokers.values()
    brokers = Advertising("describe://", servers, protocol_settings({}), threading.Event())
    (there,), nobody = servers, Address("127.0.0.1", free_ports(1)[0])
    try:
        for nodes, expected in (
            ({1: nobody}, {1: registered}),
            ({1: there, 2: there}, {1: registered, 2: registered}),
            ({1: there, 2: nobody}, {}),
        ):
            brokers.nodes = nodes
            levels = brokers.levels({})
            assert levels.brokers == expected
            assert levels.metadata_version == registered.highest
    finally:
        brokers.abort()


def test_each_poll_gives_the_clusters_acls(cluster: Broker, tmp_path: Path) -> None:
    """Also kinds that librdkafka has no name for; what a poll finds changed is one batch."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    url = f"describe://{cluster.bootstrap_servers}{tmp_path}/kept"
    with running_node(url, **QUICK) as node:
        for number in range(12):
            admin.create_acls([binding(number)])[binding(number)].result(SOON_S)
            wait_until(lambda: in_node(node) == in_cluster(cluster), "the node to have what was added")
            if number % 2:
                revoked = filter_of(binding(number - 1))
                admin.delete_acls([revoked])[revoked].result(SOON_S)
                wait_until(lambda: in_node(node) == in_cluster(cluster), "the node to miss what was removed")
        owner = ("--add", "--allow-principal", "User:shop")
        for nameless in (
            ("--user-principal", "User:b", "--operation", "CreateTokens"),
            ("--transactional-id", "shop", "--operation", "TwoPhaseCommit"),
        ):
            kafka_acls(cluster, *owner, *nameless)
            wait_until(lambda: in_node(node) == in_cluster(cluster), "what librdkafka cannot name")
        kinds = {(content[0], content[5]) for content in in_node(node)}
        assert {(7, 13), (5, 15)} <= kinds
        # The next poll is equal, and writes nothing.
        end, polls = node.log.high_watermark(), freshness_of(node.log).polls
        wait_until(lambda: freshness_of(node.log).polls > polls + 1, "two more polls")
        assert node.log.high_watermark() == end
        (refused,) = node.authorizer.delete_acls(CONTEXT, [ANY_ACL])
        assert "change its ACLs with kafka-acls" in str(refused.result(SOON_S).exception)
        # Nor is it read again.
        servers = parse_bootstrap_servers(url, cluster.bootstrap_servers, "")
        brokers = Brokers(url, servers, protocol_settings({}), threading.Event())
        known = brokers.acls()
        assert set(known.acls or ()) == in_cluster(cluster)
        assert brokers.acls(known.digest).acls is None
        brokers.abort()
        with sidecar_of(node) as address:
            shown = json.loads(urllib.request.urlopen(f"{address}/v1/state").read())
            assert shown["polled"]["refresh_ms"] == 100
            arguments = ("--principal", "User:ANONYMOUS", "--operation", "Read", "--topic", "polled-1")
            done = aclog("check", "--sidecar", address, *arguments, "--json")
            assert json.loads(done.stdout)["ageMs"] >= 0, done.output
            assert (
                b'aclog_polls_total{result="answered"}' in urllib.request.urlopen(f"{address}/metrics").read()
            )
        # Beside the node that polls, commands read what it keeps.
        with closing(open_log(url)) as beside:
            assert beside.identity == node.log.identity
            assert beside.read(0) == node.log.read(0)
    with closing(open_log(f"file:{tmp_path}/kept")) as log:
        batches = list(log.read(0))
    assert all(before.end_offset == after.base_offset for before, after in pairwise(batches))
    assert {len(batch.records) for batch in batches[1:]} == {1}


def test_the_commands_accept_a_polled_log(cluster: Broker, tmp_path: Path) -> None:
    """With a directory and without; its past, too; a write names the way."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    first, second = binding(101), binding(102)
    admin.create_acls([first])[first].result(SOON_S)
    plain_url = f"describe://{cluster.bootstrap_servers}"
    stored = f"{plain_url}{tmp_path}/kept"
    arguments = ("--principal", first.principal, "--operation", "Read", "--topic", first.name)
    for url in (plain_url, stored):
        done = aclog("check", "--log", url, *arguments, "--explain", "--json")
        assert (done.exit_code, json.loads(done.stdout)["result"]) == (0, "ALLOWED"), done.output
        assert json.loads(done.stdout)["ageMs"] >= 0
        done = aclog("diff", url, cluster.metadata_dir)
        assert done.exit_code == 0, done.output
    assert "The cluster answered" in aclog("check", "--log", plain_url, *arguments, "--explain").stdout
    with closing(open_log(stored)) as log:
        end = log.high_watermark()
    admin.create_acls([second])[second].result(SOON_S)
    wait_until(lambda: aclog("diff", stored, f"file:{tmp_path}/kept@{end - 1}").exit_code == 1, "the second")
    done = aclog("diff", f"{stored}@{end - 1}", stored, "--json")
    assert json.loads(done.stdout.splitlines()[-1])["aclsAdded"] == 1, done.output
    assert second.name in aclog("log", "dump", "--log", stored).stdout
    assert aclog("log", "verify", "--log", stored).exit_code == 0
    assert first.name in aclog("acls", "--list", "--log", stored).stdout
    store = str(tmp_path / "store")
    assert aclog("snapshot", "create", "--log", stored, "--snapshots", store).exit_code == 0
    assert aclog("log", "verify", "--log", stored, "--with", store).exit_code == 0
    who = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
    done = aclog("acls", "--add", *who, "--log", stored)
    assert done.exit_code == 2, done.output
    assert "kafka-acls.sh --bootstrap-server" in done.stderr
    with pytest.raises(LogReadOnlyError, match=r"kafka-acls\.sh"):
        open_log(stored, mode="write")
    with pytest.raises(LogError, match="not a broker's listener"):
        open_log(f"describe://{cluster.controllers}")
    done = aclog("acls", "--list", "--log", "describe://127.0.0.1:1")
    assert done.exit_code == 3, done.output
    done = aclog("log", "create", "--log", stored)
    assert "cannot be created" in done.stderr
    done = aclog("spark", "snapshots", "--log", stored, "--snapshots", store, "--once")
    assert "jobs do not poll" in done.stderr


def test_polling_requires_only_describe_on_the_cluster(cluster: Broker, tmp_path: Path) -> None:
    """Describe on the cluster, and nothing else; without it the command that grants it is named."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": PASSWORD,
    }
    assert cluster.sasl_servers is not None
    url = f"describe://{cluster.sasl_servers}{tmp_path}/kept"
    directory, sasl_client = str(cluster.metadata_dir), {**client, "bootstrap.servers": cluster.sasl_servers}
    needed = r"Describe on the cluster\. Grant it: .*'User:reader' --operation Describe"
    with pytest.raises(LogRefusedError, match=needed):
        open_log(url, client=client)
    with pytest.raises(LogRefusedError, match=needed):
        contents(directory, sasl_client)
    grant = AclBinding(
        ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:reader", "*",
        AclOperation.DESCRIBE, AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([grant])[grant].result(SOON_S)
    wait_until(lambda: may_send(url, client), "the right to be in force")
    stored = contents(url, client)
    assert stored == in_cluster(cluster) == contents(directory, sasl_client)
    with pytest.raises(LogRefusedError, match="PLAIN: Authentication failed"):
        open_log(f"describe://{cluster.sasl_servers}", client={**client, "sasl.password": "wrong"})
    # Without the right the stored copy remains, and the reason why it is not newer is reported.
    revoked = filter_of(grant)
    admin.delete_acls([revoked])[revoked].result(SOON_S)
    wait_until(lambda: not may_send(f"describe://{cluster.sasl_servers}", client), "the right to be gone")
    with closing(open_log(url, client=client)) as log:
        freshness = freshness_of(log)
        assert (freshness.failures, "--operation Describe" in (freshness.error or "")) == (1, True)
        assert {acl.record.content for acl in load_image(log).image} == stored


def freshness_of(log: MetadataLog) -> Freshness:
    found = log.freshness()
    assert found is not None
    return found


def may_send(url: str, client: dict[str, str]) -> bool:
    try:
        with closing(open_log(url, client=client)):
            return True
    except LogRefusedError:
        return False


def contents(url: str, client: dict[str, str]) -> set[AclContent]:
    with closing(open_log(url, client=client)) as log:
        return {acl.record.content for acl in load_image(log).image}


@pytest.mark.long
def test_an_unreachable_broker_is_reported(
    to_be_paused: KafkaQuorum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decisions go on, a new node begins with what is kept, readiness ends by age; then it is followed."""
    quorum = to_be_paused
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers})
    directory = str(quorum.metadata_dir(BROKER_NUMBER))
    acl = binding(201)
    admin.create_acls([acl])[acl].result(SOON_S)
    url = f"describe://{quorum.bootstrap_servers}{tmp_path}/kept"
    with running_node(url, kafka_socket_timeout_ms=1000, **QUICK) as node:
        wait_until(lambda: in_node(node) == contents(directory, {}), "the ACL")
        before = in_node(node)
        quorum.pause(BROKER_NUMBER)
        # A broker that stops while it answers has 60 s for the answer.
        wait_until(lambda: freshness_of(node.log).failures > 1, "failed polls", timeout_s=2 * SOON_S)
        assert in_node(node) == before
        assert node.status().ready
    with pytest.raises(LogUnreachableError):
        open_log(f"describe://{quorum.bootstrap_servers}{tmp_path}/new", client={"socket.timeout.ms": "100"})
    arguments = ("--principal", acl.principal, "--operation", "Read", "--topic", acl.name)
    monkeypatch.setenv("ACLOG_KAFKA_SOCKET_TIMEOUT_MS", "100")
    done = aclog("check", "--log", url, *arguments, "--json")
    assert done.exit_code == 0, done.output
    assert "these are stored ACLs of" in done.stderr
    assert json.loads(done.stdout)["ageMs"] > 0
    with running_node(url, max_lag_ms=300, kafka_socket_timeout_ms=1000, **QUICK) as node:
        assert in_node(node) == before
        wait_until(lambda: not node.status().ready, "the age to be too great")
        assert "has not answered for" in str(node.status().not_ready_reason)
        with sidecar_of(node) as address:
            with pytest.raises(HTTPError) as caught:
                urllib.request.urlopen(f"{address}/readyz")
            assert caught.value.code == 503
            assert "aclog.max.lag.ms is 300" in caught.value.read().decode()
        quorum.resume(BROKER_NUMBER)
        other = binding(202)
        admin.create_acls([other])[other].result(SOON_S)
        wait_until(lambda: in_node(node) == contents(directory, {}), "what came while nobody asked")
        wait_until(lambda: node.status().ready, "the node to be ready again")
    new = f"describe://127.0.0.1:1{tmp_path}/none"
    with Node.open(config_of(log_url=new), lazily=True) as node:
        node.start()
        wait_until(lambda: "127.0.0.1:1" in str(node.status().not_ready_reason), "why it is not ready")
        assert not (tmp_path / "none").exists()


def test_another_cluster_is_refused(cluster: Broker, broker: Broker, tmp_path: Path) -> None:
    """Under the same directory (I9); and so is a log of another kind, or no directory for a node."""
    stored = tmp_path / "kept"
    with closing(open_log(f"describe://{cluster.bootstrap_servers}{stored}")) as log:
        before = log.read(0)
    other = f"describe://{broker.bootstrap_servers}"
    with pytest.raises(LogNotFoundError, match="another cluster"):
        open_log(f"{other}{stored}")
    with pytest.raises(LogNotFoundError, match="another cluster"):
        contents(str(cluster.metadata_dir), {"bootstrap.servers": broker.bootstrap_servers})
    with closing(open_log(f"file:{stored}")) as log:
        assert log.read(0) == before
    with closing(open_log(str(tmp_path / "own"), mode="create")) as log:
        log.append([AccessControlEntryRecord(log.identity.topic_id, 2, "t", 3, "User:a", "*", 3, 3)])
    with pytest.raises(LogError, match="holds no polls"):
        open_log(f"{other}{tmp_path}/own")
    with pytest.raises(LogError, match="name a directory for it"):
        open_log(other, lazily=True)
    shutil.rmtree(stored)
