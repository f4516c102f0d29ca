"""kraft://HOST:PORT[,HOST:PORT...]: addresses of a cluster's controllers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from records.errors import LogError
from records.log.bootstrap_servers import Address, parse_bootstrap_servers

SCHEME: Final = "kraft://"
_FORM: Final = "kraft://HOST:PORT[,HOST:PORT...], of the controllers' listener"


@dataclass(frozen=True, slots=True)
class QuorumUrl:
    """``controllers`` are asked first; their responses name the others."""

    text: str
    controllers: tuple[Address, ...]


def parse_quorum_url(url: str) -> QuorumUrl:
    """Parse a URL. Raises LogError: the text has what is wrong, and the form of a valid URL."""
    if url[: len(SCHEME)].lower() != SCHEME:
        raise LogError(f"`{url}` is not a quorum: write {_FORM}")
    servers, _, rest = url[len(SCHEME) :].partition("/")
    if rest:
        raise LogError(f"`{url}`: a cluster has one metadata log, without a name; write {_FORM}")
    return QuorumUrl(url, parse_bootstrap_servers(url, servers, _FORM))
