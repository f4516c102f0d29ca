"""Kafka's StandardAuthorizer, queried from the jars (AskAuthorizer.java)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.kafka_jars import KAFKA_VERSION, kafka_libs
from support.kafka_tools import java_command

PROGRAM = Path(__file__).with_name("AskAuthorizer.java")


def ask_kafka_authorizer(
    states: Iterable[dict[str, Any]], version: str = KAFKA_VERSION
) -> list[list[dict[str, str]]]:
    """The answers to the queries of each state, in the form of AskAuthorizer.java; takes seconds."""
    done = subprocess.run(
        java_command(str(PROGRAM), libs=kafka_libs(version), log_level="off"),
        input="".join(json.dumps(state) + "\n" for state in states),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"AskAuthorizer.java exited with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]
