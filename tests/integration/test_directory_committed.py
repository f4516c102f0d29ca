"""A live cluster's directory with ``aclog.kafka.bootstrap.servers``: only what is committed counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.static.primitive import i8

from authorizer.cli.main import cli
from authorizer.node.node import Node
from records.errors import LogError, LogNotFoundError, LogUnreachableError
from records.log.base import MetadataLog
from records.log.open import open_log
from records.log.protocol import responses
from records.log.protocol.cluster_errors import ClusterErrors
from records.log.protocol.connection import Connection
from records.log.protocol.settings import protocol_settings
from replay.load_image import load_image
from support.kafka_quorum import BROKER_NUMBER, CONTROLLERS, KafkaQuorum, kafka_quorum
from support.nodes import SOON_S, running_node
from support.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.xdist_group("committed"),
]

#: Answered by then, or never: a fetch that waits for records at a leader waits for half a second.
PARKED_S = 1.0


@pytest.fixture(scope="module")
def quorum() -> Iterator[KafkaQuorum]:
    # A leader that is left alone leads on for one and a half of that.
    with kafka_quorum(fetch_timeout_ms=6000) as running:
        yield running


def create(quorum: KafkaQuorum, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers})
    acl = AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([acl])[acl].result(SOON_S)


def described(quorum: KafkaQuorum) -> set[str]:
    """What the cluster lists, the names of it."""
    return names_in_log(open_log(f"describe://{quorum.bootstrap_servers}"))


def write_to_leader_alone(quorum: KafkaQuorum, leader: int, name: str) -> None:
    """No answer comes, as it is not committed; and no broker sends it again to the next leader."""
    acl = AclCreation(
        resource_type=i8(2), resource_name=name, resource_pattern_type=i8(3), principal="User:a", host="*",
        operation=i8(3), permission_type=i8(3),
    )  # fmt: skip
    settings = protocol_settings({"socket.timeout.ms": "500"})
    connection = Connection(quorum.address(leader), settings, ClusterErrors("kraft", settings))
    with suppress(LogUnreachableError):
        connection.send(CreateAclsRequest(creations=(acl,)), responses.describe_acls())
    connection.abort()


def names_in(directory: Path, **client: str) -> set[str]:
    settings = {key.replace("_", "."): value for key, value in client.items()}
    return names_in_log(open_log(str(directory), client=settings))


def names_in_log(opened: MetadataLog) -> set[str]:
    with closing(opened) as log:
        return {acl.record.resource_name for acl in load_image(log).image}


def names_of(node: Node) -> set[str]:
    return {acl.record.resource_name for acl in node.authorizer.state.index.image}


def written_by_a_leader_alone(quorum: KafkaQuorum, attempt: int) -> tuple[int, str] | None:
    """Who wrote it, and what; the others have elected another leader, and it is down.

    None: it was not written (the machine was too slow, and it had resigned), or replicated.
    """
    leader, name = quorum.leader(), f"ghost-{attempt}"
    followers = [number for number in CONTROLLERS if number != leader]
    directory = quorum.metadata_dir(leader)
    with running_node(directory, kafka_bootstrap_servers=quorum.bootstrap_servers) as node:
        assert node.status().uncommitted_from is None
        for step in range(3):
            create(quorum, f"before-{attempt}-{step}")
            wait_until(lambda: names_of(node) == described(quorum), "what was committed, at the leader")
        for number in followers:
            quorum.pause(number)
        time.sleep(PARKED_S)  # open fetches of the followers are answered or time out
        write_to_leader_alone(quorum, leader, name)
        # file: shows the batch, which is the last complete one; by the controllers it is uncommitted.
        is_written = name in names_in(directory)
        with suppress(LogError):
            assert name not in names_in(directory, bootstrap_servers=quorum.bootstrap_servers)
        quorum.kill(leader)
        for number in followers:
            quorum.resume(number)
        for step in range(3):  # at the same offsets, and behind them
            create(quorum, f"after-{attempt}-{step}")
        if is_written and name not in described(quorum):
            assert name not in names_of(node)
            return leader, name
    quorum.start(leader)
    return None


def test_a_tail_that_is_never_committed_is_not_read(quorum: KafkaQuorum) -> None:
    """Not what a leader wrote alone, also when the quorum has committed others at the same offsets."""
    ask = {"bootstrap_servers": quorum.bootstrap_servers}
    broker_dir = quorum.metadata_dir(BROKER_NUMBER)
    with running_node(broker_dir, kafka_bootstrap_servers=quorum.bootstrap_servers) as beside:
        found = next(filter(None, (written_by_a_leader_alone(quorum, attempt) for attempt in range(10))))
        leader, ghost = found
        wait_until(lambda: names_of(beside) == described(quorum), "what the next leader committed")
        directory = quorum.metadata_dir(leader)
        assert ghost in names_in(directory)
        with pytest.raises(LogUnreachableError, match="leader is of epoch"):
            names_in(directory, **ask)
        with running_node(directory, ready=False, kafka_bootstrap_servers=ask["bootstrap_servers"]) as node:
            wait_until(lambda: "leader is of epoch" in str(node.status().not_ready_reason), "why")
            quorum.start(leader)
            wait_until(lambda: names_of(node) == described(quorum), "what it has now")
            assert node.wait_until_ready(SOON_S)
        assert names_in(directory, **ask) == described(quorum)


def test_the_high_watermark_comes_from_the_logs_own_cluster(quorum: KafkaQuorum) -> None:
    """The controllers must be of the log's cluster; unreachable ones are reported."""
    directory = quorum.metadata_dir(BROKER_NUMBER)
    with pytest.raises(LogNotFoundError, match="not to elsewhere"):
        names_in(directory, bootstrap_servers=quorum.bootstrap_servers, cluster_id="elsewhere")
    with pytest.raises(LogUnreachableError, match=r"127\.0\.0\.1:1: cannot connect"):
        names_in(directory, bootstrap_servers="127.0.0.1:1")
    done = CliRunner().invoke(
        cli,
        ["log", "verify", "--log", str(directory)],
        env={"ACLOG_KAFKA_BOOTSTRAP_SERVERS": quorum.bootstrap_servers},
    )
    assert (done.exit_code, "guess" in done.output) == (0, False), done.output
