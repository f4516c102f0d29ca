"""`aclog acls` beside a running `aclog serve` on the same directory, and on a node named by --sidecar."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from authorizer.api.kafka_version import NETWORKS_LEVEL
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from records.entries import METADATA_VERSION_FEATURE, FeatureLevelRecord
from records.log.directory import DirectoryLog
from records.principal import KafkaPrincipal
from support.kafka_broker import HOST, free_ports
from support.nodes import SOON_S, running_node, sidecar_of
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
ACLOG = [sys.executable, "-m", "authorizer.cli"]
READ_AND_DESCRIBE = ("--operation", "Read", "--operation", "Describe")
ADD = ("--add", "--allow-principal", "User:a", *READ_AND_DESCRIBE, "--topic", "t")
ADD_ALTER = ("--add", "--allow-principal", "User:ANONYMOUS", "--operation", "Alter", "--cluster")
#: The command as user and group 65534; what it imports is read before, for it may be root's.
#: All is imported before, for the interpreter may be where only root may read.
AS_NOBODY = """
import difflib, http.client, os, pkgutil, sys
import authorizer, records, replay, snapshot
for package in (records, snapshot, replay, authorizer):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not any(part in module.name for part in ("jobs", "spark", "topic", "__main__")):
            __import__(module.name)
from authorizer.cli.main import main
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
main(sys.argv[1:])
"""


def aclog(*args: object, **how: object) -> subprocess.CompletedProcess[str]:
    """One command, to its end."""
    return subprocess.run(  # type: ignore[call-overload]
        [*ACLOG, *map(str, args)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SOON_S,
        check=False,
        **{"cwd": ROOT, "stdin": subprocess.DEVNULL, **how},
    )


def acls(log: Path, *args: object) -> subprocess.CompletedProcess[str]:
    return aclog("acls", "--log", log, *args)


def records_of(log: DirectoryLog) -> list[set[object]]:
    """By batch."""
    return [{each.record for each in batch.records} for batch in log.read(0)]


@contextmanager
def serving(log: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """An `aclog serve` on the log, from its start on; it need not be listening yet."""
    (port,) = free_ports(1)
    config = log.parent / "serve.properties"
    config.write_text(f"aclog.listeners=PLAINTEXT://{HOST}:{port}\n")
    process = subprocess.Popen(
        [*ACLOG, "serve", "--log", str(log), "--config", str(config), *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_listening(log: Path) -> bool:
    """Whether a process accepts on the socket: a killed node's refuses."""
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(log / "aclog.sock"))
        return True
    return False


