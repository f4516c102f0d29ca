"""Several real Kafka brokers and a controller, each a process that a test may kill.

    controller 0 <-- brokers 1, 2, 3        everything on 127.0.0.1, directories in one temporary home

It uses the jars of `kafka_jars`: tests kill processes with SIGKILL and restart them on the same directory.
The controller keeps running, so that elections are possible. Internal topics have three replicas, or one on
each broker if there are fewer.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException, TopicCollection, TopicPartitionInfo
from confluent_kafka.admin import AdminClient, NewTopic

from records.properties import parse_properties
from support.dies_with_parent import dying_with_parent
from support.kafka_broker import (
    HOST,
    START_TIMEOUT_S,
    START_TRIES,
    BrokerError,
    free_ports,
    random_kafka_uuid,
    server_properties,
    stop,
    write_properties,
)
from support.kafka_tools import BROKER, STORAGE, java_command, run_java
from support.waiting import wait_until

HEAP = "320m"
CONTROLLER = 0
#: What says whose a directory is.
META = "meta.properties"


class KafkaCluster:
    """Running processes by their number; made by ``kafka_cluster``.

    Attributes:
        bootstrap_servers: of all brokers, including stopped ones.
        brokers: their numbers.
        admin: a client that knows all brokers.
    """

    def __init__(
        self, home: Path, brokers: int, settings: Mapping[str, str], *, dies_with_parent: bool
    ) -> None:
        self.brokers = tuple(range(1, brokers + 1))
        self._home = home
        self._settings = settings
        self._dies_with_parent = dies_with_parent
        self._ports = free_ports(brokers + 1)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap_servers = ",".join(f"{HOST}:{self._ports[number]}" for number in self.brokers)
        # Without the refresh the client would query a dead broker for minutes.
        self.admin = AdminClient(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "log_level": 0,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )

    def format(self) -> None:
        """Format the directory of every process: the controller's by Kafka, the brokers' in the same form."""
        for number in (CONTROLLER, *self.brokers):
            write_properties(self._config(number), self._properties(number))
        run_java(STORAGE, "format", "--cluster-id", random_kafka_uuid(), "--config", self._config(CONTROLLER))
        formatted = parse_properties((self._data(CONTROLLER) / META).read_text())
        for number in self.brokers:
            self._data(number).mkdir()
            write_properties(
                self._data(number) / META,
                {**formatted, "node.id": str(number), "directory.id": random_kafka_uuid()},
            )

    def start(self, *numbers: int) -> None:
        """Start these on their directories; returns without waiting."""
        for number in numbers:
            command = java_command(BROKER, self._config(number), heap=HEAP, log_level="info")
            if self._dies_with_parent:
                command = dying_with_parent(command)
            with self._log(number).open("ab") as output:
                self._processes[number] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self._home,
                )

    def kill(self, *numbers: int) -> None:
        """SIGKILL: without a flush or a controlled shutdown."""
        for number in numbers:
            self._processes[number].kill()
        for number in numbers:
            self._processes[number].wait()

    def pause(self, number: int) -> None:
        """SIGSTOP: the process accepts connections and does not answer."""
        self._processes[number].send_signal(signal.SIGSTOP)

    def stop(self, *numbers: int) -> None:
        """SIGTERM: leadership moves first."""
        for number in numbers:
            stop(self._processes[number])

    def stop_all(self) -> None:
        """Brokers first: without a controller they would wait for one."""
        # The data is deleted, so a clean shutdown is not needed.
        for number, process in sorted(self._processes.items(), reverse=True):
            if process.poll() is None:
                process.kill()
                process.wait()
            del self._processes[number]

    def wait_for_brokers(self, count: int | None = None) -> None:
        """Wait until the cluster lists this many brokers, by default all."""
        wanted = len(self.brokers) if count is None else count

        def listed() -> bool:
            for number, process in self._processes.items():
                if process.poll() is not None and process.returncode not in (-9, 143, 0):
                    raise BrokerError(
                        f"process {number} exited with {process.returncode}: {self._errors_of(number)}"
                    )
            with suppress(KafkaException):
                return len(self.admin.list_topics(timeout=2).brokers) == wanted
            return False

        wait_until(listed, f"{wanted} brokers", timeout_s=START_TIMEOUT_S)

    def create_topic(self, name: str, replicas: Sequence[int], config: Mapping[str, str]) -> None:
        """One partition on these brokers, the first of them its leader; returns when it has that leader."""
        topic = NewTopic(name, num_partitions=1, replica_assignment=[list(replicas)], config=dict(config))
        self.admin.create_topics([topic])[name].result()
        wait_until(lambda: self.leader(name) is not None, f"a leader of {name}")

    def leader(self, topic: str) -> int | None:
        """The number of the partition's leader, None while there is none."""
        partition = self._partition(topic)
        return None if partition is None or partition.leader is None else partition.leader.id

    def wait_for_leader(self, topic: str, *, other_than: int) -> None:
        """Wait until the partition has a leader other than this one."""
        wait_until(lambda: self.leader(topic) not in (None, other_than), f"another leader of {topic}")

    def in_sync(self, topic: str) -> set[int]:
        """The numbers of the replicas that are in sync."""
        partition = self._partition(topic)
        return set() if partition is None else {replica.id for replica in partition.isr}

    def _partition(self, topic: str) -> TopicPartitionInfo | None:
        with suppress(KafkaException):
            described = self.admin.describe_topics(TopicCollection([topic]), request_timeout=5)[
                topic
            ].result()
            return described.partitions[0] if described.partitions else None
        return None

    def _config(self, number: int) -> Path:
        return self._home / f"{number}.properties"

    def _data(self, number: int) -> Path:
        return self._home / f"data-{number}"

    def _log(self, number: int) -> Path:
        return self._home / f"{number}.log"

    def _errors_of(self, number: int) -> str:
        lines = self._log(number).read_text(errors="replace").splitlines()
        return "\n".join(
            [line for line in lines if " ERROR " in line or "Exception" in line][:20] or lines[-20:]
        )

    def _properties(self, number: int) -> dict[str, str]:
        controller_port = self._ports[CONTROLLER]
        copies = str(min(3, len(self.brokers)))
        properties = {
            **server_properties(self._ports[number], controller_port),
            "node.id": str(number),
            "controller.quorum.voters": f"{CONTROLLER}@{HOST}:{controller_port}",
            "log.dirs": str(self._data(number)),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": str(min(2, len(self.brokers))),
            # A killed broker is fenced soon, and a leader does not move without a test.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "replica.lag.time.max.ms": "3000",
            "auto.leader.rebalance.enable": "false",
            **self._settings,
        }
        if number == CONTROLLER:
            properties["process.roles"] = "controller"
            properties["listeners"] = f"CONTROLLER://{HOST}:{controller_port}"
            del properties["advertised.listeners"], properties["inter.broker.listener.name"]
        else:
            properties["process.roles"] = "broker"
            properties["listeners"] = f"PLAINTEXT://{HOST}:{self._ports[number]}"
        return properties


@contextmanager
def kafka_cluster(
    brokers: int = 3, settings: Mapping[str, str] | None = None, *, dies_with_parent: bool = False
) -> Iterator[KafkaCluster]:
    """A controller and this many brokers, all running, and stopped at the end.

    Args:
        brokers: number of brokers.
        settings: what is added to every server.properties.
        dies_with_parent: end them also if this process is killed; only its main thread may then start them.
    """
    for attempt in range(1, START_TRIES + 1):
        with tempfile.TemporaryDirectory(prefix="aclog-cluster-", ignore_cleanup_errors=True) as home:
            cluster = KafkaCluster(Path(home), brokers, settings or {}, dies_with_parent=dies_with_parent)
            try:
                cluster.format()
                cluster.start(CONTROLLER, *cluster.brokers)
                try:
                    cluster.wait_for_brokers()
                except BrokerError as error:
                    # A free port was taken by another program before the broker bound it.
                    if "BindException" in str(error) and attempt < START_TRIES:
                        continue
                    raise
                yield cluster
                return
            finally:
                cluster.stop_all()
