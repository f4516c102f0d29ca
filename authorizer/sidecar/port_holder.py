"""Which process listens on a TCP port, as far as Linux shows it to this user."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TABLES: Final = ("tcp", "tcp6")
#: Of a line of /proc/net/tcp: which fields are needed, and how a socket's state LISTEN is written.
_LOCAL, _STATE, _INODE = 1, 3, 9
_LISTENING: Final = "0A"


def port_holder(port: int) -> str | None:
    """``process 4711 (java)``; None where it is not known."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for process in _PROC.iterdir():
        if process.name.isdigit():
            # Another user's process, or one that has just ended.
            with suppress(OSError):
                if any(_target(each) in sockets for each in (process / "fd").iterdir()):
                    name = (process / "comm").read_text("utf-8", "replace").strip()
                    return f"process {process.name} ({name})"
    return None


def _listening_inodes(port: int) -> list[str]:
    found: list[str] = []
    for table in _TABLES:
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[_STATE] == _LISTENING and int(fields[_LOCAL].rpartition(":")[2], 16) == port:
                    found.append(fields[_INODE])
    return found


def _target(descriptor: Path) -> str | None:
    with suppress(OSError):
        return str(descriptor.readlink())
    return None
