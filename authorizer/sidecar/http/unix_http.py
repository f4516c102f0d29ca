"""HTTP over a Unix domain socket, for clients that block."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

from authorizer.sidecar.http.unix_socket import connect_unix

if TYPE_CHECKING:
    from pathlib import Path


class UnixConnection(http.client.HTTPConnection):
    """A connection to what listens at a path."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = connect_unix(self._path, self._timeout_s)
