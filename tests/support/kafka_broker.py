"""One real Kafka broker for the integration tests: combined mode KRaft with StandardAuthorizer.

`kafka_broker()` uses the first available of: the cluster that ACLOG_TEST_BOOTSTRAP names (its controllers are
ACLOG_TEST_CONTROLLERS), a container if a Docker engine has Kafka's image, or a JVM on the jars of
`kafka_jars`. It never skips; it raises if the broker does not work. ANONYMOUS is a super user, so a plaintext
client may do everything.
"""

from __future__ import annotations

import base64
import os
import random
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from support.containers import docker, engine_has, running
from support.kafka_jars import KAFKA_VERSION, kafka_libs
from support.kafka_tools import BROKER, STORAGE, java_command, run_java
from support.sasl_clients import with_sasl_listener

HOST = "127.0.0.1"
HEAP = "512m"
START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 30
START_TRIES = 3  # a free port may be taken by another program before the broker binds it
# Linux assigns ports from 32768 on, and macOS from 49152 on.
_UNASSIGNED_PORTS = (15_000, 32_000)
_ANY_ORDER = random.SystemRandom()  # pytest-randomly seeds the other one alike in all processes
IMAGE = f"apache/kafka:{KAFKA_VERSION}"
IMAGE_DATA = "/var/lib/kafka/data"
NO_SETTINGS: Mapping[str, str] = {}


class BrokerError(Exception):
    """No broker is available, or the started one ended too early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """Addresses and paths of a running cluster."""

    bootstrap_servers: str
    controllers: str | None
    """`host:port,...` of the controller listener; None if an external cluster's are unknown."""
    metadata_dir: Path | None
    """Its `__cluster_metadata-0` on this machine; None for an external cluster."""
    sasl_servers: str | None = None
    """A listener for users with names (`sasl_clients`); None if there is none."""
    more_servers: Mapping[str, str] = field(default_factory=dict)
    """Further listeners by name."""
    pid: int | None = None
    """The process id of its JVM, if it was started here without a container."""


@contextmanager
def kafka_broker() -> Iterator[Broker]:
    """A broker that answers, until the end of the block."""
    bootstrap = os.environ.get("ACLOG_TEST_BOOTSTRAP")
    if bootstrap:
        controllers = os.environ.get("ACLOG_TEST_CONTROLLERS")
        wait_until_ready(bootstrap, lambda: None)
        yield Broker(bootstrap_servers=bootstrap, controllers=controllers, metadata_dir=None)
    elif engine_has(IMAGE):
        with container_broker() as broker:
            yield broker
    else:
        with jar_broker() as broker:
            yield broker


