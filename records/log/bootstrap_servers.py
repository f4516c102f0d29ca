"""Bootstrap servers of a cluster: HOST:PORT[,HOST:PORT...]."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from records.errors import LogError

_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@?#,]+):([0-9]{1,5})")
_PORT_MAX: Final = 65535

#: The setting for logs whose URL has no servers: the directory of a live broker.
BOOTSTRAP: Final = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port; an IPv6 address has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def are_bootstrap_servers(text: str) -> bool:
    """Whether a text is HOST:PORT[,HOST:PORT...]."""
    return all(map(_SERVER.fullmatch, text.split(",")))


def parse_bootstrap_servers(url: str, servers: str, form: str) -> tuple[Address, ...]:
    """Parse ``HOST:PORT[,HOST:PORT...]``; errors name the ``url`` and the ``form`` of such a URL.

    Raises:
        LogError: an invalid server.
    """
    found = []
    for server in servers.split(","):
        match = _SERVER.fullmatch(server)
        if match is None:
            what = f"`{server}` is not HOST:PORT" if server else "a server is missing"
            raise LogError(f"`{url}`: {what}; write {form}")
        if not 1 <= int(match[2]) <= _PORT_MAX:
            raise LogError(f"`{url}`: there is no port {match[2]}")
        found.append(Address(match[1].strip("[]"), int(match[2])))
    return tuple(found)
