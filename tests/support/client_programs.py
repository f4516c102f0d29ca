"""Runs of the programs that send requests with AdminClients in Go and in Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pytest

from support.go_programs import ADMIN_CLIENTS
from support.login import NO_LOGIN, Login
from support.nodes import SOON_S

_TESTS: Final = Path(__file__).parents[1]
_PYTHON_PROGRAMS: Final = {
    "kafka-python": "support.kafka_python_client",
    "confluent-kafka": "support.confluent_client",
}


def run_client(
    client: str, address: str, requests: Sequence[Mapping[str, Any]], login: Login = NO_LOGIN
) -> list[dict[str, Any]]:
    """The answer to each request, by a client of the program in Go or by one in Python.

    A client that cannot connect has one answer, which is its error.
    """
    command: list[Any]
    if client in _PYTHON_PROGRAMS:
        command = [sys.executable, "-m", _PYTHON_PROGRAMS[client]]
    else:
        directory = ADMIN_CLIENTS.directory()
        if directory is None:
            pytest.skip(ADMIN_CLIENTS.missing_reason())
        command = [directory / ADMIN_CLIENTS.name, client]
    ran = subprocess.run(
        [*command, address, json.dumps(asdict(login))],
        input="".join(json.dumps(each) + "\n" for each in requests),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * SOON_S,
        cwd=_TESTS,
    )
    if ran.returncode:
        return [{"error": ran.stderr.splitlines()[-1]}]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def comparable(answers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Answers with their ACLs sorted."""
    return [{**each, "acls": sorted(each.get("acls") or (), key=repr)} for each in answers]
