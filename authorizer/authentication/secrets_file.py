"""SecretsFile: a file of hashed secrets, one entry a line, that a server reads and a command writes.

One writer at a time replaces it atomically. A new file has the mode 0600; an existing one keeps its owner,
group and mode. Empty lines and those that begin with ``#`` are comments.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, Protocol, Self, TypeVar

import structlog

from authorizer.api.errors import ConfigError
from snapshot.files.atomic_file import atomic_write

log = structlog.get_logger(__name__)

#: Beyond any file of tokens: half a million of them.
_BYTES_MAX: Final = 64 * 1024 * 1024
_OWNER_ONLY: Final = stat.S_IRUSR | stat.S_IWUSR


class SecretEntry(Protocol):
    """One line of the file."""

    @property
    def id(self) -> str:
        """Identifies the entry within its file; no secret."""

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raise ValueError, which does not repeat the line."""

    def line(self) -> str:
        """Return the entry as it is in the file, without a line's end."""


_Entry = TypeVar("_Entry", bound=SecretEntry)


class SecretsFile(Generic[_Entry]):
    """The format of a file and the operations on it; ``name`` is that of an entry, such as ``token``."""

    def __init__(self, key: str, name: str, command: str, entry_type: type[_Entry]) -> None:
        self._key = key
        self._name = name
        self._command = command
        self._entry_type = entry_type

    def read(self, path: Path) -> list[_Entry]:
        """Return the entries, in order. ConfigError: unreadable, writable by everyone, or invalid."""
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read(_BYTES_MAX + 1)
        except OSError as error:
            allowed = f"a file to be read: {error.strerror}; `{self._command}` makes one"
            raise ConfigError(self._key, path, allowed) from error
        if mode & stat.S_IWOTH:
            allowed = f"a file that not everyone may write to: chmod 600 {path}, and look into it"
            raise ConfigError(self._key, path, allowed)
        if mode & stat.S_IROTH:
            event = f"{self._name}s_file_readable_by_all"
            log.warning(event, file=str(path), way_out=f"chmod 600 {path}")
        if len(data) > _BYTES_MAX:
            raise ConfigError(self._key, path, f"a file of at most {_BYTES_MAX} bytes")
        return self._parse(data, path)

    def put(self, path: Path, entry: _Entry) -> None:
        """Add an entry, or replace that with its id; create the file if need be. Raises as ``remove``."""
        with _lock_directory(path):
            _replace(path, [*self._lines_without(path, entry.id), entry.line()])

    def remove(self, path: Path, entry_id: str) -> _Entry | None:
        """Remove and return an entry; None if it does not exist. ConfigError as ``read``, or OSError."""
        with _lock_directory(path):
            found = next((entry for entry in self.read(path) if entry.id == entry_id), None)
            if found is not None:
                _replace(path, self._lines_without(path, entry_id))
        return found

    def _parse(self, data: bytes, path: Path) -> list[_Entry]:
        entries: dict[str, _Entry] = {}
        try:
            lines = data.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ConfigError(self._key, path, f"text in UTF-8 ({error.reason})") from error
        for number, line in enumerate(lines, 1):
            try:
                entry = self._parse_line(line)
            except ValueError as error:
                allowed = f"lines of {self._name}s; line {number}: {error}"
                raise ConfigError(self._key, path, allowed) from error
            if entry is None:
                continue
            if entry.id in entries:
                raise ConfigError(
                    self._key, path, f"each {self._name} once; line {number} repeats {entry.id}"
                )
            entries[entry.id] = entry
        return list(entries.values())

    def _parse_line(self, line: str) -> _Entry | None:
        """Parse a line; None for a comment or an empty line. Raises ValueError."""
        line = line.strip()
        return None if not line or line.startswith("#") else self._entry_type.parse(line)

    def _lines_without(self, path: Path, entry_id: str) -> list[str]:
        """Return the other lines of a valid file, also comments; none if it does not exist."""
        if not path.exists():
            return []
        self.read(path)
        lines = path.read_text("utf-8").removesuffix("\n").split("\n")
        return [line for line in lines if (entry := self._parse_line(line)) is None or entry.id != entry_id]


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
