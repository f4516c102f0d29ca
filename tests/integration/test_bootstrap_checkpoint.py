"""A new cluster that `aclog snapshot export --bootstrap` gave its ACLs has them, and enforces them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.cli.main import cli
from authorizer.cli.workspace import load_state
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.log.directory import DirectoryLog
from snapshot.files.kraft_checkpoint import BOOTSTRAP_NAME
from snapshot.image import AclsImage
from snapshot.store.snapshot_store import SnapshotStore
from support.cluster_acls import described, in_image
from support.kafka_broker import Broker, jar_broker
from support.kafka_tools import dump_log
from support.nodes import SOON_S
from support.sasl_clients import LiveClient
from support.snapshots import IDENTITY, acl, contents, replayed

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("bootstrap")]

# More than the 10,000 records that a controller appends in one batch.
MANY = 11_000
WRITE = {
    "operation": int(AclOperation.WRITE),
    "resource_type": int(ResourceType.TOPIC),
    "pattern_type": int(PatternType.PREFIXED),
}
DENY = {"permission_type": int(AclPermissionType.DENY), "pattern_type": int(PatternType.LITERAL)}


@pytest.fixture(scope="module")
def image() -> AclsImage:
    """alice and bob may write to what begins with orders; bob may not write to orders-eu."""
    return replayed(
        [
            acl(1, principal="User:alice", resource_name="orders", **WRITE),
            acl(2, principal="User:bob", resource_name="orders", **WRITE),
            acl(3, principal="User:bob", resource_name="orders-eu", **(WRITE | DENY)),
            acl(4, resource_name="naïve \n/ ☃", principal="User:\u202eeve", host="10.0.0.1"),
            *(acl(number) for number in range(5, MANY)),
        ]
    )


@pytest.fixture(scope="module")
def store(image: AclsImage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("store")
    SnapshotStore(home).write(image, IDENTITY, log_end_time_ms=0)
    return home


def export(store: Path, output: Path, *flags: str) -> Result:
    command = ["snapshot", "export", "--snapshots", str(store), "--format", "kraft", "--bootstrap"]
    return CliRunner().invoke(cli, [*command, "--output", str(output), *flags])


def into_formatted(store: Path, directory: Path) -> None:
    """As docs/how-to/copy-acls.md has it."""
    done = export(store, directory, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["isInFormattedDirectory"], answer["count"]) == (True, MANY - 1)
    again = export(store, directory)
    assert (again.exit_code, "already has 10999 ACLs" in again.output) == (3, True), again.output


def in_its_place(store: Path, directory: Path) -> None:
    """The file alone, whose metadata.version is the default: what Kafka 3.9 itself begins with."""
    theirs = directory / BOOTSTRAP_NAME
    kafkas = dump_log(theirs)
    assert export(store, directory.parent).exit_code == 0
    ours = directory.parent / BOOTSTRAP_NAME
    records = [entry for entry in dump_log(ours) if entry.get("type") != "ACCESS_CONTROL_ENTRY_RECORD"]
    changed = {"offset", "timestamp"}
    assert [{k: v for k, v in entry.items() if k not in changed} for entry in records] == [
        {k: v for k, v in entry.items() if k not in changed} for entry in kafkas
    ]
    ours.replace(theirs)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("3.9.2", in_its_place), marks=pytest.mark.long, id="3.9.2"),
        pytest.param(("4.3.1", into_formatted), id="4.3.1"),
        pytest.param(("4.4.0", into_formatted), marks=pytest.mark.long, id="4.4.0"),
    ],
)
def cluster(request: pytest.FixtureRequest, store: Path) -> Iterator[Broker]:
    """Formatted by Kafka's own tool, and then given the ACLs."""
    version, give = request.param
    with jar_broker(version=version, users=["alice", "bob"], on_formatted=partial(give, store)) as broker:
        yield broker


def test_a_new_cluster_lists_and_enforces_the_acls(cluster: Broker, image: AclsImage) -> None:
    """describeAcls, the log with its ids, what real clients can do, and what the controllers give a shell."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    assert described(admin) == in_image(image)

    assert cluster.metadata_dir is not None
    with DirectoryLog.open(cluster.metadata_dir) as log:
        found = load_state(log, with_offsets=True).image
    assert {i: a.record for i, a in contents(found).items()} == {
        i: a.record for i, a in contents(image).items()
    }
    assert all(applied.offset is not None for applied in found)  # of the log, not of the file

    topics = [NewTopic(name, num_partitions=1) for name in ("orders-eu", "orders-us", "others")]
    for created in admin.create_topics(topics).values():
        created.result(SOON_S)
    assert cluster.sasl_servers is not None
    can = {
        (user, topic.topic): LiveClient(cluster.sasl_servers, user).can_produce(topic.topic)
        for user in ("alice", "bob")
        for topic in topics
    }
    assert can == {
        ("alice", "orders-eu"): True, ("alice", "orders-us"): True, ("alice", "others"): False,
        ("bob", "orders-eu"): False, ("bob", "orders-us"): True, ("bob", "others"): False,
    }  # fmt: skip

    check_command = [
        "shell",
        "--quiet",
        "--log",
        f"kraft://{cluster.controllers}",
        "ls",
        "/topics",
        "/acl/principal/User:bob",
    ]
    seen = CliRunner().invoke(cli, check_command).output.splitlines()
    assert seen[:5] == ["topics:", *(topic.topic for topic in topics), ""]
    assert len(seen[6:]) == 2, seen
