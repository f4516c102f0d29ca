"""The kind of log that a URL names, and the errors of a machine without the Kafka client."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from records.errors import LogError, LogUrlError
from records.install_command import install_command
from records.log.url import kind_of


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("file:/var/log", "file"),
        ("/var/log", "file"),
        ("file:///var/log", "file"),
        ("kafka://a:9092,b:9092/acls", "kafka"),
        ("KAFKA://a:9092/acls", "kafka"),
        ("kraft://a:9093", "kraft"),
        ("FILE:/var/log", "file"),
        ("file:9092", "file"),
        ("/a:1/log", "file"),
        ("./b1:9092", "file"),
    ],
)
def test_the_scheme_says_the_kind(url: str, kind: str) -> None:
    """In any case; a plain path is a directory."""
    assert kind_of(url) == kind


def test_another_scheme_is_an_error() -> None:
    """It says which there are."""
    with pytest.raises(LogError, match=r"is not the URL of a log\. .* kafka://HOST:PORT/TOPIC"):
        kind_of("s3://bucket/log")


@pytest.mark.parametrize(
    ("url", "proposed"),
    [
        ("files:./acls", "did you mean file:./acls?"),
        ("kafka:b:9092/acls", "did you mean kafka://b:9092/acls?"),
        ("krfat://b:9093", "did you mean kraft://b:9093?"),
        ("localhost:9092", "describe://localhost:9092[/DIR], by its controllers kraft://localhost:9092"),
        ("[::1]:9092,b:1/acls", "a topic kafka://[::1]:9092,b:1/TOPIC"),
    ],
)
def test_a_url_without_a_known_scheme_is_no_directory(url: str, proposed: str) -> None:
    """`aclog log create --log localhost:9092` made a directory of that name."""
    with pytest.raises(LogUrlError, match=re.escape(proposed)):
        kind_of(url)


def test_a_quorum_without_its_codecs_says_what_to_install() -> None:
    """kio is an extra, too."""
    program = """
import sys
from records.log.open import open_log
from records.errors import LogError
from records.install_command import install_command
sys.modules["kio"] = None
try:
    open_log("kraft://localhost:9093")
except LogError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert install_command("kraft") in done.stdout


def test_a_topic_without_the_kafka_client_says_what_to_install() -> None:
    """confluent-kafka is an extra: everything else works without, and is not kept waiting for its import."""
    program = """
import sys
from authorizer.cli import main
from authorizer.cli.log import compare, create
from records.log.open import open_log
from records.errors import LogError
from records.install_command import install_command
assert "confluent_kafka" not in sys.modules
sys.modules["confluent_kafka"] = None
try:
    open_log("kafka://localhost:9092/acls")
except LogError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert install_command("kafka") in done.stdout