def wait_for_socket(log: Path) -> None:
    wait_until((log / "aclog.sock").exists, "the socket")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An empty aclog-managed log."""
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    return tmp_path / "log"


@pytest.mark.long
@pytest.mark.slow
def test_a_command_prints_the_same_with_and_without_a_node(log: Path, tmp_path: Path) -> None:
    """Text, JSON and exit codes, of all three actions, are the same; so is what is written."""
    alone = tmp_path / "alone"
    DirectoryLog.open(alone, mode="create", cluster_id="x").close()
    for each in (log, alone):
        with DirectoryLog.open(each, mode="write") as opened:
            opened.append([FeatureLevelRecord(METADATA_VERSION_FEATURE, NETWORKS_LEVEL - 1)])
    with serving(log) as node:
        wait_for_socket(log)
        for args in (
            ADD,
            (*ADD, "--topic", "u", "--json"),
            (*ADD, "--json"),
            (*ADD, "--group", ""),
            ("--add", "--group", "", "--allow-principal", "User:a"),
            (*ADD, "--allow-host", "10.0.0.9", "--allow-host", "10.0.0.0/8"),
            (*ADD, "--allow-host", "10.0.0.7", "--allow-host", "10.0.0.0/8", "--json"),
            ("--list", "--topic", "t"),
            ("--list", "--json"),
            ("--remove", "--operation", "Read", "--allow-principal", "User:a", "--topic", "t", "--force"),
            ("--remove", "--topic", "u", "--topic", "t", "--topic", "none", "--force", "--json"),
            ("--remove", "--topic", "t"),
            ("--list",),
        ):
            beside, without = acls(log, *args), acls(alone, *args)
            assert (beside.returncode, beside.stdout, beside.stderr) == (
                without.returncode,
                without.stdout,
                without.stderr,
            ), args
        assert node.poll() is None
        node.send_signal(signal.SIGTERM)
        assert node.wait(SOON_S) == 0
    assert not (log / "aclog.sock").exists()
    with DirectoryLog.open(log) as first, DirectoryLog.open(alone) as second:
        assert records_of(first) == records_of(second)


def test_a_command_right_after_the_start_of_a_node(log: Path) -> None:
    """It holds the log, and does not listen or is not ready yet: the command waits, for a moment."""
    with serving(log):
        wait_until(lambda: (log / ".lock").read_text() not in ("", f"{os.getpid()}\n"), "the node's lock")
        added = acls(log, *ADD)
        assert (added.returncode, added.stderr) == (0, "")


def test_the_socket_of_a_killed_node_is_ignored(log: Path) -> None:
    """Its socket stays behind: a command writes by itself, another node listens anew."""
    with serving(log) as node:
        wait_for_socket(log)
        assert acls(log, *ADD).returncode == 0
        node.kill()
        node.wait(SOON_S)
    assert (log / "aclog.sock").is_socket()
    assert acls(log, *ADD, "--group", "g").returncode == 0
    with serving(log):
        wait_until(lambda: is_listening(log), "the socket of the new node")
        removed = json.loads(acls(log, "--remove", "--topic", "t", "--force", "--json").stdout)
        assert len(removed["removed"]) == 2
    assert acls(log, "--list").stdout.count("principal=") == 2


def test_a_directory_with_a_long_name(tmp_path: Path) -> None:
    """Longer than the kernel takes for an address."""
    log = tmp_path / ("d" * 200) / "log"
    log.parent.mkdir()
    DirectoryLog.open(log, mode="create").close()
    with serving(log):
        wait_for_socket(log)
        assert acls(log, *ADD).returncode == 0
        listed = aclog("acls", "--sidecar", f"unix:{log}/aclog.sock", "--list", "--json")
        assert len(json.loads(listed.stdout)["acls"]) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused() -> None:
    """Who could not write the directory cannot do so through the node."""
    with tempfile.TemporaryDirectory() as readable:
        Path(readable).chmod(0o755)
        log = Path(readable) / "log"
        DirectoryLog.open(log, mode="create").close()
        with running_node(log) as node, sidecar_of(node):
            for where in (("--log", str(log)), ("--sidecar", f"unix:{log}/aclog.sock")):
                refused = subprocess.run(
                    [sys.executable, "-c", AS_NOBODY, "acls", *where, *ADD],
                    capture_output=True,
                    text=True,
                    timeout=SOON_S,
                    check=False,
                    cwd=ROOT,
                )
                assert "Permission denied" in refused.stderr
                assert refused.returncode in (2, 3)
            assert node.log.high_watermark() == 0


@pytest.mark.parametrize("command", ["acls", "append"])
def test_a_log_held_by_a_process_without_a_socket_is_reported(
    log: Path, command: str, tmp_path: Path
) -> None:
    """Exit code 3, the process by its number, and the way out."""
    records = tmp_path / "records.jsonl"
    records.write_text("")
    args = ("acls", "--log", log, *ADD) if command == "acls" else ("log", "append", "--log", log, records)
    with DirectoryLog.open(log, mode="write"):
        held = aclog(*args)
    assert held.returncode == 3
    assert f"{log}: process {os.getpid()} has this log open for writing" in held.stderr
    hint = "--sidecar URL" if command == "acls" else " acls` adds and removes ACLs through it"
    assert hint in held.stderr
    assert held.stdout == ""


def test_a_command_waits_for_another_command_that_holds_the_log(log: Path) -> None:
    """It is waited for."""
    held = DirectoryLog.open(log, mode="write")
    threading.Timer(1.0, held.close).start()
    assert acls(log, *ADD).returncode == 0


def test_append_names_the_node_that_holds_the_log(log: Path, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text("")
    with running_node(log) as node, sidecar_of(node):
        held = aclog("log", "append", "--log", log, records)
    assert held.returncode == 3
    assert f"process {os.getpid()}" in held.stderr
    assert " acls` adds and removes ACLs through it" in held.stderr


def test_a_node_is_named_by_its_address(log: Path) -> None:
    """Over HTTP its own ACLs guard it: exit code 1 where they deny."""
    with running_node(log) as node, sidecar_of(node) as url:
        for args in (("--list",), ADD, ("--remove", "--topic", "t", "--force")):
            denied = aclog("acls", "--sidecar", url, *args)
            assert (denied.returncode, denied.stdout) == (1, "")
            assert "on the cluster" in denied.stderr
        assert acls(log, *ADD_ALTER).returncode == 0
        assert aclog("acls", "--sidecar", url, *ADD).returncode == 0
        several = ("--list", "--topic", "t", "--group", "g", "--json")
        listed = json.loads(aclog("acls", "--sidecar", url, *several).stdout)
        assert (listed["endOffset"], len(listed["acls"])) == (3, 2)
        removed = aclog("acls", "--sidecar", url, "--remove", "--topic", "t", "--force", "--json")
        assert len(json.loads(removed.stdout)["removed"]) == 2
        assert node.status().acl_count == 1


def test_the_token_names_the_caller_of_a_node_at_an_address(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file or the environment has it; a wrong one is exit code 1."""
    tokens, token_file = tmp_path / "tokens", tmp_path / "admin.token"
    token, stored = new_token(KafkaPrincipal("User", "admin"))
    TOKENS_FILE.put(tokens, stored)
    token_file.write_text(f"{token}\n")
    acls(log, "--add", "--allow-principal", "User:admin", "--operation", "Describe", "--cluster")
    with running_node(log) as node, sidecar_of(node, auth_tokens_file=tokens) as url:
        command = ("acls", "--sidecar", url, "--list")
        refused = aclog(*command)
        assert (refused.returncode, "User:ANONYMOUS" in refused.stderr) == (1, True)
        assert aclog(*command, "--token-file", token_file).returncode == 0
        monkeypatch.setenv("ACLOG_SIDECAR_TOKEN", token)
        assert aclog(*command).returncode == 0
        monkeypatch.setenv("ACLOG_SIDECAR_TOKEN", f"{token[:-3]}AAA")
        wrong = aclog(*command)
        assert (wrong.returncode, "not known here" in wrong.stderr) == (1, True)
        monkeypatch.setenv("ACLOG_SIDECAR_TOKEN", f"{token} {token}")
        assert aclog(*command).returncode == 2
    monkeypatch.setenv("ACLOG_SIDECAR_TOKEN", token)
    seen_by_others = aclog("acls", "--sidecar", "http://acls.example.org", "--list")
    assert (seen_by_others.returncode, "over https" in seen_by_others.stderr) == (2, True)
    without_node = aclog("acls", "--log", log, "--list", "--token-file", token_file)
    assert (without_node.returncode, "--sidecar" in without_node.stderr) == (2, True)


