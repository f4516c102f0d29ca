"""People at the console: the requests of their pages, without a browser.

Chromium takes more of two cores than the node does, which would distort the node's figures. So the requests
of one real page are recorded, and each person repeats them: an action every second, and the page's poll for
news every two seconds.
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

# Unknown offsets are refused while the past is scanned, and the page retries when more is known.
_ANSWERS = (200, 410)

#: The requests of the page for one action of a person, in order.
Action = Sequence[str]


@contextmanager
def people(port: int, actions: Sequence[Action], count: int) -> Iterator[None]:
    """Threads that repeat the actions from different starts. Raises RuntimeError: one got no answer."""
    is_over = threading.Event()
    failures: list[Exception] = []

    def view(first: int) -> None:
        try:
            with closing(HTTPConnection("127.0.0.1", port, timeout=_ANSWER_S)) as connection:
                _view(connection, islice(cycle(actions), first, None), is_over, first / count)
        except Exception as error:  # noqa: BLE001 - raised after the block
            failures.append(error)

    threads = [
        threading.Thread(target=view, args=(number * len(actions) // count,)) for number in range(count)
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
        raise RuntimeError("a person at the console got no answer") from failures[0]


def _view(
    connection: HTTPConnection, actions: Iterator[Action], is_over: threading.Event, begin_s: float
) -> None:
    polled_s = time.monotonic()
    is_over.wait(begin_s % _ACTION_S)
    for action in actions:
        if is_over.is_set():
            return
        began_s = time.monotonic()
        for path in action:
            _get(connection, path)
        if began_s - polled_s > _LOOK_S:
            _get(connection, _LOOK)
            polled_s = began_s
        is_over.wait(max(0.0, began_s + _ACTION_S - time.monotonic()))


def _get(connection: HTTPConnection, path: str) -> None:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status not in _ANSWERS:
        raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")
