"""HOST:PORT[,HOST:PORT...]: where a cluster can be asked first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from records.errors import LogError

_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@?#,]+):([0-9]{1,5})")
_PORT_MAX: Final = 65535

#: The setting that says whom to ask where a log's URL does not: about the directory of a live broker.
BOOTSTRAP: Final = "bootstrap.servers"


@dataclass(frozen=True, slots=True)
class Address:
    """Where something listens; an IPv6 address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap_servers(url: str, servers: str, form: str) -> tuple[Address, ...]:
    """One server at least.

    Args:
        url: where they were written.
        servers: ``HOST:PORT[,HOST:PORT...]``.
        form: that the URL must have.

    Raises:
        LogError: what is wrong with which one.
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
