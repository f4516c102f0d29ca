"""`aclog acls --list` prints what the real kafka-acls printed on the real clusters."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli
from support.data import real_log, real_log_home
from support.kafka_acls import blocks, listed_commands

LOGS = ["kraft-small", "kraft-trimmed", pytest.param("kraft-large", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", LOGS)
def test_listings_equal_the_real_clusters(name: str) -> None:
    """Every recorded listing: same lines, same exit code; only the order is ours."""
    text = (real_log_home(name) / "kafka-acls-list.txt").read_text(encoding="utf-8")
    commands = listed_commands(text)
    assert commands
    for args, output, code in commands:
        result = CliRunner().invoke(cli, ["acls", "--log", str(real_log(name)), *args])
        assert result.exit_code == code, args
        assert blocks(result.stdout) == blocks(output), args
        assert len(result.stdout) == len(output), args


@pytest.mark.parametrize("name", LOGS)
def test_json_listing_is_what_describe_acls_returned(name: str) -> None:
    """--json holds the ACLs of AdminClient.describeAcls, each with its id."""
    result = CliRunner().invoke(cli, ["acls", "--log", str(real_log(name)), "--list", "--json"])
    assert result.exit_code == 0
    acls = json.loads(result.stdout)["acls"]
    assert len({acl["id"] for acl in acls}) == len(acls)
    listed = {tuple(value for key, value in acl.items() if key != "id") for acl in acls}
    lines = (real_log_home(name) / "acls.jsonl").read_text(encoding="utf-8").splitlines()
    assert listed == {tuple(json.loads(line).values()) for line in lines}


def test_changes_that_may_be_uncommitted_are_reported(tmp_path: Path) -> None:
    """A broker's directory does not record its high watermark: only checkpoints say what is committed."""
    copy = tmp_path / "log"
    shutil.copytree(real_log("kraft-small"), copy)
    listed = ["acls", "--log", str(copy), "--list"]
    assert CliRunner().invoke(cli, listed).stderr == ""
    for checkpoint in copy.glob("*.checkpoint"):
        checkpoint.unlink()
    assert "the changes of ACLs from offset 36 on are committed" in CliRunner().invoke(cli, listed).stderr