def test_writes_through_a_read_only_node_are_refused(log: Path) -> None:
    """Exit code 3, and who can."""
    acls(log, *ADD_ALTER)
    with running_node(log, log_mode="read") as node, sidecar_of(node) as url:
        refused = aclog("acls", "--sidecar", url, *ADD)
    assert refused.returncode == 3
    assert "write through the node that owns it" in refused.stderr


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        ("http://127.0.0.1:{free}", 3, "Connection refused"),
        ("unix:/nowhere/aclog.sock", 3, "No such file"),
        ("127.0.0.1:8180", 2, "is no sidecar's address: http(s)://HOST:PORT"),
        ("http://127.0.0.1:many", 2, "is no sidecar's address: http(s)://HOST:PORT"),
        ("ftp://127.0.0.1:8180", 2, "is no sidecar's address: http(s)://HOST:PORT"),
    ],
)
def test_an_address_without_a_node_is_reported(url: str, code: int, message: str) -> None:
    (free,) = free_ports(1)
    named = url.format(free=free)
    for args in (ADD, ("--list",)):
        refused = aclog("acls", "--sidecar", named, *args)
        assert refused.returncode == code
        assert named in refused.stderr
        assert message in refused.stderr


def test_sidecar_and_log_together_are_wrong_usage() -> None:
    """Which one is meant is not guessed."""
    refused = aclog("acls", "--sidecar", "http://127.0.0.1:1", "--log", "x", "--list")
    assert refused.returncode == 2
    assert "--log and --sidecar cannot be used together" in refused.stderr


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (b"", 3, "The outcome is unknown"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 2, "does not answer as an aclog node does"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone", 2, "does not answer as an aclog node"),
        (b"SSH-2.0-x\r\n", 3, "The outcome is unknown"),
    ],
    ids=["gone", "other JSON", "another server", "no HTTP"],
)
def test_a_node_that_closes_and_a_server_that_is_no_node(answer: bytes, code: int, message: str) -> None:
    """After the request was sent its outcome is unknown, and the error reports that."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        done = aclog("acls", "--sidecar", f"http://{HOST}:{server.getsockname()[1]}", *ADD)
        thread.join(SOON_S)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stdout == ""
