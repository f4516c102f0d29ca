"""URLs of logs, by kind, and bootstrap servers of clusters.

    file:DIR, file:///DIR or a path             a directory
    kafka://HOST:PORT[,HOST:PORT...]/TOPIC      a topic
    kraft://HOST:PORT[,HOST:PORT...]            a cluster's metadata log, at its controllers
    describe://HOST:PORT[,HOST:PORT...][/DIR]   ACLs polled from brokers, and the directory of stored polls

Schemes may have any case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from records.errors import LogError, LogUrlError
from records.topic_name import is_topic_name

DIRECTORY: Final = "file"
TOPIC: Final = "kafka"
QUORUM: Final = "kraft"
POLLED: Final = "describe"
_KINDS: Final = (DIRECTORY, TOPIC, QUORUM, POLLED)

#: The setting for logs whose URL has no servers: the directory of a live broker.
BOOTSTRAP: Final = "bootstrap.servers"

TOPIC_SCHEME: Final = f"{TOPIC}://"
TOPIC_FORM: Final = "kafka://HOST:PORT[,HOST:PORT...]/TOPIC"
POLLED_FORM: Final = "describe://HOST:PORT[,HOST:PORT...][/DIR], of the brokers' listener"
_QUORUM_FORM: Final = "kraft://HOST:PORT[,HOST:PORT...], of the controllers' listener"
_DIRECTORY_SCHEME: Final = f"{DIRECTORY}:"
_POLLED_SCHEME: Final = f"{POLLED}://"
_QUORUM_SCHEME: Final = f"{QUORUM}://"

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@?#,]+):([0-9]{1,5})")
_PORT_MAX: Final = 65535


def kind_of(url: str) -> str:
    """The kind of a log: ``file``, ``kafka``, ``kraft`` or ``describe``; a plain path is a directory.

    Raises:
        LogUrlError: an unknown scheme, or the servers of a cluster without one.
    """
    scheme, separator, rest = url.partition(":")
    kind = scheme.lower()
    servers = url.partition("/")[0]
    if kind != DIRECTORY and are_bootstrap_servers(servers):
        raise LogUrlError(
            f"`{url}` is not the URL of a log: for a cluster by its brokers use --bootstrap-server {servers} "
            f"or describe://{servers}[/DIR], by its controllers kraft://{servers}, and for a topic "
            f"kafka://{servers}/TOPIC"
        )
    if not separator or not _SCHEME.fullmatch(scheme):
        return DIRECTORY
    if kind == DIRECTORY or (kind in _KINDS and rest.startswith("//")):
        return kind
    from difflib import get_close_matches  # noqa: PLC0415

    meant = get_close_matches(kind, _KINDS, n=1)
    path = rest if meant == [DIRECTORY] else f"//{rest.lstrip('/')}"
    if meant:
        raise LogUrlError(f"`{url}` is not the URL of a log: did you mean {meant[0]}:{path}?")
    raise LogUrlError(
        f"`{url}` is not the URL of a log. Use file:DIR for a directory, kafka://HOST:PORT/TOPIC for a "
        "topic, kraft://HOST:PORT for a cluster's metadata log (at its controllers), or "
        "describe://HOST:PORT[/DIR] for polling the ACLs of its brokers"
    )


def polled_servers(url: str | None) -> str | None:
    """The brokers of a ``describe://`` log, as bootstrap servers; None for any other log."""
    if url is None or kind_of(url) != POLLED:
        return None
    return url.partition("://")[2].partition("/")[0]


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


def directory_of(url: str | Path) -> Path:
    """The absolute path of the URL of a directory log. Raises LogUrlError: not a local directory."""
    if isinstance(url, str) and url[: len(_DIRECTORY_SCHEME)].lower() == _DIRECTORY_SCHEME:
        rest = url[len(_DIRECTORY_SCHEME) :]
        if rest.startswith("//"):
            parts = urlsplit(url)
            if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
                raise LogUrlError(f"`{url}` is not a local directory; write file:DIR or file:///DIR")
            rest = unquote(parts.path)
        url = rest
    if not str(url):
        raise LogUrlError("a log needs a directory: file:DIR")
    if str(url).startswith("~"):
        raise LogUrlError(
            f"`{url}`: only a shell replaces ~, at the start of a word: write the complete path"
        )
    return Path(url).absolute()


@dataclass(frozen=True, slots=True)
class TopicUrl:
    """URL of a topic log, whose only partition is 0."""

    text: str
    bootstrap_servers: str
    topic: str


def parse_topic_url(url: str) -> TopicUrl:
    """Parse a URL. Raises LogError: it is invalid; the text has the form of such a URL."""
    if url[: len(TOPIC_SCHEME)].lower() != TOPIC_SCHEME:
        raise LogError(f"`{url}` is not a topic: write {TOPIC_FORM}")
    servers, _, topic = url[len(TOPIC_SCHEME) :].partition("/")
    parse_bootstrap_servers(url, servers, TOPIC_FORM)
    if not topic:
        raise LogError(f"`{url}`: the topic is missing. Write {TOPIC_FORM}")
    if not is_topic_name(topic):
        raise LogError(
            f"`{url}`: `{topic}` cannot be a topic: use up to 249 letters, digits, `.`, `_` and `-`"
        )
    return TopicUrl(url, servers, topic)


@dataclass(frozen=True, slots=True)
class PolledUrl:
    """``directory``: absolute; None: a temporary one, removed by ``close``."""

    text: str
    brokers: tuple[Address, ...]
    directory: Path | None


def parse_polled_url(url: str) -> PolledUrl:
    """Parse a URL. Raises LogError: the text has what is wrong, and the form of a valid URL."""
    if url[: len(_POLLED_SCHEME)].lower() != _POLLED_SCHEME:
        raise LogError(f"`{url}` is not a cluster's brokers: write {POLLED_FORM}")
    servers, _, directory = url[len(_POLLED_SCHEME) :].partition("/")
    return PolledUrl(
        url, parse_bootstrap_servers(url, servers, POLLED_FORM), Path(f"/{directory}") if directory else None
    )


def parse_quorum_url(url: str) -> tuple[Address, ...]:
    """The controllers of a URL. Raises LogError: the text has what is wrong, and the form of a valid URL."""
    if url[: len(_QUORUM_SCHEME)].lower() != _QUORUM_SCHEME:
        raise LogError(f"`{url}` is not a quorum: write {_QUORUM_FORM}")
    servers, _, rest = url[len(_QUORUM_SCHEME) :].partition("/")
    if rest:
        raise LogError(f"`{url}`: a cluster has one metadata log, without a name; write {_QUORUM_FORM}")
    return parse_bootstrap_servers(url, servers, _QUORUM_FORM)
