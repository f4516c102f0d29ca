"""The image that the Dockerfile makes, as it is run: with nothing but what it needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizer.cli.quickstart.directory import EXAMPLE_LOG
from support.containers import Container, ContainerError, docker, running
from support.waiting import wait_until

pytestmark = pytest.mark.containers

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "aclog:tests"
#: Nothing is written but to volumes, and no right is gained: as in docker-compose.yml and a careful cluster.
HARDENED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true")
HEALTHY_S = 60

ASK = """\
import json, sys, urllib.request
evaluation = {
    "subject": {"type": "User", "id": sys.argv[1]},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}
request = urllib.request.Request(
    "http://127.0.0.1:8180/access/v1/evaluation",
    data=json.dumps(evaluation).encode(),
    headers={"content-type": "application/json"},
)
print(urllib.request.urlopen(request, timeout=10).read().decode())
"""


@pytest.fixture(scope="module")
def image() -> str:
    """Built from the work tree; where the packages come from is the base image's and the host's affair."""
    try:
        docker("build", "--network=host", "--tag", IMAGE, ROOT)
    except ContainerError as error:
        pytest.fail(f"{error}\nWhere no registry can be reached: CONTRIBUTING.md, Containers.")
    return IMAGE


@pytest.fixture
def volume() -> Iterator[str]:
    name = docker("volume", "create").stdout.strip()
    yield name
    docker("volume", "rm", "--force", name)


def wait_until_healthy(container: Container) -> None:
    """By the image's own health check."""

    def is_healthy() -> bool:
        assert container.why_ended() is None
        return container.inspect("{{.State.Health.Status}}") == "healthy"

    wait_until(is_healthy, "a healthy container", timeout_s=HEALTHY_S)


def in_network_of(container: Container, image: str, who: str) -> dict[str, object]:
    """What a neighbour in the same network namespace is answered."""
    done = docker(
        "run", "--rm", f"--network=container:{container.id}", "--entrypoint=python", image, "-c", ASK, who
    )
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_check_reads_a_mounted_directory(image: str) -> None:
    """The exit code is the answer; a broker's own directory, which nobody may write to."""
    check_command = (
        "run", "--rm", *HARDENED, f"--volume={EXAMPLE_LOG}:/log:ro", image, "check", "--log", "file:/log",
        "--operation", "Read", "--topic", "orders", "--host", "10.0.0.1", "--principal",
    )  # fmt: skip
    allowed = docker(*check_command, "User:alice", check=False)
    denied = docker(*check_command, "User:dora", check=False)
    assert (allowed.returncode, allowed.stdout.split()[0]) == (0, "ALLOWED"), allowed.stderr
    assert (denied.returncode, denied.stdout.split()[0]) == (1, "DENIED"), denied.stderr


def test_the_container_runs_unprivileged_and_read_only(image: str) -> None:
    """A user with a number and no name on the host, on a root that is read-only."""
    done = docker(
        "run", "--rm", *HARDENED, "--entrypoint=sh", image,
        "-c", "id -u; id -g; touch /opt/aclog/x /var/lib/aclog/x /tmp/x", check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["10001", "10001"]
    assert done.stderr.count("Read-only file system") == 3


def test_the_container_serves_is_healthy_and_stops_cleanly(image: str) -> None:
    with running(
        *HARDENED, f"--volume={EXAMPLE_LOG}:/log:ro", "--env=ACLOG_LOG_URL=file:/log",
        "--env=ACLOG_LOG_MODE=read", "--env=ACLOG_SUPER_USERS=User:ANONYMOUS", image,
    ) as node:  # fmt: skip
        wait_until_healthy(node)
        assert in_network_of(node, image, "alice")["decision"] is True
        assert in_network_of(node, image, "dora")["decision"] is False
        assert node.stop() == 0


def test_a_log_and_snapshots_are_created_on_a_new_volume(image: str, volume: str) -> None:
    """It becomes the image's user's, so a log can be made there, changed, and asked again."""

    def aclog(*arguments: str) -> str:
        return docker("run", "--rm", *HARDENED, f"--volume={volume}:/var/lib/aclog", image, *arguments).stdout

    log, store = ("--log", "file:/var/lib/aclog/log"), ("--snapshots", "/var/lib/aclog/snapshots")
    aclog("log", "create", *log)
    alice = ("User:alice", "--operation", "Read", "--topic", "orders")
    aclog("acls", *log, "--add", "--allow-principal", *alice)
    aclog("snapshot", "create", *log, *store)
    assert aclog("check", *log, *store, "--principal", *alice).startswith("ALLOWED")


def test_the_command_printed_without_arguments_runs(image: str, volume: str) -> None:
    """The command lines about a directory, as they stand there."""
    bare = docker("run", "--rm", *HARDENED, image, check=False)
    assert bare.returncode == 2
    text = bare.stderr.replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.startswith("    docker run ")]
    check, serve, topic, usage = (
        shlex.split(line.replace("DIRECTORY", str(EXAMPLE_LOG)).replace("IMAGE", image))[1:] for line in lines
    )
    assert "kafka://BROKER:9092/TOPIC" in " ".join(topic)
    answer = docker(*check, check=False)
    assert (answer.returncode, answer.stdout.split()[0]) == (0, "ALLOWED"), answer.stderr
    assert docker(*usage).stdout.startswith("Usage: aclog")
    name = f"--name=aclog-{volume}"
    assert serve[:3] == ["run", "--name", "aclog"]
    with running(name, *serve[3:]) as node:
        wait_until_healthy(node)
