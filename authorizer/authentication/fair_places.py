"""Places in which requests wait for a check, shared fairly by address. Not thread-safe: the event loop's.

Addresses take turns, so that one with many requests delays its own, and others by one check at most. When all
places are taken, the address that holds the most of them gives up its last one. An address in debt
(``FailureRateLimit``) has its turn after all others, and is the first to give up a place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from authorizer.authentication.rate_limits import client_network

_Result = TypeVar("_Result")

#: Waiting requests by address, in the order of the turns; each address's own in the order of their arrival.
_Queues = dict[str, deque[asyncio.Future[None]]]


class NoSlotError(Exception):
    """All places are taken, or the place is needed by an address that has fewer."""


class FairSlots:
    """A bounded number of places."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        # Of addresses in good standing, and of those in debt.
        self._good: _Queues = {}
        self._indebted: _Queues = {}

    @contextmanager
    def place(self, address: str, *, is_over_limit: bool) -> Iterator[asyncio.Future[None]]:
        """A place until the end of the block; NoSlotError: there is none for this address.

        The future is done when its turn has come (``call_next``); it raises NoSlotError when the place was
        given to another address.
        """
        line, network = self._indebted if is_over_limit else self._good, client_network(address)
        if self._used >= self._size:
            self._evict_waiter(line, network)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.setdefault(network, deque()).append(turn)
        self._used += 1
        try:
            yield turn
        finally:
            self._remove(line, network, turn)
            if turn.done() and not turn.cancelled():
                turn.exception()  # retrieved, also where nobody waits for it any more

    def call_next(self) -> bool:
        """Let the next one go on; False if none waits."""
        while line := self._good or self._indebted:
            network, turns = next(iter(line.items()))
            turn = turns[0]
            self._remove(line, network, turn)
            if network in line:
                line[network] = line.pop(network)  # behind the other addresses
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    def _evict_waiter(self, line: _Queues, network: str) -> None:
        crowded = self._indebted if line is self._good and self._indebted else line
        heaviest = max(crowded, key=lambda each: len(crowded[each]), default=None)
        # With one place more than the newcomer it stays: else two addresses would take one from each other.
        if heaviest is None or (crowded is line and len(line[heaviest]) <= len(line.get(network, ())) + 1):
            raise NoSlotError
        turn = crowded[heaviest][-1]
        self._remove(crowded, heaviest, turn)
        if not turn.done():
            turn.set_exception(NoSlotError())

    def _remove(self, line: _Queues, network: str, turn: asyncio.Future[None]) -> None:
        turns = line.get(network)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del line[network]
        self._used -= 1


class FairExecutor:
    """Threads for checks that take a while, and places to wait for them."""

    def __init__(self, threads: int, places: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._slots = FairSlots(places)

    async def run(self, address: str, check: Callable[[], _Result], *, is_over_limit: bool) -> _Result:
        """What ``check`` returns, from a thread; NoSlotError: too many wait.

        ``is_over_limit``: the turn comes after those of all other addresses.
        """
        if self._free:
            self._free -= 1
        else:
            with self._slots.place(address, is_over_limit=is_over_limit) as turn:
                try:
                    await turn
                except asyncio.CancelledError:
                    if turn.done() and not turn.cancelled() and turn.exception() is None:
                        self._release()
                    raise
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, check)
        finally:
            self._release()

    def close(self) -> None:
        """Start no more checks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _release(self) -> None:
        if not self._slots.call_next():
            self._free += 1
