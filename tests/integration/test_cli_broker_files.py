"""A broker's or controller's own properties file as --config: it works as it is, and touches nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
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

from authorizer.cli.main import cli
from support.data import real_log
from support.kafka_broker import Broker
from support.nodes import SOON_S

KAFKAS = Path(__file__).resolve().parents[1] / "data" / "kafka-config"
QUESTION = ("--principal", "User:alice", "--operation", "Read", "--topic", "orders", "--host", "10.0.0.1")
TIMEOUT_S = 60


def broker_file(home: Path, name: str) -> Path:
    """Kafka's own file, with its log.dirs below ``home``."""
    text = (KAFKAS / f"{name}.properties").read_text(encoding="utf-8")
    file = home / f"{name}.properties"
    file.write_text(re.sub("^log.dirs=.*", f"log.dirs={home}/data", text, flags=re.MULTILINE))
    return file


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("name", ["server", "broker", "controller"])
def test_broker_files_name_the_log(name: str, tmp_path: Path) -> None:
    """check and acls --list read the broker's log without --log."""
    shutil.copytree(real_log("kraft-small"), tmp_path / "data" / "__cluster_metadata-0")
    config = str(broker_file(tmp_path, name))
    result = CliRunner().invoke(cli, ["check", "--config", config, *QUESTION])
    assert (result.exit_code, result.stdout.split()[0]) == (0, "ALLOWED"), result.output
    listed = CliRunner().invoke(cli, ["acls", "--list", "--config", config])
    assert listed.exit_code == 0
    assert "name=orders" in listed.stdout
    verified = CliRunner().invoke(cli, ["log", "verify", "--config", config, "--json"])
    assert json.loads(verified.stdout)["highWatermark"] == 281


@pytest.mark.parametrize(
    "command",
    [
        "log create",
        "log append /dev/null",
        "log append --create /dev/null",
        "acls --add --topic t --allow-principal User:a",
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_to_a_brokers_directory(command: str, is_there: bool, tmp_path: Path) -> None:
    """A log of ours in a broker's directory would keep the broker from starting: not even an empty one."""
    data = tmp_path / "data" / "__cluster_metadata-0"
    if is_there:
        shutil.copytree(real_log("kraft-small"), data)
    before = content(data) if is_there else None
    args = [*command.split(), "--config", str(broker_file(tmp_path, "server"))]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 2
    assert "The broker's log, which log.dirs names, is read-only" in result.output
    assert "--log" in result.output
    assert (content(data) if data.exists() else None) == before


@pytest.mark.parametrize("command", ["acls --list", "serve", "log verify", "log dump"])
def test_a_directory_of_another_machine_is_reported(command: str, tmp_path: Path) -> None:
    """With the key that says so, and the way out."""
    config = broker_file(tmp_path, "server")
    result = CliRunner().invoke(cli, [*command.split(), "--config", str(config)])
    assert result.exit_code == 2
    assert f"`{tmp_path}/data` for `log.dirs`" in result.output
    assert "Name the log with --log or aclog.log.url" in result.output


def test_a_store_is_read_without_the_brokers_log(tmp_path: Path) -> None:
    """Where no log is needed, none is looked for."""
    (tmp_path / "store").mkdir()
    args = ["snapshot", "list", "--snapshots", str(tmp_path / "store")]
    result = CliRunner().invoke(cli, [*args, "--config", str(broker_file(tmp_path, "server"))])
    assert result.exit_code == 0
    assert "log.dirs" not in result.output


@pytest.mark.parametrize("mode", ["write", "create"])
def test_serve_does_not_write_to_a_brokers_directory(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever aclog.log.mode says."""
    shutil.copytree(real_log("kraft-small"), tmp_path / "data" / "__cluster_metadata-0")
    monkeypatch.setenv("ACLOG_LOG_MODE", mode)
    result = CliRunner().invoke(cli, ["serve", "--config", str(broker_file(tmp_path, "server"))])
    assert result.exit_code == 2
    assert "aclog.log.mode" in result.output


@pytest.mark.slow
@pytest.mark.integration
def test_commands_read_the_log_of_a_running_broker(broker: Broker) -> None:
    """check and serve with the file that the broker runs with: its log, its super users, not its ports."""
    if broker.metadata_dir is None:
        pytest.skip("the broker's files are not on this machine")
    config = str(broker.metadata_dir.parents[1] / "server.properties")
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    name = "of-a-broker-file"
    binding = AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.LITERAL,
        f"User:{name}",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for done in client.create_acls([binding]).values():
        done.result(TIMEOUT_S)
    question = ["check", "--config", config, "--operation", "Read", "--topic", name]
    allowed = CliRunner().invoke(cli, [*question, "--principal", f"User:{name}"])
    assert allowed.stdout.startswith("ALLOWED by"), allowed.output
    super_user = CliRunner().invoke(cli, [*question, "--principal", "User:ANONYMOUS"])
    assert super_user.stdout.startswith("ALLOWED by SuperUser"), super_user.output

    command = [sys.executable, "-m", "authorizer.cli", "serve", "--config", config]
    environ = {
        **os.environ,
        "ACLOG_LISTENERS": "PLAINTEXT://127.0.0.1:0",
        "ACLOG_LOGGING_FORMAT": "json",
    }
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        try:
            assert process.stderr is not None
            events = (json.loads(line) for line in process.stderr if line.startswith("{"))
            (url,) = next(event["urls"] for event in events if event.get("event") == "listening")
            assert url.startswith("http://127.0.0.1:")
            deadline_s = time.monotonic() + TIMEOUT_S
            state = {"ready": False}
            while not state["ready"] and time.monotonic() < deadline_s:
                with urllib.request.urlopen(f"{url}/v1/state", timeout=SOON_S) as answer:
                    state = json.load(answer)
            assert state["ready"]
        finally:
            process.kill()
    assert client.list_topics(timeout=TIMEOUT_S).brokers
