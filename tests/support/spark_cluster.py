"""A standalone Spark cluster: a master and its workers in processes from pyspark's own jars, on free ports.

Each worker has one core. Executors are child processes of their worker, so a test can find and kill them.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from pyspark.find_spark_home import _find_spark_home

from support.class_archives import jvm_options
from support.dies_with_parent import dying_with_parent
from support.waiting import wait_until

_DEPLOY = "org.apache.spark.deploy"
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_EXECUTOR_CLASS = b"CoarseGrainedExecutorBackend"
_PYTHON_DAEMON = b"pyspark.daemon"
_LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
#: Six JVMs start on two cores, beside other tests.
START_S = 240.0


class SparkCluster:
    """A running cluster.

    Attributes:
        master_url: spark://HOST:PORT.
        workers: the process of each worker.
    """

    def __init__(
        self, home: Path, workers: int, environment: Mapping[str, str], worker_prefix: Sequence[str]
    ) -> None:
        self._home = home
        self._environment = environment
        self._worker_prefix = worker_prefix
        self._master = self._start("master", ["master.Master"])
        self.workers: list[subprocess.Popen[bytes]] = []
        try:
            found = wait_until(lambda: self._logged("master", _MASTER_URL), "the master", timeout_s=START_S)
            self.master_url = found[1]
            for number in range(workers):
                self.workers.append(self._started_worker(number))
            for number in range(workers):
                self._wait_registered(number)
        except BaseException:
            self.stop()
            raise

    def _started_worker(self, number: int) -> subprocess.Popen[bytes]:
        """A new worker with one core."""
        name = f"worker-{number}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._home / name)]
        return self._start(name, ["worker.Worker", self.master_url, *options], self._worker_prefix)

    def _wait_registered(self, number: int) -> None:
        wait_until(
            lambda: self._logged(f"worker-{number}", re.compile(_REGISTERED)),
            f"worker {number}",
            timeout_s=START_S,
        )

    def executors(self, worker: subprocess.Popen[bytes]) -> list[int]:
        """The process ids of a worker's executors."""
        return _children(worker.pid, _EXECUTOR_CLASS)

    def kill_executor(self, worker: subprocess.Popen[bytes]) -> int:
        """kill -9 of a worker's executor as soon as it has one; its process id."""
        number = wait_until(lambda: self.executors(worker), "an executor", timeout_s=START_S)[0]
        os.kill(number, signal.SIGKILL)
        return number

    def kill_executor_in_task(self) -> int:
        """kill -9 of the first executor that has started Python, which it does for a task; its process id."""

        number = self.wait_for_tasks()[0]
        os.kill(number, signal.SIGKILL)
        return number

    def replace_worker_in_task(self) -> None:
        """Replace the worker of the first executor that has started Python, which it does for a task."""
        number = self.wait_for_tasks()[0]
        (at,) = [at for at, worker in enumerate(self.workers) if number in self.executors(worker)]
        self.replace_worker(at)

    def wait_for_tasks(self) -> list[int]:
        """Wait for executors that have started Python, which they do for a task; their process ids."""

        def with_python() -> list[int]:
            found = (number for worker in self.workers for number in self.executors(worker))
            return [number for number in found if _children(number, _PYTHON_DAEMON)]

        return wait_until(with_python, "a task", timeout_s=START_S)

    def replace_worker(self, number: int) -> None:
        """kill -9 of a worker, whose executors then end by themselves, and start another one."""
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._started_worker(number)

    def stop(self) -> None:
        """End the workers, with their executors, and then the master."""
        for process in (*self.workers, self._master):
            process.terminate()
        for process in (*self.workers, self._master):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, arguments: list[str], prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        command = [
            *prefix,
            f"{_find_spark_home()}/bin/spark-class", f"{_DEPLOY}.{arguments[0]}", *arguments[1:],
            "--host", "127.0.0.1", "--port", "0", "--webui-port", "0",
        ]  # fmt: skip
        environment = {
            **os.environ,
            **_LOOPBACK,
            **self._environment,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": shlex.join(jvm_options("spark")),
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # its port is fixed
        }
        with self._log(name).open("wb") as output:
            return subprocess.Popen(dying_with_parent(command), stdout=output, stderr=output, env=environment)

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def _logged(self, name: str, wanted: re.Pattern[str]) -> re.Match[str] | None:
        return wanted.search(self._log(name).read_text(errors="replace"))


def _children(parent: int, name: bytes) -> list[int]:
    """The process ids of a process's children whose command line contains ``name``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has just ended
                ppid = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if ppid == parent and name in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@contextmanager
def spark_cluster(
    home: Path,
    *,
    workers: int = 2,
    environment: Mapping[str, str] = MappingProxyType({}),
    worker_prefix: Sequence[str] = (),
) -> Iterator[SparkCluster]:
    """A cluster until the end of the block; logs and working directories are below ``home``.

    ``environment`` is added to that of its processes, the executors included. ``worker_prefix``: a command
    that executes the workers' command, its last arguments.
    """
    home.mkdir(parents=True)
    cluster = SparkCluster(home, workers, environment, worker_prefix)
    try:
        yield cluster
    finally:
        cluster.stop()
