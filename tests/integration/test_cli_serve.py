"""`aclog serve`: a node and its sidecar from a configuration, until a signal."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from records.log.directory import DirectoryLog
from support.data import real_log
from support.kafka_broker import HOST, free_ports
from support.nodes import SOON_S
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVE = [sys.executable, "-m", "authorizer.cli", "serve"]
TIMEOUT_S = 60


# No file grows: what writing meets on a full disk.
NO_ROOM = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh"]


@contextmanager
def serving(
    tmp_path: Path, *args: str, before: Sequence[str] = (), **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A serving process and its address, taken from its log."""
    config = tmp_path / "sidecar.properties"
    config.write_text(
        "super.users=User:ANONYMOUS\naclog.listeners=PLAINTEXT://127.0.0.1:0\naclog.logging.format=json\n"
    )
    process = subprocess.Popen(
        [*before, *SERVE, "--config", str(config), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    try:
        assert process.stderr is not None
        read: list[str] = []
        for line in process.stderr:
            read.append(line)
            if line.startswith("{") and (event := json.loads(line)).get("event") == "listening":
                yield process, event["urls"][0]
                break
        else:
            pytest.fail("".join(read))
    finally:
        process.kill()
        process.communicate()


def ended(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def answer_of(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=SOON_S) as response:
        return json.load(response)


def wait_until_ready(url: str) -> None:
    def is_ready() -> bool:
        with suppress(OSError):
            answer_of(f"{url}/readyz")
            return True
        return False

    wait_until(is_ready, f"{url} to be ready", timeout_s=TIMEOUT_S)


def listened_urls(process: subprocess.Popen[str]) -> list[str]:
    """The addresses of a serving process, from its log."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("{") and (event := json.loads(line)).get("event") == "listening":
            return [str(url) for url in event["urls"]]
    pytest.fail("it does not listen")


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
def test_flags_set_the_listeners(workers: str, tmp_path: Path) -> None:
    """--listener as often as there are listeners, over those of the file; --port for one on loopback."""
    config = tmp_path / "sidecar.properties"
    config.write_text("aclog.listeners=PLAINTEXT://127.0.0.1:1\naclog.logging.format=json\n")
    log = ("--config", str(config), "--log", str(real_log("kraft-small")), "--workers", workers)
    port, other, third = free_ports(3)
    for flags, expected in (
        (["--port", str(port)], [f"http://127.0.0.1:{port}"]),
        (
            ["--listener", f"PLAINTEXT://127.0.0.1:{other}", "--listener", f"UNIX://{tmp_path}/x.sock"],
            [f"http://127.0.0.1:{other}", f"unix:{tmp_path}/x.sock"],
        ),
        (["--listener", f"plaintext://localhost:{third}"], [f"http://localhost:{third}"]),
    ):
        with subprocess.Popen([*SERVE, *log, *flags], stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
            try:
                urls = listened_urls(process)
                assert [url.replace("localhost", "127.0.0.1") for url in urls] == [
                    url.replace("localhost", "127.0.0.1") for url in expected
                ]
                wait_until_ready(urls[0])
            finally:
                process.terminate()
                assert process.stderr is not None
                process.stderr.read()


def test_a_used_port_names_its_holder_and_the_flag() -> None:
    """What can be done is in the message: a flag that there is."""
    with socket.create_server((HOST, 0)) as held:
        port = held.getsockname()[1]
        done = ended(*SERVE, "--log", str(real_log("kraft-small")), "--port", str(port))
    assert done.returncode == 2
    assert f"Address already in use, by process {os.getpid()} (" in done.stderr
    assert "or by --listener" in done.stderr


def test_port_and_listener_exclude_each_other() -> None:
    done = ended(*SERVE, "--log", "x", "--port", "1", "--listener", "PLAINTEXT://127.0.0.1:2")
    assert (done.returncode, "name one of the two" in done.stderr) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_a_brokers_log_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    """Decisions over HTTP from a real broker's log, with a snapshot store; exit code 0 at the end."""
    args = ("--log", str(real_log("kraft-small")), "--snapshots", str(tmp_path / "store"))
    with serving(tmp_path, *args) as (process, url):
        wait_until_ready(url)
        state = answer_of(f"{url}/v1/state")
        assert (state["offset"], state["acl_count"], state["writable"]) == (281, 59, False)
        question = {
            "subject": {"type": "User", "id": "alice"},
            "action": {"name": "READ"},
            "resource": {"type": "TOPIC", "id": "orders"},
            "context": {"host": "10.0.0.1"},
        }
        assert answer_of(f"{url}/access/v1/evaluation", question)["decision"] is True
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_a_signal_waits_for_requests_in_progress(tmp_path: Path) -> None:
    """One whose body is on its way when the signal comes is answered before the process ends."""
    body = json.dumps(denied("secret")).encode()
    with serving(tmp_path, "--log", str(real_log("kraft-small"))) as (process, url):
        wait_until_ready(url)
        with closing(HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)) as connection:
            connection.putrequest("POST", "/access/v1/evaluation")
            connection.putheader("content-type", "application/json")
            connection.putheader("content-length", str(len(body)))
            connection.endheaders(body[:10])
            # What is sent on another connection afterwards is answered after that has been read.
            wait_until_ready(url)
            process.send_signal(signal.SIGTERM)
            time.sleep(1.0)  # the time in which a process that does not wait has ended
            assert process.poll() is None
            connection.send(body[10:])
            answer = connection.getresponse()
            assert (answer.status, json.load(answer)["decision"]) == (200, False)
        assert process.wait(TIMEOUT_S) == 0


def test_a_signal_loses_no_line_of_the_audit_log(tmp_path: Path) -> None:
    """More lines than a pipe holds, and nothing reads it: all is answered, and written before the end."""
    names = [f"t{number}" for number in range(3000)]
    with serving(tmp_path, "--log", str(real_log("kraft-small"))) as (process, url):
        wait_until_ready(url)
        answers = answer_of(f"{url}/access/v1/evaluations", {"evaluations": list(map(denied, names))})
        assert [answer["decision"] for answer in answers["evaluations"]] == [False] * len(names)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
    lines = [line for line in map(json.loads, rest.splitlines()) if "resource_name" in line]
    assert [line["resource_name"] for line in lines] == names
    assert {line["request"] for line in lines} == {"AuthZenEvaluations"}


def test_without_a_queue_the_line_is_written_before_the_answer(tmp_path: Path) -> None:
    """Killed right after the answer, a node has left its line."""
    args = ("--log", str(real_log("kraft-small")))
    with serving(tmp_path, *args, ACLOG_AUDIT_QUEUE_MAX_LINES="0") as (process, url):
        wait_until_ready(url)
        assert answer_of(f"{url}/access/v1/evaluation", denied("secret"))["decision"] is False
        process.kill()
        _, rest = process.communicate(timeout=TIMEOUT_S)
    assert "on resource = Topic:LITERAL:secret for request" in rest


def denied(topic: str) -> dict[str, object]:
    """A request that no ACL decides."""
    return {
        "subject": {"type": "User", "id": "stranger"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": topic},
        "context": {"host": "10.0.0.1"},
    }


def test_a_flag_sets_who_may_query_other_principals(tmp_path: Path) -> None:
    """The first request works with the flag; without it the answer names the flag and an equivalent ACL."""
    args = ("--log", str(real_log("kraft-small")))
    question = {
        "subject": {"type": "User", "id": "alice"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": "orders"},
        "context": {"host": "10.0.0.1"},
    }
    with serving(tmp_path, *args, ACLOG_SUPER_USERS="") as (_, url):
        wait_until_ready(url)
        with pytest.raises(urllib.error.HTTPError) as refused:
            answer_of(f"{url}/access/v1/evaluation", question)
        with refused.value:
            refusal = json.load(refused.value)
        assert refused.value.code == 403
        assert "--describe-principals User:ANONYMOUS" in refusal
        assert (
            "kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:ANONYMOUS "
            "--operation Describe --cluster"
        ) in refusal
    allowed = ("--describe-principals", "User:ANONYMOUS")
    with serving(tmp_path, *args, *allowed, ACLOG_SUPER_USERS="") as (_, url):
        wait_until_ready(url)
        assert answer_of(f"{url}/access/v1/evaluation", question)["decision"] is True


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_for_a_cluster(number: signal.Signals, tmp_path: Path) -> None:
    """Nobody listens where the topic should be; exit code 0 all the same."""
    (port,) = free_ports(1)
    with serving(tmp_path, "--log", f"kafka://{HOST}:{port}/acls") as (process, url):
        assert answer_of(f"{url}/v1/state")["ready"] is False
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.parametrize(
    "mode", ["write", *(pytest.param(mode, marks=pytest.mark.long) for mode in ("auto", "create"))]
)
def test_a_full_disk_names_the_read_only_mode(mode: str, tmp_path: Path) -> None:
    """What it names works: the same disk, served with aclog.log.mode=read."""
    log = tmp_path / "log"
    DirectoryLog.open(log, mode="create").close()

    done = ended(*NO_ROOM, *SERVE, "--log", str(log), ACLOG_LOG_MODE=mode)
    assert done.returncode == 4
    assert "To serve it without writing, set aclog.log.mode=read (or ACLOG_LOG_MODE=read)" in done.stderr
    with serving(tmp_path, "--log", str(log), before=NO_ROOM, ACLOG_LOG_MODE="read") as (_, url):
        wait_until_ready(url)
        assert answer_of(f"{url}/v1/state")["writable"] is False


@pytest.mark.parametrize(
    ("listener", "message"),
    [("PLAINTEXT://127.0.0.1:{port}", "in use"), ("PLAINTEXT://0.0.0.0:0", "on loopback addresses")],
)
def test_an_unusable_listener_ends_the_start_before_the_log_is_opened(
    listener: str, message: str, tmp_path: Path
) -> None:
    """Wrong usage is reported before the load: the log is not even created."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = listener.format(port=taken.getsockname()[1])
        log = str(tmp_path / "log")
        done = ended(*SERVE, "--log", log, ACLOG_LOG_MODE="create", ACLOG_LISTENERS=address)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("Error: ")
    assert not (tmp_path / "log").exists()


def test_a_start_without_a_log_is_wrong_usage() -> None:
    """A start without a log is wrong usage."""
    done = ended(*SERVE)
    assert done.returncode == 2
    assert "--log" in done.stderr


class TestBackground:
    """--background returns when the node can be asked; what it started ends, or is ended by the test."""

    @staticmethod
    def start(
        output: Path, *flags: str, timeout_s: float | None = None, prelude: str = ""
    ) -> subprocess.CompletedProcess[str]:
        command = [*SERVE, *flags, "--background", str(output)]
        if timeout_s is not None:
            prelude = f"import authorizer.cli.serve.background as b; b.READY_TIMEOUT_S = {timeout_s}; "
        if prelude:
            run = "from authorizer.cli.main import main; main()"
            command = [sys.executable, "-c", prelude + run, *command[3:]]
        return ended(*command)

    @pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.long)])
    def test_the_next_command_can_ask_the_node(self, workers: str, tmp_path: Path) -> None:
        """It serves until a signal, apart from the command's session, and keeps earlier output."""
        output = tmp_path / "node.log"
        output.write_text("earlier\n", encoding="utf-8")

        log = str(real_log("kraft-small"))
        done = self.start(output, "--log", log, "--port", "0", "--workers", workers)

        assert done.returncode == 0, done.stderr
        process = int(done.stdout)
        try:
            found = re.search(r"Serving on (http://127\.0\.0\.1:\d+), ready", " ".join(done.stderr.split()))
            assert found, done.stderr
            assert answer_of(f"{found[1]}/readyz")["ready"] is True
            assert f"kill {process}" in done.stderr
            assert os.getsid(process) == process
        finally:
            os.kill(process, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{process}").exists() or is_zombie(process), "its end")
        lines = output.read_text(encoding="utf-8").splitlines()
        assert lines[0] == "earlier"
        assert any("listening" in line for line in lines)

    def test_listeners_of_kafkas_protocol_accept_when_it_returns(self, tmp_path: Path) -> None:
        """Also where they open some time after the node is ready."""
        (port,) = free_ports(1)
        log = str(real_log("kraft-small"))
        flags = ("--log", log, "--port", "0", "--admin-listener", f"PLAINTEXT://{HOST}:{port}")
        late = (
            "import asyncio; from authorizer.admin_server.node_listeners import NodeListeners as L; "
            "accept = L._accept; "
            "L._accept = lambda *given: asyncio.get_running_loop().call_later(2, accept, *given); "
        )

        done = self.start(tmp_path / "node.log", *flags, prelude=late)

        assert done.returncode == 0, done.stderr
        try:
            socket.create_connection((HOST, port), SOON_S).close()
            assert f"kafka://{HOST}:{port}" in done.stderr
        finally:
            os.kill(int(done.stdout), signal.SIGTERM)

    def test_an_error_of_the_start_is_the_commands(self, tmp_path: Path) -> None:
        output = tmp_path / "node.log"
        with socket.create_server((HOST, 0)) as held:
            port = held.getsockname()[1]
            done = self.start(output, "--log", str(real_log("kraft-small")), "--port", str(port))

        assert (done.returncode, done.stdout) == (2, "")
        assert "Address already in use" in done.stderr
        assert "Address already in use" in output.read_text(encoding="utf-8")

    def test_a_node_that_is_not_ready_in_time_is_ended(self, tmp_path: Path) -> None:
        """No broker answers: the node would retry for ever."""
        (port,) = free_ports(1)
        output = tmp_path / "node.log"
        flags = ("--log", f"kafka://{HOST}:{port}/acls", "--listener", f"UNIX://{tmp_path}/node.sock")

        done = self.start(output, *flags, timeout_s=5)

        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert "the node is not ready after 5 s and was ended: " in done.stderr
        assert str(output) in done.stderr
        assert not (tmp_path / "node.sock").exists()

    def test_background_needs_a_listener_without_tls(self, tmp_path: Path) -> None:
        output = tmp_path / "node.log"

        done = self.start(output, "--log", str(real_log("kraft-small")), "--listener", "SSL://127.0.0.1:0")

        assert done.returncode == 2
        assert "--listener PLAINTEXT://127.0.0.1:8180" in done.stderr
        assert not output.exists()


def is_zombie(process: int) -> bool:
    """Whether it has ended and nobody has waited for it: process 1 of some containers does not."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(") ")[2].startswith("Z")
