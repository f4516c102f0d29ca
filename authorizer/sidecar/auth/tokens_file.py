"""File of token hashes, which the sidecar reads and ``aclog token`` writes.

One writer at a time replaces it atomically. A new file has the mode 0600; an existing one keeps its owner,
group and mode.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from authorizer.api.errors import ConfigError
from authorizer.configuration.keys.names import AUTH_TOKENS_FILE
from authorizer.sidecar.auth.stored_tokens import StoredToken
from snapshot.files.atomic_file import atomic_write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

log = structlog.get_logger(__name__)

#: Beyond any file of tokens: half a million of them.
_BYTES_MAX: Final = 64 * 1024 * 1024
_OWNER_ONLY: Final = stat.S_IRUSR | stat.S_IWUSR


def read_tokens(path: Path) -> list[StoredToken]:
    """Return the tokens of a file, in order.

    Raises:
        ConfigError: it cannot be read, everyone may write to it, or a line is invalid.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            AUTH_TOKENS_FILE,
            path,
            f"a file to be read: {error.strerror}; `aclog token create --file` makes one",
        ) from error
    if mode & stat.S_IWOTH:
        raise ConfigError(
            AUTH_TOKENS_FILE,
            path,
            f"a file that not everyone may write to: chmod 600 {path}, and look into it",
        )
    if mode & stat.S_IROTH:
        log.warning("tokens_file_readable_by_all", file=str(path), way_out=f"chmod 600 {path}")
    if len(data) > _BYTES_MAX:
        raise ConfigError(AUTH_TOKENS_FILE, path, f"a file of at most {_BYTES_MAX} bytes")
    return _parse_tokens(data, path)


def append_token(path: Path, token: StoredToken) -> None:
    """Add a token; create the file if it does not exist.

    Raises:
        ConfigError: the file is not a tokens file.
        OSError: it cannot be written.
    """
    with _lock_directory(path):
        lines = _lines(path)
        _replace(path, [*lines, token.line()])


def revoke_token(path: Path, token_id: str) -> StoredToken | None:
    """Remove a token from the file; return it, or None if it does not exist.

    Raises:
        ConfigError, OSError: as for ``append_token``.
    """
    with _lock_directory(path):
        found = next((token for token in read_tokens(path) if token.id == token_id), None)
        if found is not None:
            _replace(path, [line for line in _lines(path) if _parse_line(line) != found])
    return found


def _parse_tokens(data: bytes, path: Path) -> list[StoredToken]:
    tokens: dict[str, StoredToken] = {}
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ConfigError(AUTH_TOKENS_FILE, path, f"text in UTF-8 ({error.reason})") from error
    for number, line in enumerate(lines, 1):
        try:
            token = _parse_line(line)
        except ValueError as error:
            raise ConfigError(AUTH_TOKENS_FILE, path, f"lines of tokens; line {number}: {error}") from error
        if token is None:
            continue
        if token.id in tokens:
            raise ConfigError(AUTH_TOKENS_FILE, path, f"each token once; line {number} repeats {token.id}")
        tokens[token.id] = token
    return list(tokens.values())


def _parse_line(line: str) -> StoredToken | None:
    """Parse a line; None for a comment or an empty line. Raises ValueError."""
    line = line.strip()
    return None if not line or line.startswith("#") else StoredToken.parse(line)


def _lines(path: Path) -> list[str]:
    """Return all lines of a valid file, also comments; none if it does not exist."""
    if not path.exists():
        return []
    read_tokens(path)
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def _replace(path: Path, lines: Sequence[str]) -> None:
    before = path.stat() if path.exists() else None
    with atomic_write(path) as file:
        descriptor = file.fileno()
        if before is None:
            os.fchmod(descriptor, _OWNER_ONLY)
        else:
            if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        file.write("".join(f"{line}\n" for line in lines).encode())


@contextmanager
def _lock_directory(path: Path) -> Iterator[None]:
    """Lock the directory, because the file itself is replaced."""
    descriptor = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
