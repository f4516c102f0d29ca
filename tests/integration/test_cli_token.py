"""`aclog token`: making, listing and revoking tokens of a file."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, StoredToken, StoredTokens
from records.principal import KafkaPrincipal

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = KafkaPrincipal("User", "gateway")


def aclog_token(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "authorizer.cli", "token", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_a_token_is_printed_once_and_its_hash_stored(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    made = aclog_token("create", "--principal", "User:gateway", "--file", tokens)
    assert made.returncode == 0
    assert "shown only once" in made.stderr
    token = made.stdout.strip()
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    assert token.rpartition("_")[2] not in tokens.read_text()
    assert StoredTokens(TOKENS_FILE.read(tokens)).verify(token).principal == GATEWAY

    token_id = token.split("_")[1]
    listed = aclog_token("list", "--file", tokens)
    assert listed.stdout == f"{token_id}  User:gateway\n"
    as_json = json.loads(aclog_token("list", "--file", tokens, "--json").stdout)
    assert as_json["tokens"] == [{"id": token_id, "principal": "User:gateway"}]

    revoked = aclog_token("revoke", token_id, "--file", tokens)
    assert (revoked.returncode, revoked.stdout) == (0, f"revoked {token_id} of User:gateway\n")
    again = aclog_token("revoke", token_id, "--file", tokens)
    assert (again.returncode, token_id in again.stderr) == (1, True)
    assert aclog_token("list", "--file", tokens).stdout == f"no tokens in {tokens}\n"


def test_without_a_file_the_line_is_printed() -> None:
    token, line = aclog_token("create", "--principal", "User:gateway").stdout.splitlines()
    assert StoredTokens([StoredToken.parse(line)]).verify(token).principal == GATEWAY
    as_json = json.loads(aclog_token("create", "--principal", "User:gateway", "--json").stdout)
    stored = StoredTokens([StoredToken.parse(as_json["line"])])
    assert stored.verify(as_json["token"]).principal == GATEWAY


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("create", "--principal", "gateway"), "principalType:principalName"),
        (("create", "--principal", "User:ANONYMOUS"), "who has no token"),
        (("create", "--principal", "User:a", "--file", "/none/such"), "Cannot write /none/such"),
        (("list", "--file", "/none/such"), "/none/such"),
        (("revoke", "1", "--file", "/none/such"), "/none/such"),
    ],
)
def test_impossible_requests_are_wrong_usage(args: tuple[str, ...], message: str) -> None:
    done = aclog_token(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
