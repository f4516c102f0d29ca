"""Clients that mean harm, against `aclog serve` itself: others are answered meanwhile, and memory returns.

One process, for which everything below is done again and again: what is left behind would add up.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from support.nodes import SOON_S
from support.raw_http import connected, request
from support.serving_process import many_files, memory, serving_process
from support.waiting import wait_until

ONE, MANY, ACLS = "/access/v1/evaluation", "/access/v1/evaluations", "/v1/acls"
QUESTION = {
    "subject": {"type": "User", "id": "ANONYMOUS"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "127.0.0.1"},
}
ASKING = json.dumps(QUESTION).encode()
MEGABYTE = 1024 * 1024
#: What the process may have in memory beside what it had before: at the worst moment, and after all of it.
PEAK_BYTES_MAX, LEFT_BYTES_MAX = 150 * MEGABYTE, 80 * MEGABYTE
#: What each of the last rounds may add to that of the rounds before.
PER_ROUND_BYTES_MAX = 8 * MEGABYTE
ROUNDS = 5


def bodies(url: str) -> None:
    """Too large, of much in little, a hundred thousand deep, broken, and said twice."""
    deep = 100_000
    for path in (ONE, MANY, "/access/v1/search/subject", "/v1/filter", ACLS):
        for body in (
            b" " * 5 * MEGABYTE,
            b'{"evaluations":[' + b"{}," * 1_300_000 + b"{}]}",
            b'{"x":"' + b"y" * 4_000_000 + b'"}',
            b"[" * deep + b"]" * deep,
            b'{"a":' * deep + b"1" + b"}" * deep,
            b'{"subject":' + b'{"properties":' * deep,
            b"\xff\xfe" + ASKING,
            ASKING[:-1] + b"," + ASKING[1:],
            b"",
            b"\0" * 1000,
        ):
            with suppress(ConnectionError), connected(url) as wire:
                wire.send(request("POST", path, b"Content-Type: application/json", body=body))
                answer = wire.answer()
                assert answer is None or answer.status < 500, answer


def endless_body(url: str) -> None:
    with suppress(ConnectionError), connected(url) as wire:
        wire.send(f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(100):
            wire.send(b"100000\r\n%b\r\n" % (b" " * 0x100000))


def heads(url: str) -> None:
    for head in (b"GET /" + b"x" * MEGABYTE, b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 100_000):
        with suppress(ConnectionError), connected(url) as wire:
            wire.send(head)


def trailers(url: str) -> None:
    """Behind the last chunk of a body that is read, and of one that is not: without an end."""
    head = "HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    for first in (f"POST {ONE}", f"POST {ONE}?x", "GET /livez"):
        with suppress(ConnectionError), connected(url) as wire:
            wire.send(f"{first} {head}2\r\n{{}}\r\n0\r\nx: ".encode())
            for _ in range(100):
                wire.send(b"y" * MEGABYTE)


def smuggling(url: str) -> None:
    for lengths in (
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ):
        with suppress(ConnectionError), connected(url) as wire:
            wire.send(f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\n".encode(), lengths, b"\r\n\r\n0\r\n\r\n")
            wire.send(request("DELETE", ACLS, body=b'{"filters":[{}]}'))
            answer = wire.only_answer()
            assert answer.status == 400, answer


def halves_and_idle_ones(url: str) -> None:
    """A thousand connections, a hundred with half a request, and some that send much and read nothing."""
    with ExitStack() as stack:
        wires = [stack.enter_context(connected(url)) for _ in range(1000)]
        for wire in wires[:100]:
            wire.send(request("POST", ONE, body=ASKING)[:-5])
        for wire in wires[100:120]:
            wire.socket.settimeout(0.2)
            with suppress(TimeoutError, ConnectionError):
                wire.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000)
        for wire in wires[120:140]:
            wire.socket.settimeout(0.2)
            with suppress(TimeoutError, ConnectionError):
                wire.send(request("GET", "/openapi.json") * 1000)


def come_and_go(url: str) -> None:
    for _ in range(500):
        with connected(url) as wire:
            wire.send(request("POST", ONE, body=ASKING)[:30])


ABUSES: list[Callable[[str], None]] = [
    bodies,
    endless_body,
    heads,
    trailers,
    smuggling,
    halves_and_idle_ones,
    come_and_go,
]


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    with many_files(4096):
        yield


@pytest.mark.slow
def test_other_clients_are_answered_and_memory_is_released(tmp_path: Path) -> None:
    seen: Counter[tuple[int, str]] = Counter()
    stop = threading.Event()

    def ask(url: str) -> None:
        with httpx.Client(base_url=url, timeout=SOON_S) as client:
            while not stop.is_set():
                answer = client.post(ONE, json=QUESTION)
                if answer.headers.get("aclog-error") != "OVERLOADED":  # it may say so, and is asked again
                    seen[answer.status_code, answer.text.partition(",")[0]] += 1
                time.sleep(0.005)  # a steady rate of requests, not the maximum

    with serving_process(tmp_path) as (process, [url]):
        asking = threading.Thread(target=ask, args=[url])
        asking.start()
        try:
            wait_until(lambda: seen, "an answer")
            before, _ = memory(process)
            left = []
            for _ in range(ROUNDS):
                for abuse in ABUSES:
                    count = seen.total()
                    abuse(url)
                    wait_until(lambda count=count: seen.total() > count, str(abuse))  # type: ignore[misc]
                left.append(memory(process)[0] - before)
        finally:
            stop.set()
            asking.join()
        metrics = httpx.get(f"{url}/metrics", timeout=SOON_S).text
        wait_until(lambda: memory(process)[0] - before <= LEFT_BYTES_MAX, f"memory; per round {left}")
        _, peak = memory(process)
    assert set(seen) == {(200, '{"decision":false')}
    assert "aclog_sidecar_body_bytes 0.0" in metrics
    assert peak - before < PEAK_BYTES_MAX
    assert left[-1] - left[-3] < 2 * PER_ROUND_BYTES_MAX, left
