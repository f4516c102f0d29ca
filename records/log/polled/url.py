"""describe://HOST:PORT[,HOST:PORT...][/DIR]: addresses of brokers and the directory of stored polls."""

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
    """``directory``: absolute; None: a temporary one, removed by ``close``."""

    text: str
    brokers: tuple[Address, ...]
    directory: Path | None


def parse_polled_url(url: str) -> PolledUrl:
    """Parse a URL. Raises LogError: the text has what is wrong, and the form of a valid URL."""
    if url[: len(SCHEME)].lower() != SCHEME:
        raise LogError(f"`{url}` is not a cluster's brokers: write {FORM}")
    servers, _, directory = url[len(SCHEME) :].partition("/")
    return PolledUrl(
        url, parse_bootstrap_servers(url, servers, FORM), Path(f"/{directory}") if directory else None
    )
