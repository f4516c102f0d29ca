"""Addresses of Unix domain sockets with paths of any length.

The kernel accepts 108 bytes; a longer path is addressed through a descriptor of its directory.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: sockaddr_un.sun_path on Linux, with the zero byte at its end.
_ADDRESS_BYTES_MAX: Final = 108


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """The address of a path, valid in the ``with`` block. OSError: its directory cannot be opened."""
    if len(os.fsencode(path)) < _ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
