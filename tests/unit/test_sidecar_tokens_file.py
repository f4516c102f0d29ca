"""The file of tokens: read completely or not at all, written by one process at a time."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from authorizer.api.errors import ConfigError
from authorizer.sidecar.auth.stored_tokens import StoredToken, new_token
from authorizer.sidecar.auth.tokens_file import TOKENS_FILE
from records.principal import KafkaPrincipal


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
