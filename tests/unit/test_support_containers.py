"""Where brokers come from: a container only where the engine has Kafka's image; nothing is ever pulled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support import kafka_broker
from support.containers import ContainerError, docker, engine_has

BROKER = kafka_broker.Broker(bootstrap_servers="127.0.0.1:1", controllers=None, metadata_dir=None)


@contextmanager
def some_broker() -> Iterator[kafka_broker.Broker]:
    yield BROKER


@contextmanager
def no_broker() -> Iterator[kafka_broker.Broker]:
    raise AssertionError("this kind is not to be used")
    yield BROKER


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine that answers, and has the images in a file; what it was asked is in another."""
    command = tmp_path / "docker"
    command.write_text(
        f"""\
#!/bin/sh
echo "$*" >> {tmp_path}/asked
case "$1 $2" in
    "info ") ;;
    "image inspect") grep -qx "$3" {tmp_path}/images ;;
    *) echo "no such command: $*" >&2; exit 125 ;;
esac
""",
        encoding="utf-8",
    )
    command.chmod(0o755)
    (tmp_path / "images").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("ACLOG_TEST_BOOTSTRAP", raising=False)
    return tmp_path


def test_an_engine_without_the_image_is_passed_by(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not be able to get it; the jars are there. It is asked this one thing only."""
    monkeypatch.setattr(kafka_broker, "container_broker", no_broker)
    monkeypatch.setattr(kafka_broker, "jar_broker", some_broker)
    with kafka_broker.kafka_broker() as broker:
        assert broker is BROKER
    assert (engine / "asked").read_text() == f"image inspect {kafka_broker.IMAGE}\n"


def test_an_engine_with_the_image_is_used(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (engine / "images").write_text(f"{kafka_broker.IMAGE}\n")
    monkeypatch.setattr(kafka_broker, "container_broker", some_broker)
    monkeypatch.setattr(kafka_broker, "jar_broker", no_broker)
    with kafka_broker.kafka_broker() as broker:
        assert broker is BROKER


def test_without_docker_there_is_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not engine_has("any")
    with pytest.raises(ContainerError, match="there is no docker command"):
        docker("info")


def test_the_error_has_the_message_of_docker(engine: Path) -> None:
    with pytest.raises(ContainerError, match=r"docker frobnicate it exited with 125:\nno such command"):
        docker("frobnicate", "it")
