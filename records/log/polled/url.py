"""describe://HOST:PORT[,HOST:PORT...][/DIR]: where brokers listen, and where their answers are kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.errors import LogError
from records.log.bootstrap_servers import Address, parse_bootstrap_servers

SCHEME: Final = "describe://"
FORM: Final = "describe://HOST:PORT[,HOST:PORT...][/DIR], of the brokers' listener"


@dataclass(frozen=True, slots=True)
class PolledUrl:
    """``directory``: absolute; None: nothing is kept for longer than the log is open."""

    text: str
    brokers: tuple[Address, ...]
    directory: Path | None


def parse_polled_url(url: str) -> PolledUrl:
    """Take a URL apart.

    Raises:
        LogError: what is wrong with it, and the form that it must have.
    """
    if url[: len(SCHEME)].lower() != SCHEME:
        raise LogError(f"`{url}` is not a cluster's brokers: write {FORM}")
    servers, _, directory = url[len(SCHEME) :].partition("/")
    return PolledUrl(
        url, parse_bootstrap_servers(url, servers, FORM), Path(f"/{directory}") if directory else None
    )
