"""A protocol that answers with the same bytes each time: ``python -m benchmarks.bare_server PORT SOCKET``.

The smallest asyncio server that parses complete HTTP requests: httptools and uvloop, as in the sidecar.
It answers with the newest body that was PUT at the path, or an empty body.
"""

from __future__ import annotations

import asyncio
import sys

import httptools
import uvloop

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_answers: dict[bytes, bytes] = {}


class Bare(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        self._body = []
        if self._parser.get_method() == b"PUT":
            _answers[self._path] = _HEAD % len(body) + body
        self._transport.write(_answers.get(self._path) or _HEAD % 0)


async def main(port: str, path: str) -> None:
    loop = asyncio.get_running_loop()
    tcp = await loop.create_server(Bare, "127.0.0.1", int(port))
    unix = await loop.create_unix_server(Bare, path)
    async with tcp, unix:
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
