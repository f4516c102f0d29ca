"""Three real controllers and one broker, each a process that a test may kill or stop.

controllers 0, 1, 2 <-- broker 3        everything on 127.0.0.1, directories in one temporary home
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from records.log.quorum import QuorumLog
from records.log.url import Address
from records.properties import parse_properties
from support.kafka_broker import (
    HOST,
    free_ports,
    random_kafka_uuid,
    server_properties,
    stop,
    wait_until_ready,
    write_properties,
)
from support.kafka_tools import BROKER, QUORUM, STORAGE, java_command, run_java
from support.sasl_clients import with_sasl_listener

HEAP: Final = "256m"
CONTROLLERS: Final = (0, 1, 2)
BROKER_NUMBER: Final = 3


class KafkaQuorum:
    """Running processes by their number; made by ``kafka_quorum``."""

    def __init__(self, home: Path, users: Sequence[str], *, joins: bool, fetch_timeout_ms: int) -> None:
        self._home = home
        self._users = users
        self._joins = joins
        self._fetch_timeout_ms = fetch_timeout_ms
        *self._ports, sasl_port = free_ports(5)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap_servers = f"{HOST}:{self._ports[BROKER_NUMBER]}"
        self.sasl_servers = f"{HOST}:{sasl_port}"
        self.controllers = ",".join(f"{HOST}:{self._ports[number]}" for number in CONTROLLERS)

    def format(self) -> None:
        """Format the directories: the first controller's by Kafka, the others in the same form."""
        for number in (*CONTROLLERS, BROKER_NUMBER):
            write_properties(self._config(number), self._properties(number))
        only = ["--standalone"] if self._joins else []
        run_java(STORAGE, "format", "--cluster-id", random_kafka_uuid(), "--config", self._config(0), *only)
        formatted = parse_properties((self._data(0) / "meta.properties").read_text())
        for number in (1, 2, BROKER_NUMBER):
            if number == BROKER_NUMBER or self._joins:
                self._data(number).mkdir()
            else:
                shutil.copytree(self._data(0), self._data(number))
            overrides = {"node.id": str(number), "directory.id": random_kafka_uuid()}
            write_properties(self._data(number) / "meta.properties", {**formatted, **overrides})

    def start(self, *numbers: int) -> None:
        """Start these on their directories; returns without waiting."""
        for number in numbers:
            command = java_command(BROKER, self._config(number), heap=HEAP, log_level="info")
            with (self._home / f"{number}.log").open("ab") as output:
                self._processes[number] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self._home
                )

    def kill(self, number: int) -> None:
        """SIGKILL."""
        self._processes[number].kill()
        self._processes[number].wait()

    def stop(self, number: int) -> None:
        """SIGTERM: a leader resigns first."""
        stop(self._processes[number])

    def pause(self, number: int) -> None:
        """SIGSTOP: the process accepts connections and does not answer."""
        self._processes[number].send_signal(signal.SIGSTOP)

    def is_paused(self, number: int) -> bool:
        """Whether all its threads are stopped, which takes a while after the signal."""
        status = Path(f"/proc/{self._processes[number].pid}/status").read_text()
        return "\nState:\tT" in status

    def resume(self, number: int) -> None:
        """SIGCONT: the process keeps its former role until it learns of a change."""
        self._processes[number].send_signal(signal.SIGCONT)

    def metadata_dir(self, number: int) -> Path:
        """Where it keeps the metadata log."""
        return self._data(number) / "__cluster_metadata-0"

    def address(self, number: int) -> Address:
        """Where it listens."""
        return Address(HOST, self._ports[number])

    def leader(self) -> int:
        """The number of the controller that leads now."""
        with QuorumLog.open(f"kraft://{self.controllers}") as log:
            log.high_watermark()
            found = log._session._leadership.node_id
        assert found is not None
        return found

    def voters(self) -> set[int]:
        """The numbers of the voters, as the cluster describes them; none if it does not answer."""
        done = run_java(
            QUORUM, "--bootstrap-controller", self.controllers, "describe", "--replication", check=False
        )
        lines = done.stdout.splitlines()[1:]
        return {int(line.split()[0]) for line in lines if line.split()[-1] in ("Leader", "Follower")}

    def stop_all(self) -> None:
        """Kill all: the data is deleted, so a clean shutdown is not needed."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def why_ended(self) -> str | None:
        for number, process in self._processes.items():
            if process.poll() is not None:
                return f"process {number}: " + (self._home / f"{number}.log").read_text()[-4000:]
        return None

    def _config(self, number: int) -> Path:
        return self._home / f"{number}.properties"

    def _data(self, number: int) -> Path:
        return self._home / f"data-{number}"

    def _properties(self, number: int) -> dict[str, str]:
        voters = ",".join(f"{each}@{HOST}:{self._ports[each]}" for each in CONTROLLERS)
        properties = {
            **server_properties(self._ports[number], self._ports[0]),
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "log.dirs": str(self._data(number)),
            "controller.quorum.election.timeout.ms": "500",
            "controller.quorum.fetch.timeout.ms": str(self._fetch_timeout_ms),
            "controller.quorum.request.timeout.ms": "1000",
        }
        if self._joins:
            del properties["controller.quorum.voters"]
            properties["controller.quorum.bootstrap.servers"] = self.controllers
        if number == BROKER_NUMBER:
            properties["process.roles"] = "broker"
            properties["listeners"] = f"PLAINTEXT://{HOST}:{self._ports[number]}"
            if self._users:
                properties = with_sasl_listener(properties, self.sasl_servers, self._users)
        else:
            properties["process.roles"] = "controller"
            properties["listeners"] = f"CONTROLLER://{HOST}:{self._ports[number]}"
            del properties["advertised.listeners"], properties["inter.broker.listener.name"]
            if self._joins:
                properties["controller.quorum.auto.join.enable"] = "true"
        return properties


@contextmanager
def kafka_quorum(
    users: Sequence[str] = (), *, joins: bool = False, fetch_timeout_ms: int = 1000
) -> Iterator[KafkaQuorum]:
    """Three controllers and a broker, all up; the broker has a SASL listener for ``users``.

    With ``joins`` the voters are not in their configuration (KIP-853): it begins with controller 0 alone, and
    the others join. Followers elect another leader, and a leader without them resigns, after about
    ``fetch_timeout_ms``.
    """
    with tempfile.TemporaryDirectory(prefix="aclog-quorum-", ignore_cleanup_errors=True) as home:
        quorum = KafkaQuorum(Path(home), users, joins=joins, fetch_timeout_ms=fetch_timeout_ms)
        try:
            quorum.format()
            quorum.start(*CONTROLLERS, BROKER_NUMBER)
            wait_until_ready(quorum.bootstrap_servers, quorum.why_ended)
            yield quorum
        finally:
            quorum.stop_all()
