"""HTTP as bytes on a connection, for requests that no client library sends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urlsplit

from support.nodes import SOON_S


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Wire:
    """A connection to a server.

    Attributes:
        reader: the bytes from the server.
    """

    def __init__(self, connection: socket.socket, reader: BinaryIO) -> None:
        self.socket = connection
        self.reader = reader

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def answer(self) -> Answer | None:
        """The next answer; None: the connection was closed instead."""
        line = self.reader.readline()
        if not line:
            return None
        headers = {}
        while (header := self.reader.readline()) not in {b"\r\n", b""}:
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Answer(int(line.split()[1]), headers, self.reader.read(int(headers["content-length"])))

    def only_answer(self) -> Answer:
        """The next answer, after which the connection is closed."""
        answer = self.answer()
        assert answer is not None
        assert self.reader.read() == b""
        return answer

    def is_closed(self) -> bool:
        """Wait until the server has closed it without an answer."""
        return self.reader.read() == b""


@contextmanager
def connected(url: str, source: str = "") -> Iterator[Wire]:
    """A connection to ``http://HOST:PORT`` or ``unix:PATH``.

    Args:
        url: of the server.
        source: the address that the connection comes from, any of this machine's by default.
    """
    with _socket_to(url, source) as connection, connection.makefile("rb") as reader:
        yield Wire(connection, reader)


def _socket_to(url: str, source: str) -> socket.socket:
    split = urlsplit(url)
    if split.scheme != "unix":
        address = split.hostname or "", split.port or 0
        return socket.create_connection(address, timeout=SOON_S, source_address=(source, 0))
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(SOON_S)
    connection.connect(split.path)
    return connection


def request(method: str, target: str, *headers: bytes, body: bytes = b"") -> bytes:
    """A request with a Content-Length."""
    lines = f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"
    return b"\r\n".join([*(line.encode("ascii") for line in lines), *headers, b"", body])
