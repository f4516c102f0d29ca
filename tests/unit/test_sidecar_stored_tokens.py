"""Tokens by their hashes: creation, checks, and valid lines."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.sidecar.auth import stored_tokens
from authorizer.sidecar.auth.authenticator import http_error
from authorizer.sidecar.auth.stored_tokens import (
    TOKENS_FILE,
    StoredToken,
    StoredTokens,
    new_token,
    token_principal,
)
from records.principal import KafkaPrincipal

GATEWAY = KafkaPrincipal("User", "gateway")
DISTINGUISHED = KafkaPrincipal("User", "CN=a:b,O=c d")


def refused(tokens: StoredTokens, token: str) -> Reason:
    with pytest.raises(RejectionError) as refusal:
        tokens.verify(token)
    assert http_error(refusal.value).code.status == 401
    return refusal.value.reason


def test_a_token_is_its_principals() -> None:
    token, stored = new_token(GATEWAY)
    other_token, other = new_token(DISTINGUISHED)
    tokens = StoredTokens([stored, other])
    assert tokens.verify(token).principal == GATEWAY
    assert tokens.verify(other_token).principal == DISTINGUISHED


def test_tokens_are_long_and_never_the_same() -> None:
    (one, stored_one), (two, stored_two) = new_token(GATEWAY), new_token(GATEWAY)
    assert one != two
    assert stored_one.id != stored_two.id
    assert stored_one.hash != stored_two.hash
    assert len(one.rpartition("_")[2]) <= 43 < len(one) - len("aclog_")  # 32 bytes in base64, and the id


@pytest.mark.parametrize("principal", [GATEWAY, DISTINGUISHED])
def test_a_line_says_all_but_the_token(principal: KafkaPrincipal) -> None:
    token, stored = new_token(principal)
    line = stored.line()
    assert StoredToken.parse(line) == stored
    assert token.split("_", 2)[2] not in line


def test_wrong_secrets_unknown_ids_and_truncated_tokens_are_refused() -> None:
    token, stored = new_token(GATEWAY)
    tokens = StoredTokens([stored])
    changed = token[:-2] + ("AA" if not token.endswith("AA") else "BB")
    assert refused(tokens, changed) is Reason.UNKNOWN_TOKEN
    assert refused(tokens, new_token(GATEWAY)[0]) is Reason.UNKNOWN_TOKEN
    assert refused(tokens, token[:-1]) is Reason.MALFORMED
    assert refused(tokens, "password") is Reason.MALFORMED


def test_an_unknown_id_takes_the_way_of_a_wrong_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash of the same cost and one comparison in constant time, the same message: no id is found out."""
    token, stored = new_token(GATEWAY)
    tokens = StoredTokens([stored])
    done: Counter[object] = Counter()
    sha256, compare = hashlib.sha256, hmac.compare_digest

    def counted_sha256(data: bytes) -> Any:
        done["sha256", len(data)] += 1
        return sha256(data)

    def counted_compare(left: bytes, right: bytes) -> bool:
        done["compare_digest", len(left), len(right)] += 1
        return compare(left, right)

    monkeypatch.setattr(hashlib, "sha256", counted_sha256)
    monkeypatch.setattr(stored_tokens, "compare_digest", counted_compare)
    ways = []
    for each in (token[:-1] + ("A" if token[-1] != "A" else "B"), "aclog_" + "0" * 16 + "_" + "A" * 43):
        done.clear()
        with pytest.raises(RejectionError) as refusal:
            tokens.verify(each)
        ways.append((dict(done), refusal.value.message, http_error(refusal.value).headers))
    assert ways[0] == ways[1]
    assert ways[0][0] == {("sha256", len(token)): 1, ("compare_digest", 32, 32): 1}


