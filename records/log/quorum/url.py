"""kraft://HOST:PORT[,HOST:PORT...]: where the controllers of a cluster listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from records.errors import LogError
from records.log.bootstrap_servers import Address, parse_bootstrap_servers

SCHEME: Final = "kraft://"
_FORM: Final = "kraft://HOST:PORT[,HOST:PORT...], of the controllers' listener"


@dataclass(frozen=True, slots=True)
class QuorumUrl:
    """``controllers`` are asked first; the others are learned from their answers."""

    text: str
    controllers: tuple[Address, ...]


def parse_quorum_url(url: str) -> QuorumUrl:
    """Take a URL apart.

    Raises:
        LogError: what is wrong with it, and the form that it must have.
    """
    if url[: len(SCHEME)].lower() != SCHEME:
        raise LogError(f"`{url}` is not a quorum: write {_FORM}")
    servers, _, rest = url[len(SCHEME) :].partition("/")
    if rest:
        raise LogError(f"`{url}`: a cluster has one metadata log, without a name; write {_FORM}")
    return QuorumUrl(url, parse_bootstrap_servers(url, servers, _FORM))
