"""Commands on a broker's directory that is written as fast as a program can."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from support.broker_writer import ACLS

TESTS = Path(__file__).resolve().parents[1]
TURNS = 12
SEEDS = (1, 2)

# That of acl(1), which every state has.
QUESTION = ("--principal", "User:u1", "--operation", "Read", "--topic", "topic-1")


def listed(directory: Path) -> None:
    result = CliRunner().invoke(cli, ["acls", "--list", "--log", str(directory)])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("Current ACLs for resource") == ACLS


def checked(directory: Path) -> None:
    result = CliRunner().invoke(cli, ["check", "--log", str(directory), "--json", *QUESTION])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["result"] == "ALLOWED"


def verified(directory: Path) -> None:
    result = CliRunner().invoke(cli, ["log", "verify", "--log", str(directory), "--json"])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["missingOffsets"] == 0
    assert report["aclCount"] == ACLS


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("seed", SEEDS)
def test_concurrent_writes_to_a_directory_are_not_bad_data(seed: int, tmp_path: Path) -> None:
    """Appended to, rolled, trimmed and truncated meanwhile: every command succeeds, every time."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    command = [sys.executable, "-m", "support.broker_writer", str(directory), str(seed)]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            for _ in range(TURNS):
                for run in (listed, checked, verified):
                    run(directory)
            assert writer.poll() is None
        finally:
            writer.kill()
