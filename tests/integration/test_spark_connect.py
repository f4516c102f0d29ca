"""`aclog spark history --remote` on a real Spark Connect server, beside a classic session."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from authorizer.cli.failure import ExitCode
from records.log.directory import DirectoryLog
from support.dies_with_parent import dying_with_parent
from support.histories import random_batches
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.xdist_group("spark-cluster")]

ACLOG = [sys.executable, "-m", "authorizer.cli"]
START_S = 240.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server from the jars of pyspark."""
    home, port = tmp_path_factory.mktemp("connect"), free_port()
    command = [
        f"{_find_spark_home()}/bin/spark-submit", "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false",
        "spark-internal",
    ]  # fmt: skip
    with (home / "server.log").open("wb") as output:
        server = subprocess.Popen(
            dying_with_parent(command),
            stdout=output,
            stderr=output,
            cwd=home,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    try:
        wait_until(lambda: is_listening(port) or server.poll() is not None, "the server", timeout_s=START_S)
        assert server.poll() is None, (home / "server.log").read_text()
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("history")
    with DirectoryLog.open(home / "log", mode="create", cluster_id="c-1") as log:
        times_ms = range(1_700_000_000_000, 1_800_000_000_000, 20_000)
        log.append_batches(list(zip(random_batches(29, 60), times_ms, strict=False)))
    run("changes", "--log", str(home / "log"), "--output", str(home / "history"), "--once")
    return home / "history"


def run(*arguments: str) -> str:
    command = [*ACLOG, "spark", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.OK, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "query",
    [
        ["in-force"],
        ["in-force", "--at-offset", "30"],
        ["changes", "--after", "10", "--resource-type", "TOPIC", "--resource-name", "a"],
        ["changes"],
    ],
)
def test_remote_query_equals_the_classic_one(remote: str, history: Path, query: list[str]) -> None:
    arguments = ["history", *query, "--history", str(history), "--json"]
    lines = run(*arguments, "--remote", remote).splitlines()
    assert lines == run(*arguments).splitlines()
    if "--resource-name" not in query:
        assert lines
