"""kraft:// on real clusters: at each step the cluster's describeAcls and the log's ACLs agree."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from authorizer.api.errors import ClusterAuthorizationError
from authorizer.cli.main import cli
from records.errors import LogError, LogNotFoundError, LogRefusedError
from records.log.open import open_log
from replay.load_image import load_image
from replay.loader import Loader
from replay.snapshot_source import CheckpointFiles
from replay.status import LoaderStatus
from support.certificates import Authority
from support.cluster_acls import Acl, acls_of, create, described, filter_of, in_image, remove
from support.issuer import AUDIENCE, key_set, token, token_endpoint
from support.kafka_broker import Broker, jar_broker
from support.kafka_quorum import CONTROLLERS, KafkaQuorum, kafka_quorum
from support.kafka_tools import ACLS, run_java
from support.node_acls import CONTEXT, topic_acl
from support.nodes import SOON_S, running_node
from support.waiting import wait_until

#: Of a loader, until it has what there is.
TURNS_MAX = 300

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]


def aclog(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def url_of(broker: Broker) -> str:
    if broker.controllers is None:
        pytest.skip("the cluster does not say where its controllers are")
    return f"kraft://{broker.controllers}"


def binding(number: int, prefix: str) -> AclBinding:
    kind = ResourcePatternType.PREFIXED if number % 3 == 0 else ResourcePatternType.LITERAL
    effect = AclPermissionType.DENY if number % 5 == 0 else AclPermissionType.ALLOW
    return AclBinding(
        ResourceType.TOPIC, f"{prefix}{number}", kind, f"User:u{number % 4}", "*", AclOperation.READ, effect
    )


def churn(admin: AdminClient, steps: int, prefix: str, seed: int) -> Iterator[None]:
    """One change after another; the cluster has answered each."""
    chance, there = random.Random(seed), set[int]()
    for _ in range(steps):
        number = chance.randrange(20)
        if number in there:
            there.remove(number)
            remove(admin, binding(number, prefix))
        else:
            there.add(number)
            create(admin, binding(number, prefix))
        yield


def acls_now(url: str, client: dict[str, str] | None = None) -> set[Acl]:
    """By a command's way: from a snapshot or the log's start, to the high watermark."""
    with closing(open_log(url, client=client or {})) as log:
        return in_image(load_image(log, [CheckpointFiles(log)]).image)


def turn_until(loader: Loader, is_so: Callable[[LoaderStatus], bool]) -> None:
    """A loader that nobody else turns."""
    for _ in range(TURNS_MAX):
        loader.iterate()
        if is_so(loader.status()):
            return
    pytest.fail(f"never so: {loader.status()}")


def test_the_log_shows_each_change(broker: Broker) -> None:
    """By a node that follows: of AdminClient and kafka-acls, and nothing else."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    url = url_of(broker)
    by_tool = (
        "--allow-principal", "User:tool", "--producer",
        "--topic", "quorum-tool-", "--resource-pattern-type", "prefixed",
    )  # fmt: skip
    with running_node(url) as node, closing(open_log(url)) as log:

        def is_seen() -> None:
            assert node.wait_for(log.high_watermark(), SOON_S)
            # The broker may be behind the node.
            wait_until(lambda: acls_of(node) == described(admin), "the broker to list the same")

        for _ in churn(admin, 40, "quorum-seen-", 1):
            is_seen()
        for what in (("--add",), ("--remove", "--force")):
            run_java(ACLS, "--bootstrap-server", broker.bootstrap_servers, *what, *by_tool)
            is_seen()
            found = {acl for acl in acls_of(node) if "User:tool" in acl}
            assert len(found) == (3 if what == ("--add",) else 0)
        for acl in range(20):
            admin.delete_acls([filter_of(binding(acl, "quorum-seen-"))])


