"""Kafka's StandardAuthorizer, queried from the jars (AskAuthorizer.java)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from support.kafka_jars import KAFKA_VERSION
from support.kafka_tools import run_program

PROGRAM = Path(__file__).with_name("AskAuthorizer.java")


def ask_kafka_authorizer(
    states: Iterable[dict[str, Any]], version: str = KAFKA_VERSION
) -> list[list[dict[str, str]]]:
    """The answers to the queries of each state, in the form of AskAuthorizer.java; takes seconds."""
    return run_program(PROGRAM, states, version=version, timeout_s=300)