def server_properties(port: int, controller_port: int, *, bind: str = HOST) -> dict[str, str]:
    """The server.properties of every broker that is started here."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{bind}:{port},CONTROLLER://{bind}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        # One broker cannot store three replicas, and a test must not wait for more group members.
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # The cleaner polls continuously, so that compaction starts without delay.
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "100",
    }


@contextmanager
def jar_broker(
    settings: Mapping[str, str] = NO_SETTINGS,
    *,
    version: str = KAFKA_VERSION,
    options: Sequence[str] = (),
    users: Sequence[str] = (),
    format_options: Sequence[str] = (),
    listeners: Mapping[str, str] = NO_SETTINGS,
    on_formatted: Callable[[Path], object] | None = None,
) -> Iterator[Broker]:
    """A broker of that release in a separate JVM, with a temporary directory. As `running_jvm`."""
    with tempfile.TemporaryDirectory(prefix="aclog-kafka-", ignore_cleanup_errors=True) as home:
        for attempt in range(1, START_TRIES + 1):
            work = Path(home, str(attempt))
            libs = kafka_libs(version)
            running = running_jvm(
                work,
                settings,
                libs=libs,
                options=options,
                users=users,
                format_options=format_options,
                listeners=listeners,
                on_formatted=on_formatted,
            )
            with running as (broker, why_ended):
                try:
                    wait_until_ready(broker.bootstrap_servers, why_ended)
                except BrokerError as error:
                    if "BindException" in str(error) and attempt < START_TRIES:
                        continue
                    raise
                yield broker
                return


@contextmanager
def running_jvm(
    work: Path,
    settings: Mapping[str, str] = NO_SETTINGS,
    *,
    libs: Path | None = None,
    options: Sequence[str] = (),
    users: Sequence[str] = (),
    format_options: Sequence[str] = (),
    listeners: Mapping[str, str] = NO_SETTINGS,
    on_formatted: Callable[[Path], object] | None = None,
) -> Iterator[tuple[Broker, Callable[[], str | None]]]:
    """A starting broker in the new directory `work`, and a function for why it ended (None: it runs).

    `settings` are added to server.properties; `libs` are other jars, `options` are Java's. With `users` it
    has a SASL listener for them. `listeners`: protocols of further ones, by name. `format_options` are those
    of kafka-storage format. `on_formatted` gets the log directory before the broker starts.
    """
    work.mkdir()
    port, controller_port, sasl_port, *more_ports = free_ports(3 + len(listeners))
    more_servers = {name: f"{HOST}:{each}" for name, each in zip(listeners, more_ports, strict=True)}
    sasl_servers = f"{HOST}:{sasl_port}"
    data, config, log = work / "data", work / "server.properties", work / "broker.log"
    properties = {**server_properties(port, controller_port), "log.dirs": str(data)}
    if users:
        properties = with_sasl_listener(properties, sasl_servers, users)
    for name, protocol in listeners.items():
        for key in ("listeners", "advertised.listeners"):
            properties[key] += f",{name}://{more_servers[name]}"
        properties["listener.security.protocol.map"] += f",{name}:{protocol}"
    write_properties(config, {**properties, **settings})
    cluster = ("--cluster-id", random_kafka_uuid(), "--config", config)
    run_java(STORAGE, "format", *cluster, *format_options, libs=libs)
    if on_formatted is not None:
        on_formatted(data)
    command = java_command(BROKER, config, libs=libs, heap=HEAP, log_level="info")
    command[1:1] = options
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=work
        )

    def why_ended() -> str | None:
        if process.poll() is None:
            return None
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if " ERROR " in line or "Exception" in line]
        return f"the broker exited with {process.returncode}:\n" + "\n".join(errors[:20] or lines[-20:])

    try:
        yield (
            Broker(
                bootstrap_servers=f"{HOST}:{port}",
                controllers=f"{HOST}:{controller_port}",
                metadata_dir=data / "__cluster_metadata-0",
                sasl_servers=sasl_servers if users else None,
                more_servers=more_servers,
                pid=process.pid,
            ),
            why_ended,
        )
    finally:
        stop(process)


@contextmanager
def container_broker() -> Iterator[Broker]:
    """A broker from Kafka's own image; its ports are the same inside and outside, as it advertises them."""
    port, controller_port = free_ports(2)
    properties = {
        **server_properties(port, controller_port, bind="0.0.0.0"), "log.dirs": IMAGE_DATA,
    }  # fmt: skip
    variables = {"KAFKA_" + key.upper().replace(".", "_"): value for key, value in properties.items()}
    variables |= {"CLUSTER_ID": random_kafka_uuid(), "KAFKA_HEAP_OPTS": f"-Xmx{HEAP}"}
    with tempfile.TemporaryDirectory(prefix="aclog-kafka-") as home:
        Path(home).chmod(0o755)
        data = Path(home, "data")
        data.mkdir()
        data.chmod(0o777)  # the image runs as another user
        mounted = ("--volume", f"{data}:{IMAGE_DATA}")
        try:
            with running(
                *(f"--env={name}={value}" for name, value in variables.items()),
                *(f"--publish={HOST}:{each}:{each}" for each in (port, controller_port)),
                *mounted,
                IMAGE,
            ) as container:
                wait_until_ready(f"{HOST}:{port}", container.why_ended)
                yield Broker(
                    bootstrap_servers=f"{HOST}:{port}",
                    controllers=f"{HOST}:{controller_port}",
                    metadata_dir=data / "__cluster_metadata-0",
                )
        finally:  # this user may not be allowed to remove that user's files
            docker(
                "run", "--rm", "--user=0", *mounted, "--entrypoint=find", IMAGE,
                IMAGE_DATA, "-mindepth", "1", "-delete",
            )  # fmt: skip


def wait_until_ready(servers: str, why_ended: Callable[[], str | None]) -> None:
    """Wait until the cluster lists a broker: then its authorizer is loaded and it is unfenced.

    `why_ended` returns why the broker ended, or None. Raises BrokerError.
    """
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        reason = why_ended()
        if reason:
            raise BrokerError(reason)
        with suppress(KafkaException):  # not listening yet
            if client.list_topics(timeout=1).brokers:
                return
        time.sleep(0.1)  # not wait_until: an ended broker must raise BrokerError
    raise BrokerError(f"Kafka at {servers} did not answer within {START_TIMEOUT_S} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process, with SIGTERM if possible."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that are free now; all are bound together, so that they differ.

    Below those that the system gives to clients and to servers of port 0, which would take them meanwhile.
    """
    held: list[socket.socket] = []
    while len(held) < count:
        with suppress(OSError):  # in use
            held.append(socket.create_server((HOST, _ANY_ORDER.randrange(*_UNASSIGNED_PORTS))))
    ports = [server.getsockname()[1] for server in held]
    for server in held:
        server.close()
    return ports


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Write a properties file; the caller escapes special characters."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")


def random_kafka_uuid() -> str:
    """A cluster id as kafka-storage makes it: 22 characters of base64, not beginning with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