def test_the_commands_accept_a_quorum_log(broker: Broker, tmp_path: Path) -> None:
    """Reading; what cannot be done names the way, and so does a broker's listener."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    acl = binding(1, "quorum-cli-")
    create(admin, acl)
    log = ("--log", url_of(broker))
    done = aclog("check", *log, "--principal", acl.principal, "--operation", "Read", "--topic", acl.name)
    assert (done.exit_code, "ALLOWED" in done.stdout) == (0, True), done.output
    cluster = f"describe://{broker.bootstrap_servers}"
    wait_until(lambda: aclog("diff", log[1], cluster).exit_code == 0, "the broker to describe the same")
    assert acl.name in aclog("log", "dump", *log).stdout
    verified = aclog("log", "verify", *log, "--json")
    assert verified.exit_code == 0, verified.output
    assert acl.name in aclog("acls", "--list", *log).stdout
    store = str(tmp_path / "store")
    assert aclog("snapshot", "create", *log, "--snapshots", store).exit_code == 0
    verified = aclog("log", "verify", *log, "--with", store)
    assert verified.exit_code == 0, verified.output
    payloads = tmp_path / "payloads"
    payloads.write_text("", encoding="utf-8")
    done = aclog("log", "append", str(payloads), *log)
    assert done.exit_code == 2, done.output
    assert "aclog acls --add" in " ".join(done.stderr.split())
    done = aclog("acls", "--list", "--log", f"kraft://{broker.bootstrap_servers}")
    assert done.exit_code == 2, done.output
    assert "not a controller's listener" in done.stderr
    done = aclog("acls", "--list", "--log", "kraft://127.0.0.1:1")
    assert done.exit_code == 3, done.output


def test_the_log_is_followed_past_snapshots_that_trim_it(tmp_path: Path) -> None:
    """A new observer begins with the leader's snapshot, in parts; one that was away goes on or reloads."""
    settings = {
        "internal.metadata.log.segment.bytes": "16384",
        "metadata.log.max.record.bytes.between.snapshots": "20000",
        "internal.metadata.max.batch.size.in.bytes": "4096",
        "internal.metadata.delete.delay.millis": "100",
        "metadata.max.retention.bytes": "16384",
        "metadata.max.idle.interval.ms": "10",
    }
    with jar_broker(settings) as broker:
        url, admin = url_of(broker), AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        assert acls_now(url) == set()
        with running_node(url) as node, closing(open_log(url)) as log, closing(open_log(url)) as kept_log:
            away = Loader(kept_log, [CheckpointFiles(kept_log)])
            for _ in churn(admin, 60, "t", 2):
                pass
            turn_until(away, lambda status: status.ready)
            before = away.status().position
            wait_until(lambda: log.start_offset() > before, "a snapshot, and the log to begin behind it")
            for _ in churn(admin, 60, "s", 3):
                pass
            expected = acls_now(url)
            # A controller answers before the broker has published the change.
            wait_until(lambda: described(admin) == expected, "the broker to list what the log has")
            wait_until(lambda: acls_of(node) == expected, "the node")
            end = log.high_watermark()
            turn_until(away, lambda status: status.ready and (status.end_offset or 0) >= end)
            assert away.status().digest == load_image(log, [CheckpointFiles(log)]).image.digest
            checkpoint = log.checkpoints()[-1]
            metadata_dir = broker.metadata_dir
            assert metadata_dir is not None
            file = metadata_dir / checkpoint.name
            if file.exists():
                assert log.checkpoint_bytes(checkpoint) == file.read_bytes()


@contextmanager
def guarded_broker(home: Path) -> Iterator[tuple[Broker, dict[str, str]]]:
    """Its controllers listen by SASL_SSL; users admin (super) and reader (no right yet); client settings."""
    authority = Authority()
    store = authority.issue("CN=controller").write(home / "store.pem")
    trust = home / "trust.pem"
    trust.write_text(authority.pem)
    plain = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="admin" user_admin="admin" user_reader="reader";'
    )
    scram = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="admin";'
    )
    keys = home / "keys.json"
    keys.write_bytes(key_set("one"))
    oauth = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.controller.oauthbearer.sasl.jaas.config": f"{oauth}LoginModule required;",
        "listener.name.controller.oauthbearer.sasl.server.callback.handler.class": (
            f"{oauth}ValidatorCallbackHandler"
        ),
        "listener.name.controller.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "listener.name.controller.sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "listener.name.controller.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.controller.scram-sha-512.sasl.jaas.config": scram,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "super.users": "User:ANONYMOUS;User:admin",
    }
    client = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(trust),
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": "reader",
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
    with jar_broker(settings, options=[allowed]) as broker:
        yield broker, client