SALT, HASH = "A" * 22, "A" * 43
ID = "0123456789abcdef"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("User:gateway", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$sha256${HASH[:-1]}", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$sha256${SALT}${HASH}", "not PRINCIPAL:ID"),
        (f"User:a:{ID[:-1]}$sha256${HASH}", "not PRINCIPAL:ID"),
        (f"gateway:{ID}$sha256${HASH}", "principalType:principalName"),
        (f"{ID}$sha256${HASH}", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$argon2id$m=1${SALT}${HASH}", "not PRINCIPAL:ID"),
        (f"User:a:{ID}$scrypt$ln=14,r=8,p=1${SALT}${HASH}", "not PRINCIPAL:ID"),
        (f"User:ANONYMOUS:{ID}$sha256${HASH}", "who has no token"),
    ],
)
def test_a_line_that_is_wrong_says_what_it_must_be(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        StoredToken.parse(line)
    assert message in str(error.value)
    assert HASH[:-1] not in str(error.value)


def test_a_principal_must_fit_on_a_line() -> None:
    assert token_principal("User:CN=a:b,O=c d") == DISTINGUISHED
    for text in ("gateway", "User:", ":a", "User:a\nUser:b", "#User:a", "User:a ", "User:ANONYMOUS"):
        with pytest.raises(ValueError, match=r"."):
            token_principal(text)


def stored(name: str = "gateway") -> StoredToken:
    return new_token(KafkaPrincipal("User", name))[1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_its_owners_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        TOKENS_FILE.put(path, stored())
    finally:
        os.umask(before)
    assert mode_of(path) == 0o600


def test_tokens_are_appended_and_removed_and_comments_remain(path: Path) -> None:
    one, two = stored("one"), stored("two")
    path.write_text("# made by hand\n\n")
    path.chmod(0o640)
    TOKENS_FILE.put(path, one)
    TOKENS_FILE.put(path, two)
    assert TOKENS_FILE.read(path) == [one, two]
    assert TOKENS_FILE.remove(path, one.id) == one
    assert TOKENS_FILE.read(path) == [two]
    assert path.read_text() == f"# made by hand\n\n{two.line()}\n"
    assert mode_of(path) == 0o640
    assert TOKENS_FILE.remove(path, one.id) is None


def test_a_line_that_another_wrote_is_revoked_too(path: Path) -> None:
    """Spaces around it, or a zero before a number, do not keep it in."""
    token = stored()
    path.write_text("  " + token.line().replace("r=8", "r=08") + "\r\n")
    path.chmod(0o600)
    assert TOKENS_FILE.remove(path, token.id) == token
    assert TOKENS_FILE.read(path) == []


def test_a_link_remains_a_link(path: Path, tmp_path: Path) -> None:
    """As a directory of settings that links to where secrets are kept."""
    TOKENS_FILE.put(path, stored("one"))
    link = tmp_path / "link"
    link.symlink_to(path)
    TOKENS_FILE.put(link, stored("two"))
    assert link.is_symlink()
    assert len(TOKENS_FILE.read(path)) == 2


def test_several_writers_lose_no_token(path: Path) -> None:
    tokens = [stored(str(number)) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda token: TOKENS_FILE.put(path, token), tokens))
    assert {token.id for token in TOKENS_FILE.read(path)} == {token.id for token in tokens}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# first\nUser:a\n", "line 2: not PRINCIPAL:ID"),
        (b"\xff\xfe", "text in UTF-8"),
    ],
)
def test_a_file_with_a_wrong_line_is_refused_and_never_written(
    path: Path, content: bytes, message: str
) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    for refused in (lambda: TOKENS_FILE.read(path), lambda: TOKENS_FILE.put(path, stored())):
        with pytest.raises(ConfigError) as error:
            refused()
        assert message in str(error.value)
        assert str(path) in str(error.value), "the key has the word token in it, and is no secret"
    assert path.read_bytes() == content


def test_a_token_twice_is_refused(path: Path) -> None:
    line = stored().line()
    path.write_text(f"{line}\n{line}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="line 2 repeats"):
        TOKENS_FILE.read(path)


def test_no_file_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="aclog token create"):
        TOKENS_FILE.read(path)


def test_a_file_that_all_may_read_is_warned_of_and_one_that_all_may_write_refused(path: Path) -> None:
    token = stored()
    TOKENS_FILE.put(path, token)
    path.chmod(0o644)
    with capture_logs() as logs:
        assert TOKENS_FILE.read(path) == [token]
    assert [entry["event"] for entry in logs] == ["tokens_file_readable_by_all"]
    path.chmod(0o606)
    with pytest.raises(ConfigError, match="not everyone may write"):
        TOKENS_FILE.read(path)
    path.chmod(0o640)
    with capture_logs() as logs:
        TOKENS_FILE.read(path)
    assert logs == []
