"""`aclog credentials`: adding, listing and removing users of SASL."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from authorizer.authentication.scram import CREDENTIALS_FILE

ROOT = Path(__file__).resolve().parents[2]


def aclog_credentials(*args: object, password: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "authorizer.cli", "credentials", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        input=password,
    )


def test_a_user_is_added_listed_changed_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    added = aclog_credentials("add", "alice", "--file", file, password="first\nsecond\n")
    assert (added.returncode, added.stdout) == (
        0,
        "added SCRAM-SHA-256 of alice\nadded SCRAM-SHA-512 of alice\n",
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "first" not in file.read_text()
    assert all(each.matches("first") for each in CREDENTIALS_FILE.read(file))

    changed = aclog_credentials(
        "add", "alice", "--file", file, "--mechanism", "SCRAM-SHA-512", password="other"
    )
    assert changed.returncode == 0
    assert [each.matches("other") for each in CREDENTIALS_FILE.read(file)] == [False, True]

    listed = aclog_credentials("list", "--file", file)
    assert listed.stdout == "SCRAM-SHA-256  alice\nSCRAM-SHA-512  alice\n"
    as_json = json.loads(aclog_credentials("list", "--file", file, "--json").stdout)
    assert as_json["credentials"][0] == {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 16384}

    assert aclog_credentials("remove", "alice", "--file", file).returncode == 0
    again = aclog_credentials("remove", "alice", "--file", file)
    assert (again.returncode, "no such credential of alice" in again.stderr) == (1, True)
    assert aclog_credentials("list", "--file", file).stdout == f"no credentials in {file}\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("add", "alice", "--file", "/none/such"), "the password is the first line of stdin"),
        (("add", "ANONYMOUS", "--file", "/none/such"), "without credentials"),
        (("list", "--file", "/none/such"), "/none/such"),
    ],
)
def test_impossible_requests_are_wrong_usage(args: tuple[str, ...], message: str) -> None:
    done = aclog_credentials(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
