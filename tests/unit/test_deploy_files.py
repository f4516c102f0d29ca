"""The Docker files, checked without a Docker engine: services, settings, commands, image."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from authorizer.configuration.keys.table import BY_VARIABLE
from authorizer.configuration.load import load_config
from support.cli_commands import parsed_command
from support.kafka_jars import KAFKA_VERSION

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
PINNED = re.compile(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+([-.a-z0-9]*)(@sha256:[0-9a-f]{64})?")
#: Commands in a RUN of a Dockerfile that fetch different files each time.
UNPINNED = re.compile(r"\b(apt-get|curl|wget|git clone)\b|:latest\b")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """docker-compose.yml, with its anchors resolved."""
    loaded = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(compose["services"])


def environment(service: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def instructions() -> list[tuple[str, str]]:
    """(instruction, its text) of the Dockerfile, with its continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def is_aclog(service: dict[str, Any]) -> bool:
    return str(service["image"]).startswith("aclog:")


def test_compose_file_follows_the_compose_specification() -> None:
    """By its JSON schema, which is part of check-jsonschema: nothing is fetched."""
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(COMPOSE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_schema_is_really_applied(tmp_path: Path) -> None:
    """An unknown key is refused, which shows that the test above has an effect."""
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text("services:\n  a:\n    imagine: b:1\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.compose-spec",
        str(wrong),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "imagine" in done.stdout


def test_images_are_pinned_to_a_release(compose: dict[str, Any]) -> None:
    """No image may change under its tag; Kafka's is the release of the tests."""
    images = {str(service["image"]) for service in services(compose).values()}
    images |= {text.split()[0] for instruction, text in instructions() if instruction == "FROM"}
    assert [image for image in sorted(images) if not PINNED.fullmatch(image)] == []
    assert f"apache/kafka:{KAFKA_VERSION}" in images
    version = load_version()
    assert f"aclog:{version}" in images


def load_version() -> str:
    match = re.search(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert match is not None
    return match[1]


def test_dependencies_of_services_exist(compose: dict[str, Any]) -> None:
    """Dependencies, networks and volumes are defined, and there is no circle."""
    named = services(compose)
    needs = {
        name: {*service.get("depends_on", {}), *network_owner(service)} for name, service in named.items()
    }
    assert set().union(*needs.values()) <= named.keys()
    started: set[str] = set()
    while startable := {name for name, needed in needs.items() if needed <= started} - started:
        started |= startable
    assert started == named.keys()
    volumes = [mount.split(":")[0] for service in named.values() for mount in service.get("volumes", [])]
    missing = [
        source
        for source in volumes
        if not ((ROOT / source).is_file() if source.startswith("./") else source in compose["volumes"])
    ]
    assert missing == []


def network_owner(service: dict[str, Any]) -> set[str]:
    mode = str(service.get("network_mode", ""))
    return {mode.removeprefix("service:")} if mode.startswith("service:") else set()


def test_brokers_are_one_cluster_of_three(compose: dict[str, Any]) -> None:
    """Each broker votes under the name and id that the others know; three replicas are possible."""
    brokers = {
        name: service for name, service in services(compose).items() if "apache/kafka" in service["image"]
    }
    assert len(brokers) == 3
    voters = {f"{environment(service)['KAFKA_NODE_ID']}@{name}:9093" for name, service in brokers.items()}
    for name, service in brokers.items():
        settings = environment(service)
        assert set(settings["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")) == voters
        assert settings["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{name}:9092"
        assert settings["CLUSTER_ID"] == environment(brokers["kafka-1"])["CLUSTER_ID"]
        assert settings["KAFKA_LOG_DIRS"] == service["volumes"][0].split(":")[1]


def test_nodes_have_valid_settings(compose: dict[str, Any]) -> None:
    """Every ACLOG_ variable exists with a valid value, and every listener can be served."""
    nodes = [each for each in services(compose).values() if is_aclog(each) and "environment" in each]
    assert len(nodes) == 4
    for service in nodes:
        config = load_config(environ=environment(service))
        config.served_listeners()
        brokers = {name for name, other in services(compose).items() if "apache/kafka" in str(other["image"])}
        where = config.require_log_url().removeprefix("kafka://").partition("/")[0]
        assert {server.partition(":")[0] for server in where.split(",")} == brokers
        assert set(environment(service)) == {f"ACLOG_{name}" for name in names_of(service)}


def names_of(service: dict[str, Any]) -> list[str]:
    """The names without the prefix, for a lookup, because load_config ignores unknown variables."""
    unknown = [name for name in environment(service) if name not in BY_VARIABLE]
    assert unknown == []
    return [name.removeprefix("ACLOG_") for name in environment(service)]


def test_prometheus_scrapes_where_the_nodes_listen(compose: dict[str, Any]) -> None:
    """On the loopback address of the network namespace that it shares with the nodes; so do health checks."""
    config = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text(encoding="utf-8"))
    targets = {
        target
        for job in config["scrape_configs"]
        for each in job["static_configs"]
        for target in each["targets"]
    }
    listening = set()
    for service in services(compose).values():
        if network_owner(service) and is_aclog(service):
            [endpoint] = load_config(environ=environment(service)).served_listeners()
            address = f"{endpoint.host}:{endpoint.port}"
            listening.add(address)
            assert f"http://{address}/readyz" in service["healthcheck"]["test"][-1]
    assert targets == listening
    assert len(listening) == 2
    assert config["rule_files"] == ["alerts.yml"]


def test_a_crash_does_not_disconnect_other_services(compose: dict[str, Any]) -> None:
    """A network namespace ends with its owner, which therefore only holds it."""
    named = services(compose)
    shared = {name: network_owner(service) for name, service in named.items() if network_owner(service)}
    assert shared.keys() == {"aclog-1", "aclog-2", "prometheus"}
    [owner] = set().union(*shared.values())
    assert named[owner]["entrypoint"] == ["sleep", "infinity"]
    assert named[owner]["restart"] == "unless-stopped"
    assert [name for name, service in named.items() if "ports" in service] == [owner]


def test_health_checks_are_cheap_and_have_long_timeouts(compose: dict[str, Any]) -> None:
    """A broker's check starts no JVM; a check with an interpreter has time for it on a busy machine."""
    for name, service in services(compose).items():
        check = service.get("healthcheck", {})
        if "test" not in check:
            continue
        command = " ".join(check["test"])
        assert re.search(
            r"/dev/tcp/127\.0\.0\.1/9092" if "apache/kafka" in service["image"] else "python", command
        )
        assert int(check["timeout"].removesuffix("s")) >= 5, name
        assert int(check["start_period"].removesuffix("s")) >= (60 if name.startswith("kafka") else 30), name
    [health] = [text for instruction, text in instructions() if instruction == "HEALTHCHECK"]
    assert "--timeout=5s" in health


def test_the_image_without_arguments_prints_its_usage(tmp_path: Path) -> None:
    """Wrong usage, unless the environment names a log to serve. Arguments are passed to aclog."""
    aclog = tmp_path / "aclog"
    aclog.write_text('#!/bin/sh\necho "aclog $*"\n', encoding="ascii")
    aclog.chmod(0o755)

    def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [ROOT / "deploy" / "entrypoint.sh", *arguments],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    bare = started()
    assert (bare.returncode, bare.stdout) == (2, "")
    assert "docker run --rm --volume DIRECTORY:/log:ro IMAGE" in bare.stderr
    assert "ACLOG_LOG_URL=kafka://BROKER:9092/TOPIC" in bare.stderr
    assert set(re.findall(r"ACLOG_[A-Z_]+(?==)", bare.stderr)) <= BY_VARIABLE.keys()
    assert started(ACLOG_LOG_URL="file:/log").stdout == "aclog serve\n"
    assert started("check", "--help").stdout == "aclog check --help\n"


def commands(compose: dict[str, Any]) -> Iterator[list[str]]:
    """Every aclog command line that the compose file runs or shows."""
    for service in services(compose).values():
        if is_aclog(service):
            if "entrypoint" not in service:
                yield [str(word) for word in service.get("command", ["serve"])]
            if service.get("entrypoint") != ["/bin/sh", "-c"]:
                continue
            script = str(service["command"][0]).replace("$$", "$").replace("\\\n", " ")
            for line in script.splitlines():
                if line.strip().startswith("aclog "):
                    yield shlex.split(line.split("||")[0])[1:]
    for line in COMPOSE.read_text(encoding="utf-8").splitlines():
        if match := re.search(r"#.* exec aclog-\d (aclog .*)", line):
            yield shlex.split(match[1])[1:]


def test_commands_and_their_options_exist(compose: dict[str, Any]) -> None:
    """The command lines are parsed, not run."""
    found = list(commands(compose))
    assert len(found) >= 6
    for words in found:
        parsed_command(words)


def test_the_dockerfile_installs_only_locked_packages() -> None:
    """pip installs only packages of the lock files, by hash, and aclog; nothing else is fetched."""
    runs = [text for instruction, text in instructions() if instruction == "RUN"]
    assert not any(UNPINNED.search(run) for run in runs)
    fetching = [step for run in runs for step in run.split("&&") if " install " in step and "pip" in step]
    assert fetching
    for step in fetching:
        assert "--require-hashes" in step or ("--no-deps" in step and step.strip().endswith("dist/*.whl")), (
            step
        )
    for lock in ("requirements.lock", "requirements-build.lock"):
        everything = pins(ROOT / "requirements/dev.lock")
        assert pins(ROOT / "deploy" / lock) <= everything, f"deploy/{lock} is older: make lock"


def pins(lock: Path) -> set[str]:
    return {
        line.split()[0]
        for line in lock.read_text(encoding="utf-8").splitlines()
        if re.match(r"[a-z0-9].*==", line)
    }


def test_the_dockerfile_copies_files_that_dockerignore_admits() -> None:
    """Each copied file exists and is admitted; other files are excluded."""
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    assert "*" in ignore
    copied = {
        source
        for instruction, text in instructions()
        if instruction == "COPY" and not text.startswith("--from=")
        for source in text.split()[:-1]
    }
    assert copied == let_in
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_the_image_runs_as_an_unprivileged_user() -> None:
    """The last stage ends with a numeric user, has a health check, and receives signals directly."""
    last = [text for instruction, text in instructions()]
    kinds = [instruction for instruction, text in instructions()]
    final = kinds.index("FROM", kinds.index("FROM") + 1)
    users = [text for kind, text in list(zip(kinds, last, strict=True))[final:] if kind == "USER"]
    assert users == ["10001:10001"]
    # The JSON form, and a script that ends in exec, because a shell would not forward SIGTERM.
    assert json.loads(last[kinds.index("ENTRYPOINT", final)]) == ["aclog-entrypoint"]
    assert (ROOT / "deploy" / "entrypoint.sh").read_text(encoding="utf-8").endswith('\nexec aclog "$@"\n')
    assert "/livez" in last[kinds.index("HEALTHCHECK", final)]
