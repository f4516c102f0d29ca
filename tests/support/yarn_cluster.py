"""YARN: a resource manager and a node manager in processes from Hadoop's shaded jar, on free ports.

The default file system is the local one. Each JVM has at most 256 MB; containers are child processes of the
node manager, with the limits that their application asks for. `python tests/support/yarn_cluster.py` fetches
the jar, which must match its checksum, and prints the class path.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from pyspark.find_spark_home import _find_spark_home

from snapshot.jobs.session.ivy import Jar, jar_directory, java_command
from support.class_archives import SHORT_LIVED
from support.dies_with_parent import dying_with_parent
from support.kafka_broker import HOST, free_ports
from support.kafka_jars import ROOT
from support.spark_cluster import START_S
from support.waiting import wait_until

#: That of the client in pyspark's jars.
HADOOP_VERSION = "3.5.0"
#: What is not in pyspark: the servers, and what they make certificates with.
_JARS = (
    Jar(
        f"org/apache/hadoop/hadoop-client-minicluster/{HADOOP_VERSION}/"
        f"hadoop-client-minicluster-{HADOOP_VERSION}.jar",
        "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    ),
    Jar(
        "org/bouncycastle/bcpkix-jdk18on/1.82/bcpkix-jdk18on-1.82.jar",
        "bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63",
    ),
    Jar(
        "org/bouncycastle/bcprov-jdk18on/1.82/bcprov-jdk18on-1.82.jar",
        "14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce",
    ),
    Jar(
        "org/bouncycastle/bcutil-jdk18on/1.82/bcutil-jdk18on-1.82.jar",
        "4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d",
    ),
)
_SERVER = "org.apache.hadoop.yarn.server"
_ENDED = ("FINISHED", "FAILED", "KILLED")


@functools.cache
def yarn_class_path() -> str:
    """The shaded servers and the jars of pyspark, which have Hadoop's client; fetched if need be.

    The jar is below `.cache/yarn` in the repository, or what ACLOG_YARN_JARS names. Raises SparkJarsError.
    """
    default = ROOT / ".cache" / "yarn" / HADOOP_VERSION
    directory = jar_directory(default, "ACLOG_YARN_JARS", _JARS, f"YARN {HADOOP_VERSION}")
    return os.pathsep.join([f"{directory}/*", f"{_find_spark_home()}/jars/*"])


class YarnCluster:
    """A running cluster with one node.

    Attributes:
        configuration: a directory for HADOOP_CONF_DIR.
    """

    def __init__(self, home: Path, path: str) -> None:
        self._home = home
        self.configuration = home / "conf"
        self.configuration.mkdir(parents=True)
        ports = free_ports(5)
        self._web = f"{HOST}:{ports[4]}"
        self._write_settings(ports)
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for name, main in (
                ("resource-manager", "resourcemanager.ResourceManager"),
                ("node-manager", "nodemanager.NodeManager"),
            ):
                self._processes.append(self._start(name, f"{_SERVER}.{main}", path))
            wait_until(self._has_node, "a node of YARN", timeout_s=START_S)
        except BaseException:
            self.stop()
            raise

    def applications(self) -> list[Mapping[str, Any]]:
        """What YARN knows of its applications, the oldest first."""
        found = (self._get("apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda each: each["startedTime"])

    def attempts(self, application: str) -> list[Mapping[str, Any]]:
        """The attempts of an application's master."""
        found: list[Mapping[str, Any]] = self._get(f"apps/{application}/appattempts")["appAttempts"][
            "appAttempt"
        ]
        return found

    def ended(self, application: str) -> Mapping[str, Any]:
        """Wait for the end of an application; what YARN knows of it."""

        def found() -> Mapping[str, Any] | None:
            status: Mapping[str, Any] = self._get(f"apps/{application}")["app"]
            return status if status["state"] in _ENDED else None

        return wait_until(found, f"the end of {application}", timeout_s=START_S)

    def kill_master(self, application: str, attempt: int) -> None:
        """kill -9 of the JVM of an attempt's application master, which in cluster mode is the driver's."""
        container = application.replace("application", "container") + f"_{attempt:02}_000001"
        for number in _processes_with(container):
            os.kill(number, signal.SIGKILL)

    def output(self, application: str) -> str:
        """Standard output of an application's masters, one after another."""
        files = sorted((self._home / "logs" / application).glob("*_000001/stdout"))
        return "".join(file.read_text(errors="replace") for file in files)

    def stop(self) -> None:
        """End the node manager, with its containers, and then the resource manager."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number in _processes_with(str(self._home / "local")):
            os.kill(number, signal.SIGKILL)

    def _has_node(self) -> bool:
        for process in self._processes:
            if process.poll() is not None:
                logs = [(self._home / f"{name}.log") for name in ("resource-manager", "node-manager")]
                raise RuntimeError("\n".join(log.read_text(errors="replace")[-2000:] for log in logs))
        try:
            nodes = self._get("nodes")["nodes"] or {}
        except OSError:
            return False  # it has not started yet
        return any(node["state"] == "RUNNING" for node in nodes.get("node", []))

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self._web}/ws/v1/cluster/{path}") as response:
            return json.load(response)

    def _write_settings(self, ports: list[int]) -> None:
        names = ("", "scheduler.", "resource-tracker.", "admin.", "webapp.")
        addresses = {
            f"yarn.resourcemanager.{name}address": f"{HOST}:{port}"
            for name, port in zip(names, ports, strict=True)
        }
        _write(self.configuration / "core-site.xml", {
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(self._home / "tmp"),
        })  # fmt: skip
        _write(self.configuration / "yarn-site.xml", {
            **addresses,
            "yarn.resourcemanager.am.max-attempts": "4",
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.address": f"{HOST}:0",
            "yarn.nodemanager.localizer.address": f"{HOST}:0",
            "yarn.nodemanager.webapp.address": f"{HOST}:0",
            "yarn.nodemanager.local-dirs": str(self._home / "local"),
            "yarn.nodemanager.log-dirs": str(self._home / "logs"),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.env-whitelist": "JAVA_HOME,PATH,SPARK_LOCAL_IP",
            # A full disk or a busy machine must not end a test's containers.
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
        })  # fmt: skip
        # The first queue, without its rule that masters get a tenth of the memory.
        _write(self.configuration / "capacity-scheduler.xml", {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        })  # fmt: skip

    def _start(self, name: str, main: str, path: str) -> subprocess.Popen[bytes]:
        command = [
            java_command(), "-Xmx256m", *SHORT_LIVED,
            # As in Hadoop's scripts for Java 17.
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "-cp", os.pathsep.join([str(self.configuration), yarn_class_path()]), main,
        ]  # fmt: skip
        environment = {**os.environ, "PATH": path, "SPARK_LOCAL_IP": HOST, "HADOOP_HOME": str(self._home)}
        with (self._home / f"{name}.log").open("wb") as output:
            return subprocess.Popen(
                dying_with_parent(command), stdout=output, stderr=output, env=environment, cwd=self._home
            )


def _write(file: Path, settings: Mapping[str, str]) -> None:
    lines = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{lines}</configuration>\n", encoding="utf-8")


def _processes_with(text: str) -> list[int]:
    """The process ids of the processes whose command line contains ``text``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            if text.encode() in command:
                found.append(int(entry.name))
    return found


@contextmanager
def yarn_cluster(home: Path, *, path: str) -> Iterator[YarnCluster]:
    """A cluster until the end of the block, its files below ``home``; ``path`` is PATH of its containers."""
    home.mkdir(parents=True)
    cluster = YarnCluster(home, path)
    try:
        yield cluster
    finally:
        cluster.stop()


if __name__ == "__main__":
    print(yarn_class_path())
