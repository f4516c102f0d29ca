"""Places to wait for a check: addresses take turns, and none has them all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from authorizer.authentication.fair_places import FairExecutor, FairSlots, NoSlotError
from support.nodes import SOON_S

ONE, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def running(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, SOON_S))


class Waiting:
    """Places, and the turns that were taken in them, by name."""

    def __init__(self, size: int) -> None:
        self.places = FairSlots(size)
        self.turns: dict[str, asyncio.Future[None]] = {}
        self.stack = ExitStack()

    def add(self, name: str, address: str, *, is_over_limit: bool = False) -> None:
        place = self.places.place(address, is_over_limit=is_over_limit)
        self.turns[name] = self.stack.enter_context(place)

    def called(self) -> list[str]:
        """All that wait, in the order in which they are called."""
        order: list[str] = []
        while self.places.call_next():
            order += [name for name, turn in self.turns.items() if turn.done() and name not in order]
        return order

    def displaced(self) -> list[str]:
        return [name for name, turn in self.turns.items() if turn.done() and turn.exception() is not None]


def test_addresses_take_turns() -> None:
    async def run() -> None:
        waiting = Waiting(10)
        with waiting.stack:
            for name, address in (
                ("a1", ONE),
                ("a2", ONE),
                ("a3", ONE),
                ("b1", TWO),
                ("b2", TWO),
                ("c1", THREE),
            ):
                waiting.add(name, address)
            assert waiting.called() == ["a1", "b1", "c1", "a2", "b2", "a3"]

    running(run())


def test_indebted_addresses_come_last() -> None:
    async def run() -> None:
        waiting = Waiting(10)
        with waiting.stack:
            waiting.add("a1", ONE, is_over_limit=True)
            waiting.add("b1", TWO)
            waiting.add("b2", TWO)
            assert waiting.called() == ["b1", "b2", "a1"]

    running(run())


@pytest.mark.parametrize(
    ("held", "newcomer", "gives_up"),
    [
        # An address that holds two more than the newcomer gives up its last place ...
        (["a", "a", "a", "b"], "c", "a3"),
        (["a", "a", "b", "a"], "b", "a3"),
        # ... but not one that would have fewer than the newcomer then.
        (["a", "a", "b", "b"], "b", None),
        (["a", "b", "c", "d"], "e", None),
        (["a", "a", "a", "a"], "a", None),
        # In debt (capitals) it is the first to give one up, and takes none from those who are not.
        (["a", "a", "a", "B"], "a", "B1"),
        (["a", "a", "a", "a"], "B", None),
        (["A", "A", "A", "b"], "C", "A3"),
    ],
)
def test_all_places_are_taken(held: Sequence[str], newcomer: str, gives_up: str | None) -> None:
    async def run() -> None:
        waiting = Waiting(len(held))
        with waiting.stack:
            for number, name in enumerate(held):
                nth = held[: number + 1].count(name)
                waiting.add(f"{name}{nth}", f"10.0.0.{ord(name)}", is_over_limit=name.isupper())
            if gives_up is None:
                with pytest.raises(NoSlotError):
                    waiting.add("new", f"10.0.0.{ord(newcomer)}", is_over_limit=newcomer.isupper())
                assert waiting.displaced() == []
            else:
                waiting.add("new", f"10.0.0.{ord(newcomer)}", is_over_limit=newcomer.isupper())
                assert waiting.displaced() == [gives_up]
                assert set(waiting.called()) - {gives_up} == set(waiting.turns) - {gives_up}

    running(run())


def test_a_network_of_ipv6_is_one_address() -> None:
    async def run() -> None:
        waiting = Waiting(3)
        with waiting.stack:
            for number in range(3):
                waiting.add(f"a{number}", f"2001:db8::{number}")
            with pytest.raises(NoSlotError):
                waiting.add("a3", "2001:db8::ffff")
            waiting.add("b", "2001:db8:0:1::1")
            assert waiting.displaced() == ["a2"]

    running(run())


def test_a_place_is_free_again_after_its_block() -> None:
    async def run() -> None:
        waiting = Waiting(1)
        with waiting.stack:
            waiting.add("a", ONE)
        with waiting.stack:
            waiting.add("b", TWO)
            assert waiting.called() == ["b"]
            waiting.add("c", TWO)
            assert waiting.called() == ["b", "c"]

    running(run())


class Held:
    """Checks that run until they are let go."""

    def __init__(self, threads: int, places: int) -> None:
        self.executor = FairExecutor(threads, places, "test")
        self.let_go = threading.Event()
        self.ran: list[str] = []

    def start(self, name: str, address: str, *, is_over_limit: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(
            self.executor.run(address, lambda: self._check(name), is_over_limit=is_over_limit)
        )

    def _check(self, name: str) -> None:
        self.let_go.wait(SOON_S)
        self.ran.append(name)


def test_a_flood_of_one_address_delays_another_by_one_check() -> None:
    async def run() -> None:
        held = Held(threads=1, places=20)
        flood = [held.start(f"a{number}", ONE) for number in range(30)]
        await asyncio.sleep(0)
        other = held.start("b", TWO)
        await asyncio.sleep(0)
        held.let_go.set()
        await other
        done = await asyncio.gather(*flood, return_exceptions=True)
        # One runs, 20 wait, and one of these made room for the other address.
        assert [type(each) for each in done].count(NoSlotError) == 10
        assert held.ran[:3] == ["a0", "a1", "b"]
        held.executor.close()

    running(run())


def test_a_check_that_is_cancelled_leaves_its_thread_and_its_turn_to_others() -> None:
    async def run() -> None:
        held = Held(threads=1, places=5)
        first, second, third = (held.start(name, ONE) for name in ("a", "b", "c"))
        await asyncio.sleep(0)
        second.cancel()
        held.let_go.set()
        await asyncio.gather(first, third)
        assert held.ran == ["a", "c"]
        # Cancelled just as its turn has come.
        held.let_go.clear()
        first, second, third = (held.start(name, ONE) for name in ("d", "e", "f"))
        await asyncio.sleep(0)
        held.let_go.set()
        await first
        second.cancel()
        await third
        assert held.ran[-1] == "f"
        await held.start("g", ONE)
        held.executor.close()

    running(run())
