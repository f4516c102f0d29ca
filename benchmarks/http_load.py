"""A client of the sidecar in a separate process: ``python -m benchmarks.http_load``.

For each line of stdin, an Order as JSON, it opens connections and sends requests on each, one after the
other's answer, for that long; it answers with a line of JSON, an Outcome.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

import msgspec
import uvloop

from benchmarks.figures import percentile

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: ([0-9]+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 "


class Order(msgspec.Struct):
    """The requests to send.

    Attributes:
        address: a port on loopback, or the path of a socket.
        target: the path of the requests.
        bodies: a file with a body on each line, taken in turns.
    """

    address: int | str
    target: str
    bodies: str
    connections: int
    seconds: float


class Outcome(msgspec.Struct):
    """The result of an order."""

    requests: int
    seconds: float
    median_ns: float
    p99_ns: float


class _Connection(asyncio.Protocol):
    """Sends the next request when the answer to the former one is complete."""

    def __init__(self, requests: Iterator[bytes], took_ns: list[int], is_over: Callable[[], bool]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._took_ns = took_ns
        self._is_over = is_over
        self._received = b""
        self._sent_ns = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(_END)
        if end < 0:
            return
        length = _LENGTH.search(received)
        if length is None or len(received) < end + len(_END) + int(length[1]):
            return
        self._took_ns.append(time.perf_counter_ns() - self._sent_ns)
        if not received.startswith(_OK):
            self.done.set_exception(RuntimeError(f"no decision: {received[:500]!r}"))
        elif self._is_over():
            self.done.set_result(None)
        else:
            self._received = b""
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()

    def _send(self) -> None:
        self._sent_ns = time.perf_counter_ns()
        self._transport.write(next(self._requests))


def _requests(order: Order) -> list[bytes]:
    head = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    target = order.target.encode("ascii")
    bodies = Path(order.bodies).read_bytes().splitlines()
    return [head % (target, len(body)) + body for body in bodies]


async def _ask(order: Order, requests: list[bytes]) -> Outcome:
    began_s = time.perf_counter()
    took_ns: list[int] = []
    loop = asyncio.get_running_loop()
    connections = []
    for number in range(order.connections):
        first = number * len(requests) // order.connections

        def make(first: int = first) -> _Connection:
            endless = islice(cycle(requests), first, None)
            return _Connection(endless, took_ns, lambda: time.perf_counter() - began_s > order.seconds)

        if isinstance(order.address, int):
            _, connection = await loop.create_connection(make, "127.0.0.1", order.address)
        else:
            _, connection = await loop.create_unix_connection(make, order.address)
        connections.append(connection)
    await asyncio.gather(*(connection.done for connection in connections))
    seconds = time.perf_counter() - began_s
    for connection in connections:
        connection.close()
    took_ns.sort()
    return Outcome(len(took_ns), seconds, percentile(took_ns, 50), percentile(took_ns, 99))


def main() -> None:
    for line in sys.stdin:
        order = msgspec.json.decode(line, type=Order)
        outcome = uvloop.run(_ask(order, _requests(order)))
        print(msgspec.json.encode(outcome).decode("ascii"), flush=True)


if __name__ == "__main__":
    main()