def test_authentication_to_the_controllers(tmp_path: Path) -> None:
    """TLS, PLAIN, SCRAM and OAUTHBEARER; a right that is missing is named with the command that grants it."""
    with guarded_broker(tmp_path) as (broker, client):
        url, admin = url_of(broker), AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        with pytest.raises(
            LogRefusedError, match=r"'User:reader' --operation ClusterAction --cluster\. Without that right"
        ):
            open_log(url, client=client)
        grant = AclBinding(
            ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:reader", "*",
            AclOperation.CLUSTER_ACTION, AclPermissionType.ALLOW,
        )  # fmt: skip
        create(admin, grant)
        with pytest.raises(LogRefusedError, match=r"Alter on the cluster\. Say it: aclog\.kafka\.cl"):
            open_log(url, client=client)
        client["cluster.id"] = "another"
        with pytest.raises(LogNotFoundError, match="another cluster than another"):
            open_log(url, client=client)
        client["cluster.id"] = str(admin.describe_cluster().result(SOON_S).cluster_id)
        wait_until(lambda: acls_now(url, client) == described(admin), "the same")
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            upsertion = UserScramCredentialUpsertion("reader", info, b"pencil,=", b"salt")
            for future in admin.alter_user_scram_credentials([upsertion]).values():
                future.result(SOON_S)
        for mechanism_name in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            scram = {**client, "sasl.mechanisms": mechanism_name, "sasl.password": "pencil,="}
            assert acls_now(url, scram) == described(admin)
            with pytest.raises(LogRefusedError, match=f"{mechanism_name}: .*invalid credentials"):
                open_log(url, client={**scram, "sasl.password": "wrong"})
        bearer = {key: client[key] for key in client if key not in ("sasl.username", "sasl.password")}
        bearer["sasl.mechanisms"] = "OAUTHBEARER"
        with token_endpoint("reader") as endpoint:
            granted = {
                **bearer,
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
                "sasl.oauthbearer.client.id": "aclog",
                "sasl.oauthbearer.client.secret": "secret",
            }
            assert acls_now(url, granted) == described(admin)
            endpoint.answer = (401, b"")
            with pytest.raises(LogRefusedError, match=r"OAUTHBEARER: no token from .* HTTP status 401"):
                open_log(url, client=granted)
        token_file = tmp_path / "token"
        bearer["sasl.oauthbearer.token.endpoint.url"] = token_file.as_uri()
        for text, why in (
            (token(sub="other"), "'User:<the subject of the token>'"),
            ("no token", "OAUTHBEARER: "),
        ):
            token_file.write_text(text)
            with pytest.raises(LogRefusedError, match=why):
                open_log(url, client=bearer)
        token_file.write_text(token(sub="reader"))
        assert acls_now(url, bearer) == described(admin)
        with pytest.raises(LogRefusedError, match="PLAIN: Authentication failed"):
            open_log(url, client={**client, "sasl.password": "wrong"})
        with pytest.raises(LogRefusedError, match="TLS"):
            open_log(url, client={key: client[key] for key in client if key != "ssl.ca.location"})
        with pytest.raises(LogError, match=r"aclog\.kafka\.security\.protocol"):
            open_log(url)
        add = ("acls", "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")
        config = tmp_path / "client.properties"
        config.write_text("".join(f"aclog.kafka.{key}={value}\n" for key, value in client.items()))
        done = aclog(*add, "--log", url, "--config", str(config))
        assert done.exit_code == 2, done.output
        assert "'User:reader' --operation Alter --cluster" in done.stderr
        settings: dict[str, Any] = {f"kafka_{key.replace('.', '_')}": value for key, value in client.items()}
        with running_node(url, **settings) as node:
            (future,) = node.authorizer.create_acls(CONTEXT, [topic_acl("t")])
            assert isinstance(error := future.result(SOON_S).exception, ClusterAuthorizationError)
            assert "kafka-acls.sh --bootstrap-server" in str(error)


@pytest.mark.parametrize(
    ("fault", "recovery"),
    [
        (KafkaQuorum.kill, KafkaQuorum.start),
        pytest.param(KafkaQuorum.pause, KafkaQuorum.resume, marks=pytest.mark.long),
        pytest.param(KafkaQuorum.stop, KafkaQuorum.start, marks=pytest.mark.long),
    ],
)
def test_the_log_is_followed_after_its_leader_fails(
    quorum: KafkaQuorum, fault: Callable[..., None], recovery: Callable[..., None]
) -> None:
    """The node continues with the next leader's log, and never returns to an earlier state."""
    admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers})
    with running_node(f"kraft://{quorum.controllers}") as node:
        for _ in churn(admin, 4, f"before-{fault.__name__}-", 1):
            pass
        wait_until(lambda: acls_of(node) == described(admin), "what was there before")
        leader = quorum.leader()
        fault(quorum, leader)
        for _ in churn(admin, 4, f"after-{fault.__name__}-", 1):
            pass
        wait_until(lambda: acls_of(node) == described(admin), "what the next leader wrote")
        recovery(quorum, leader)
        assert acls_now(f"kraft://{quorum.controllers}") == described(admin)


@pytest.mark.long
def test_the_log_is_followed_while_voters_join() -> None:
    """KIP-853: a leader that is in no configuration, and not in the URL, is found from answers."""
    with kafka_quorum(joins=True) as quorum:
        admin = AdminClient({"bootstrap.servers": quorum.bootstrap_servers})
        first, *_ = quorum.controllers.split(",")
        with running_node(f"kraft://{first}") as node:
            for _ in churn(admin, 4, "alone-", 1):
                pass
            wait_until(lambda: acls_of(node) == described(admin), "what was written alone")
            wait_until(lambda: quorum.voters() == set(CONTROLLERS), "the others to join", timeout_s=180)
            quorum.stop(0)
            create(admin, binding(0, "without-the-first-"))
            quorum.start(0)
            for _ in churn(admin, 4, "moved-", 1):
                pass
            wait_until(lambda: acls_of(node) == described(admin), "what another leader wrote")
