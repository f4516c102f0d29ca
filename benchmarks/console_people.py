"""People at the console: what their pages ask, asked without a browser.

Chromium takes more of two cores than the node does, which would spoil what is measured of the node. So one
real page is recorded, and each of these people asks what it asked: an action every second, and between them
the look whether there is something new, which the page takes every two seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from itertools import cycle, islice

_ACTION_S = 1.0
_LOOK_S = 2.0
_LOOK = "/console/v1/now"
_ANSWER_S = 120.0

# What is not known yet while the past is looked through is refused, and the page asks again when more is.
_ANSWERS = (200, 410)

#: What one thing that somebody does makes the page ask, in order.
Action = Sequence[str]


@contextmanager
def people(port: int, actions: Sequence[Action], count: int) -> Iterator[None]:
    """So many, each at another place of the actions, over and over. RuntimeError: one got no answer."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def look(first: int) -> None:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)) as connection:
                _look(connection, islice(cycle(actions), first, None), is_over, first / count)
        except Exception as error:  # noqa: BLE001 - said by who waits for it
            failures.append(error)

    threads = [
        threading.Thread(target=look, args=(number * len(actions) // count,)) for number in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    if failures:
        raise RuntimeError("somebody at the console got no answer") from failures[0]


def _look(
    connection: HTTPConnection, actions: Iterator[Action], is_over: threading.Event, begin_s: float
) -> None:
    looked_s = time.monotonic()
    is_over.wait(begin_s % _ACTION_S)
    for action in actions:
        if is_over.is_set():
            return
        began_s = time.monotonic()
        for path in action:
            _get(connection, path)
        if began_s - looked_s > _LOOK_S:
            _get(connection, _LOOK)
            looked_s = began_s
        is_over.wait(max(0.0, began_s + _ACTION_S - time.monotonic()))


def _get(connection: HTTPConnection, path: str) -> None:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status not in _ANSWERS:
        raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")
